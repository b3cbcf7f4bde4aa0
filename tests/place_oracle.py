"""Placement by brute force, written from docs/placement.md and sharing no code with the placer.

Sets of cores are tuples of places in ``topology.cores``; everything is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import combinations

from compiler.place import LaneRequest
from compiler.topology import Topology

SPEED = ["lowpower", "efficiency", "standard", "performance"]
HOUSEKEEPING = ["efficiency", "lowpower", "standard", "performance"]

Set = tuple[int, ...]


class Oracle:
    """The answers for one machine."""

    def __init__(self, topology: Topology, requests: Sequence[LaneRequest]) -> None:
        self.t = topology
        self.requests = sorted(requests, key=lambda r: (r.tier, r.order, r.name))
        self.everything = frozenset(i for i, core in enumerate(topology.cores) if core.cpus)
        self.effective = [
            i for i, core in enumerate(topology.cores) if core.cpus & topology.effective
        ]
        self.fits = cache(self._fits)

    # -- one lane ------------------------------------------------------------------------------

    def near(self, core: int, request: LaneRequest, kind: str) -> bool | None:
        known = False
        for device in self.t.devices:
            meant = device.type == kind and (
                kind == "nic" or request.devices is None or device.id in request.devices
            )
            if meant and device.cpus is not None:
                known = True
                if self.t.cores[core].cpus <= device.cpus:
                    return True
        return False if known else None

    def answerable(self, request: LaneRequest) -> bool:
        for word in request.require:
            if word == "same-llc" and all(core.llc is None for core in self.t.cores):
                return False
            if word in ("gpu-local", "nic-local"):
                kind = word[:3]
                meant = [
                    d
                    for d in self.t.devices
                    if d.type == kind
                    and (kind == "nic" or request.devices is None or d.id in request.devices)
                ]
                if not meant or any(d.cpus is None for d in meant):
                    return False
        return True

    def cost_of(self, word: str, request: LaneRequest, cores: Set) -> int:
        rows = [self.t.cores[i] for i in cores]
        present = {core.kind for core in self.t.cores}
        if word in ("gpu-local", "nic-local"):
            return sum(self.near(i, request, word[:3]) is False for i in cores)
        if word == "same-llc":
            if all(core.llc is None for core in self.t.cores):
                return 0
            return len({core.llc for core in rows}) - 1
        if word == "performance":
            best = max(present, key=SPEED.index)
            return sum(core.kind != best for core in rows)
        if word == "efficiency":
            best = "efficiency" if "efficiency" in present else min(present, key=SPEED.index)
            return sum(core.kind != best for core in rows)
        if word == "whole-cores":
            return sum(core.cpus != core.siblings for core in rows)
        if word == "isolated":
            return sum(not core.isolated for core in rows)
        return 0

    def may(self, request: LaneRequest, cores: Set) -> bool:
        rows = [self.t.cores[i] for i in cores]
        if any(core.mixed for core in rows):
            return False
        isolated = {core.isolated for core in rows}
        if len(isolated) > 1:
            return False
        if isolated == {True} and "isolated" not in (*request.prefer, *request.require):
            return False
        if request.share == "exclusive" and any(core.cpus != core.siblings for core in rows):
            return False
        if "same-llc" in request.require and any(core.llc is None for core in rows):
            return False
        return all(self.cost_of(word, request, cores) == 0 for word in request.require)

    def cost(self, request: LaneRequest, cores: Set) -> tuple[int, ...]:
        rows = [self.t.cores[i] for i in cores]
        return (
            *(self.cost_of(word, request, cores) for word in request.prefer),
            sum(core.cpus != core.siblings for core in rows),
            len({core.llc for core in rows}),
            len({core.numa for core in rows}),
            self.left_out(request, cores),
        )

    def left_out(self, request: LaneRequest, cores: Set) -> int:
        """Count the devices of the lane's locality words that are far from every core."""
        number = 0
        for kind in ("gpu", "nic"):
            if f"{kind}-local" not in request.prefer and f"{kind}-local" not in request.require:
                continue
            for device in self.t.devices:
                if device.type != kind or device.cpus is None:
                    continue
                if kind == "nic" or request.devices is None or device.id in request.devices:
                    near = [i for i in cores if self.t.cores[i].cpus <= device.cpus]
                    number += not near
        return number

    def sets(self, lane: int, size: int, free: frozenset[int], near: bool = False) -> Iterator[Set]:
        if lane < 0:  # housekeeping, or the spare core
            yield from combinations([i for i in self.effective if i in free], size)
            return
        request = self.requests[lane]
        member = request.member_of is not None and "gpu-local" in request.prefer
        local = member and (near or size > request.min)  # it grows near its own GPUs only
        for cores in combinations(sorted(free), size):
            if local and self.cost_of("gpu-local", request, cores):
                continue
            if self.may(request, cores):
                yield cores

    # -- several -------------------------------------------------------------------------------

    def _fits(self, wanted: tuple[tuple[int, int, bool], ...], free: frozenset[int]) -> bool:
        if not wanted:
            return True
        (lane, size, near), *rest = wanted
        return any(
            self.fits(tuple(rest), free - set(cores)) for cores in self.sets(lane, size, free, near)
        )

    def rivals(self, lane: int) -> list[int]:
        """Return the other members of a family that have cores near their GPUs in common."""
        mine = self.near_cores(lane)
        return [
            j
            for j, other in enumerate(self.requests)
            if j != lane
            and other.member_of == self.requests[lane].member_of is not None
            and mine & self.near_cores(j)
        ]

    def near_cores(self, lane: int) -> set[int]:
        request = self.requests[lane]
        if "gpu-local" not in request.prefer:
            return set()
        return {
            i
            for i in self.everything
            if self.may(request, (i,)) and self.near(i, request, "gpu") is True
        }

    def housekeeping(self) -> int:
        n = len(self.effective)
        if n < 8:
            return 1
        return max(2, (n + 19) // 20) + 2 * self.t.control_plane

    def solve(self, explicit: int | None) -> tuple[str, Set, list[Set]]:
        """Return how it ends (apart, together, refused), housekeeping, and each lane's cores."""
        if not all(self.answerable(r) for r in self.requests):
            return ("refused", (), [])
        minima = tuple((i, r.min, False) for i, r in enumerate(self.requests))
        most = self.housekeeping() if explicit is None else explicit
        if len(self.effective) < most:
            return ("refused", (), [])
        for number in range(most, (1 if explicit is None else explicit) - 1, -1):
            if self.fits(((-1, number, False), *minima), self.everything):
                ranked = min(
                    (
                        cores
                        for cores in self.sets(-1, number, self.everything)
                        if self.fits(minima, self.everything - set(cores))
                    ),
                    key=lambda cores: (
                        sum(HOUSEKEEPING.index(self.t.cores[i].kind) for i in cores),
                        cores,
                    ),
                )
                return ("apart", ranked, self.lanes(self.everything - set(ranked)))
        if explicit is None and self.fits(minima, self.everything):
            lanes = self.lanes(self.everything)
            for request, cores in reversed(list(zip(self.requests, lanes, strict=True))):
                if request.share != "exclusive" and not self.t.cores[cores[0]].isolated:
                    keep = min(cores, key=lambda i: (HOUSEKEEPING.index(self.t.cores[i].kind), i))
                    return ("together", (keep,), lanes)
        return ("refused", (), [])

    def lanes(self, free: frozenset[int]) -> list[Set]:
        sizes = [r.min for r in self.requests]

        def fit(extra: tuple[tuple[int, int, bool], ...], near: Collection[int] = ()) -> bool:
            return self.fits((*((j, n, j in near) for j, n in enumerate(sizes)), *extra), free)

        def held(members: list[int]) -> set[int]:
            """Members at their minimum that can be near their GPUs, one after the other."""
            found: set[int] = set()
            for j in members:
                if sizes[j] == self.requests[j].min and fit(spare, found | {j}):
                    found.add(j)
            return found

        spare = ((-1, 1, False),) if fit(((-1, 1, False),)) else ()
        for bounded in (True, False):
            for tier in sorted({r.tier for r in self.requests}):
                moved = True
                while moved:
                    moved = False
                    for i, r in enumerate(self.requests):
                        if r.tier != tier or (r.max is not None) is not bounded:
                            continue
                        if r.max is not None and sizes[i] >= r.max:
                            continue
                        beside = held(self.rivals(i))
                        sizes[i] += 1
                        if fit(spare) and fit(spare, beside):
                            moved = True
                        else:
                            sizes[i] -= 1
        if all(size == r.min for size, r in zip(sizes, self.requests, strict=True)):
            spare = ()
        near = held([i for i in range(len(sizes)) if self.rivals(i)])
        result: list[Set] = []
        for i, request in enumerate(self.requests):
            later = (*((j, sizes[j], j in near) for j in range(i + 1, len(sizes))), *spare)
            best = min(
                (
                    cores
                    for cores in self.sets(i, sizes[i], free, i in near)
                    if self.fits(later, free - set(cores))
                ),
                key=lambda cores: (self.cost(request, cores), cores),
            )
            result.append(best)
            free -= set(best)
        return result
