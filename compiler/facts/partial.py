"""What one source says of one node: every reader's result, and what the merge starts from.

A source knows a part of a machine.  What it does not say is None (unknown), which is not the same
as empty (known to be none).  Ids of caches are left to the merge: every tool numbers them in its
own way, and only the sets of CPUs are the machine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from compiler.cpuset import CpuSet
from compiler.model.facts import CoreKind, Kernel, Kubelet, Overrides, Virtualization

LSCPU: Final = "lscpu -p=cpu,online,core,socket,node,cache"
"""The recording of CPUs that says most; messages propose it."""

DeviceType = Literal["gpu", "nic", "other"]
Confidence = Literal["measured", "inferred", "suspect", "unknown"]

READERS: Final = (
    "sysfs",
    "kfd",
    "nvml",
    "nvidia-smi -q",
    "rocm-smi",
    "nccl",
    "hwloc",
    "lscpu",
    "sbc-bench",
    "cadvisor",
    "dra",
    "nvidia-smi topo",
    "nrt",
    "kubelet",
    "node",
    "labels",
    "document",
)
"""Sources, most trusted first: where two disagree the earlier one wins.

The kernel's own files come first, tools that ask a driver next, descriptions of the machine by
others then, and what only counts or names things last.  Facts that a NodeFacts document holds
rank as the readers that its ``sources`` name, and as ``document`` where none is named.
"""


class ReadError(Exception):
    """A source that cannot be used.

    Attributes:
        message: what is wrong, in the style of a finding: lower case, no final full stop.
        line: 1-based line in the file; None where the file as a whole is meant.
        help: what to do about it; may be empty.
    """

    def __init__(self, message: str, *, line: int | None = None, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.help = help


class UnknownFormatError(ReadError):
    """A text is of no format that is understood, or of two at once."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was odd in a source, and is not believed or not known because of it."""

    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class NumaPart:
    """A NUMA node; ``cpus`` None: unknown, empty: a node without CPUs.

    Attributes:
        distances: distance to other nodes by their id; empty: unknown.
        gpu_memory: whether a driver says that the node is the memory of a GPU.
    """

    id: int
    cpus: CpuSet | None = None
    memory_mib: int | None = None
    distances: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    gpu_memory: bool = False


@dataclass(frozen=True, slots=True)
class LlcPart:
    """A last-level cache, whatever its number: ``size_kib`` None is unknown."""

    cpus: CpuSet
    level: int
    size_kib: int | None = None


@dataclass(frozen=True, slots=True)
class KindPart:
    """A kind of core; see :class:`compiler.model.facts.KindRow`.

    ``evidence`` None: not said, as in a NodeFacts document that names kinds in ``cores`` only.
    """

    name: CoreKind
    cpus: CpuSet
    evidence: Literal["pmu", "midr", "cpukind", "figure"] | None
    model: str | None = None
    figure: str | None = None
    value: int | None = None


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A device as one source names it.

    The same device is recognised in two sources by ``bdf``, else ``uuid``, else a name in
    ``names`` (network devices), else ``index`` among the GPUs of one vendor.

    Attributes:
        bdf: canonical (:func:`compiler.facts.bdf.canonical_bdf`).
        vendor: PCI vendor id, four hexadecimal digits.
        index: the vendor's tool's number.
        parent_uuid: of a MIG instance: the uuid of its GPU.
        names: kernel names such as eth0 or mlx5_0.
        numa: NUMA nodes the source puts it on; empty: unknown.  Two or more: between them.
        memory_node: the NUMA node that is the GPU's own memory (GPU NUMA ID).
        cpus: CPUs that the source prints as near; None: none printed.
        confidence: how far ``cpus`` and ``numa`` are to be believed.
    """

    type: DeviceType
    bdf: str | None = None
    uuid: str | None = None
    index: int | None = None
    parent_uuid: str | None = None
    vendor: str | None = None
    model: str | None = None
    names: tuple[str, ...] = ()
    pcie_root: str | None = None
    numa: tuple[int, ...] = ()
    memory_node: int | None = None
    cpus: CpuSet | None = None
    confidence: Confidence = "measured"


@dataclass(frozen=True, slots=True)
class LinkPart:
    """How two devices of this partial reach each other: positions in ``devices``, and the kind."""

    a: int
    b: int
    kind: str


@dataclass(frozen=True)
class Partial:
    """What one source says of one node; None everywhere: not said.

    Attributes:
        reader: one of :data:`READERS`.
        file: how messages name the source: the file as the user gave it, or a command.
        node: the node's name.
        labels: node labels.
        arch: as ``uname -m`` prints it.
        cpu_count: how many CPUs the node has, where no list is given.
        online, possible, present, isolated, nohz_full, allowed: CPU lists.
        cores: sibling sets, disjoint.
        packages, dies, clusters: (id, CPUs); ids of dies and clusters may repeat.  Packages may be
            empty: the kernel was asked and does not know them.
        llcs: last-level caches.
        numa: NUMA nodes.
        kinds: kinds of core, fastest first; empty: all alike.
        capacities: the kernel's ``cpu_capacity`` by CPU.
        devices: devices, in the order of the source.
        links: between ``devices``.
        kernel, kubelet, virtualization: as in the model; unknown parts None.
        notes: what was odd.
        merged: whether it is from a NodeFacts document: what it says of localities was concluded
            from all sources of then, and its notes name their sources.
        overrides: what the operator wrote into such a document; None: nothing.
        overridden: the PCI address, else the UUID, of each device that they name, by its id there.
    """

    reader: str
    file: str
    node: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    arch: str | None = None
    cpu_count: int | None = None
    online: CpuSet | None = None
    possible: CpuSet | None = None
    present: CpuSet | None = None
    isolated: CpuSet | None = None
    nohz_full: CpuSet | None = None
    allowed: CpuSet | None = None
    cores: tuple[CpuSet, ...] | None = None
    packages: tuple[tuple[int, CpuSet], ...] | None = None
    dies: tuple[tuple[int, CpuSet], ...] | None = None
    clusters: tuple[tuple[int, CpuSet], ...] | None = None
    llcs: tuple[LlcPart, ...] | None = None
    numa: tuple[NumaPart, ...] | None = None
    kinds: tuple[KindPart, ...] | None = None
    capacities: Mapping[int, int] | None = None
    devices: tuple[DevicePart, ...] | None = None
    links: tuple[LinkPart, ...] = ()
    kernel: Kernel | None = None
    kubelet: Kubelet | None = None
    virtualization: Virtualization | None = None
    notes: tuple[Note, ...] = ()
    merged: bool = False
    overrides: Overrides | None = None
    overridden: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
