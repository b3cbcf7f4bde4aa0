"""Branches of the search for one lane's cores, and how one is cut in two.

Each cut decides one thing: every set uses this NUMA node, cluster or cell, or none does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compiler.place.cells import Cells
from compiler.place.fit import Option

Place = tuple[int | None, int | None]
"""Cache and NUMA node of a cluster."""


@dataclass(frozen=True, slots=True)
class Item:
    """A free core as the search sees it."""

    weights: tuple[int, ...]
    core: int
    cell: int
    cluster: int
    node: int
    near: int
    """Devices it is near, as bits."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The sets of some cores that use certain nodes, clusters and cells."""

    items: Sequence[Item]
    """Cores a set may take, cheapest first."""
    nodes: frozenset[int] = frozenset()
    clusters: frozenset[int] = frozenset()
    cells: frozenset[int] = frozenset()
    """A set that uses a cell takes its first core."""

    @property
    def first(self) -> list[Item]:
        """The cores that every set takes."""
        found: dict[int, Item] = {}
        if self.cells:
            for item in self.items:
                if item.cell in self.cells:
                    found.setdefault(item.cell, item)
        return list(found.values())

    @property
    def possible(self) -> bool:
        """Whether there is a core in each node and cluster that the sets use."""
        return self.clusters <= {i.cluster for i in self.items} and self.nodes <= {
            i.node for i in self.items
        }

    def payable(self, taken: Sequence[Item]) -> list[Item]:
        """Return the cores that can be in a set whose sums equal those of ``taken``.

        ``taken`` is a cheapest set: what every set takes, then the others by cost.  Cheapest
        bases of a matroid have equal lists of costs, so no such set has a dearer core.
        """
        first, others = taken[: len(self.cells)], taken[len(self.cells) :]
        if not others:
            return list(first)
        fixed = {item.core for item in first}
        dearest = others[-1].weights
        return [
            *first,
            *(i for i in self.items if i.weights <= dearest and i.core not in fixed),
        ]


Halves = tuple[Branch, ...]
"""A branch cut in two; nothing where there is nothing left to decide."""


def to_use_fewer(branch: Branch, taken: Sequence[Item], twins: dict[int, frozenset[int]]) -> Halves:
    """Cut at the cluster of which most cores were taken."""
    share = {item.cluster: 0 for item in branch.items if item.cluster not in branch.clusters}
    for item in taken:
        if item.cluster in share:
            share[item.cluster] += 1
    return _at_cluster(branch, _most(share), twins) if share else ()


def to_reach_more(
    branch: Branch, taken: Sequence[Item], devices: int, twins: dict[int, frozenset[int]]
) -> Halves:
    """Cut at what is near most devices that ``taken`` does not reach.

    Nodes are decided first, then clusters, then cells.  Where no undecided node (cluster) is near
    a missed device, those that the set was taken from stand in the way, and are decided.
    """
    missed = devices
    for item in taken:
        missed &= ~item.near
    items = branch.payable(taken)

    def found(place: Callable[[Item], int], decided: frozenset[int]) -> int | None:
        gains: dict[int, int] = {}
        for item in items:
            if item.near & missed and place(item) not in decided:
                gains[place(item)] = gains.get(place(item), 0) | (item.near & missed)
        return _most({key: bits.bit_count() for key, bits in gains.items()}) if gains else None

    def used(place: Callable[[Item], int], decided: frozenset[int]) -> int | None:
        share: dict[int, int] = {}
        for item in taken:
            if place(item) not in decided:
                share[place(item)] = share.get(place(item), 0) + 1
        return _most(share) if share else None

    for choice in (found, used):
        if (node := choice(lambda item: item.node, branch.nodes)) is not None:
            return _at_node(branch, node)
    for choice in (found, used):
        if (cluster := choice(lambda item: item.cluster, branch.clusters)) is not None:
            return _at_cluster(branch, cluster, twins)
    cell = found(lambda item: item.cell, branch.cells)
    return () if cell is None else _at_cell(branch, cell)


def twins_of(
    items: Sequence[Item], where: Callable[[int], Place], pinned: Sequence[Option]
) -> dict[int, frozenset[int]]:
    """Return, per cluster, the clusters that are never better than it.

    Two clusters of one NUMA node that are a whole cache each, and hold equal numbers of cores of
    each cost, near the same devices, that later demands (``pinned``) treat alike, can be exchanged
    in any set.  Where one has the lower id core by core, a set that does without it needs the
    other not either.
    """
    rows: dict[int, list[tuple[object, int]]] = {}
    for item in items:
        alike = (item.weights, item.near, tuple(item.cell in option for option in pinned))
        rows.setdefault(item.cluster, []).append((alike, item.core))
    caches = [where(cluster)[0] for cluster in rows]
    whole = {cluster for cluster in rows if caches.count(where(cluster)[0]) == 1}
    return {
        one: frozenset(
            other
            for other, theirs in rows.items()
            if one != other
            and {one, other} <= whole
            and where(one)[1] == where(other)[1]
            and len(mine) == len(theirs)
            and all(a[0] == b[0] and a[1] < b[1] for a, b in zip(mine, theirs, strict=True))
        )
        for one, mine in rows.items()
    }


def place_of(cells: Cells, cell: int) -> Place:
    """Return the cache and NUMA node of a cell."""
    traits = cells.cells[cell].traits
    return (traits.llc, traits.numa)


def _most(amounts: dict[int, int]) -> int:
    """Return the key of the largest amount, the lowest of several."""
    return max(amounts, key=lambda key: (amounts[key], -key))


def _at_node(branch: Branch, node: int) -> Halves:
    rest = [item for item in branch.items if item.node != node]
    return (replace(branch, nodes=branch.nodes | {node}), replace(branch, items=rest))


def _at_cluster(branch: Branch, cluster: int, twins: dict[int, frozenset[int]]) -> Halves:
    node = next(item.node for item in branch.items if item.cluster == cluster)
    gone = {cluster} | (twins[cluster] - branch.clusters)
    rest = [item for item in branch.items if item.cluster not in gone]
    return (
        replace(branch, nodes=branch.nodes | {node}, clusters=branch.clusters | {cluster}),
        replace(branch, items=rest),
    )


def _at_cell(branch: Branch, cell: int) -> Halves:
    """Cut at a cell of a cluster that is used."""
    rest = [item for item in branch.items if item.cell != cell]
    return (replace(branch, cells=branch.cells | {cell}), replace(branch, items=rest))
