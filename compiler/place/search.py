"""The best set of cores for one lane, exactly.

The objective is a vector compared from the left, then the ids of the cores in ascending order.
Parts of the vector are sums over cores or the number of caches or NUMA nodes used.  Once the set
of *clusters* (cores with the same cache and NUMA node) that may be used is fixed, only the sums
are left, and the best set is the cheapest cores in order.  When lanes served later must still find
room, the sets that leave it are the independent sets of a matroid (the dual of the one the later
demands span), so taking the cheapest core that still fits is exact there too.

So the search branches on clusters only: use this one, or do without.  A branch is given up when
its bound, the cheapest cores among all clusters still allowed with the fewest caches and nodes
that could hold them, is no better than the best set found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.place.aims import Column
from compiler.place.cells import Cells, Counts, Free, less
from compiler.place.fit import Demand, Effort, Option, Reserve, fit, pinnings, transport

Cost = tuple[int, ...]


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


@dataclass(frozen=True, slots=True)
class _Item:
    """A free core as the search sees it."""

    weights: Cost
    core: int
    cell: int
    cluster: int


_Found = tuple[Cost, tuple[int, ...], Counts]


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
    effort = Effort(limit)
    alone = _Search(cells, free, demand.cores, columns, rest=None, effort=effort)
    for option in demand.options:
        alone.run(option)
    bound = alone.bound
    if alone.best is not None:
        cost, _, counts = alone.best
        after = fit(cells, less(free, counts), rest, Effort(limit))
        if after is not None:
            return Choice(counts, cost, bound if effort.spent else None, after)
    start = fallback[0]
    best: _Found = (_cost(cells, start, columns), cells.ids(free, start), start)
    after = tuple(fallback[1:])
    effort = Effort(limit)
    amounts = [later.cores for later in rest]
    for pinned in pinnings(cells, free, rest, effort, mirror=False):
        joint = _Search(cells, free, demand.cores, columns, rest=(pinned, amounts), effort=effort)
        joint.best = best
        for option in demand.options:
            joint.run(option)
        left = transport(less(free, joint.best[2]), amounts, pinned)
        if joint.best < best and left is not None:
            best, after = joint.best, left
    gap = min(bound, best[0]) if effort.spent and bound is not None else None
    return Choice(best[2], best[0], gap, after)


class _Search:
    """Branch and bound over clusters, for one way to pin the later demands."""

    def __init__(
        self,
        cells: Cells,
        free: Free,
        cores: int,
        columns: Sequence[Column],
        *,
        rest: tuple[Sequence[Option], Sequence[int]] | None,
        effort: Effort,
    ) -> None:
        self.best: _Found | None = None
        self.bound: Cost | None = None
        self._cells, self._free, self._cores = cells, free, cores
        self._columns, self._rest, self._effort = columns, rest, effort
        self._reserve = None if rest is None else Reserve.of(free, rest[1], rest[0])
        places = sorted(
            {_cluster(cells, cell) for cell in range(len(cells.cells))}, key=_unknown_last
        )
        self._clusters = places
        self._cluster_of = [places.index(_cluster(cells, c)) for c in range(len(cells.cells))]

    def run(self, option: Option) -> None:
        """Improve :attr:`best` by sets within ``option``."""
        items = sorted(
            (
                _Item(self._weights(cell), core, cell, self._cluster_of[cell])
                for cell in option
                for core in self._cells.available(cell, self._free)
            ),
            key=lambda item: (item.weights, item.core),
        )
        clusters = frozenset(item.cluster for item in items)
        self._later = _twins(items, self._cells, self._rest)
        root = self._bound(items, frozenset(), clusters)
        if root is not None:
            self.bound = root if self.bound is None else min(self.bound, root)
        self._descend(items, frozenset(), clusters)

    def _weights(self, cell: int) -> Cost:
        return tuple(column[cell] for column in self._columns if not isinstance(column, str))

    def _descend(self, items: Sequence[_Item], used: frozenset[int], open_: frozenset[int]) -> None:
        if not self._effort.step():
            return
        taken = self._take(items)
        if taken is None:
            return
        floor = self._floor(items, taken, used, open_)
        ids = tuple(sorted(item.core for item in taken))
        if self.best is not None and (floor, ids) >= self.best[:2]:
            return
        counts = [0] * len(self._free)
        for item in taken:
            counts[item.cell] += 1
        found = (_cost(self._cells, counts, self._columns), ids, tuple(counts))
        if self.best is None or found < self.best:
            self.best = found
        undecided = open_ - used
        if found[0] <= floor or not undecided:
            return
        share = dict.fromkeys(sorted(undecided), 0)
        for item in taken:
            if item.cluster in share:
                share[item.cluster] += 1
        branch = max(share, key=lambda cluster: (share[cluster], -cluster))
        self._descend(items, used | {branch}, open_)
        without = open_ - {branch} - (self._later[branch] - used)
        self._descend([item for item in items if item.cluster in without], used, without)

    def _take(self, items: Sequence[_Item]) -> Sequence[_Item] | None:
        """Return the cheapest cores that leave room for the rest, or None."""
        if len(items) < self._cores:
            return None
        if self._reserve is None:
            return items[: self._cores]
        reserve = self._reserve.copy()
        taken: list[_Item] = []
        for item in items:
            if reserve.take(item.cell):
                taken.append(item)
                if len(taken) == self._cores:
                    return taken
        return None

    def _bound(
        self, items: Sequence[_Item], used: frozenset[int], open_: frozenset[int]
    ) -> Cost | None:
        if len(items) < self._cores:
            return None
        return self._floor(items, items[: self._cores], used, open_)

    def _floor(
        self,
        items: Sequence[_Item],
        taken: Sequence[_Item],
        used: frozenset[int],
        open_: frozenset[int],
    ) -> Cost:
        """Return what no set of this branch costs less than."""
        sums = iter([sum(parts) for parts in zip(*(item.weights for item in taken), strict=True)])
        room = dict.fromkeys(sorted(open_), 0)
        for item in items:
            room[item.cluster] += 1
        return tuple(
            self._fewest(part, room, used) - 1 if isinstance(part, str) else next(sums)
            for part in self._columns
        )

    def _fewest(self, part: str, room: dict[int, int], used: frozenset[int]) -> int:
        """Return the fewest caches or nodes that include the used ones and hold the lane."""
        side = 0 if part == "llc" else 1
        have: set[int | None] = {self._clusters[cluster][side] for cluster in used}
        amounts: dict[int | None, int] = {}
        for cluster, amount in room.items():
            place = self._clusters[cluster][side]
            amounts[place] = amounts.get(place, 0) + amount
        missing = self._cores - sum(amounts[place] for place in have)
        number = len(have)
        for amount in sorted((n for p, n in amounts.items() if p not in have), reverse=True):
            if missing <= 0:
                break
            missing -= amount
            number += 1
        return number


def _cluster(cells: Cells, cell: int) -> tuple[int | None, int | None]:
    traits = cells.cells[cell].traits
    return (traits.llc, traits.numa)


def _unknown_last(cluster: tuple[int | None, int | None]) -> tuple[int, ...]:
    return tuple(part for side in cluster for part in (side is None, side or 0))


def _cost(cells: Cells, counts: Sequence[int], columns: Sequence[Column]) -> Cost:
    used = [cell for cell, count in enumerate(counts) if count]
    llcs = {cells.cells[cell].traits.llc for cell in used}
    numas = {cells.cells[cell].traits.numa for cell in used}
    sizes = {"llc": len(llcs) - 1, "numa": len(numas) - 1}
    return tuple(
        sizes[column]
        if isinstance(column, str)
        else sum(column[cell] * count for cell, count in enumerate(counts))
        for column in columns
    )


def _twins(
    items: Sequence[_Item],
    cells: Cells,
    rest: tuple[Sequence[Option], Sequence[int]] | None,
) -> dict[int, frozenset[int]]:
    """Return, per cluster, the clusters that are never better than it.

    Two clusters of one NUMA node that are a whole cache each, and hold equal numbers of cores of
    each cost that later demands treat alike, can be exchanged in any set.  Where one has the
    lower id core by core, a set that does without it needs the other not either.
    """
    rows: dict[int, list[tuple[object, int]]] = {}
    for item in items:
        pinned = tuple(item.cell in option for option in (rest[0] if rest else ()))
        rows.setdefault(item.cluster, []).append(((item.weights, pinned), item.core))
    where = {item.cluster: _cluster(cells, item.cell) for item in items}
    caches = [llc for llc, _ in where.values()]
    later: dict[int, frozenset[int]] = {}
    for one, mine in rows.items():
        alike = []
        for other, theirs in rows.items():
            if one == other or where[one][1] != where[other][1]:
                continue
            if caches.count(where[one][0]) > 1 or caches.count(where[other][0]) > 1:
                continue
            if len(mine) == len(theirs) and all(
                a[0] == b[0] and a[1] < b[1] for a, b in zip(mine, theirs, strict=True)
            ):
                alike.append(other)
        later[one] = frozenset(alike)
    return later
