"""The words for what a machine could not give although it was asked for softly.

Kinds are stable: a preference's own name, ``split-core``, ``no-locality``,
``housekeeping-shrunk``, ``housekeeping-shared``, ``guard-dropped``, ``reservation-shared``,
``reservation-unknown``, ``family-collapsed``, ``search-stopped``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from compiler.cpuset import CpuSet, union
from compiler.model.base import Preference
from compiler.place.aims import Aim, devices_meant, local_cpus, wanted_kind
from compiler.place.request import LaneRequest
from compiler.place.search import Choice, Cost
from compiler.plan import Degradation
from compiler.topology import Core, Topology
from compiler.words import counted


def cpus_text(cpus: CpuSet) -> str:
    """Return ``CPU 3`` or ``CPUs 3-4``."""
    return f"CPU {cpus}" if len(cpus) == 1 else f"CPUs {cpus}"


def lane_notes(
    aim: Aim, topology: Topology, cores: Sequence[Core], choice: Choice, limit: int
) -> Iterator[Degradation]:
    """Yield what a lane's set falls short of; of a share, only what is not the whole lane's."""
    name = aim.request.name
    if aim.request.part_of is None:
        yield from aim.notes
    for word, missed in zip(aim.words, choice.cost, strict=False):
        # How many caches a spanning lane is in is said once, of the whole.
        if missed and not (word == "same-llc" and aim.request.part_of is not None):
            yield Degradation(
                about=name, kind=word, message=_missed(word, missed, aim, topology, cores)
            )
    split = union(core.siblings - core.cpus for core in cores if core.split)
    if split and "whole-cores" not in aim.words:
        yield Degradation(about=name, kind="split-core", message=_split(cores))
    if choice.gap is not None:
        words = (*aim.words, "split cores", "caches", "NUMA nodes", "devices without a near core")
        yield gap_note(name, words[: len(choice.cost)], choice.cost, choice.gap, limit)


def unanswered_notes(aims: Iterable[Aim]) -> Iterator[Degradation]:
    """Yield what facts could not answer of spanning lanes: once, as all shares ask the same."""
    notes = [
        Degradation(about=aim.request.part_of, kind=note.kind, message=note.message)
        for aim in aims
        if aim.request.part_of is not None
        for note in aim.notes
    ]
    yield from dict.fromkeys(notes)


def spread_notes(
    held: Iterable[tuple[LaneRequest, Sequence[Core]]],
) -> Iterator[Degradation]:
    """Yield which spanning lanes that prefer one cache have several, with all of their shares."""
    for request, cores in held:
        several = len({core.llc for core in cores}) > 1
        if request.divided == "spanning" and "same-llc" in request.prefer and several:
            yield Degradation(
                about=request.name,
                kind="same-llc",
                message=f"{_caches(cores)}; it has cores near GPUs in several localities",
            )


def gap_note(about: str, words: Sequence[str], cost: Cost, gap: Cost, limit: int) -> Degradation:
    """Say that a search was cut short, and how far from the best its result can be."""
    cost_text = ", ".join(f"{word} {part}" for word, part in zip(words, cost, strict=True))
    gap_text = ", ".join(f"{word} {part}" for word, part in zip(words, gap, strict=True))
    return Degradation(
        about=about,
        kind="search-stopped",
        message=(
            f"the search for the best cores stopped after {counted(limit, 'step')}: the choice "
            f"costs ({cost_text}), no choice costs less than ({gap_text})"
        ),
    )


def sizes_note(about: str, limit: int) -> Degradation:
    """Say that lanes may have been able to grow further."""
    return Degradation(
        about=about,
        kind="search-stopped",
        message=(
            f"a search for room to grow stopped after {counted(limit, 'step')}: lanes may be "
            "smaller than they could be"
        ),
    )


def shrunk(cores: int, wanted: int) -> Degradation:
    """Say that housekeeping gave up cores."""
    return Degradation(
        about="housekeeping",
        kind="housekeeping-shrunk",
        message=(
            f"{counted(cores, 'core')} instead of {wanted}, so that every lane has its minimum"
        ),
    )


def shared(keep: CpuSet, host: LaneRequest) -> Degradation:
    """Say that housekeeping has no core of its own."""
    return Degradation(
        about="housekeeping",
        kind="housekeeping-shared",
        message=(
            f"shares {cpus_text(keep)} with lane {host.name}: the minima of the lanes leave no "
            "core of its own"
        ),
    )


def reservation(topology: Topology, closed: bool) -> tuple[Degradation, ...]:
    """Say that pods may run where tierc plans under the static policy.

    Without strict reservation the kubelet runs ordinary ones on every CPU that no container has for
    itself; where that is not known, it is said only when something is ``closed`` to others.  Where
    the reservation is not known, a container may get any CPU for itself.
    """
    if topology.reservation_unknown:
        return (
            Degradation(
                about="housekeeping",
                kind="reservation-unknown",
                message=(
                    f"the kubelet may give any of {cpus_text(topology.effective)} to a container "
                    "for itself: its policy is static, and which CPUs it reserves is not known"
                ),
            ),
        )
    if topology.reserved is None or topology.strict or (topology.strict is None and not closed):
        return ()
    why = "is off" if topology.strict is False else "is not known to be on"
    return (
        Degradation(
            about="housekeeping",
            kind="reservation-shared",
            message=(
                f"ordinary pods may run on the reserved {cpus_text(topology.reserved)}: the "
                f"kubelet's strict-cpu-reservation {why}"
            ),
        ),
    )


def opened(request: LaneRequest, *, empty: bool) -> Degradation:
    """Say that a guard was dropped."""
    why = (
        "its guard would leave no CPU for work outside the lanes"
        if empty
        else "housekeeping shares it, and the guard would keep node software out"
    )
    return Degradation(
        about=request.name, kind="guard-dropped", message=f"the lane is open to all: {why}"
    )


def _missed(
    word: Preference, missed: int, aim: Aim, topology: Topology, cores: Sequence[Core]
) -> str:
    of = f"{missed} of {counted(len(cores), 'core')}"
    verb = "is" if missed == 1 else "are"
    if word in ("gpu-local", "nic-local"):
        devices = devices_meant(word, aim.request, topology)
        names = ", ".join(device.id for device in devices if device.cpus is not None)
        local = local_cpus(devices) & topology.online
        where = f"(local: {local or 'no CPU'})"
        usable = union(core.cpus for core in topology.cores)
        if usable.isdisjoint(local):
            return f"no allowed CPU near {names} {where}; allowed: {usable}"
        return f"{of} {verb} not local to {names} {where}"
    if word == "same-llc":
        return _caches(cores)
    if word in ("performance", "efficiency"):
        kind = wanted_kind(word, topology)
        others = union(core.cpus for core in cores if core.kind != kind)
        return f"{of} {verb} of another kind than {kind} ({others})"
    if word == "whole-cores":
        return _split(cores)
    return f"{of} {verb} not isolated"


def _caches(cores: Sequence[Core]) -> str:
    parts: dict[int | None, list[CpuSet]] = {}
    for core in cores:
        parts.setdefault(core.llc, []).append(core.cpus)
    texts = "; ".join(
        f"{union(sets)}" + (" (cache unknown)" if llc is None else "")
        for llc, sets in sorted(parts.items(), key=lambda item: union(item[1]).lowest)
    )
    return f"{counted(len(cores), 'core')} in {counted(len(parts), 'last-level cache')}: {texts}"


def _split(cores: Sequence[Core]) -> str:
    split = [core for core in cores if core.split]
    lost = union(core.siblings - core.cpus for core in split)
    mine = union(core.cpus for core in split)
    verb = "has siblings" if len(split) == 1 else "have siblings"
    return (
        f"{len(split)} of {counted(len(cores), 'core')} ({mine}) {verb} ({lost}) that tierc may "
        "not use, where others may run"
    )
