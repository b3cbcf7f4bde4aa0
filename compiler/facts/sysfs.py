"""CPU masks and capacities from sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.cpuset import MAX_CPUS, CpuSet
from compiler.facts.partial import ReadError
from compiler.facts.tree import Tree, numbered

BASE: Final = "/sys/devices/system/cpu"
MAX_CAPACITIES: Final = 8
"""Different ``cpu_capacity`` values kept on one machine.

GB10 has five for two kinds of cores.  A machine whose firmware gives nearly every core a value of
its own would fall into as many groups of cores, and the differences mean nothing for placement.
"""


def read_online(tree: Tree) -> CpuSet:
    """Return the online CPUs; never empty.

    Raises:
        ReadError: nothing says which CPUs are online.
    """
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
    if online:
        return CpuSet(online)
    if not tree.is_dir(BASE):
        raise ReadError(
            f"{BASE}: no such directory, so there is no CPU information",
            help="name the root of a system: the directory that holds sys/ and proc/",
        )
    raise ReadError(
        f"{BASE}: nothing says which CPUs are online: the file online has no CPU list, and there "
        "is no cpuN directory",
        help="take the snapshot again, with the files below /sys/devices/system/cpu",
    )


def read_wider(tree: Tree, name: str, online: CpuSet) -> CpuSet | None:
    """Return the mask ``possible`` or ``present``; not believed if it lacks an online CPU."""
    cpus = tree.cpus(f"{BASE}/{name}")
    if cpus is not None and not online <= cpus:
        tree.warn(f"{BASE}/{name}: lacks the online CPU {online - cpus}, not used")
        return None
    return cpus


def read_capacities(tree: Tree, online: CpuSet) -> Mapping[int, int] | None:
    """Return ``cpu_capacity`` of each CPU that has one; None where it is not known.

    The kernel gives the file to all CPUs or, on most machines, to none: where neither the lowest
    nor the highest CPU has it the others are not asked.
    """
    found: dict[int, int] = {}
    for cpu in (online.highest, *online):
        if cpu == online.highest and cpu in found:
            continue
        value = tree.number(f"{BASE}/cpu{cpu}/cpu_capacity")
        if value is not None and value > 0:
            found[cpu] = value
        elif cpu == online.lowest and not found:
            return None
    if len(values := set(found.values())) > MAX_CAPACITIES:
        tree.warn(f"{BASE}: {len(values)} different values of cpu_capacity, left out")
        return None
    return {cpu: found[cpu] for cpu in sorted(found)} or None
