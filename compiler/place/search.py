"""The best set of cores for one lane, exactly.

The objective is a vector compared from the left, then the ids of the cores in ascending order.
Parts of the vector are sums over cores, the number of caches or NUMA nodes used, and the devices
that no core of the set is near.  Once the set of *clusters* (cores with the same cache and NUMA
node) that may be used is fixed, only the sums and the devices are left, and without devices the
best set is the cheapest cores in order.  When lanes served later must still find room, the sets
that leave it are the independent sets of a matroid (the dual of the one the later demands span),
so taking the cheapest core that still fits is exact there too.

So the search branches on clusters: use this one, or do without.  The branch that may have the best
set is looked at first, so that the search ends when the bound (:mod:`compiler.place.outlook`) of
that one is no better than the best set found.  Where what it has misses the bound by devices, the
search branches on what is near more of them: a NUMA node, then a cluster, then a cell.  A set that
uses a cell takes its first core; the cheapest others are a question for a matroid again (the
contraction), so this is exact as well.

Later demands with several options are first widened to the union of them, less what counting rules
out (:mod:`compiler.place.narrow`).  The best set that leaves room for the widened demands is the
best of all where it leaves room for the real ones too.  Otherwise the ways to meet the real ones
are cut in two, again and again: one of some equal demands takes this option, or none of them does;
until the set leaves no room for any part even if widened.  Then the parts are searched in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count as counting
from typing import NamedTuple

from compiler.place.aims import Column, Reach
from compiler.place.branch import Branch, Halves, to_reach_more, to_use_fewer
from compiler.place.cells import Cells, Counts, Free, less, total
from compiler.place.cheapest import Rest
from compiler.place.fit import Demand, Effort, fit, refit
from compiler.place.ground import Cost, ground_of, twins_of
from compiler.place.narrow import have_room, loosened, narrowed
from compiler.place.outlook import Outlook, Seen
from compiler.place.reserve import Option
from compiler.place.rooms import Rooms

__all__ = ["Choice", "Cost", "choose"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of cores for one demand."""

    counts: Counts
    cost: Cost
    gap: Cost | None
    """None: proved the best.  Otherwise the search was cut short and no set costs less than
    this."""
    rest: tuple[Counts, ...]
    """One way to meet the later demands with what is left."""


_Key = tuple[Cost, int]


class _Pinned(NamedTuple):
    """Later demands, some with fewer options; in the order in which to look at them."""

    bound: _Key | tuple[()]
    """What no set that leaves room for them is better than."""
    depth: int
    """How often they were cut, negative."""
    turn: int
    rest: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    cost: Cost
    cores: int

    @property
    def key(self) -> _Key:
        """Return what sets are ordered by."""
        return (self.cost, -self.cores)

    def before(self, other: _Found | None) -> bool:
        """Tell whether this set is better: cheaper, or as cheap with lower ids."""
        return other is None or self.key < other.key


def choose(
    cells: Cells,
    free: Free,
    demand: Demand,
    columns: Sequence[Column],
    *,
    rest: Sequence[Demand],
    fallback: Sequence[Counts],
    limit: int,
) -> Choice:
    """Return the best set of cores for ``demand`` that leaves room for ``rest``.

    Args:
        cells: the machine.
        free: what is not taken yet.
        demand: how many cores, from which options.
        columns: the cost.
        rest: what must still fit afterwards.
        fallback: one way to meet ``demand`` and ``rest``, in this order; used where the search
            is cut short before it finds any.
        limit: steps after which each search is cut short.
    """
    ground = ground_of(cells, free, columns)
    effort = Effort(limit)
    rooms = Rooms(ground)
    alone = _Search(rooms, demand, rest=None, effort=effort)
    best = alone.better(None)
    hopeless: set[int] = set()
    if best is not None:
        counts = ground.counts(best.cores)
        other = Effort(limit)
        left = less(free, counts)
        after = refit(left, rest, fallback[1:]) or fit(cells, left, rest, other)
        if after is not None:
            return Choice(counts, best.cost, alone.bound if effort.spent else None, after)
        if not other.spent:
            hopeless.add(best.cores)
    start = 0
    for cell, count in enumerate(fallback[0]):
        start |= cells.masks[cell][free[cell]] ^ cells.masks[cell][free[cell] - count]
    effort = Effort(limit)
    joint = _Joint(cells, free, rooms, demand, effort, hopeless)
    joint.best, joint.after = _Found(ground.cost(start), start), tuple(fallback[1:])
    joint.run(rest)
    best = joint.best
    known = [bound for bound in (alone.bound, *joint.bound) if bound is not None]
    gap = min(max(known), best.cost) if effort.spent and known else None
    return Choice(ground.counts(best.cores), best.cost, gap, joint.after)


class _Joint:
    """The search with later demands, whose options are cut as far as must be."""

    best: _Found
    after: tuple[Counts, ...]
    """One way to meet the later demands beside it."""
    bound: tuple[Cost, ...] = ()
    """Where the search was cut short: what no set costs less than, if that is known."""

    def __init__(
        self,
        cells: Cells,
        free: Free,
        rooms: Rooms,
        demand: Demand,
        effort: Effort,
        hopeless: set[int],
    ) -> None:
        self._cells, self._free, self._rooms, self._ground = cells, free, rooms, rooms.ground
        self._demand, self._effort = demand, effort
        self._hopeless = hopeless
        """Sets that leave no room, whatever options are taken."""

    def run(self, rest: Sequence[Demand]) -> None:
        """Improve :attr:`best`: what can be best is looked at first."""
        turn = counting()
        first = narrowed(self._free, rest)
        waiting = [] if first is None else [_Pinned((), 0, next(turn), first)]
        while waiting:
            one = heappop(waiting)
            if one.bound >= self.best.key:
                return
            found = self._best_of(one.rest, one.bound[0] if one.bound else None)
            taken = found is not None and self._takes(found, one)
            if self._effort.spent:
                self.bound = one.bound[:1]
                return
            if found is None or taken:
                continue
            for part in self._without(found, one.rest):
                heappush(waiting, _Pinned(found.key, one.depth - 1, next(turn), part))
            if self._effort.spent:
                self.bound = one.bound[:1]
                return

    def _without(self, found: _Found, rest: Sequence[Demand]) -> Iterator[tuple[Demand, ...]]:
        """Yield demands with fewer options, for which the set leaves no room even if widened.

        The set leaves no room for the demands as they are, so these are all there is: each way to
        meet the demands is, up to an exchange of equal ones, a way to meet one of those yielded.
        """
        left = less(self._free, self._ground.counts(found.cores))
        waiting = [tuple(rest)]
        while waiting:
            cut = _cut(waiting.pop(), self._free, left)
            for half in cut:
                if not self._effort.step():
                    return
                fewer = narrowed(self._free, half)
                if fewer is None:
                    continue
                if have_room(left, loosened(self._free, fewer)):
                    waiting.append(fewer)
                else:
                    yield fewer

    def _best_of(self, rest: Sequence[Demand], least: Cost | None) -> _Found | None:
        """Return the best set that leaves room for widened demands, if better than the known."""
        room = Rest.of(self._free, loosened(self._free, rest), self._ground)
        if room is None:
            return None
        search = _Search(self._rooms, self._demand, rest=room, effort=self._effort)
        return search.better(self.best, least)

    def _takes(self, found: _Found, one: _Pinned) -> bool:
        """Take a set as the best where it leaves room for the demands as they are."""
        if found.cores in self._hopeless:
            return False
        left = less(self._free, self._ground.counts(found.cores))
        after = fit(self._cells, left, one.rest, self._effort)
        if after is not None:
            self.best, self.after = found, after
        elif not one.depth and not self._effort.spent:
            self._hopeless.add(found.cores)
        return after is not None


def _cut(rest: tuple[Demand, ...], free: Free, left: Free) -> tuple[tuple[Demand, ...], ...]:
    """Cut the ways to meet demands in two: one of equal demands takes an option, or none does.

    It is one that has room for fewer of the demands when only ``left`` is free.
    """
    best, most = None, (-1, 0, 0)
    for number, demand in enumerate(rest):
        if len(demand.options) < 2 or not demand.cores or demand in rest[:number]:
            continue
        for option in demand.options:
            before, after = total(free, option), total(left, option)
            lost = before // demand.cores - after // demand.cores
            gain = (lost, demand.cores, before - after)
            if gain > most:
                best, most = (number, option), gain
    if best is None:
        return ()
    number, option = best
    demand = rest[number]
    others = Demand(demand.cores, tuple([one for one in demand.options if one != option]))
    return (
        (*rest[:number], Demand(demand.cores, (option,)), *rest[number + 1 :]),
        tuple([others if one == demand else one for one in rest]),
    )


class _Open(NamedTuple):
    """A branch to be cut in two."""

    bound: _Key
    """What none of its sets is better than."""
    turn: int
    branch: Branch
    root: int
    """The cores that the search began with."""
    seen: Seen
    found: _Found


class _Search:
    """Branch and bound: the branch that can be best is cut first."""

    def __init__(self, rooms: Rooms, demand: Demand, *, rest: Rest | None, effort: Effort) -> None:
        self.bound: Cost | None = None
        """What no set is known to cost less than; None where there is none."""
        self._demand, self._rest, self._effort = demand, rest, effort
        self._ground = rooms.ground
        self._outlook = Outlook(rooms, demand.cores, rest)
        self._pinned: Sequence[Option] = rest.options if rest is not None else ()
        self._useless = rest.useless() if rest is not None else 0
        self._best: _Found | None = None
        self._better = False
        self._waiting: list[_Open] = []
        self._turn = counting()
        self._twins: dict[int, Sequence[int]] = {}

    def better(self, best: _Found | None, least: Cost | None = None) -> _Found | None:
        """Return the best set, or None where ``best`` is as good.

        No set costs less than ``least``, as is known from other searches.
        """
        self._best = best
        for option in self._demand.options:
            cores = self._ground.within(option) & ~self._useless
            self._look(Branch(cores), cores, None, least)
        go_on = self._effort.step()
        while self._waiting and (self._best is None or self._waiting[0].bound < self._best.key):
            one = heappop(self._waiting)
            self.bound = one.bound[0]
            for half in self._halves(one) if go_on else ():
                go_on = go_on and self._effort.step()
                if go_on:
                    self._look(half, one.root, one, one.bound[0])
            if not go_on:
                return self._best if self._better else None
        self.bound = None if self._best is None else self._best.cost
        return self._best if self._better else None

    def _look(self, branch: Branch, root: int, parent: _Open | None, least: Cost | None) -> None:
        """Look at a branch, and remember it where it may have a better set."""
        limit = None if self._best is None else self._best.cost
        seen = self._outlook.of(branch, limit, least)
        if seen is None or not _Found(seen.floor, seen.ids).before(self._best):
            return
        found = _Found(self._ground.cost(seen.taken), seen.taken)
        if found.before(self._best):
            self._best, self._better = found, True
        if found.cost > seen.floor:
            bound = (seen.floor, -seen.ids)
            if parent is not None:
                bound = max(bound, parent.bound)
            heappush(self._waiting, _Open(bound, next(self._turn), branch, root, seen, found))

    def _halves(self, one: _Open) -> Halves:
        ground, branch, seen, found = self._ground, one.branch, one.seen, one.found
        if one.root not in self._twins:
            self._twins[one.root] = twins_of(ground, one.root, self._pinned)
        twins = self._twins[one.root]
        pairs = zip(found.cost, seen.floor, strict=True)
        part = next(part for part, (cost, least) in enumerate(pairs) if cost != least)
        reach = isinstance(ground.columns[part], Reach)
        return (
            (reach and to_reach_more(branch, found.cores, ground, twins, seen.payable))
            or to_use_fewer(branch, found.cores, ground, twins)
            or to_reach_more(branch, found.cores, ground, twins, branch.cores)
        )
