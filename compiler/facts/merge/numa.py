"""NUMA nodes of all sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.log import Log
from compiler.facts.merge.order import choose
from compiler.facts.partial import NumaPart, Partial
from compiler.model.facts import Numa

_PartOf = Callable[[Partial], NumaPart | None]

_SEES_ALL_NODES: Final = frozenset({"sysfs"})
"""Readers that list every node there is: another one's extra node is a disagreement."""
_MEMORY_TOLERANCE: Final = 0.1
"""Relative difference of memory sizes that is none: tools subtract different reservations."""


class NumaTable:
    """The nodes.

    Attributes:
        nodes: by id.
        bearing: those that have CPUs.
        of_cpu: the node of each CPU; a CPU that several claim is in the lowest.
        by_id: the CPUs of each node.
        by_cpus: the lowest node that has exactly these CPUs.
    """

    def __init__(self, nodes: Sequence[Numa]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.id))
        self.bearing = tuple(node for node in self.nodes if node.cpus)
        self.by_id: Mapping[int, CpuSet] = {node.id: node.cpus for node in self.nodes}
        of_cpu: dict[int, int] = {}
        by_cpus: dict[CpuSet, int] = {}
        for node in self.bearing:
            by_cpus.setdefault(node.cpus, node.id)
            for cpu in node.cpus:
                of_cpu.setdefault(cpu, node.id)
        self.of_cpu: Mapping[int, int] = of_cpu
        self.by_cpus: Mapping[CpuSet, int] = by_cpus


@dataclass(slots=True)
class _Cpus:
    """The CPUs of the nodes while sources are joined."""

    by_node: dict[int, CpuSet] = field(default_factory=dict)
    known: CpuSet = field(default_factory=CpuSet)
    seen: CpuSet = field(default_factory=CpuSet)
    first: Partial | None = None
    closed: Partial | None = None


def merge_numa(
    log: Log, partials: Sequence[Partial], online: CpuSet, gpu_memory: frozenset[int]
) -> NumaTable:
    """Return the nodes, each fact of a node from the most trusted source that knows it.

    A node of which no source knows the CPUs is left out.

    Args:
        log: where disagreements go.
        partials: most trusted first.
        online: what CPUs are cut to.
        gpu_memory: nodes that a driver says are a GPU's own memory.
    """
    parts = [(one, {n.id: n for n in one.numa}) for one in partials if one.numa is not None]
    found = _Cpus()
    for partial, nodes in parts:
        _add_cpus(log, found, partial, nodes, online)
    ids = sorted(found.by_node)
    unplaced = sorted({node for _, nodes in parts for node in nodes} - set(ids))
    if unplaced and not ids:
        which = ", ".join(map(str, unplaced))
        log.remark(f"no source says which CPUs are on NUMA node {which}; NUMA is unknown")
    by_partial = {id(partial): nodes for partial, nodes in parts}
    result: list[Numa] = []
    for node in ids:
        cpus = found.by_node[node]

        def part(partial: Partial, node: int = node) -> NumaPart | None:
            return by_partial.get(id(partial), {}).get(node)

        memory = _memory(log, partials, node, part)
        of_gpu = node in gpu_memory or any(p.gpu_memory for one in partials if (p := part(one)))
        result.append(
            Numa(
                id=node,
                cpus=cpus,
                memoryMiB=memory,
                distances=_distances(log, partials, node, ids, part),
                role=_role(cpus, memory, of_gpu=of_gpu),
            )
        )
    return NumaTable(result)


def _add_cpus(
    log: Log, found: _Cpus, partial: Partial, nodes: Mapping[int, NumaPart], online: CpuSet
) -> None:
    theirs = {
        id_: part.cpus & online for id_, part in sorted(nodes.items()) if part.cpus is not None
    }
    if not theirs:
        return
    common = found.known & union(theirs.values())
    differ = [
        id_
        for id_ in sorted({*found.by_node, *theirs})
        if found.by_node.get(id_, CpuSet()) & common != theirs.get(id_, CpuSet()) & common
    ]
    extra = [id_ for id_ in theirs if id_ not in found.by_node]
    if found.first is not None and differ:
        ours, other = (_text(side, differ) for side in (found.by_node, theirs))
        log.disagree("numa", found.first, ours, partial, other)
    elif found.closed is not None and extra:
        log.disagree(
            "numa",
            found.closed,
            f"nodes {_ids(found.by_node)}",
            partial,
            f"nodes {_ids(theirs)}",
        )
    before = found.known
    for id_, cpus in theirs.items():
        if found.first is None:
            found.by_node[id_] = cpus
            found.known |= cpus
            continue
        if id_ in differ or (id_ in extra and found.closed is not None):
            continue
        new = cpus - before - (CpuSet() if id_ in extra else found.seen)
        if new or (id_ in extra and not cpus):
            found.by_node[id_] = found.by_node.get(id_, CpuSet()) | new
            found.known |= new
    if found.first is None or found.known != before or partial.merged:
        log.supplied(partial, "numa")
    found.seen |= partial.online or union(theirs.values())
    found.first = found.first or partial
    if found.closed is None and partial.reader in _SEES_ALL_NODES:
        found.closed = partial


def _text(nodes: Mapping[int, CpuSet], ids: Sequence[int]) -> str:
    return "; ".join(
        f"node {id_} has {nodes[id_] or 'no CPU'}" if id_ in nodes else f"no node {id_}"
        for id_ in ids
    )


def _ids(nodes: Mapping[int, CpuSet]) -> str:
    return ", ".join(map(str, sorted(nodes)))


def _memory(log: Log, partials: Sequence[Partial], node: int, part: _PartOf) -> int | None:
    def get(partial: Partial) -> int | None:
        one = part(partial)
        return None if one is None else one.memory_mib

    def near(value: int, other: int) -> int:
        return 0 if abs(value - other) <= _MEMORY_TOLERANCE * max(value, other) else value

    return choose(
        log,
        partials,
        f"memory of numa {node}",
        get,
        family="numa",
        show=lambda mib: f"{mib} MiB",
        cut=near,
    )


def _distances(
    log: Log, partials: Sequence[Partial], node: int, ids: Sequence[int], part: _PartOf
) -> tuple[int, ...]:
    """Return the distances to all nodes, in ascending order of id; none unless all are known."""

    def get(partial: Partial) -> tuple[int, ...] | None:
        one = part(partial)
        if one is None or len(one.distances) < len(ids) or not set(ids) <= set(one.distances):
            return None
        return tuple(one.distances[id_] for id_ in ids)

    return (
        choose(
            log,
            partials,
            f"distances of numa {node}",
            get,
            family="numa",
            show=lambda row: " ".join(map(str, row)),
        )
        or ()
    )


def _role(
    cpus: CpuSet, memory: int | None, *, of_gpu: bool
) -> Literal["cpu", "memory", "gpu-memory", "unknown"]:
    """Say what a node is for.

    A node without CPUs is GPU memory only where a driver says so (Grace machines: each GPU, and
    each MIG instance, is a node, which may have no memory online yet).  Otherwise one with memory
    is memory (CXL, persistent memory), and an empty one stays unknown.
    """
    if cpus:
        return "cpu"
    if of_gpu:
        return "gpu-memory"
    return "memory" if memory else "unknown"
