"""The order of decisions on one machine: housekeeping, sizes, sets, and what gives way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.cpuset import union
from compiler.place.aims import Aim, aim_of
from compiler.place.cells import Cells, Counts, Free, cells_of, less
from compiler.place.fit import Demand, Effort, fit
from compiler.place.grow import demands_of, grow
from compiler.place.housekeeping import (
    housekeeping_column,
    housekeeping_demand,
    housekeeping_key,
    wanted_cores,
)
from compiler.place.levels import Level, levels
from compiler.place.refuse import no_housekeeping, not_exclusive, refuse_alone, refuse_together
from compiler.place.report import (
    gap_note,
    lane_notes,
    opened,
    reservation,
    shared,
    shrunk,
    sizes_note,
    spread_notes,
    unanswered_notes,
)
from compiler.place.request import Granted, LaneRequest, Placement, Refusal
from compiler.place.search import choose
from compiler.plan import Degradation
from compiler.topology import Core, Topology

EFFORT: Final = 1_000
"""Steps after which one search is cut short: many times what random machines of 64 cores in 8
caches need, and half as many again as the slowest search on 250 random servers of 256 cores in 16
caches needs (bench/README.md)."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """What all steps of one placement know."""

    cells: Cells
    owners: Mapping[str, LaneRequest]
    """The lanes as they were asked for, by name."""
    system_tier: int
    effort: int


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Sets chosen for all lanes, in the order of the lanes."""

    cores: tuple[tuple[Core, ...], ...]
    notes: tuple[Degradation, ...]


def place(
    topology: Topology,
    requests: Sequence[LaneRequest],
    housekeeping: int | None,
    *,
    system_tier: int,
    effort: int = EFFORT,
) -> Placement | tuple[Refusal, ...]:
    """Place housekeeping and lanes on a machine.

    Args:
        topology: the machine.
        requests: the lanes wanted; their order here does not matter.
        housekeeping: cores for node software, taken at its word; None: as the machine's size
            says, giving way on small machines.
        system_tier: tier of node software.
        effort: steps after which one search is cut short, and says so.

    Returns:
        The placement, or every reason found why there is none.

    Raises:
        ValueError: two requests have one name, or ``housekeeping`` is below 1.
    """
    names = [r.name for request in requests for r in (request, *request.parts)]
    if len(set(names)) != len(names) or (housekeeping is not None and housekeeping < 1):
        raise ValueError(f"lanes {names}, housekeeping {housekeeping}")
    cells = cells_of(topology)
    wanted = wanted_cores(topology) if housekeeping is None else housekeeping
    least = 1 if housekeeping is None else housekeeping
    owners = {request.name: request for request in requests}
    machine = _Machine(cells, owners, system_tier, effort)
    tried = list(levels(requests, cells))
    for level in tried:
        aims, refusals = _read(cells, level, wanted)
        if refusals:
            continue
        minima = [aim.demand(aim.request.min) for aim in aims]
        for cores in range(wanted, least - 1, -1):
            keep = housekeeping_demand(cells, cores)
            fitting = fit(cells, cells.free, [keep, *minima], Effort(effort))
            if fitting is not None:
                placed = _apart(machine, aims, keep, wanted=wanted, fitting=fitting)
                return _noted(machine, level, placed)
    last = tried[-1]
    aims, refusals = _read(cells, last, wanted)
    if refusals:
        about = {refusal.about for refusal in refusals}
        others = [aim for aim in aims if aim.request.name not in about]
        return (*refusals, *refuse_together(cells, others, 0, effort))
    if housekeeping is None:
        minima = [aim.demand(aim.request.min) for aim in aims]
        fitting = fit(cells, cells.free, minima, Effort(effort))
        if fitting is not None:
            together = _together(machine, aims, fitting)
            if together is not None:
                return _noted(machine, last, together)
    return refuse_together(cells, aims, least, effort)


def _noted(machine: _Machine, level: Level, placed: Placement) -> Placement:
    """Add what was given up before anything was placed, and what the machine does by itself."""
    closed = any(
        request.share != "open" and request.name not in placed.open_lanes
        for request in machine.owners.values()
    )
    own = reservation(machine.cells.topology, closed)
    return replace(placed, degradations=(*own, *level.notes, *placed.degradations))


def _read(cells: Cells, level: Level, wanted: int) -> tuple[tuple[Aim, ...], list[Refusal]]:
    """Return the lanes read for the machine, and why some cannot be placed at all."""
    read = [aim_of(request, cells) for request in level.requests]
    aims = tuple(aim for aim in read if isinstance(aim, Aim))
    refusals = [refusal for aim in read if isinstance(aim, tuple) for refusal in aim]
    refusals += not_exclusive(cells.topology, level.requests)
    refusals += refuse_alone(cells, aims)
    if len(cells.topology.effective_cores) < wanted:
        refusals.append(no_housekeeping(cells.topology, wanted))
    return aims, refusals


def _apart(
    machine: _Machine,
    aims: Sequence[Aim],
    keep: Demand,
    *,
    wanted: int,
    fitting: Sequence[Counts],
) -> Placement:
    """Place with cores for housekeeping alone."""
    cells, effort = machine.cells, machine.effort
    minima = [aim.demand(aim.request.min) for aim in aims]
    column = housekeeping_column(cells)
    kept = choose(cells, cells.free, keep, [column], rest=minima, fallback=fitting, limit=effort)
    cores = cells.taken(cells.free, kept.counts)
    lanes = _lanes(cells, less(cells.free, kept.counts), aims, kept.rest, effort)
    held = _held(machine, aims, lanes)
    notes = [shrunk(keep.cores, wanted)] if keep.cores < wanted else []
    if kept.gap is not None:
        notes.append(gap_note("housekeeping", ("kind",), kept.cost, kept.gap, effort))
    return Placement(
        housekeeping=union(core.cpus for core in cores),
        lanes=_granted(held),
        open_lanes=frozenset(),
        degradations=(*notes, *spread_notes(held), *lanes.notes),
    )


def _together(
    machine: _Machine, aims: Sequence[Aim], fitting: Sequence[Counts]
) -> Placement | None:
    """Place with housekeeping inside a lane; None where no lane may be shared."""
    cells, system_tier = machine.cells, machine.system_tier
    lanes = _lanes(cells, cells.free, aims, fitting, machine.effort)
    held = _held(machine, aims, lanes)
    granted = _granted(held)
    hosts = [
        (request, cores)
        for request, cores in held
        if request.share != "exclusive" and not granted[request.name].isolated
    ]
    if not hosts:
        return None
    host, cores = hosts[-1]
    keep = min(cores, key=housekeeping_key).cpus
    notes = [shared(keep, host)]
    closed = {
        request.name: granted[request.name].cpus for request, _ in held if request.share != "open"
    }
    open_lanes: list[str] = []
    for request, _ in reversed(hosts):
        if request.share != "guarded":
            continue
        empty = not cells.topology.effective - union(closed.values())
        if empty or (request is host and system_tier > request.tier):
            open_lanes.append(request.name)
            del closed[request.name]
            notes.append(opened(request, empty=empty))
    return Placement(
        housekeeping=keep,
        lanes=granted,
        open_lanes=frozenset(open_lanes),
        degradations=(*notes, *spread_notes(held), *lanes.notes),
    )


def _lanes(
    cells: Cells, free: Free, aims: Sequence[Aim], minima: Sequence[Counts], effort: int
) -> _Lanes:
    """Settle sizes, then choose each lane's set in order."""
    sizes = grow(cells, free, aims, minima, effort)
    demands = demands_of(aims, sizes.cores, sizes.near)
    if sizes.spare:
        demands.append(Demand(1, (cells.effective,)))
    notes = [sizes_note(aims[0].request.name, effort)] if sizes.stopped else []
    notes += unanswered_notes(aims)
    fitting: Sequence[Counts] = sizes.fitting
    chosen: list[tuple[Core, ...]] = []
    for i, aim in enumerate(aims):
        if not sizes.cores[i]:  # a part of a spanning lane that got nothing
            chosen.append(())
            fitting = fitting[1:]
            continue
        choice = choose(
            cells,
            free,
            demands[i],
            aim.columns,
            rest=demands[i + 1 :],
            fallback=fitting,
            limit=effort,
        )
        cores = cells.taken(free, choice.counts)
        chosen.append(cores)
        notes += lane_notes(aim, cells.topology, cores, choice, effort)
        free, fitting = less(free, choice.counts), choice.rest
    return _Lanes(tuple(chosen), tuple(notes))


def _held(
    machine: _Machine, aims: Sequence[Aim], lanes: _Lanes
) -> list[tuple[LaneRequest, tuple[Core, ...]]]:
    """Return the lanes with their cores: parts of a spanning lane as the lane."""
    held: dict[str, tuple[LaneRequest, tuple[Core, ...]]] = {}
    for aim, cores in zip(aims, lanes.cores, strict=True):
        request = aim.request
        if request.part_of is not None:
            request = machine.owners[request.part_of]
        _, before = held.get(request.name, (request, ()))
        held[request.name] = (request, (*before, *cores))
    return list(held.values())


def _granted(held: Sequence[tuple[LaneRequest, tuple[Core, ...]]]) -> dict[str, Granted]:
    return {
        request.name: Granted(
            cpus=union(core.cpus for core in cores),
            cores=len(cores),
            isolated=all(core.isolated for core in cores),
        )
        for request, cores in held
    }
