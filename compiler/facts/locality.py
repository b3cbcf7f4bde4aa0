"""Which CPUs a device is near, by what sysfs says of it."""

from __future__ import annotations

from typing import Literal

from compiler.cpuset import CpuSet, union
from compiler.facts.table import CpuTable
from compiler.facts.tree import Tree
from compiler.model.facts import Locality, Numa

_Scope = Literal["llc", "numa", "package", "machine", "unknown"]
_UNKNOWN = Locality()


def place_device(tree: Tree, table: CpuTable, path: str, name: str) -> tuple[int | None, Locality]:
    """Return the NUMA node and the near CPUs of the device at ``path``.

    - ``numa_node`` names a node with CPUs: that node, measured.  ``local_cpulist`` is derived
      from it by the kernel and is no second witness; where they differ, the node wins and it is
      said.
    - ``numa_node`` names a node without CPUs: the node, and the CPUs of ``local_cpulist`` if it
      is narrower than the machine.
    - ``numa_node`` is -1 or missing: unknown, never node 0.  But a machine has only one answer
      if exactly one of its nodes has CPUs (inferred); and a ``local_cpulist`` that is narrower
      than the machine says something (measured; all that POWER9 has).
    """
    node = tree.number(f"{path}/numa_node")
    local = tree.cpus(f"{path}/local_cpulist", f"{path}/local_cpus")
    if local is not None:
        local &= table.online
    nodes = {one.id: one for one in table.numa}
    if node is not None and node >= 0:
        if (known := nodes.get(node)) is not None:
            return _on_node(tree, table, name, known, local)
        tree.warn(f"{name}: numa_node is {node}, but there is no such node; its place is unknown")
    narrow = local if local and local < table.online else None
    bearing = [one for one in table.numa if one.cpus]
    if narrow is not None:
        return _node_of(table, narrow), _near(table, narrow, "measured")
    if len(bearing) == 1:
        return bearing[0].id, _near(table, bearing[0].cpus, "inferred")
    if not table.numa and local == table.online:
        return None, _near(table, table.online, "inferred")
    if bearing:
        said = "missing" if node is None else str(node)
        tree.warn(
            f"{name}: numa_node is {said} and {len(bearing)} nodes have CPUs; "
            "which CPUs are near is unknown"
        )
    return None, _UNKNOWN


def _on_node(
    tree: Tree, table: CpuTable, name: str, node: Numa, local: CpuSet | None
) -> tuple[int, Locality]:
    if node.cpus:
        if local is not None and local != node.cpus:
            tree.warn(
                f"{name}: is on node {node.id} (CPUs {node.cpus}), but its local CPUs are "
                f"{local or 'none'}; the node counts"
            )
        return node.id, _near(table, node.cpus, "measured")
    if local and local < table.online:
        return node.id, _near(table, local, "measured")
    tree.warn(f"{name}: is on node {node.id}, which has no CPUs; which CPUs are near is unknown")
    return node.id, _UNKNOWN


def _near(table: CpuTable, cpus: CpuSet, confidence: Literal["measured", "inferred"]) -> Locality:
    return Locality(cpus=cpus, scope=_scope(table, cpus), confidence=confidence)


def _scope(table: CpuTable, cpus: CpuSet) -> _Scope:
    if cpus == table.online:
        return "machine"
    if _node_of(table, cpus) is not None:
        return "numa"
    if any(llc.cpus == cpus for llc in table.llcs):
        return "llc"
    packages = {row.package for row in table.rows if row.package is not None}
    for package in packages:
        if union(row.core for row in table.rows if row.package == package) == cpus:
            return "package"
    return "unknown"


def _node_of(table: CpuTable, cpus: CpuSet) -> int | None:
    for node in table.numa:
        if node.cpus == cpus:
            return node.id
    return None
