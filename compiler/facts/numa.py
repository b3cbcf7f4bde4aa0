"""NUMA nodes from sysfs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.partial import NumaPart
from compiler.facts.tree import Tree, numbered, shown

BASE: Final = "/sys/devices/system/node"
_TOTAL: Final = re.compile(r"MemTotal:\s+([0-9]{1,15}) kB", re.ASCII)


def read_numa(
    tree: Tree, online: CpuSet, gpu_memory: Collection[int], *, live: bool
) -> tuple[NumaPart, ...] | None:
    """Return the NUMA nodes by id, their CPUs cut to the online ones.

    Without node directories there are none on the running machine (a kernel without NUMA), and a
    snapshot does not say (None).  The CPUs of several nodes may overlap, as the kernel says them.

    Args:
        gpu_memory: the nodes that a driver names as the memory of a GPU.
    """
    ids = numbered(tree.names(BASE), "node")
    listed = tree.cpus(f"{BASE}/online")  # node ids have the form of a CPU list
    columns = ids  # distances are given to the online nodes, in ascending order
    if listed is not None:
        for missing in sorted(set(listed) - set(ids)):
            tree.warn(f"{BASE}: node {missing} is online, but has no directory")
        ids = [node for node in ids if node in listed]
        columns = list(listed)
    if not ids:
        return () if live and not tree.is_dir(BASE) else None
    nodes: list[NumaPart] = []
    lower = CpuSet()
    for node in ids:
        path = f"{BASE}/node{node}"
        cpus = tree.cpus(f"{path}/cpulist", f"{path}/cpumap")
        if cpus is None:
            tree.warn(f"{path}: which CPUs belong to the node is unknown")
        else:
            cpus &= online
            if taken := cpus & lower:
                tree.warn(f"{path}: CPU {taken} is in a lower node too, and counts for that one")
            lower |= cpus
        nodes.append(
            NumaPart(
                id=node,
                cpus=cpus,
                memory_mib=_memory_mib(tree, path),
                distances=_distances(tree, path, columns, ids),
                gpu_memory=node in gpu_memory,
            )
        )
    homeless = online - union(node.cpus for node in nodes if node.cpus is not None)
    if homeless:
        tree.warn(f"{BASE}: CPU {homeless} is in no node")
    return tuple(nodes)


def _memory_mib(tree: Tree, path: str) -> int | None:
    text = tree.text(f"{path}/meminfo")
    if not text:
        return None
    match = _TOTAL.search(text)
    if match is None:
        tree.warn(f"{path}/meminfo: has no MemTotal")
        return None
    return int(match[1]) // 1024


def _distances(
    tree: Tree, path: str, columns: Sequence[int], ids: Collection[int]
) -> Mapping[int, int]:
    """Return the distances by node; empty where unknown.  They need not be symmetric."""
    text = tree.line(f"{path}/distance")
    if not text:
        return {}
    words = text.split()
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        tree.warn(f"{path}/distance: {shown(text)} is not a list of numbers")
        return {}
    if len(words) != len(columns):
        tree.warn(f"{path}/distance: {len(words)} distances for {len(columns)} nodes, not used")
        return {}
    return {node: int(word) for node, word in zip(columns, words, strict=True) if node in ids}
