"""The best set of cores for one lane, exactly.

The objective is a vector compared from the left, then the ids of the cores in ascending order.
Parts of the vector are sums over cores, the number of caches or NUMA nodes used, and last the
devices that no core of the set is near.  Once the set of *clusters* (cores with the same cache and
NUMA node) that may be used is fixed, only the sums and the devices are left, and without devices
the best set is the cheapest cores in order.  When lanes served later must still find room, the
sets that leave it are the independent sets of a matroid (the dual of the one the later demands
span), so taking the cheapest core that still fits is exact there too.

So the search branches on clusters: use this one, or do without.  A branch is given up when its
bound, the cheapest cores among all clusters still allowed with the fewest caches and nodes that
could hold them, is no better than the best set found.

Where the cheapest cores miss the bound by devices alone, the search branches on what is near more
of them: a NUMA node, then a cluster, then a cell.  A set that uses a cell takes its first core;
the cheapest others are a question for a matroid again (the contraction), so this is exact as well.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import islice

from compiler.place.aims import Column, Reach
from compiler.place.bound import Room, fewest, most_reached, rooms
from compiler.place.branch import (
    Branch,
    Item,
    Place,
    place_of,
    to_reach_more,
    to_use_fewer,
    twins_of,
)
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
    """Branch and bound, for one way to pin the later demands."""

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
        self._reach = next((part for part in columns if isinstance(part, Reach)), None)
        every = range(len(cells.cells))
        self._places = sorted({place_of(cells, cell) for cell in every}, key=_unknown_last)
        self._cluster_of = [self._places.index(place_of(cells, cell)) for cell in every]
        # Caches and nodes go by the number of the first cluster in them.
        llcs, numas = ([place[side] for place in self._places] for side in (0, 1))
        self._llc_of = [llcs.index(llc) for llc in llcs]
        self._node_of = [numas.index(numa) for numa in numas]

    def run(self, option: Option) -> None:
        """Improve :attr:`best` by sets within ``option``."""
        items = sorted(
            (
                self._item(cell, core)
                for cell in option
                for core in self._cells.available(cell, self._free)
            ),
            key=lambda item: (item.weights, item.core),
        )
        self._twins = twins_of(items, self._places.__getitem__, self._rest[0] if self._rest else ())
        root = Branch(items)
        if len(items) >= self._cores:
            bound = self._floor(root, items[: self._cores])
            self.bound = bound if self.bound is None else min(self.bound, bound)
        self._descend(root)

    def _item(self, cell: int, core: int) -> Item:
        cluster = self._cluster_of[cell]
        return Item(
            weights=tuple(part[cell] for part in self._columns if isinstance(part, tuple)),
            core=core,
            cell=cell,
            cluster=cluster,
            node=self._node_of[cluster],
            near=0 if self._reach is None else self._reach.near[cell],
        )

    def _descend(self, branch: Branch) -> None:
        if not self._effort.step():
            return
        taken = self._take(branch)
        if taken is None:
            return
        floor = self._floor(branch, taken)
        ids = tuple(sorted(item.core for item in taken))
        if self.best is not None and (floor, ids) >= self.best[:2]:
            return
        counts = [0] * len(self._free)
        for item in taken:
            counts[item.cell] += 1
        found = (_cost(self._cells, counts, self._columns), ids, tuple(counts))
        if self.best is None or found < self.best:
            self.best = found
        if found[0] <= floor:
            return
        if self._reach is not None and found[0][:-1] == floor[:-1]:
            halves = to_reach_more(branch, taken, self._reach.devices, self._twins)
        else:
            halves = to_use_fewer(branch, taken, self._twins)
        for half in halves:
            self._descend(half)

    def _take(self, branch: Branch) -> Sequence[Item] | None:
        """Return the cheapest cores that leave room for the rest, or None.

        Cores that every set takes come first, the others by cost.
        """
        if not len(branch.cells) <= self._cores <= len(branch.items) or not branch.possible:
            return None
        first = branch.first
        fixed = {item.core for item in first}
        others = (item for item in branch.items if item.core not in fixed)
        if self._reserve is None:
            return [*first, *islice(others, self._cores - len(first))]
        reserve = self._reserve.copy()
        if not all(reserve.take(item.cell) for item in first):
            return None
        fitting = (item for item in others if reserve.take(item.cell))
        taken = [*first, *islice(fitting, self._cores - len(first))]
        return taken if len(taken) == self._cores else None

    def _floor(self, branch: Branch, taken: Sequence[Item]) -> Cost:
        """Return what no set of this branch costs less than."""
        sums = iter([sum(parts) for parts in zip(*(item.weights for item in taken), strict=True)])
        llcs = {self._llc_of[cluster] for cluster in branch.clusters}
        have: dict[str, Set[int]] = {"llc": llcs, "numa": branch.nodes}
        number = {
            side: fewest(self._rooms(branch.items, side), have[side], self._cores)
            for side in have
            if side in self._columns
        }
        floor: list[int] = []
        for part in self._columns:
            if isinstance(part, str):
                floor.append(number[part] - 1)
            elif isinstance(part, tuple):
                floor.append(next(sums))
            else:
                # Devices decide last: what counts are sets that cost this much up to here.
                items = branch.payable(taken)
                reached = [part.near_any(item.cell for item in items).bit_count()]
                reached += [
                    most_reached(self._rooms(items, side), have[side], self._cores, n)
                    for side, n in number.items()
                ]
                floor.append(part.devices.bit_count() - min(reached))
        return tuple(floor)

    def _rooms(self, items: Sequence[Item], side: str) -> dict[int, Room]:
        if side == "numa":
            return rooms((item.node, item.near) for item in items)
        return rooms((self._llc_of[item.cluster], item.near) for item in items)


def _unknown_last(place: Place) -> tuple[int, ...]:
    return tuple(part for side in place for part in (side is None, side or 0))


def _cost(cells: Cells, counts: Sequence[int], columns: Sequence[Column]) -> Cost:
    used = [cell for cell, count in enumerate(counts) if count]
    sizes = {
        "llc": len({cells.cells[cell].traits.llc for cell in used}) - 1,
        "numa": len({cells.cells[cell].traits.numa for cell in used}) - 1,
    }
    cost: list[int] = []
    for column in columns:
        if isinstance(column, str):
            cost.append(sizes[column])
        elif isinstance(column, tuple):
            cost.append(sum(column[cell] * counts[cell] for cell in used))
        else:
            cost.append((column.devices & ~column.near_any(used)).bit_count())
    return tuple(cost)
