"""The best set of cores for one lane, exactly.

The objective is a vector compared from the left, then the ids of the cores in ascending order.
Parts of the vector are sums over cores, the number of caches or NUMA nodes used, and the devices
that no core of the set is near.  Once the set of *clusters* (cores with the same cache and NUMA
node) that may be used is fixed, only the sums and the devices are left, and without devices the
best set is the cheapest cores in order.  When lanes served later must still find room, the sets
that leave it are the independent sets of a matroid (the dual of the one the later demands span),
so taking the cheapest core that still fits is exact there too.

So the search branches on clusters: use this one, or do without.  A branch is given up when its
bound (:mod:`compiler.place.outlook`) is no better than the best set found.  Where what it has
misses the bound by devices, the search branches on what is near more of them: a NUMA node, then a
cluster, then a cell.  A set that uses a cell takes its first core; the cheapest others are a
question for a matroid again (the contraction), so this is exact as well.

Later demands with several options are first widened to the union of them.  The best set that
leaves room for the widened demands is the best of all where it leaves room for the real ones too;
otherwise one demand after the other is pinned to each of its options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count as counting
from typing import Final, NamedTuple

from compiler.place.aims import Column, Reach
from compiler.place.branch import Branch, Halves, to_reach_more, to_use_fewer
from compiler.place.cells import Cells, Counts, Free, less, total
from compiler.place.cheapest import Rest
from compiler.place.fit import Demand, Effort, fit
from compiler.place.ground import Cost, Ground, ground_of, twins_of
from compiler.place.outlook import Outlook, Seen
from compiler.place.reserve import Option

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


_PINNING: Final = 20
"""Steps of a search that take as long as pinning a demand to each of its options."""

_Key = tuple[Cost, int]


class _Pinned(NamedTuple):
    """Later demands, some of them pinned to an option; in the order in which to look at them."""

    bound: _Key | tuple[()]
    """What no set that leaves room for them is better than."""
    depth: int
    """Pinned demands, negative."""
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
    alone = _Search(ground, demand, rest=None, effort=effort)
    best = alone.better(None)
    hopeless: set[int] = set()
    if best is not None:
        counts = ground.counts(best.cores)
        other = Effort(limit)
        after = fit(cells, less(free, counts), rest, other)
        if after is not None:
            return Choice(counts, best.cost, alone.bound if effort.spent else None, after)
        if not other.spent:
            hopeless.add(best.cores)
    start = 0
    for cell, count in enumerate(fallback[0]):
        start |= cells.masks[cell][free[cell]] ^ cells.masks[cell][free[cell] - count]
    effort = Effort(limit)
    joint = _Joint(cells, free, ground, demand, effort, hopeless)
    joint.best, joint.after = _Found(ground.cost(start), start), tuple(fallback[1:])
    joint.run(rest)
    best = joint.best
    known = [bound for bound in (alone.bound, *joint.bound) if bound is not None]
    gap = min(max(known), best.cost) if effort.spent and known else None
    return Choice(ground.counts(best.cores), best.cost, gap, joint.after)


class _Joint:
    """The search with later demands, pinned to options as far as must be."""

    best: _Found
    after: tuple[Counts, ...]
    """One way to meet the later demands beside it."""
    bound: tuple[Cost, ...] = ()
    """Where the search was cut short: what no set costs less than, if that is known."""

    def __init__(
        self,
        cells: Cells,
        free: Free,
        ground: Ground,
        demand: Demand,
        effort: Effort,
        hopeless: set[int],
    ) -> None:
        self._cells, self._free, self._ground = cells, free, ground
        self._demand, self._effort = demand, effort
        self._hopeless = hopeless
        """Sets that leave no room, whatever options are pinned."""
        self._seen: set[Hashable] = set()

    def run(self, rest: Sequence[Demand]) -> None:
        """Improve :attr:`best`: what can be best is looked at first."""
        turn = counting()
        waiting = [_Pinned((), 0, next(turn), tuple(rest))]
        while waiting:
            one = heappop(waiting)
            if one.bound >= self.best.key:
                return
            found = self._best_of(one.rest)
            taken = found is not None and self._takes(found, one)
            if self._effort.spent:
                self.bound = one.bound[:1]
                return
            if found is None or taken:
                continue
            if not self._effort.step(_PINNING):
                self.bound = one.bound[:1]
                return
            open_ = [i for i, later in enumerate(one.rest) if len(later.options) > 1]
            if not open_:
                continue
            number = max(open_, key=lambda i: (one.rest[i].cores, -i))
            for option in one.rest[number].options:
                pinned = Demand(one.rest[number].cores, (option,))
                now = (*one.rest[:number], pinned, *one.rest[number + 1 :])
                if total(self._free, option) < pinned.cores or not self._is_new(now):
                    continue
                heappush(waiting, _Pinned(found.key, one.depth - 1, next(turn), now))

    def _best_of(self, rest: Sequence[Demand]) -> _Found | None:
        """Return the best set that leaves room for widened demands, if better than the known."""
        amounts = [later.cores for later in rest]
        room = Rest.of(self._free, amounts, [later.wide for later in rest], self._ground)
        if room is None:
            return None
        search = _Search(self._ground, self._demand, rest=room, effort=self._effort)
        return search.better(self.best)

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

    def _is_new(self, rest: Sequence[Demand]) -> bool:
        """Tell whether these demands were not searched with: which is which does not matter."""
        pinned: Counter[Option] = Counter()
        for demand in rest:
            if len(demand.options) == 1:
                pinned[demand.options[0]] += demand.cores
        others = Counter(demand for demand in rest if len(demand.options) > 1)
        key = (frozenset(pinned.items()), frozenset(others.items()))
        known = key in self._seen
        self._seen.add(key)
        return not known


class _Search:
    """Branch and bound."""

    def __init__(
        self, ground: Ground, demand: Demand, *, rest: Rest | None, effort: Effort
    ) -> None:
        self.bound: Cost | None = None
        """What no set costs less than, where the search began without one."""
        self._ground, self._demand, self._rest, self._effort = ground, demand, rest, effort
        self._outlook = Outlook(ground, demand.cores, rest)
        self._pinned: Sequence[Option] = rest.options if rest is not None else ()
        self._useless = rest.useless() if rest is not None else 0
        self._best: _Found | None = None
        self._better = False
        self._cores = 0
        self._twins: Sequence[int] | None = None

    def better(self, best: _Found | None) -> _Found | None:
        """Return the best set, or None where ``best`` is as good."""
        self._best = best
        roots: list[tuple[Branch, Seen]] = []
        for option in self._demand.options:
            root = Branch(self._ground.within(option) & ~self._useless)
            seen = self._outlook.of(root, None if best is None else best.cost)
            if seen is not None:
                roots.append((root, seen))
        self.bound = min((seen.floor for _, seen in roots), default=None)
        for root, seen in roots:
            self._cores, self._twins = root.cores, None
            self._run(root, seen)
        return self._best if self._better else None

    def _run(self, root: Branch, at_root: Seen) -> None:
        waiting = [root]
        while waiting and self._effort.step():
            branch = waiting.pop()
            seen: Seen | None = at_root
            if branch is not root:
                seen = self._outlook.of(branch, None if self._best is None else self._best.cost)
            if seen is None or not _Found(seen.floor, seen.ids).before(self._best):
                continue
            found = _Found(self._ground.cost(seen.taken), seen.taken)
            if found.before(self._best):
                self._best, self._better = found, True
            if found.cost > seen.floor:
                waiting += reversed(self._halves(branch, found, seen))

    def _halves(self, branch: Branch, found: _Found, seen: Seen) -> Halves:
        ground = self._ground
        if self._twins is None:
            self._twins = twins_of(ground, self._cores, self._pinned)
        pairs = zip(found.cost, seen.floor, strict=True)
        part = next(part for part, (cost, least) in enumerate(pairs) if cost != least)
        reach = isinstance(ground.columns[part], Reach)
        return (
            (reach and to_reach_more(branch, found.cores, ground, self._twins, seen.payable))
            or to_use_fewer(branch, found.cores, ground, self._twins)
            or to_reach_more(branch, found.cores, ground, self._twins, branch.cores)
        )
