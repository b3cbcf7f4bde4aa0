"""What a picture of one machine consists of: boxes in boxes, cores in the innermost ones.

Data only; what is drawn where is the renderers'.  Texts may hold any character.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from compiler.cpuset import CpuSet
from compiler.model.facts import CoreKind
from compiler.topology import Confidence, Scope

Level = Literal["package", "die", "numa", "llc", "machine"]
"""What a box is.  ``machine``: cores of which none of the others is known."""

Mark = Literal["i", "n", "x", "k"]
"""``i`` isolated, ``n`` nohz_full, ``x`` not allowed, ``k`` the kubelet's."""

Role = Literal["lane", "housekeeping", "leftovers"]
"""What kind of owner CPUs have; ``leftovers`` are those in no lane and not housekeeping."""


@dataclass(frozen=True, slots=True)
class MachineLane:
    """CPUs that have an owner, for a picture that shows whose a CPU is."""

    name: str
    cpus: CpuSet
    detail: str = ""
    """One line for the legend, such as the tier."""
    role: Role = "lane"
    family: str | None = None
    """Name of the family it is a member of."""


@dataclass(frozen=True, slots=True)
class LaneKey:
    """A lane as it is drawn: ``letter`` stands for it beside its cores."""

    letter: str
    lane: MachineLane


@dataclass(frozen=True, slots=True)
class Pool:
    """CPUs on which threads may run that own none of them."""

    name: str
    """Whose: names of units, or what they are."""
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class CoreRow:
    """Cores of one box that are alike.

    Attributes:
        cores: the online siblings of each core, by lowest CPU; all have equally many.
        marks: what applies to the n-th CPU of every core, n from 0.
        lanes: letters of the lanes that hold the n-th CPU of every core.
        capacity: the kernel's ``cpu_capacity``, only where the cores of the box differ in it.
    """

    kind: CoreKind
    cores: tuple[CpuSet, ...]
    marks: tuple[tuple[Mark, ...], ...]
    lanes: tuple[tuple[str, ...], ...]
    capacity: int | None = None

    @property
    def smt(self) -> int:
        """How many online CPUs each core has."""
        return len(self.cores[0])


@dataclass(frozen=True, slots=True)
class DeviceMark:
    """A device.

    Attributes:
        near: CPUs near it, online ones; None: unknown, empty: none.
        numa: the NUMA node it is on.
        instances: how many parts of it (MIG) the facts list; they are not drawn themselves.
    """

    id: str
    type: Literal["gpu", "nic", "other"]
    bdf: str | None
    model: str | None
    names: tuple[str, ...]
    near: CpuSet | None
    numa: int | None
    scope: Scope
    confidence: Confidence
    instances: int = 0


@dataclass(frozen=True, slots=True)
class Box:
    """A package, die, NUMA node or last-level cache, or several of one core each.

    Attributes:
        ids: their numbers.  Several: the box stands for that many, the n-th holding the n-th of
            its cores.  Empty: of these cores the package (die, node, cache) is not known.
        cpus: online CPUs here; not all of the thing's where it reaches into other boxes.
        part: whether it does.
        boxes: what is inside; then ``rows`` is empty.
        rows: the cores, where nothing further is inside.
        devices: what is near exactly these CPUs, or near some of them and of no smaller box.
        memory_mib, cache_level, size_kib: of a NUMA node and of a cache; None: unknown.
    """

    level: Level
    ids: tuple[int, ...]
    cpus: CpuSet
    part: bool = False
    boxes: tuple[Box, ...] = ()
    rows: tuple[CoreRow, ...] = ()
    devices: tuple[DeviceMark, ...] = ()
    memory_mib: int | None = None
    cache_level: int | None = None
    size_kib: int | None = None

    def walk(self) -> Iterator[Box]:
        """Yield this box and all inside it, outer ones first."""
        yield self
        for box in self.boxes:
            yield from box.walk()


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """NUMA nodes without online CPUs that are alike."""

    ids: tuple[int, ...]
    role: str
    memory_mib: int | None
    """Of each."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A picture of one machine.

    Attributes:
        name: the node's.
        levels: how boxes are nested, outermost first: levels that are wholly unknown are left
            out, and a level with more parts is further inside.
        boxes: the outermost ones.
        devices: devices that are near CPUs of several outermost boxes.
        unplaced: devices of which it is not known which CPUs are near, or that none are.
        memory: NUMA nodes without CPUs.
        offline: present CPUs that are not online; None: unknown.
        facts: a word and a text each: the kernel, its cgroups, the kubelet and the like.
        warnings: those of the facts.
        pools: of a planned machine, where threads run that are in no lane.
        notes: of a planned machine, what it could not give.
    """

    name: str
    arch: str | None
    online: CpuSet
    levels: tuple[Level, ...]
    boxes: tuple[Box, ...]
    devices: tuple[DeviceMark, ...]
    unplaced: tuple[DeviceMark, ...]
    memory: tuple[MemoryNodes, ...]
    offline: CpuSet | None
    isolated: CpuSet
    nohz_full: CpuSet
    not_allowed: CpuSet
    kubelet: CpuSet
    lanes: tuple[LaneKey, ...]
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    pools: tuple[Pool, ...] = ()
    notes: tuple[str, ...] = ()

    def all_boxes(self) -> Iterator[Box]:
        """Yield every box, outer ones first."""
        for box in self.boxes:
            yield from box.walk()

    def rows(self) -> Iterator[CoreRow]:
        """Yield every row of cores."""
        for box in self.all_boxes():
            yield from box.rows
