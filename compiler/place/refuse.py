"""The words for why a machine cannot hold what was asked, with the numbers and sets involved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from compiler.cpuset import union
from compiler.model.base import Preference
from compiler.place.aims import Aim, aim_of, devices_meant, local_cpus, wanted_kind
from compiler.place.cells import Cells, total
from compiler.place.fit import Demand, Effort, fit
from compiler.place.housekeeping import housekeeping_demand
from compiler.place.request import LaneRequest, Refusal
from compiler.topology import DeviceView, Topology
from compiler.words import counted


def refuse_alone(cells: Cells, aims: Sequence[Aim]) -> Iterator[Refusal]:
    """Yield a refusal per lane that does not fit even on the empty machine."""
    for aim in aims:
        room = _room(aim, cells)
        if room < aim.request.min:
            yield _alone(aim, cells)


def refuse_together(
    cells: Cells, aims: Sequence[Aim], housekeeping: int, limit: int
) -> tuple[Refusal, ...]:
    """Return a refusal per lane that does not fit beside housekeeping and the lanes before it."""
    refusals: list[Refusal] = []
    held: list[Demand] = [housekeeping_demand(cells, housekeeping)] if housekeeping else []
    holders = [f"{housekeeping} of them for housekeeping"] if housekeeping else []
    for aim in aims:
        request = aim.request
        effort = Effort(limit)
        demand = aim.demand(request.min)
        if fit(cells, cells.free, [*held, demand], effort) is not None:
            held.append(demand)
            holders.append(f"{request.min} for lane {request.name}")
            continue
        if effort.spent:
            refusals.append(_not_proved(aim, limit))
            continue
        refusals.append(
            Refusal(
                about=request.name,
                kind="too-few-cores",
                message=", ".join([_need(aim, cells), *holders]),
                help=(
                    "lower cores.min of a lane"
                    + (", or give way with share: open or guarded" if _all_closed(aims) else "")
                    + f"; {usable_text(cells.topology)}"
                ),
            )
        )
    return tuple(refusals)


def not_exclusive(topology: Topology, requests: Iterable[LaneRequest]) -> Iterator[Refusal]:
    """Yield a refusal per exclusive lane where the kubelet may give its CPUs to a container."""
    if not topology.reservation_unknown:
        return
    for name in dict.fromkeys(
        request.part_of or request.member_of or request.name
        for request in requests
        if request.share == "exclusive"
    ):
        yield Refusal(
            about=name,
            kind="reservation-unknown",
            message=(
                f"lane {name} is exclusive, and the kubelet may give its CPUs to a container: its "
                "policy is static, and which CPUs it reserves is not known"
            ),
            help=(
                "write in the facts what it reserves (kubelet.reserved) or what is tierc's "
                "(overrides.allowed), or share: guarded"
            ),
        )


def no_housekeeping(topology: Topology, wanted: int) -> Refusal:
    """Refuse a machine that has fewer cores than housekeeping must have."""
    have = len(topology.effective_cores)
    return Refusal(
        about="housekeeping",
        kind="too-few-cores",
        message=(
            f"housekeeping needs {counted(wanted, 'core')}; the machine has {have} usable"
            + (f" ({topology.effective})" if topology.effective else "")
        ),
        help=f"lower reserve.housekeeping or free CPUs; {usable_text(topology)}",
    )


def usable_text(topology: Topology) -> str:
    """Say which CPUs tierc may use, and what took the others."""
    parts = [f"online: {topology.online}"]
    for name, cpus in (
        ("not allowed", topology.online - topology.allowed),
        ("isolated", topology.isolated),
        ("owned by the kubelet", topology.kubelet_owned),
    ):
        if cpus:
            parts.append(f"{name}: {cpus}")
    if topology.reserved is not None:
        kind = "strict reservation" if topology.strict else "reservation"
        parts.append(f"the kubelet's {kind}: {topology.reserved or 'none of the online CPUs'}")
    return ", ".join(parts)


def _room(aim: Aim, cells: Cells) -> int:
    return max((total(cells.free, option) for option in aim.options), default=0)


def _alone(aim: Aim, cells: Cells) -> Refusal:
    """Find the first requirement that leaves too little, and say so."""
    request = aim.request
    for end in range(len(request.require) + 1):
        part = aim_of(replace(request, require=request.require[:end]), cells)
        if isinstance(part, Aim) and (room := _room(part, cells)) < request.min:
            if end == 0:
                break
            word = request.require[end - 1]
            return Refusal(
                about=request.name,
                kind=f"require-{word}",
                message=_requirement(word, aim, room, cells.topology),
                help=(
                    f"write {word} under prefer{' or lower cores.min' if room else ''}; "
                    f"{usable_text(cells.topology)}"
                ),
            )
    return Refusal(
        about=request.name,
        kind="too-few-cores",
        message=_need(aim, cells),
        help=f"lower cores.min; {usable_text(cells.topology)}",
    )


def _need(aim: Aim, cells: Cells) -> str:
    """Say what a lane needs and what the machine has, its requirements apart."""
    request = aim.request
    free = aim_of(replace(request, require=()), cells)
    options = free.options if isinstance(free, Aim) else ()
    option = max(options, key=lambda option: total(cells.free, option), default=frozenset())
    cpus = union(
        cells.topology.cores[core].cpus for cell in option for core in cells.cells[cell].cores
    )
    what = f" with {', '.join(request.require)}" if request.require else ""
    closed = " by an exclusive lane" if request.share == "exclusive" and _has_split(cells) else ""
    return (
        f"lane {request.name} needs {counted(request.min, 'core')}{what}; the machine has "
        f"{total(cells.free, option)} usable{closed}" + (f" ({cpus})" if cpus else "")
    )


def _requirement(word: Preference, aim: Aim, room: int, topology: Topology) -> str:
    request = aim.request
    needs = f"lane {request.name} needs {counted(request.min, 'core')}"
    usable = union(core.cpus for core in topology.cores)
    if word in ("gpu-local", "nic-local"):
        devices = devices_meant(word, request, topology)
        near = ", ".join(_device_text(device) for device in devices)
        if usable.isdisjoint(local_cpus(devices)):
            return (
                f"lane {request.name} requires {word}, but no allowed CPU is near {near}; "
                f"allowed: {usable}"
            )
        return f"{needs} near {near}; {room} of them can be had of the allowed CPUs {usable}"
    if word in ("performance", "efficiency"):
        kind = wanted_kind(word, topology)
        cpus = union(core.cpus for core in topology.cores if core.kind == kind)
        return f"{needs} of kind {kind} ({cpus}); the machine has {room} usable"
    if word == "same-llc":
        caches = "; ".join(str(cpus) for cpus in topology.llcs)
        return (
            f"{needs} in one last-level cache; the most usable in one is {room} (caches: {caches})"
        )
    if word == "whole-cores":
        return f"{needs} of which every sibling may be used; the machine has {room}"
    return f"{needs} on isolated CPUs ({topology.isolated or 'none'}); the machine has {room}"


def _device_text(device: DeviceView) -> str:
    node = f"NUMA node {device.numa}, " if device.numa is not None else ""
    where = f"CPUs {device.cpus}" if device.cpus else "no CPU"
    return f"{device.id} ({node}{where})"


def _not_proved(aim: Aim, limit: int) -> Refusal:
    return Refusal(
        about=aim.request.name,
        kind="search-stopped",
        message=(
            f"lane {aim.request.name}: no room for {counted(aim.request.min, 'core')} was found "
            f"in {counted(limit, 'step')}, and none was proved impossible"
        ),
        help="write same-llc under prefer in some of the lanes that require it",
    )


def _has_split(cells: Cells) -> bool:
    return any(cell.traits.split for cell in cells.cells)


def _all_closed(aims: Sequence[Aim]) -> bool:
    return all(aim.request.share == "exclusive" for aim in aims)
