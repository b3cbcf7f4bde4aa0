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

Later demands with several options are first widened to the union of them.  The best set that leaves
room for the widened demands is the best of all where it leaves room for the real ones too.
Otherwise the ways to meet the real ones are cut into parts (:mod:`compiler.place.pins`), which are
searched in turn: always the one that can be best, until another can be better.  A part begins with
the branches that are left of what it is a part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count as counting
from typing import NamedTuple

from compiler.place.aims import Column, Reach
from compiler.place.branch import Branch, Halves, to_reach_more, to_use_fewer
from compiler.place.cells import Cells, Counts, Free, less
from compiler.place.fit import Demand, Effort, fit, refit
from compiler.place.ground import Cost, Ground, ground_of, twins_of
from compiler.place.narrow import narrowed
from compiler.place.outlook import Outlook, Seen
from compiler.place.pins import held, without

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
    alone = _Search(cells, free, ground, demand, Effort(limit))
    alone.run(())
    joint = _Search(cells, free, ground, demand, Effort(limit))
    if alone.best is not None:
        counts = ground.counts(alone.best.cores)
        effort = Effort(limit)
        left = less(free, counts)
        after = refit(left, rest, fallback[1:])
        if after is None:
            after = fit(cells, left, rest, effort)
        if after is not None:
            return Choice(counts, alone.best.cost, alone.gap, after)
        if not effort.spent:
            joint.hopeless.add(alone.best.cores)
    start = 0
    for cell, count in enumerate(fallback[0]):
        start |= cells.masks[cell][free[cell]] ^ cells.masks[cell][free[cell] - count]
    best = joint.best = _Found(ground.cost(start), start)
    joint.after = tuple(fallback[1:])
    # For a single core all options are as one.
    joint.run([one if one.cores != 1 else Demand(1, (one.wide,)) for one in rest])
    best = joint.best
    gap = None if joint.gap is None else min(max(alone.bound, joint.gap), best.cost)
    return Choice(ground.counts(best.cores), best.cost, gap, joint.after)


_Key = tuple[Cost, int]


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


class _Open(NamedTuple):
    """A branch that may have the best set."""

    bound: _Key
    """What none of its sets is better than."""
    turn: int
    branch: Branch
    root: int
    """The cores that the search began with."""
    seen: Seen | None = None
    """None: it is still to be looked at."""
    found: _Found | None = None


@dataclass(slots=True)
class _Part:
    """Sets that leave room for later demands which have some of their options."""

    rest: tuple[Demand, ...]
    outlook: Outlook
    useless: int
    """Cores that none of the sets takes."""
    waiting: list[_Open]
    depth: int
    """How often the ways to meet the later demands were cut."""
    best: _Found | None = None
    """The best set found that leaves room for the demands if widened."""
    twins: dict[int, Sequence[int]] = field(default_factory=dict)


class _Search:
    """Branch and bound: the branch that can be best is cut first."""

    def __init__(
        self, cells: Cells, free: Free, ground: Ground, demand: Demand, effort: Effort
    ) -> None:
        self.best: _Found | None = None
        self.after: tuple[Counts, ...] = ()
        """One way to meet the later demands beside the best set."""
        self.bound: Cost = (0,) * len(ground.columns)
        """What no set is known to cost less than."""
        self.hopeless: set[int] = set()
        """Sets that leave no room, whatever options are taken."""
        self._cells, self._free, self._ground = cells, free, ground
        self._demand, self._effort = demand, effort
        self._turn = counting()

    @property
    def gap(self) -> Cost | None:
        """What no set costs less than, where the search was cut short."""
        return self.bound if self._effort.spent else None

    def run(self, rest: Sequence[Demand]) -> None:
        """Improve :attr:`best` until it is the best set that leaves room for ``rest``."""
        parts: list[tuple[_Key, int, int, _Part]] = []
        begun = self._begun(rest)
        if begun is not None:
            self._wait(parts, begun)
        while parts and (self.best is None or parts[0][0] < self.best.key):
            self.bound = parts[0][0][0]
            *_, part = heappop(parts)
            found = self._best_of(part, parts[0][0] if parts else None)
            if self._effort.spent:
                return
            if found is None:  # others may be better, or all are worse than the best
                self._wait(parts, part)
            elif not self._takes(found, part):
                for fewer in self._without(found, part):
                    self._wait(parts, fewer)
            if self._effort.spent:
                return

    def _wait(self, parts: list[tuple[_Key, int, int, _Part]], part: _Part) -> None:
        if part.waiting:
            heappush(parts, (part.waiting[0].bound, -part.depth, next(self._turn), part))

    def _begun(self, rest: Sequence[Demand]) -> _Part | None:
        """Return all sets as a part; None where the demands do not fit."""
        fewer = narrowed(self._free, rest)
        room = None if not fewer else held(self._free, fewer, self._ground)
        if fewer is None or (rest and room is None):
            return None
        useless = 0 if room is None else room.useless()
        part = _Part(fewer, Outlook(self._ground, self._demand.cores, room), useless, [], 0)
        for option in self._demand.options:
            cores = self._ground.within(option) & ~useless
            self._push(part, (self.bound, -cores), Branch(cores), cores)
        return part

    def _without(self, found: _Found, part: _Part) -> list[_Part]:
        """Cut a part into those for which a set leaves no room."""
        again = [one._replace(seen=None, found=None) for one in part.waiting]
        cores = self._demand.cores
        return [
            _Part(
                rest, Outlook(self._ground, cores, room), room.useless(), [*again], part.depth + 1
            )
            for rest, room in without(
                self._free, found.cores, part.rest, self._ground, self._effort
            )
        ]

    def _takes(self, found: _Found, part: _Part) -> bool:
        """Take a set as the best where it leaves room for the demands as they are."""
        if found.cores in self.hopeless:
            return False
        left = less(self._free, self._ground.counts(found.cores))
        after = fit(self._cells, left, part.rest, self._effort) if part.rest else ()
        if after is not None:
            self.best, self.after = found, after
        elif not part.depth and not self._effort.spent:
            self.hopeless.add(found.cores)
        return after is not None

    def _best_of(self, part: _Part, until: _Key | None) -> _Found | None:
        """Return the best set of a part; None where others may be better, or it has none."""
        while part.waiting:
            one = part.waiting[0]
            self.bound = one.bound[0]
            if until is not None and one.bound > until:
                return None
            if part.best is not None and one.bound > part.best.key:
                # Nothing that waits is as good: that set went as the like of another, or with
                # cores that are of no use.  Branches must not be measured by it for ever.
                part.best = None
            if self.best is not None and one.bound >= self.best.key:
                part.waiting.clear()
                return None
            if one.found is not None and one.seen is not None and one.found.cost == one.seen.floor:
                return one.found
            heappop(part.waiting)
            branches = (one.branch,) if one.seen is None else self._halves(one, one.seen, part)
            for branch in branches:
                if not self._effort.step():
                    return None
                self._look(branch, one, part)
        return None

    def _look(self, branch: Branch, parent: _Open, part: _Part) -> None:
        """Look at a branch, and remember it where it may have the best set."""
        if branch.cores & part.useless:
            branch = replace(branch, cores=branch.cores & ~part.useless)
        known = part.best if part.best is not None and part.best.before(self.best) else self.best
        seen = part.outlook.of(branch, None if known is None else known.cost, parent.bound[0])
        if seen is None:
            return
        bound = max((seen.floor, -seen.ids), parent.bound)
        if not seen.whole:
            self._push(part, bound, branch, parent.root)
            return
        found = _Found(self._ground.cost(seen.taken), seen.taken)
        if found.before(known):
            part.best = found
            if all(len(demand.options) < 2 for demand in part.rest):  # nothing is widened
                self._takes(found, part)
        if found.cost == seen.floor:  # nothing in the branch is better
            bound = max(bound, found.key)
        self._push(part, bound, branch, parent.root, seen, found)

    def _push(
        self,
        part: _Part,
        bound: _Key,
        branch: Branch,
        root: int,
        seen: Seen | None = None,
        found: _Found | None = None,
    ) -> None:
        if self.best is None or bound < self.best.key:
            heappush(part.waiting, _Open(bound, next(self._turn), branch, root, seen, found))

    def _halves(self, one: _Open, seen: Seen, part: _Part) -> Halves:
        ground, branch = self._ground, one.branch
        cost = ground.cost(seen.taken)
        if one.root not in part.twins:
            options = [demand.options for demand in part.rest]
            part.twins[one.root] = twins_of(ground, one.root, options)
        twins = part.twins[one.root]
        pairs = zip(cost, seen.floor, strict=True)
        number = next(number for number, (cost, least) in enumerate(pairs) if cost != least)
        reach = isinstance(ground.columns[number], Reach)
        return (
            (reach and to_reach_more(branch, seen.taken, ground, twins, seen.payable))
            or to_use_fewer(branch, seen.taken, ground, twins)
            or to_reach_more(branch, seen.taken, ground, twins, branch.cores)
        )
