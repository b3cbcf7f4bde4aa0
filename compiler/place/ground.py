"""The free cores of a machine as one lane's search sees them: sets of cores as bits.

A core's bit is the higher, the lower its id; so of two sets of equal size the one with the lower
ids is the larger number, and "the lowest ids" of a set are its highest bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.place.aims import Column, Reach
from compiler.place.bits import ones
from compiler.place.cells import Cells, Counts, Free
from compiler.place.reserve import Option

Cost = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Cores that a property has in common."""

    value: tuple[int, ...]
    cores: int


@dataclass(frozen=True, slots=True)
class Ground:
    """Free cores by everything that can matter; all sets of cores are bits."""

    columns: tuple[Column, ...]
    cells: tuple[int, ...]
    """The free cores of each cell."""
    classes: tuple[Group, ...]
    """Cores by their weights in the columns that are sums, cheapest first."""
    nears: tuple[Group, ...]
    """Cores by the devices they are near."""
    devices: int
    """Devices that the set should be near; 0 where no column asks."""
    clusters: tuple[int, ...]
    """Cores by cluster: the same cache and NUMA node."""
    llc_of: tuple[int, ...]
    """Per cluster, the place of its cache in ``llcs``."""
    node_of: tuple[int, ...]
    """Per cluster, the place of its NUMA node in ``nodes``."""
    llcs: tuple[int, ...]
    nodes: tuple[int, ...]
    of_node: tuple[tuple[int, ...], ...]
    """Per NUMA node, its clusters that have free cores."""
    most_clusters: int
    """The most of them in one node."""
    alike: tuple[int, ...]
    """Per cell, a number that is equal for cells of equal weights near the same devices."""

    def within(self, option: Iterable[int]) -> int:
        """Return the free cores of some cells."""
        found = 0
        for cell in option:
            found |= self.cells[cell]
        return found

    def counts(self, cores: int) -> Counts:
        """Return a set of cores as counts per cell."""
        return tuple((cores & cell).bit_count() for cell in self.cells)

    def near(self, cores: int) -> int:
        """Return the devices that some cores are near."""
        found = 0
        for group in self.nears:
            if group.cores & cores:
                found |= group.value[0]
        return found

    def cost(self, cores: int) -> Cost:
        """Return what a set costs."""
        amounts = [(cores & one.cores).bit_count() for one in self.classes]
        cost: list[int] = []
        sums = 0
        for column in self.columns:
            if isinstance(column, tuple):
                cost.append(
                    sum(one.value[sums] * n for one, n in zip(self.classes, amounts, strict=True))
                )
                sums += 1
            elif isinstance(column, Reach):
                cost.append((self.devices & ~self.near(cores)).bit_count())
            else:
                places = self.llcs if column == "llc" else self.nodes
                cost.append(sum([1 for place in places if place & cores]) - 1)
        return tuple(cost)


def ground_of(cells: Cells, free: Free, columns: Sequence[Column]) -> Ground:
    """Look at the free cores with the columns of a lane's cost."""
    masks = tuple(cells.masks[cell][count] for cell, count in enumerate(free))
    sums = [column for column in columns if isinstance(column, tuple)]
    reach = next((column for column in columns if isinstance(column, Reach)), None)
    classes: dict[tuple[int, ...], int] = {}
    nears: dict[int, int] = {}
    kinds: dict[tuple[tuple[int, ...], int], int] = {}
    alike: list[int] = []
    for cell, cores in enumerate(masks):
        weights = tuple([column[cell] for column in sums])
        devices = 0 if reach is None else reach.near[cell]
        classes[weights] = classes.get(weights, 0) | cores
        nears[devices] = nears.get(devices, 0) | cores
        alike.append(kinds.setdefault((weights, devices), len(kinds)))
    clusters = [0] * len(cells.clusters)
    for cell, cluster in enumerate(cells.cluster_of):
        clusters[cluster] |= masks[cell]
    # Caches and nodes go by the number of the first cluster in them.
    llcs = list(dict.fromkeys(llc for llc, _ in cells.clusters))
    nodes = list(dict.fromkeys(node for _, node in cells.clusters))
    llc_of = tuple([llcs.index(llc) for llc, _ in cells.clusters])
    node_of = tuple([nodes.index(node) for _, node in cells.clusters])
    of_node: list[tuple[int, ...]] = [() for _ in nodes]
    for cores, node in zip(clusters, node_of, strict=True):
        if cores:
            of_node[node] = (*of_node[node], cores)
    return Ground(
        columns=tuple(columns),
        cells=masks,
        classes=tuple(Group(value, classes[value]) for value in sorted(classes)),
        nears=tuple(Group((devices,), cores) for devices, cores in nears.items() if devices),
        devices=0 if reach is None else reach.devices,
        clusters=tuple(clusters),
        llc_of=llc_of,
        node_of=node_of,
        llcs=_joined(clusters, llc_of, len(llcs)),
        nodes=_joined(clusters, node_of, len(nodes)),
        of_node=tuple(of_node),
        most_clusters=max(map(len, of_node), default=0),
        alike=tuple(alike),
    )


def _joined(clusters: Sequence[int], where: Sequence[int], places: int) -> tuple[int, ...]:
    found = [0] * places
    for cluster, place in enumerate(where):
        found[place] |= clusters[cluster]
    return tuple(found)


def twins_of(ground: Ground, cores: int, pinned: Sequence[Option]) -> tuple[int, ...]:
    """Return, per cluster, the clusters that are never better than it, as bits.

    Two clusters of one NUMA node that are a whole cache each, and hold equal numbers of the cores
    in question of each cost, near the same devices, that later demands (``pinned``) treat alike,
    can be exchanged in any set.  Where one has the lower id core by core, a set that does without
    it needs the other not either.
    """
    twins = [0] * len(ground.clusters)
    seen: dict[tuple[object, ...], list[tuple[int, list[list[int]]]]] = {}
    kinds = [
        (alike, *(cell in option for option in pinned)) for cell, alike in enumerate(ground.alike)
    ]
    for cluster, every in enumerate(ground.clusters):
        if not every & cores or ground.llc_of.count(ground.llc_of[cluster]) > 1:
            continue
        rows: dict[tuple[object, ...], int] = {}
        for cell, mine in enumerate(ground.cells):
            if mine & every & cores:
                rows[kinds[cell]] = rows.get(kinds[cell], 0) | mine
        parts = sorted(rows.items(), key=repr)
        key = (ground.node_of[cluster], *((kind, mine.bit_count()) for kind, mine in parts))
        ids = [list(ones(mine)) for _, mine in parts]
        for other, theirs in seen.setdefault(key, []):
            if _lower(ids, theirs):
                twins[cluster] |= 1 << other
            elif _lower(theirs, ids):
                twins[other] |= 1 << cluster
        seen[key].append((cluster, ids))
    return tuple(twins)


def _lower(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> bool:
    """Tell whether each core has a lower id (a higher bit) than its counterpart."""
    return all(
        a > b
        for mine, theirs in zip(one, other, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )
