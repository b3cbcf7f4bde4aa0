"""NUMA nodes of a topology that hwloc wrote, and the kernel's distances between them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.formats.hwloc_tree import Obj, Topology, cut, read_number
from compiler.facts.partial import Note, NumaPart, ReadError

GPU_MEMORY: Final = "GPUMemory"
MAX_NODES: Final = 1024
"""As many as Linux can have (CONFIG_NODES_SHIFT of 10)."""
_MEMORY: Final = ("HBM", "MCDRAM", "CXL", "NVM", "SPM")
"""How hwloc's subtypes begin of memory that is likely an extra node beside one with CPUs."""
_LATENCY_FROM_OS: Final = 1 | 4
"""``HWLOC_DISTANCES_KIND_FROM_OS`` and ``..._MEANS_LATENCY``: what 2.0 has instead of a name."""


def read_numa(
    topology: Topology, online: CpuSet | None, notes: list[Note]
) -> tuple[NumaPart, ...] | None:
    """Return NUMA nodes by number; None: unknown.

    From version 2 on a node stands beside the CPUs that are near, and one without CPUs has those
    of its parent.  A CPU belongs to one node only: the smallest that has it, then the lowest
    number, after those that hwloc says are special memory.

    Raises:
        ReadError: a node's number is not below :data:`MAX_NODES`.
    """
    nodes = [node for node in topology.of("NUMANode") if node.os_index is not None]
    if not nodes:
        return None
    for node in nodes:
        if node.os_index is not None and node.os_index >= MAX_NODES:
            raise ReadError(
                f"NUMA node {node.os_index} is outside 0-{MAX_NODES - 1}", line=node.element.line
            )
    sizes = [read_number(node.element, "local_memory") for node in nodes]
    if len(nodes) == 1 and sizes == [None] and topology.backends() == {"x86"}:
        notes.append(
            Note("hwloc had asked only the processor (backend x86), so NUMA nodes are unknown")
        )
        return None
    ids = [node.os_index for node in nodes]
    if len(set(ids)) < len(ids):
        notes.append(Note("two NUMA nodes have one number; NUMA nodes are not used"))
        return None
    owned = _owned(nodes, online, notes)
    distances = _distances(topology, nodes, notes)
    return tuple(
        NumaPart(
            id=number,
            cpus=owned[number],
            memory_mib=None if size is None else size >> 20,
            distances=distances.get(number, MappingProxyType({})),
            gpu_memory=node.element.get("subtype") == GPU_MEMORY,
        )
        for number, node, size in sorted(
            (node.os_index, node, size)
            for node, size in zip(nodes, sizes, strict=True)
            if node.os_index is not None
        )
    )


def _owned(nodes: list[Obj], online: CpuSet | None, notes: list[Note]) -> dict[int, CpuSet | None]:
    owned: dict[int, CpuSet | None] = {}
    rows: list[tuple[bool, int, int, CpuSet, Obj]] = []
    for node in nodes:
        assert node.os_index is not None
        subtype = node.element.get("subtype") or ""
        cpus = CpuSet() if subtype == GPU_MEMORY else cut(node.mask, online)
        if not cpus:
            owned[node.os_index] = cpus
        else:
            rows.append((subtype.startswith(_MEMORY), len(cpus), node.os_index, cpus, node))
    covered = CpuSet()
    for is_memory, _, number, cpus, node in sorted(rows, key=lambda row: row[:3]):
        if cpus.isdisjoint(covered):
            owned[number] = cpus
            covered |= cpus
        elif is_memory:
            owned[number] = CpuSet()
        else:
            owned[number] = None
            notes.append(
                Note(
                    f"NUMA node {number} is near CPUs of other nodes ({cpus & covered}); which "
                    "CPUs it has itself is unknown",
                    node.element.line,
                )
            )
    return owned


def _distances(
    topology: Topology, nodes: list[Obj], notes: list[Note]
) -> Mapping[int, Mapping[int, int]]:
    """Return the kernel's matrix by node; empty: none, or not believed."""
    ids = [node.os_index for node in nodes if node.os_index is not None]
    found = _matrix_of_version_1(topology, ids) if topology.version == 1 else _matrix(topology)
    if found is None:
        return {}
    order, values = found
    if sorted(order) != sorted(ids) or len(values) != len(ids) ** 2:
        notes.append(Note("the NUMA distances do not fit the NUMA nodes; not used"))
        return {}
    width = len(order)
    return {
        number: MappingProxyType(
            dict(sorted(zip(order, values[row * width : (row + 1) * width], strict=True)))
        )
        for row, number in enumerate(order)
    }


def _matrix(topology: Topology) -> tuple[list[int], list[int]] | None:
    for matrix in topology.root.all("distances2"):
        name, kind = matrix.get("name"), read_number(matrix, "kind") or 0
        is_latency = name == "NUMALatency" if name else kind & _LATENCY_FROM_OS == _LATENCY_FROM_OS
        if matrix.get("type") == "NUMANode" and matrix.get("indexing") == "os" and is_latency:
            order = _numbers(" ".join(one.text for one in matrix.all("indexes")))
            values = _numbers(" ".join(one.text for one in matrix.all("u64values")))
            return order, values
    return None


def _matrix_of_version_1(topology: Topology, ids: list[int]) -> tuple[list[int], list[int]] | None:
    """Latencies are fractions of a base there, and rows in the order of the nodes."""
    for one in topology.objects:
        for matrix in one.element.all("distances"):
            if read_number(matrix, "nbobjs") != len(ids):
                continue
            try:
                base = float(matrix.get("latency_base") or "")
                values = [
                    round(float(cell.get("value") or "") * base) for cell in matrix.all("latency")
                ]
            except (ValueError, OverflowError):
                values = []
            return ids, values if all(0 < value < 1 << 16 for value in values) else []
    return None


def _numbers(text: str) -> list[int]:
    words = text.split()
    return (
        [int(word) for word in words] if all(w.isdecimal() and len(w) < 10 for w in words) else []
    )
