"""Cores, packages, dies and clusters from sysfs: which CPUs belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.tree import Tree

Sets = tuple[tuple[int, CpuSet], ...]

_SIBLINGS: Final = (
    ("core_cpus_list", "core_cpus"),
    ("thread_siblings_list", "thread_siblings"),  # before Linux 5.3
)
_PACKAGE: Final = (
    ("package_cpus_list", "package_cpus"),
    ("core_siblings_list", "core_siblings"),  # before Linux 5.3
)
_DIE: Final = (("die_cpus_list", "die_cpus"),)
_CLUSTER: Final = (("cluster_cpus_list", "cluster_cpus"),)
# What the kernel prints where the firmware has no such level: -1, which was an unsigned 16-bit
# number in the first kernels that had cluster_id.
_NO_LEVEL: Final = 65535


def read_cores(tree: Tree, base: str, online: CpuSet) -> tuple[CpuSet, ...] | None:
    """Return the sibling set of each core, by lowest CPU; None where no CPU says anything.

    A single CPU needs no word.  Cores are keyed by their set of siblings, because core_id repeats
    in every package.  Two CPUs form a core only if each names the other.
    """
    said: dict[int, CpuSet] = {}
    silent: list[int] = []
    for cpu in online:
        path = f"{base}/cpu{cpu}/topology"
        siblings = _listed(tree, path, _SIBLINGS)
        if siblings is None:
            silent.append(cpu)
        elif cpu not in siblings:
            tree.warn(f"{path}: the siblings {siblings or 'none'} lack CPU {cpu} itself")
            siblings = None
        said[cpu] = CpuSet((cpu,)) if siblings is None else siblings & online
    if len(silent) == len(online) > 1:
        tree.warn(f"{base}: no CPU has topology/, so which CPUs form a core is unknown")
        return None
    if silent and len(online) > 1:
        tree.warn(f"{base}: CPU {CpuSet(silent)} has no siblings file; taken as a core of its own")
    agreed = agreeing(said)
    for cpu, core in agreed.items():
        if core != said[cpu]:
            tree.warn(
                f"{base}: CPU {cpu} names the siblings {said[cpu]}, but CPU "
                f"{said[cpu] - core} names others"
            )
    return tuple(sorted(set(agreed.values()), key=lambda core: core.lowest))


def agreeing(said: Mapping[int, CpuSet]) -> dict[int, CpuSet]:
    """Return for each CPU those that name the same set as it does: disjoint sets."""
    members: dict[CpuSet, list[int]] = {}
    for cpu, named in said.items():
        members.setdefault(named, []).append(cpu)
    sets = {named: CpuSet(cpus) for named, cpus in members.items()}
    return {cpu: sets[named] for cpu, named in said.items()}


def read_packages(tree: Tree, base: str, online: CpuSet) -> Sets | None:
    """Return the CPUs of each package, by lowest CPU.

    None: the kernel does not number packages.  Empty: it does, and says -1, which is unknown.
    """
    found: dict[int, CpuSet] = {}
    for number, cpus in _numbered_sets(tree, base, online, "physical_package_id", _PACKAGE):
        found[number] = found.get(number, CpuSet()) | cpus
    if not found and tree.number(f"{base}/cpu{online.lowest}/topology/physical_package_id") is None:
        return None
    return _sorted(found.items())


def read_dies(tree: Tree, base: str, online: CpuSet) -> Sets | None:
    """Return (id, CPUs) of each die, by lowest CPU; ids repeat in every package."""
    found = _numbered_sets(tree, base, online, "die_id", _DIE, only_listed=True)
    return _sorted(one for one in found if one[0] != _NO_LEVEL) or None


def read_clusters(
    tree: Tree, base: str, online: CpuSet, cores: Sequence[CpuSet] | None
) -> Sets | None:
    """Return (id, CPUs) of each cluster of two cores or more, by lowest CPU.

    x86 numbers the L2 caches here: where each core has its own, its cluster says nothing and
    would only make every core a group apart.
    """
    found = _numbered_sets(tree, base, online, "cluster_id", _CLUSTER, only_listed=True)
    if cores is None or not found:
        return None
    core_of = {cpu: core for core in cores for cpu in core}
    kept: list[tuple[int, CpuSet]] = []
    for number, cpus in found:
        if number == _NO_LEVEL or cpus <= core_of[cpus.lowest]:
            continue
        if union(core_of[cpu] for cpu in cpus) != cpus:
            tree.warn(f"{base}: the cluster of CPUs {cpus} cuts a core in two, not used")
            continue
        kept.append((number, cpus))
    return _sorted(kept)


def _listed(tree: Tree, path: str, names: Sequence[tuple[str, str]]) -> CpuSet | None:
    for name, mask in names:
        cpus = tree.cpus(f"{path}/{name}", f"{path}/{mask}")
        if cpus is not None:
            return cpus
    return None


def _numbered_sets(
    tree: Tree,
    base: str,
    online: CpuSet,
    name: str,
    lists: Sequence[tuple[str, str]],
    *,
    only_listed: bool = False,
) -> list[tuple[int, CpuSet]]:
    """Return (id, CPUs) of all sets with an id, disjoint.

    The set that one CPU names is taken for the others in it too if the id of its highest CPU is
    the same; a large machine has hundreds of CPUs in a package.  Without a set, or with one that
    is not believed, each CPU stands for itself; with ``only_listed`` it is left out, because an
    id that repeats says nothing without the set.
    """
    if all(
        tree.number(f"{base}/cpu{cpu}/topology/{name}") is None
        for cpu in sorted({online.lowest, online.highest})
    ):
        return []  # a kernel that has no such level
    found: list[tuple[int, CpuSet]] = []
    left = online
    while left:
        cpu = left.lowest
        path = f"{base}/cpu{cpu}/topology"
        number = tree.number(f"{path}/{name}")
        alone = CpuSet((cpu,))
        listed = _listed(tree, path, lists) if number is not None and number >= 0 else None
        cpus = alone
        if listed is not None and cpu in listed:
            cpus = listed & left
            last = cpus.highest
            if last != cpu and tree.number(f"{base}/cpu{last}/topology/{name}") != number:
                tree.warn(f"{path}: {name} of CPU {cpu} and of CPU {last} differ in one set")
                cpus, listed = alone, None
        left -= cpus
        if number is not None and number >= 0 and (listed is not None or not only_listed):
            found.append((number, cpus))
    return found


def _sorted(sets: Iterable[tuple[int, CpuSet]]) -> Sets:
    return tuple(sorted(sets, key=lambda one: one[1].lowest))
