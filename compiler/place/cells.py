"""Cores grouped into cells: equal in everything that a cost or a requirement can see.

Which core of a cell is taken matters only for the last tie-break, lowest ids; so the search works
on counts per cell, and always takes a cell's cores from the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.model.facts import CoreKind
from compiler.topology import Core, Topology

Free = tuple[int, ...]
"""Cores still free, per cell.  What is taken is always the front of a cell."""
Counts = tuple[int, ...]
"""Cores of each cell, such as those of a choice."""

Place = tuple[int | None, int | None]
"""A cache and a NUMA node."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What makes cores of one cell equal."""

    numa: int | None
    llc: int | None
    kind: CoreKind
    isolated: bool
    split: bool
    mixed: bool
    near: tuple[str, ...]
    """Ids of the devices all its CPUs are local to."""
    width: int
    """CPUs that tierc may use."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Cores with equal traits, as places in ``topology.cores``, ascending."""

    traits: Traits
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Cells:
    """The usable cores of a machine by cell, ordered by first core."""

    topology: Topology
    cells: tuple[Cell, ...]

    @property
    def free(self) -> Free:
        """Everything free."""
        return tuple(len(cell.cores) for cell in self.cells)

    @property
    def effective(self) -> frozenset[int]:
        """Cells whose cores have CPUs in the effective set."""
        return self.where(lambda traits: not traits.isolated)

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """Per cell, a number that it shares with the cells that differ from it by cache alone."""
        numbers: dict[Traits, int] = {}
        bare = (replace(cell.traits, llc=None) for cell in self.cells)
        return tuple(numbers.setdefault(traits, len(numbers)) for traits in bare)

    @cached_property
    def of_cache(self) -> dict[int, tuple[int, ...]]:
        """The cells of each last-level cache that is known."""
        found: dict[int, tuple[int, ...]] = {}
        for number, cell in enumerate(self.cells):
            if cell.traits.llc is not None:
                found[cell.traits.llc] = (*found.get(cell.traits.llc, ()), number)
        return found

    def only_cache(self, option: frozenset[int]) -> int | None:
        """Return the cache that all cells of a set are in; None: no single one that is known."""
        caches = {self.cells[cell].traits.llc for cell in option}
        return next(iter(caches)) if len(caches) == 1 else None

    @cached_property
    def masks(self) -> tuple[tuple[int, ...], ...]:
        """Per cell, its last 0, 1, ... cores as bits: the lower the id, the higher the bit."""
        highest = len(self.topology.cores) - 1
        rows: list[tuple[int, ...]] = []
        for cell in self.cells:
            row = [0]
            for core in reversed(cell.cores):
                row.append(row[-1] | 1 << (highest - core))
            rows.append(tuple(row))
        return tuple(rows)

    @cached_property
    def clusters(self) -> tuple[Place, ...]:
        """Caches and NUMA nodes that have cores in common, unknown ones last."""
        found = {(cell.traits.llc, cell.traits.numa) for cell in self.cells}
        return tuple(sorted(found, key=_unknown_last))

    @cached_property
    def cluster_of(self) -> tuple[int, ...]:
        """Per cell, the place of its cache and NUMA node in :attr:`clusters`."""
        number = {place: i for i, place in enumerate(self.clusters)}
        return tuple(number[cell.traits.llc, cell.traits.numa] for cell in self.cells)

    def where(self, wanted: Callable[[Traits], bool]) -> frozenset[int]:
        """Return the cells whose traits satisfy ``wanted``."""
        return frozenset(i for i, cell in enumerate(self.cells) if wanted(cell.traits))

    def available(self, cell: int, free: Free) -> tuple[int, ...]:
        """Return the free cores of a cell, ascending."""
        cores = self.cells[cell].cores
        return cores[len(cores) - free[cell] :]

    def taken(self, free: Free, counts: Counts) -> tuple[Core, ...]:
        """Return the cores that ``counts`` takes from what is free."""
        return tuple(self.topology.cores[i] for i in self.ids(free, counts))

    def ids(self, free: Free, counts: Counts) -> tuple[int, ...]:
        """Return the places of the cores that ``counts`` takes, ascending."""
        return tuple(sorted(i for c, n in enumerate(counts) for i in self.available(c, free)[:n]))


def cells_of(topology: Topology) -> Cells:
    """Group the cores of a machine; cores without a usable CPU are in no cell."""
    groups: dict[Traits, list[int]] = {}
    for place, core in enumerate(topology.cores):
        if core.cpus:
            groups.setdefault(_traits(core, topology), []).append(place)
    cells = (Cell(traits, tuple(cores)) for traits, cores in groups.items())
    return Cells(topology, tuple(sorted(cells, key=lambda cell: cell.cores[0])))


def less(free: Free, counts: Counts) -> Free:
    """Return what is free after a choice was taken."""
    return tuple(f - n for f, n in zip(free, counts, strict=True))


def total(free: Free, cells: Iterable[int]) -> int:
    """Return the number of free cores in some cells."""
    return sum(free[cell] for cell in cells)


def _unknown_last(place: Place) -> tuple[int, ...]:
    return tuple(part for side in place for part in (side is None, side or 0))


def _traits(core: Core, topology: Topology) -> Traits:
    near = (d.id for d in topology.devices if d.cpus is not None and core.cpus <= d.cpus)
    return Traits(
        numa=core.numa,
        llc=core.llc,
        kind=core.kind,
        isolated=core.isolated,
        split=core.split,
        mixed=core.mixed,
        near=tuple(near),
        width=len(core.cpus),
    )
