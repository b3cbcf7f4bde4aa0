"""Last-level caches from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.partial import LlcPart
from compiler.facts.siblings import agreeing
from compiler.facts.tree import Tree, numbered, shown

_SIZE: Final = re.compile(r"([0-9]{1,9})([KMG])?\Z", re.ASCII)
_KIB: Final = {None: 1 / 1024, "K": 1, "M": 1024, "G": 1024 * 1024}
_TYPES: Final = {"Unified": 2, "Data": 1}
_MAX_LEVEL: Final = 5
_SHARED: Final = ("shared_cpu_list", "shared_cpu_map")


@dataclass(frozen=True, slots=True)
class _Cache:
    """A last-level cache as one CPU shows it.

    Attributes:
        index: number of its directory.
        shared: name of the file that says who shares it, and what that holds.
        cpus: the online CPUs of it.
    """

    index: int
    level: int
    shared: str
    text: str | None
    cpus: CpuSet


def read_llcs(tree: Tree, base: str, online: CpuSet) -> tuple[LlcPart, ...] | None:
    """Return the last-level caches, by lowest CPU; None where no CPU shows any.

    The last level of a CPU is the highest that does not hold instructions only: it is found by
    level, because index3 need not be L3, and CPUs of one machine may differ (low-power cores
    outside the L3).  A cache has the CPUs that all name the same set of CPUs for it.
    """
    cache_of: dict[int, _Cache] = {}
    unknown: list[int] = []
    for cpu in online:
        path = f"{base}/cpu{cpu}/cache"
        found = cache_of.get(cpu)  # as another CPU of the cache shows it
        if found is None or not _shows(tree, path, found):
            found = _last_level(tree, path, cpu, online)
            if found is None:
                cache_of.pop(cpu, None)
                unknown.append(cpu)
                continue
            for other in found.cpus:
                if other > cpu:
                    cache_of[other] = found
        cache_of[cpu] = found
    if not cache_of:
        tree.warn(f"{base}: no cache information; last-level caches are unknown")
        return None
    if unknown:
        tree.warn(f"{base}: the last-level cache of CPU {CpuSet(unknown)} is unknown")
    llcs: list[LlcPart] = []
    for level in sorted({cache.level for cache in cache_of.values()}):
        said = {cpu: cache.cpus for cpu, cache in cache_of.items() if cache.level == level}
        for cpus in set(agreeing(said).values()):
            cache = cache_of[cpus.lowest]
            if cpus != cache.cpus:
                tree.warn(
                    f"{base}: CPU {cpus} shares its L{level} cache with {cache.cpus}, but CPU "
                    f"{cache.cpus - cpus} says otherwise"
                )
            size = _size(tree, f"{base}/cpu{cpus.lowest}/cache/index{cache.index}")
            llcs.append(LlcPart(cpus, level, size))
    return tuple(sorted(llcs, key=lambda llc: llc.cpus.lowest))


def _shows(tree: Tree, path: str, cache: _Cache) -> bool:
    """Return whether a CPU shows a cache that another has shown, in the same words.

    The level is not read again: what has the same number and the same CPUs is the same cache,
    and hundreds of CPUs may share it.
    """
    return tree.line(f"{path}/index{cache.index}/{cache.shared}") == cache.text


def _last_level(tree: Tree, base: str, cpu: int, online: CpuSet) -> _Cache | None:
    best: tuple[int, int, int] | None = None
    for index in reversed(numbered(tree.names(base), "index")):  # the last level comes last
        path = f"{base}/index{index}"
        level = tree.number(f"{path}/level")
        if level is None or (best is not None and level < best[0]):
            continue
        kind = tree.line(f"{path}/type")
        if kind is None or kind == "Instruction":
            continue
        if not 1 <= level <= _MAX_LEVEL or kind not in _TYPES:
            tree.warn(f"{path}: a cache of level {level} and type {shown(kind)} is not known")
            continue
        if best is None or (level, _TYPES[kind]) > best[:2]:
            best = (level, _TYPES[kind], index)
    if best is None:
        return None
    level, _, index = best
    path = f"{base}/index{index}"
    listed = cpus = tree.cpus(f"{path}/{_SHARED[0]}")
    if cpus is None:
        cpus = tree.cpus(f"{path}/{_SHARED[0]}", f"{path}/{_SHARED[1]}")
    if cpus is None:
        return None
    if cpu not in cpus:
        tree.warn(f"{path}: shared by {cpus or 'no CPU'}, which lacks CPU {cpu} itself")
        return None
    shared = _SHARED[0] if listed is not None else _SHARED[1]
    return _Cache(index, level, shared, tree.line(f"{path}/{shared}"), cpus & online)


def _size(tree: Tree, path: str) -> int | None:
    text = tree.line(f"{path}/size")
    if not text:
        return None
    match = _SIZE.match(text)
    if match is None:
        tree.warn(f"{path}/size: {shown(text)} is not a size")
        return None
    return int(int(match[1]) * _KIB[match[2]]) or None
