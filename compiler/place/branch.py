"""Branches of the search for one lane's cores, and how one is cut in two.

Each cut decides one thing: every set uses this NUMA node, cluster or cell, or none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.place.bits import ones
from compiler.place.ground import Ground


@dataclass(frozen=True, slots=True)
class Branch:
    """The sets of some cores that use certain nodes, clusters and cells; all are bits."""

    cores: int
    """Cores that a set may take."""
    nodes: int = 0
    clusters: int = 0
    cells: int = 0
    """A set that uses a cell takes its first core."""

    def first(self, ground: Ground) -> int | None:
        """Return the cores that every set takes; None where a cell has none."""
        found = 0
        for cell, cores in enumerate(ground.cells):
            if self.cells >> cell & 1:
                mine = cores & self.cores
                if not mine:
                    return None
                found |= 1 << mine.bit_length() - 1
        return found


Halves = tuple[Branch, ...]
"""A branch cut in two; nothing where there is nothing left to decide."""


def to_use_fewer(branch: Branch, taken: int, ground: Ground, twins: Sequence[int]) -> Halves:
    """Cut at the cluster of which most cores were taken."""
    cluster = _largest_share(ground.clusters, branch.clusters, branch.cores, taken)
    return () if cluster is None else _at_cluster(branch, cluster, ground, twins)


def to_reach_more(
    branch: Branch, taken: int, ground: Ground, twins: Sequence[int], payable: int
) -> Halves:
    """Cut at what is near most devices that ``taken`` does not reach, among ``payable`` cores.

    Nodes are decided first, then clusters, then cells.  Where no undecided node (cluster) is near
    a missed device, those that the set was taken from stand in the way, and are decided.
    """
    missed = ground.devices & ~ground.near(taken)
    near = [(group.value[0] & missed, group.cores & payable) for group in ground.nears]
    near = [(devices, cores) for devices, cores in near if devices and cores]
    for places, decided in ((ground.nodes, branch.nodes), (ground.clusters, branch.clusters)):
        place = _most_gained(places, decided, near)
        if place is None:
            place = _largest_share(places, decided, branch.cores, taken)
        if place is not None and places is ground.nodes:
            return _at_node(branch, place, ground)
        if place is not None:
            return _at_cluster(branch, place, ground, twins)
    cell = _most_gained(ground.cells, branch.cells, near)
    return () if cell is None else _at_cell(branch, cell, ground)


def _most_gained(
    places: Sequence[int], decided: int, near: Sequence[tuple[int, int]]
) -> int | None:
    best, most = None, 0
    for place, mine in enumerate(places):
        if decided >> place & 1:
            continue
        gained = 0
        for devices, cores in near:
            if cores & mine:
                gained |= devices
        if (number := gained.bit_count()) > most:
            best, most = place, number
    return best


def _largest_share(places: Sequence[int], decided: int, cores: int, taken: int) -> int | None:
    """Return the undecided place of which most cores were taken; None: all are decided."""
    best, most = None, -1
    for place, mine in enumerate(places):
        if not decided >> place & 1 and mine & cores:
            share = (mine & taken).bit_count()
            if share > most:
                best, most = place, share
    return best


def _at_node(branch: Branch, node: int, ground: Ground) -> Halves:
    return (
        replace(branch, nodes=branch.nodes | 1 << node),
        replace(branch, cores=branch.cores & ~ground.nodes[node]),
    )


def _at_cluster(branch: Branch, cluster: int, ground: Ground, twins: Sequence[int]) -> Halves:
    node = ground.node_of[cluster]
    used = replace(branch, nodes=branch.nodes | 1 << node, clusters=branch.clusters | 1 << cluster)
    if twins[cluster] & branch.clusters:  # who uses one that is never better uses this one too
        return (used,)
    rest = branch.cores & ~ground.clusters[cluster]
    for other in ones(twins[cluster]):
        rest &= ~ground.clusters[other]
    return used, replace(branch, cores=rest)


def _at_cell(branch: Branch, cell: int, ground: Ground) -> Halves:
    """Cut at a cell of a cluster that is used."""
    return (
        replace(branch, cells=branch.cells | 1 << cell),
        replace(branch, cores=branch.cores & ~ground.cells[cell]),
    )
