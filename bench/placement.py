"""How good, how fast and how steady the placement of lanes is.

Run from the root of the repository: ``python -m bench.placement [MACHINES]``.  See
bench/README.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from bench.measure import count
from compiler.cpuset import CpuSet
from compiler.place import LaneRequest, Placement, place
from compiler.place.aims import Aim, aim_of
from compiler.place.cells import Cell, Cells, Counts, cells_of, less
from compiler.place.fit import Effort, fit
from compiler.place.search import choose
from compiler.topology import Topology, topology_of
from tests.machines import random_lane
from tests.place_counts import best, cost_of
from tests.place_machines import coarse_machine, odd_machine, server, server_lanes

LIMIT = 0.050
"""Seconds of CPU time that a class may take."""
AIM = 0.9
"""Part of the classes that must keep the limit."""
SYSTEM = 3
EFFORT = 100_000

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU seconds of a call, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


@dataclass
class Small:
    """Sets that were compared with the best of all sets."""

    sets: int = 0
    worse: int = 0
    ours: float = 0.0
    exhaustive: float = 0.0

    def compare(self, rng: Random) -> None:
        """Choose a lane's set before others on a small machine, in both ways."""
        cells = cells_of(topology_of(coarse_machine(rng, 8)))
        read = [aim_of(random_lane(rng, f"l{i}", 6), cells) for i in range(3)]
        aims = [aim for aim in read if isinstance(aim, Aim) and aim.options]
        if not aims:
            return
        cores = max(1, sum(cells.free) // 2)
        demand, rest = aims[0].demand(cores), [aim.demand(2) for aim in aims[1:]]
        columns = aims[0].columns
        spent, found = timed(lambda: best(cells, cells.free, demand, columns, rest))
        if found is None:
            return
        self.sets += 1
        self.exhaustive += spent
        fallback = fit(cells, cells.free, [demand, *rest], Effort(EFFORT)) or ()
        spent, choice = timed(
            lambda: choose(
                cells, cells.free, demand, columns, rest=rest, fallback=fallback, limit=EFFORT
            )
        )
        self.ours += spent
        self.worse += (choice.cost, cells.ids(cells.free, choice.counts)) != found


@dataclass
class Moved:
    """What edits moved of the lanes that were not edited, in cores."""

    edits: int = 0
    held: int = 0
    """Cores of lanes that were not edited and kept their number of cores."""
    moved: int = 0
    needless: int = 0
    """Moved, although all such lanes could have stayed, and no lane would have cost more."""

    def add(
        self, topology: Topology, before: Sequence[LaneRequest], after: Sequence[LaneRequest]
    ) -> None:
        """Place before and after an edit, and compare."""
        old = place(topology, before, None, system_tier=SYSTEM)
        new = place(topology, after, None, system_tier=SYSTEM)
        if not isinstance(old, Placement) or not isinstance(new, Placement):
            return
        same = [
            request.name
            for request in after
            if request in before and old.lanes[request.name].cores == new.lanes[request.name].cores
        ]
        self.edits += 1
        self.held += sum(old.lanes[name].cores for name in same)
        moved = 0
        for name in same:
            gone = old.lanes[name].cpus - new.lanes[name].cpus
            moved += sum(1 for core in topology.cores if core.cpus & gone)
        self.moved += moved
        if moved and could_stay(topology, after, old, new, same):
            self.needless += moved


def could_stay(
    topology: Topology,
    requests: Sequence[LaneRequest],
    old: Placement,
    new: Placement,
    same: Sequence[str],
) -> bool:
    """Tell whether lanes could have kept their old sets at no cost to any lane."""
    cells = cells_of(topology)
    taken = new.housekeeping
    others: list[tuple[Aim, int]] = []
    for request in sorted(requests, key=lambda request: request.rank):
        aim = aim_of(request, cells)
        assert isinstance(aim, Aim)
        then, now = old.lanes.get(request.name), new.lanes[request.name]
        if request.name not in same or then is None:
            others.append((aim, now.cores))
            continue
        if then.cpus & taken:
            return False
        taken |= then.cpus
        if cost(cells, aim, then.cpus) > cost(cells, aim, now.cpus):
            return False
    left = without(cells, taken)
    demands = []
    aims = []
    for aim, cores in others:
        again = aim_of(aim.request, left)
        if not isinstance(again, Aim):
            return False
        aims.append(again)
        demands.append(again.demand(cores))
    fitting = fit(left, left.free, demands, Effort(EFFORT))
    free = left.free
    for number, again in enumerate(aims):
        if fitting is None:
            return False
        choice = choose(
            left,
            free,
            demands[number],
            again.columns,
            rest=demands[number + 1 :],
            fallback=fitting,
            limit=EFFORT,
        )
        cpus = CpuSet(cpu for core in left.taken(free, choice.counts) for cpu in core.cpus)
        aim = others[number][0]
        if cost(cells, aim, cpus) > cost(cells, aim, new.lanes[aim.request.name].cpus):
            return False
        free, fitting = less(free, choice.counts), choice.rest
    return True


def cost(cells: Cells, aim: Aim, cpus: CpuSet) -> tuple[int, ...]:
    """Return what a lane's CPUs cost it."""
    cores = cells.topology.cores
    counts: Counts = tuple(
        sum(1 for core in cell.cores if cores[core].cpus & cpus) for cell in cells.cells
    )
    return cost_of(cells, counts, aim.columns)


def without(cells: Cells, cpus: CpuSet) -> Cells:
    """Return the cores that have none of some CPUs."""
    cores = cells.topology.cores
    rows = (
        Cell(cell.traits, tuple(core for core in cell.cores if not cores[core].cpus & cpus))
        for cell in cells.cells
    )
    return Cells(cells.topology, tuple(cell for cell in rows if cell.cores))


def edits(rng: Random, lanes: Sequence[LaneRequest]) -> Iterator[tuple[str, list[LaneRequest]]]:
    """Yield edits of a set of lanes: one more, one core more, one less."""
    one = replace(random_lane(rng, "new", 4), tier=rng.randrange(4), order=9)
    yield "a lane more", [*lanes, one]
    number = rng.randrange(len(lanes))
    lane = lanes[number]
    most = None if lane.max is None else lane.max + 1
    larger = replace(lane, min=lane.min + 1, max=most)
    yield "a core more", [*lanes[:number], larger, *lanes[number + 1 :]]
    yield "a lane less", [*lanes[:number], *lanes[number + 1 :]]


def stability(machines: int) -> dict[str, Moved]:
    """Edit policies of servers and of odd machines."""
    found: dict[str, Moved] = {}
    for seed in range(machines):
        rng = Random(seed)
        if seed % 2:
            topology = topology_of(server(rng, cores=64, caches=8, gpus=4))
            lanes = server_lanes(rng, topology, lanes=5)
        else:
            topology = topology_of(odd_machine(rng, 32))
            lanes = [random_lane(rng, f"l{i}", 4) for i in range(4)]
        for name, after in edits(rng, lanes):
            found.setdefault(name, Moved()).add(topology, lanes, after)
    return found


def eight(lanes: Sequence[LaneRequest]) -> list[LaneRequest]:
    """Return the first eight lanes; a member of a family is one."""
    return list(lanes[:8])


def families(lanes: Sequence[LaneRequest]) -> list[LaneRequest]:
    """Return lanes with the members of families marked as such."""
    return [
        replace(lane, member_of=lane.name.partition("@")[0]) if "@" in lane.name else lane
        for lane in lanes
    ]


def large(
    machines: int, some: Callable[[Sequence[LaneRequest]], list[LaneRequest]]
) -> tuple[list[float], int, int]:
    """Return the CPU seconds of placements, ascending; searches cut short; refusals."""
    seconds, stopped, refused = [], 0, 0
    for seed in range(machines):
        rng = Random(seed)
        topology = topology_of(server(rng))
        lanes = some(server_lanes(rng, topology))

        def one(topology: Topology = topology, lanes: Sequence[LaneRequest] = lanes) -> object:
            return place(topology, lanes, None, system_tier=SYSTEM)

        # The least of three: other work on the machine only adds.
        runs = [timed(one) for _ in range(3)]
        found = runs[0][1]
        seconds.append(min(spent for spent, _ in runs))
        if isinstance(found, Placement):
            stopped += any(row.kind == "search-stopped" for row in found.degradations)
        else:
            refused += 1
    return sorted(seconds), stopped, refused


def main() -> int:
    """Print the figures; 1 where an aim is missed, 2 on wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m bench.placement")
    parser.add_argument("machines", nargs="?", type=count, default=100, help="of each kind (100)")
    machines = parser.parse_args().machines
    small = Small()
    for seed in range(machines):
        small.compare(Random(seed))
    print(f"small machines: {small.sets} sets, {small.worse} not the best of all")
    print(f"  time / trying everything: {small.ours / small.exhaustive:.2f}")
    aim_missed = bool(small.worse)
    for lanes, some in (("8 lanes", eight), ("8 lanes or families, 16 members at most", families)):
        seconds, stopped, refused = large(machines, some)
        print(f"256 cores, 16 caches, 8 GPUs, {lanes}: {len(seconds)} classes")
        for name, share in (("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("worst", 1.0)):
            print(f"  time / {LIMIT * 1000:.0f} ms, {name}: {_at(seconds, share) / LIMIT:.2f}")
        within = sum(1 for one in seconds if one <= LIMIT) / len(seconds)
        print(f"  within the limit: {within:.1%}; search cut short: {stopped}; refused: {refused}")
        aim_missed |= within < AIM
    print("cores of lanes that were not edited and kept their size:")
    for name, one in stability(machines).items():
        print(
            f"  {name}: {one.edits} edits, of {one.held} moved {_part(one.moved, one.held)}, "
            f"needlessly {_part(one.needless, one.held)}"
        )
    return int(aim_missed)


def _at(seconds: Sequence[float], share: float) -> float:
    return seconds[min(len(seconds) - 1, int(share * len(seconds)))]


def _part(cores: int, of: int) -> str:
    return f"{cores / of:.1%}" if of else "-"


if __name__ == "__main__":
    sys.exit(main())
