"""Whether several demands for cores can be met at once, exactly.

A demand is a number of cores from any *one* of its options, each a set of cells.  Most have one
option; ``require: [same-llc]`` has one per cache, ``prefer: [isolated]`` has two.  With the
options chosen the question is a transport problem, answered by augmenting paths; the choice of
options is a depth-first search that gives up a branch as soon as the transport problem fails with
undecided demands widened to the union of their options.  Before it begins, options that nothing
can come of are counted out (:mod:`compiler.place.narrow`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.place.cells import Cells, Counts, Free
from compiler.place.demand import Demand
from compiler.place.narrow import have_room, loosened, narrowed, wasted
from compiler.place.reserve import Groups, Option, Reserve

__all__ = ["Demand", "Effort", "Flow", "fit", "refit"]


@dataclass(slots=True)
class Effort:
    """Counts the steps of one search, so that it ends on any machine.

    A search that was cut short says so: :attr:`spent` is then true, and what was not proved is
    taken as not so.
    """

    limit: int
    steps: int = 0
    spent: bool = field(default=False, init=False)

    def step(self, number: int = 1) -> bool:
        """Count a step, or one that takes as long as several; return whether to go on."""
        if self.steps >= self.limit:
            self.spent = True
            return False
        self.steps += number
        return True


def fit(
    cells: Cells, free: Free, demands: Sequence[Demand], effort: Effort
) -> tuple[Counts, ...] | None:
    """Return one way to meet all demands, as counts per demand, or None where there is none."""
    flow = Flow.of(cells, free, demands, effort)
    return None if flow is None else flow.held


def refit(
    free: Free, demands: Sequence[Demand], before: Sequence[Counts]
) -> tuple[Counts, ...] | None:
    """Return a way to meet demands in the options that a way ``before`` has them in.

    None: those options do not do; others may.
    """
    pinned: list[Option] = []
    for demand, counts in zip(demands, before, strict=True):
        used = {cell for cell, count in enumerate(counts) if count}
        pinned.append(next((o for o in demand.options if used <= o), frozenset()))
    groups = Groups.of(len(free), pinned)
    amounts = [demand.cores for demand in demands]
    reserve = Reserve.of(groups.sum(free), amounts, [groups.bits(option) for option in pinned])
    return None if reserve is None else groups.spread(free, reserve.held)


class Flow:
    """One way to meet demands, which may grow."""

    def __init__(
        self,
        cells: Cells,
        free: Free,
        demands: Sequence[Demand],
        groups: Groups,
        reserve: Reserve,
    ) -> None:
        self._cells, self._free, self._groups = cells, free, groups
        self._demands, self._reserve = list(demands), reserve
        self._hopeless: set[frozenset[tuple[Demand, int]]] = set()
        """Demands that do not fit, each with how many there are of it."""

    @classmethod
    def of(cls, cells: Cells, free: Free, demands: Sequence[Demand], effort: Effort) -> Flow | None:
        """Return a way to meet all demands, or None where there is none."""
        fewer = narrowed(free, demands)
        if fewer is None:
            return None
        groups = Groups.of(len(free), (o for demand in demands for o in demand.options))
        wide = [groups.bits(demand.wide) for demand in fewer]
        reserve = Reserve.of(groups.sum(free), [demand.cores for demand in demands], wide)
        if reserve is None:
            return None
        pinned: Reserve | None = reserve
        if any(len(demand.options) > 1 for demand in fewer):
            if not have_room(free, [*loosened(free, fewer), *wasted(free, fewer)]):
                return None
            pinned = _Pins(cells, free, fewer, effort, groups).find(reserve)
        return None if pinned is None else cls(cells, free, demands, groups, pinned)

    @property
    def held(self) -> tuple[Counts, ...]:
        """The cores of each demand, per cell."""
        return self._groups.spread(self._free, self._reserve.held)

    def grow(self, demand: int, effort: Effort) -> bool:
        """Let a demand have a core more; return whether all still fit, else change nothing."""
        old = self._demands[demand]
        self._demands[demand] = Demand(old.cores + 1, old.options)
        if self._reserve.add(demand, 1):
            return True
        # With the options as they are pinned there is no way; with others there may be.
        demands = frozenset(Counter(self._demands).items())
        if any(len(one.options) > 1 for one in self._demands) and demands not in self._hopeless:
            other = Flow.of(self._cells, self._free, self._demands, effort)
            if other is not None:
                self._groups, self._reserve = other._groups, other._reserve
                return True
            self._hopeless.add(demands)
        self._demands[demand] = old
        return False


class _Spot(NamedTuple):
    """Where an option is."""

    place: Hashable
    """Its cache; itself where it is not in one."""
    content: int
    """Equal for caches that hold equal numbers of equal free cores."""
    mine: int
    """Equal for options that are equal but for the cache."""
    room: int
    """Its free cores."""


class _Pins:
    """The search for options with which all demands can be met, those with most cores first.

    States from which there is no way are remembered, as what is pinned to each cache without
    which cache it is: caches that hold equal numbers of equal free cores are mirror images.
    """

    def __init__(
        self, cells: Cells, free: Free, demands: Sequence[Demand], effort: Effort, groups: Groups
    ) -> None:
        self._cells, self._free, self._effort, self._groups = cells, free, effort, groups
        self._demands = demands
        open_ = [i for i, demand in enumerate(demands) if len(demand.options) > 1]
        self._open = sorted(open_, key=lambda i: (-demands[i].cores, i))
        self._spots = self._all_spots()
        self._hopeless: set[Hashable] = set()
        self._pinned: dict[Option, int] = {}
        """Cores pinned to each option."""

    def find(self, reserve: Reserve, done: int = 0) -> Reserve | None:
        """Pin the demands that are still open; None where there is no way.

        ``reserve`` holds all demands, those not ``done`` in any of their options.
        """
        if done == len(self._open):
            return reserve
        number = self._open[done]
        demand = self._demands[number]
        # Caches with most room first: what is pinned to them can grow.
        options = sorted(demand.options, key=self._room, reverse=True)
        for option in options:
            before = self._pinned.get(option, 0)
            self._pinned[option] = before + demand.cores
            state = (done, self._image())
            if state not in self._hopeless:
                # Only real choices cost effort: without them the answer is always exact.
                if not self._effort.step():
                    return None
                narrowed = reserve.copy()
                if narrowed.narrow(number, self._groups.bits(option)):
                    found = self.find(narrowed, done + 1)
                    if found is not None:
                        return found
                self._hopeless.add(state)
            self._pinned[option] = before
        return None

    def _all_spots(self) -> dict[Option, _Spot]:
        """Return where each option is, and what sets it apart."""
        cells, free = self._cells, self._free
        wide = dict.fromkeys(demand.wide for demand in self._demands)
        kinds = [
            (alike, *(cell in option for option in wide)) for cell, alike in enumerate(cells.alike)
        ]
        numbers: dict[Hashable, int] = {}
        spots: dict[Option, _Spot] = {}
        for demand in dict.fromkeys(self._demands):
            for option in demand.options if len(demand.options) > 1 else ():
                cache = cells.only_cache(option)
                content: Hashable = option
                if cache is not None:
                    rows = [(kinds[cell], free[cell]) for cell in cells.of_cache[cache]]
                    content = tuple(sorted([row for row in rows if row[1]]))
                mine = tuple(sorted([kinds[cell] for cell in option]))
                spots[option] = _Spot(
                    place=option if cache is None else cache,
                    content=numbers.setdefault(content, len(numbers)),
                    mine=numbers.setdefault(mine, len(numbers)),
                    room=sum([free[cell] for cell in option]),
                )
        return spots

    def _room(self, option: Option) -> int:
        """Return the cores of an option that nothing is pinned to."""
        spot = self._spots[option]
        taken = [n for other, n in self._pinned.items() if self._spots[other].place == spot.place]
        return spot.room - sum(taken)

    def _image(self) -> Hashable:
        """Return what two choices share that are mirror images of each other."""
        places: dict[Hashable, list[tuple[int, int, int]]] = {}
        for option, cores in self._pinned.items():
            if cores:
                spot = self._spots[option]
                places.setdefault(spot.place, []).append((spot.content, spot.mine, cores))
        return tuple(sorted([tuple(sorted(rows)) for rows in places.values()]))
