"""CPU facts from sysfs: masks, cores, packages, caches, NUMA nodes and kinds of cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.cpuset import MAX_CPUS, CpuSet
from compiler.facts.caches import read_llcs
from compiler.facts.cpuinfo import CpuInfo
from compiler.facts.kinds import read_kinds
from compiler.facts.numa import read_numa
from compiler.facts.table import CpuRow, CpuTable, FactsError
from compiler.facts.tree import Tree, numbered

BASE: Final = "/sys/devices/system/cpu"
MAX_CAPACITIES: Final = 8
"""Different ``cpu_capacity`` values kept on one machine.

GB10 has five for two kinds of cores.  A machine whose firmware gives nearly every core a value of
its own would fall into as many groups of cores, and the differences mean nothing for placement.
"""
_SIBLINGS: Final = (
    ("core_cpus_list", "core_cpus"),
    ("thread_siblings_list", "thread_siblings"),  # before Linux 5.3
)


def read_cpus(tree: Tree, info: CpuInfo) -> CpuTable:
    """Return the CPUs of the machine below the root of ``tree``.

    Raises:
        FactsError: nothing says which CPUs are online.
    """
    online = _online(tree)
    cores, has_topology = _cores(tree, online)
    if not has_topology:
        tree.warn(f"{BASE}: no CPU has topology/; each CPU is taken as a core of its own")
    llcs, llc_of = read_llcs(tree, BASE, online)
    nodes, node_of = read_numa(tree, online)
    by_id = {llc.id: llc for llc in llcs}
    kinds = read_kinds(tree, BASE, online, {cpu: by_id[i] for cpu, i in llc_of.items()}, info)
    capacities = _capacities(tree, online)
    rows = []
    for cpu in online:
        core = cores[cpu]
        if kinds[cpu] != kinds[core.lowest]:
            tree.warn(f"{BASE}: the CPUs {core} of one core are of different kinds")
        package = tree.number(f"{BASE}/cpu{cpu}/topology/physical_package_id")
        rows.append(
            CpuRow(
                cpu=cpu,
                core=core,
                llc=llc_of.get(cpu),
                numa=node_of.get(cpu),
                package=package if package is not None and package >= 0 else None,
                kind=kinds[core.lowest],
                capacity=capacities.get(cpu),
            )
        )
    possible, present = _wider(tree, "possible", online), _wider(tree, "present", online)
    return CpuTable(
        online=online,
        rows=tuple(rows),
        llcs=llcs,
        numa=nodes,
        possible=possible,
        present=present,
        isolated=tree.cpus(f"{BASE}/isolated"),
        nohz_full=tree.cpus(f"{BASE}/nohz_full"),
    )


def _online(tree: Tree) -> CpuSet:
    if not tree.is_dir(BASE):
        raise FactsError(
            BASE,
            "no such directory, so there is no CPU information; name the root of a system "
            "(the directory that holds sys/ and proc/)",
        )
    listed = tree.cpus(f"{BASE}/online")
    if listed:
        return listed
    ids = numbered(tree.names(BASE), "cpu")
    if ids and ids[-1] >= MAX_CPUS:
        tree.warn(f"{BASE}: CPU {ids[-1]} is above the highest CPU supported, {MAX_CPUS - 1}")
    ids = [cpu for cpu in ids if cpu < MAX_CPUS]
    # An offline CPU keeps its directory, but loses topology/.
    online = [cpu for cpu in ids if tree.is_dir(f"{BASE}/cpu{cpu}/topology")]
    if not online:
        online = [cpu for cpu in ids if tree.line(f"{BASE}/cpu{cpu}/online") in (None, "1")]
    if not online:
        raise FactsError(
            BASE,
            "nothing says which CPUs are online: the file online has no CPU list, and there is "
            "no cpuN directory",
        )
    return CpuSet(online)


def _wider(tree: Tree, name: str, online: CpuSet) -> CpuSet | None:
    cpus = tree.cpus(f"{BASE}/{name}")
    if cpus is not None and not online <= cpus:
        tree.warn(f"{BASE}/{name}: lacks the online CPU {online - cpus}, not used")
        return None
    return cpus


def _cores(tree: Tree, online: CpuSet) -> tuple[Mapping[int, CpuSet], bool]:
    """Return the core of each CPU, and whether anything was said about cores at all.

    Cores are keyed by their set of siblings, because core_id repeats in every package.
    """
    said: dict[int, CpuSet] = {}
    has_topology = False
    for cpu in online:
        path = f"{BASE}/cpu{cpu}/topology"
        siblings = None
        for name, mask in _SIBLINGS:
            siblings = tree.cpus(f"{path}/{name}", f"{path}/{mask}")
            if siblings is not None:
                has_topology = True
                break
        if siblings is not None and cpu not in siblings:
            tree.warn(f"{path}: the siblings {siblings or 'none'} lack CPU {cpu} itself")
            siblings = None
        said[cpu] = CpuSet((cpu,)) if siblings is None else siblings & online
    cores: dict[int, CpuSet] = {}
    for cpu in online:
        agree = CpuSet(other for other in said[cpu] if said[other] == said[cpu])
        if agree != said[cpu]:
            tree.warn(
                f"{BASE}: CPU {cpu} names the siblings {said[cpu]}, but CPU "
                f"{said[cpu] - agree} names others"
            )
        cores[cpu] = agree
    return cores, has_topology


def _capacities(tree: Tree, online: CpuSet) -> Mapping[int, int]:
    found = {}
    for cpu in online:
        value = tree.number(f"{BASE}/cpu{cpu}/cpu_capacity")
        if value is not None and value > 0:
            found[cpu] = value
    if len(values := set(found.values())) > MAX_CAPACITIES:
        tree.warn(f"{BASE}: {len(values)} different values of cpu_capacity, left out")
        return {}
    return found
