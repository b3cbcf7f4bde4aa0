"""NUMA nodes from sysfs."""

from __future__ import annotations

import re
from typing import Final, Literal

from compiler.cpuset import CpuSet
from compiler.facts.tree import Tree, numbered, shown
from compiler.model.facts import Numa

BASE: Final = "/sys/devices/system/node"
_TOTAL: Final = re.compile(r"MemTotal:\s+([0-9]{1,15}) kB", re.ASCII)
_GPU_NODE: Final = re.compile(r"^Node:\s*([0-9]{1,5})\s*$", re.ASCII | re.MULTILINE)
_NVIDIA: Final = "/proc/driver/nvidia/gpus"


def read_numa(tree: Tree, online: CpuSet) -> tuple[tuple[Numa, ...], dict[int, int]]:
    """Return the NUMA nodes, and the id of each CPU's.

    Without node directories (a kernel without NUMA) both are empty.  A CPU that several nodes
    claim belongs to the lowest of them.  Distances follow the order of the online nodes.
    """
    ids = numbered(tree.names(BASE), "node")
    listed = tree.cpus(f"{BASE}/online")  # node ids have the form of a CPU list
    if listed is not None:
        for missing in sorted(set(listed) - set(ids)):
            tree.warn(f"{BASE}: node {missing} is online, but has no directory")
        ids = [node for node in ids if node in listed]
    gpu_nodes = _gpu_memory_nodes(tree)
    nodes: list[Numa] = []
    of_cpu: dict[int, int] = {}
    for node in ids:
        path = f"{BASE}/node{node}"
        cpus = tree.cpus(f"{path}/cpulist", f"{path}/cpumap")
        if cpus is None:
            tree.warn(f"{path}: which CPUs belong to the node is unknown; taken as none")
            cpus = CpuSet()
        cpus &= online
        taken = CpuSet(cpu for cpu in cpus if of_cpu.setdefault(cpu, node) != node)
        if taken:
            tree.warn(f"{path}: CPU {taken} is in a lower node too, and counts for that one")
        memory = _memory_mib(tree, path)
        nodes.append(
            Numa(
                id=node,
                cpus=cpus,
                memoryMiB=memory,
                distances=_distances(tree, path, len(ids)),
                role=_role(cpus, memory, node in gpu_nodes),
            )
        )
    homeless = online - CpuSet(of_cpu)
    if nodes and homeless:
        tree.warn(f"{BASE}: CPU {homeless} is in no node")
    return tuple(nodes), of_cpu


def _role(
    cpus: CpuSet, memory: int | None, of_gpu: bool
) -> Literal["cpu", "memory", "gpu-memory", "unknown"]:
    """Say what a node is for.

    A node without CPUs is GPU memory only where the driver says so (Grace machines: each GPU,
    and each MIG instance, is a node, which may have no memory online yet).  Otherwise one with
    memory is memory (CXL, persistent memory), and an empty one stays unknown.
    """
    if cpus:
        return "cpu"
    if of_gpu:
        return "gpu-memory"
    return "memory" if memory else "unknown"


def _memory_mib(tree: Tree, path: str) -> int | None:
    text = tree.text(f"{path}/meminfo")
    if not text:
        return None
    match = _TOTAL.search(text)
    if match is None:
        tree.warn(f"{path}/meminfo: has no MemTotal")
        return None
    return int(match[1]) // 1024


def _distances(tree: Tree, path: str, nodes: int) -> tuple[int, ...]:
    text = tree.line(f"{path}/distance")
    if not text:
        return ()
    words = text.split()
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        tree.warn(f"{path}/distance: {shown(text)} is not a list of numbers")
        return ()
    if len(words) != nodes:
        tree.warn(f"{path}/distance: {len(words)} distances for {nodes} nodes, not used")
        return ()
    return tuple(int(word) for word in words)


def _gpu_memory_nodes(tree: Tree) -> frozenset[int]:
    found = set()
    for gpu in tree.names(_NVIDIA):
        text = tree.text(f"{_NVIDIA}/{gpu}/numa_status")
        if text and (match := _GPU_NODE.search(text)):
            found.add(int(match[1]))
    return frozenset(found)
