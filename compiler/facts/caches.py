"""Last-level caches from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.tree import Tree, numbered, shown
from compiler.model.facts import Llc

_SIZE: Final = re.compile(r"([0-9]{1,9})([KMG])?\Z", re.ASCII)
_KIB: Final = {None: 1 / 1024, "K": 1, "M": 1024, "G": 1024 * 1024}
_TYPES: Final = {"Unified": 2, "Data": 1}
_MAX_LEVEL: Final = 5


@dataclass(frozen=True, slots=True)
class _Cache:
    level: int
    cpus: CpuSet
    id: int | None
    size_kib: int | None


def read_llcs(tree: Tree, base: str, online: CpuSet) -> tuple[tuple[Llc, ...], dict[int, int]]:
    """Return the last-level caches, and the id of each CPU's.

    The last level of a CPU is the highest that does not hold instructions only: it is found by
    level, because index3 need not be L3, and CPUs of one machine may differ (low-power cores
    outside the L3).  Ids are the kernel's where every cache has one and all differ; otherwise
    the lowest CPU of the cache.
    """
    caches: dict[tuple[int, CpuSet], _Cache] = {}
    of_cpu: dict[int, tuple[int, CpuSet]] = {}
    unknown: list[int] = []
    for cpu in online:
        found = _last_level(tree, f"{base}/cpu{cpu}/cache", cpu, online)
        if found is None:
            unknown.append(cpu)
            continue
        key = (found.level, found.cpus)
        caches.setdefault(key, found)
        of_cpu[cpu] = key
    if len(unknown) == len(online):
        tree.warn(f"{base}: no cache information; last-level caches are unknown")
    elif unknown:
        tree.warn(f"{base}: the last-level cache of CPU {CpuSet(unknown)} is unknown")
    claimed: dict[int, tuple[int, CpuSet]] = {}
    for key in sorted(caches, key=lambda k: (k[1].lowest, -k[0])):
        for cpu in key[1]:
            other = claimed.setdefault(cpu, key)
            if other[0] == key[0] and other[1] != key[1]:
                tree.warn(f"{base}: caches of CPUs {other[1]} and {key[1]} overlap")
    ids = [cache.id for cache in caches.values()]
    by_kernel = None not in ids and len(set(ids)) == len(ids)
    lowest = [cache.cpus.lowest for cache in caches.values()]
    if not by_kernel and len(set(lowest)) != len(lowest):
        tree.warn(f"{base}: caches overlap; last-level caches are unknown")
        return (), {}
    names = {
        key: cache.id if by_kernel and cache.id is not None else cache.cpus.lowest
        for key, cache in caches.items()
    }
    llcs = tuple(
        Llc(id=names[key], level=cache.level, cpus=cache.cpus, sizeKiB=cache.size_kib)
        for key, cache in sorted(caches.items(), key=lambda item: item[1].cpus.lowest)
    )
    return llcs, {cpu: names[key] for cpu, key in of_cpu.items()}


def _last_level(tree: Tree, base: str, cpu: int, online: CpuSet) -> _Cache | None:
    best: tuple[int, int, str] | None = None
    for index in numbered(tree.names(base), "index"):
        path = f"{base}/index{index}"
        level, kind = tree.number(f"{path}/level"), tree.line(f"{path}/type")
        if level is None or kind is None or kind == "Instruction":
            continue
        if not 1 <= level <= _MAX_LEVEL or kind not in _TYPES:
            tree.warn(f"{path}: a cache of level {level} and type {shown(kind)} is not known")
            continue
        if best is None or (level, _TYPES[kind]) > best[:2]:
            best = (level, _TYPES[kind], path)
    if best is None:
        return None
    level, _, path = best
    cpus = tree.cpus(f"{path}/shared_cpu_list", f"{path}/shared_cpu_map")
    if cpus is None:
        return None
    if cpu not in cpus:
        tree.warn(f"{path}: shared by {cpus or 'no CPU'}, which lacks CPU {cpu} itself")
        return None
    id_ = tree.number(f"{path}/id")
    return _Cache(
        level, cpus & online, id_ if id_ is not None and id_ >= 0 else None, _size(tree, path)
    )


def _size(tree: Tree, path: str) -> int | None:
    text = tree.line(f"{path}/size")
    if not text:
        return None
    match = _SIZE.match(text)
    if match is None:
        tree.warn(f"{path}/size: {shown(text)} is not a size")
        return None
    return int(int(match[1]) * _KIB[match[2]]) or None
