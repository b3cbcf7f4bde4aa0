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
    node_of_llc: tuple[int | None, ...]
    """Per cache, the place of its NUMA node in ``nodes``; None: it is in several."""
    llcs: tuple[int, ...]
    nodes: tuple[int, ...]
    of_node: tuple[tuple[int, ...], ...]
    """Per NUMA node, its clusters that have free cores."""
    most_clusters: int
    """The most of them in one node."""
    alike: tuple[int, ...]
    """Per cell, a number that is equal for cells of equal weights."""

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
    kinds: dict[tuple[int, ...], int] = {}
    alike: list[int] = []
    for cell, cores in enumerate(masks):
        weights = tuple([column[cell] for column in sums])
        devices = 0 if reach is None else reach.near[cell]
        classes[weights] = classes.get(weights, 0) | cores
        nears[devices] = nears.get(devices, 0) | cores
        alike.append(kinds.setdefault(weights, len(kinds)))
    clusters = [0] * len(cells.clusters)
    for cell, cluster in enumerate(cells.cluster_of):
        clusters[cluster] |= masks[cell]
    # Caches and nodes go by the number of the first cluster in them.
    llcs = list(dict.fromkeys(llc for llc, _ in cells.clusters))
    nodes = list(dict.fromkeys(node for _, node in cells.clusters))
    llc_of = tuple([llcs.index(llc) for llc, _ in cells.clusters])
    node_of = tuple([nodes.index(node) for _, node in cells.clusters])
    around: list[set[int]] = [set() for _ in llcs]
    for llc, node in zip(llc_of, node_of, strict=True):
        around[llc].add(node)
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
        node_of_llc=tuple([min(found) if len(found) == 1 else None for found in around]),
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


def twins_of(ground: Ground, cores: int, later: Sequence[tuple[Option, ...]]) -> tuple[int, ...]:
    """Return, per cluster, the clusters that are never better than it, as bits.

    Two clusters of one NUMA node that are a whole cache each can be exchanged in any set where
    their free cores are equal in number and kind: cores in question of equal weights, near equally
    many devices, and equal to each of the later demands (``later``: the options of each).  A device
    that only one of two such clusters is near, or an option that lies inside it, is the same as one
    of the other's.  Where one cluster has the lower id core by core, a set that does without it
    needs the other not either.
    """
    twins = [0] * len(ground.clusters)
    seen: dict[object, list[tuple[int, list[list[int]]]]] = {}
    wanted = [
        (number, place, ground.within(option))
        for number, options in enumerate(dict.fromkeys(later))
        for place, option in enumerate(options)
    ]
    for cluster, every in enumerate(ground.clusters):
        if not every & cores or ground.llc_of.count(ground.llc_of[cluster]) > 1:
            continue
        rows = _kinds(ground, every, cores, [one for one in wanted if one[2] & every])
        key = (ground.node_of[cluster], tuple([(kind, len(ids)) for kind, ids in rows]))
        lists = [ids for kind, ids in rows if kind[0]]
        for other, theirs in seen.setdefault(key, []):
            if _lower(lists, theirs):
                twins[cluster] |= 1 << other
            elif _lower(theirs, lists):
                twins[other] |= 1 << cluster
        seen[key].append((cluster, lists))
    return tuple(twins)


def _kinds(
    ground: Ground, cluster: int, cores: int, later: Sequence[tuple[int, int, int]]
) -> list[tuple[tuple[object, ...], list[int]]]:
    """Return the cores of a cluster, those with the lowest ids first, by what sets them apart.

    ``cores`` are those in question; ``later`` the options of later demands, each as the number of
    the demand, its own, and its cores.
    """
    own: dict[int, int] = {}
    options: list[tuple[tuple[int, int], int]] = []
    for number, place, option in later:
        if option & ~cluster:
            options.append(((number, place), option))
        elif option:
            own[number] = own.get(number, 0) - 1
            options.append(((number, own[number]), option))
    others = ground.near(cores & ~cluster)
    parts: list[tuple[tuple[object, ...], int, int]] = []
    for cell, weights in zip(ground.cells, ground.alike, strict=True):
        if mine := cell & cluster & cores:
            devices = ground.near(mine)
            demands = tuple([which for which, option in options if option & mine])
            parts.append(((1, demands, weights, devices & others), mine, devices & ~others))
        if idle := cell & cluster & ~cores:
            demands = tuple([which for which, option in options if option & idle])
            parts.append(((0, demands), idle, 0))
    private = _numbered(parts)
    rows: dict[tuple[object, ...], int] = {}
    for kind, mine, devices in parts:
        key = (*kind, sum(1 << place for device, place in private.items() if devices & device))
        rows[key] = rows.get(key, 0) | mine
    return sorted([(kind, list(ones(mine))) for kind, mine in rows.items()])


def _numbered(parts: Sequence[tuple[tuple[object, ...], int, int]]) -> dict[int, int]:
    """Number the devices (bits) that only these cores are near, by the cores that are."""
    every = 0
    for _, _, devices in parts:
        every |= devices
    found: list[tuple[list[tuple[object, ...]], int]] = []
    for number in ones(every):
        near = [(*kind, mine.bit_count()) for kind, mine, devices in parts if devices >> number & 1]
        found.append((sorted(near), 1 << number))
    return {device: place for place, (_, device) in enumerate(sorted(found))}


def _lower(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> bool:
    """Tell whether each core has a lower id (a higher bit) than its counterpart."""
    return all(
        a > b
        for mine, theirs in zip(one, other, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )
