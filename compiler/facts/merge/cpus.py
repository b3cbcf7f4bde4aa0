"""Cores, packages, dies, clusters, caches and kinds of cores of all sources, as rows per CPU."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.kinds import merge_kinds
from compiler.facts.merge.log import Log
from compiler.facts.merge.numa import NumaTable
from compiler.facts.merge.online import HOW_TO_GET_CPUS, seen_by
from compiler.facts.merge.order import choose
from compiler.facts.merge.partition import View, join
from compiler.facts.partial import LlcPart, Partial, ReadError
from compiler.facts.table import CpuRow
from compiler.model.facts import KindRow, Llc

L = TypeVar("L", bound=Hashable)

_OF_THE_KERNEL: Final = frozenset({"lscpu", "sbc-bench"})
"""Readers of tools that number packages by the kernel's files alone."""


@dataclass(frozen=True)
class CpuTable:
    """The CPUs of the node.

    Attributes:
        online: never empty; the CPUs of ``rows``.
        rows: by CPU id.
        llcs: last-level caches, disjoint, numbered by lowest CPU.
        packages: CPUs of each package.
        parts: sets that lie inside packages (dies, clusters), as far as known.
        kinds: kinds of core; empty: one.
    """

    online: CpuSet
    rows: tuple[CpuRow, ...]
    llcs: tuple[Llc, ...]
    packages: tuple[CpuSet, ...]
    parts: tuple[CpuSet, ...]
    kinds: tuple[KindRow, ...]


def merge_cpus(log: Log, partials: Sequence[Partial], online: CpuSet, numa: NumaTable) -> CpuTable:
    """Return all that is known of the online CPUs.

    Raises:
        ReadError: no source says which CPUs form a core.
    """
    cores = _cores(log, partials, online)
    packages = _packages(log, partials, online)
    dies = _numbered(log, partials, online, "dies", lambda p: p.dies)
    clusters = _numbered(
        log, partials, online, "clusters", lambda p: _wider_than_cores(p.clusters, cores)
    )
    llcs = _llcs(log, partials, online)
    kind_of, kinds = merge_kinds(log, partials, online, cores)
    capacities = _capacities(log, partials)
    llc_of = {cpu: llc.id for llc in llcs for cpu in llc.cpus}
    package_of, die_of, cluster_of = (_by_cpu(groups) for groups in (packages, dies, clusters))
    rows = []
    for core in cores:
        if len({llc_of.get(cpu) for cpu in core}) > 1:
            log.remark(f"the CPUs {core} of one core do not share their last-level cache")
        rows += [
            CpuRow(
                cpu=cpu,
                core=core,
                llc=llc_of.get(cpu),
                numa=numa.of_cpu.get(cpu),
                package=package_of.get(cpu),
                kind=kind_of.get(core.lowest, "standard"),
                capacity=capacities.get(cpu),
                die=die_of.get(cpu),
                cluster=cluster_of.get(cpu),
            )
            for cpu in core
        ]
    return CpuTable(
        online=online,
        rows=tuple(sorted(rows, key=lambda row: row.cpu)),
        llcs=llcs,
        packages=tuple(cpus for _, cpus in packages),
        parts=tuple(cpus for _, cpus in (*dies, *clusters)),
        kinds=kinds,
    )


def _wider_than_cores(
    clusters: tuple[tuple[int, CpuSet], ...] | None, cores: Sequence[CpuSet]
) -> tuple[tuple[int, CpuSet], ...] | None:
    """Return one source's clusters unless they are the cores under another name.

    x86 kernels call the CPUs of one L2 a cluster, and on most machines each core has its own.
    """
    known = set(cores)
    return None if all(cpus in known for _, cpus in clusters or ()) else clusters


def _by_cpu(groups: Iterable[tuple[int, CpuSet]]) -> dict[int, int]:
    return {cpu: label for label, cpus in groups for cpu in cpus}


def _cores(log: Log, partials: Sequence[Partial], online: CpuSet) -> tuple[CpuSet, ...]:
    views = [
        View(one, tuple((0, cut) for core in one.cores if (cut := core & online)), seen_by(one))
        for one in partials
        if one.cores is not None
    ]
    cores = tuple(cpus for _, cpus in join(log, "cores", "cores", [v for v in views if v.groups]))
    if left := online - union(cores):
        which = f"; it is unknown for CPU {left}" if cores else ""
        raise ReadError(
            f"no usable source says which CPUs are threads of one core{which}",
            help=HOW_TO_GET_CPUS,
        )
    return cores


def _packages(
    log: Log, partials: Sequence[Partial], online: CpuSet
) -> tuple[tuple[int, CpuSet], ...]:
    """Return the packages.

    Where the kernel was asked and does not know them, what ``lscpu`` made of the same files is no
    better: it numbers sets of siblings then, which are cores on some machines (POWER7).
    """
    unknown = any(one.reader == "sysfs" and one.packages == () for one in partials)

    def get(partial: Partial) -> tuple[tuple[int, CpuSet], ...] | None:
        return None if unknown and partial.reader in _OF_THE_KERNEL else partial.packages

    return _numbered(log, partials, online, "packages", get, unique=True)


def _numbered(
    log: Log,
    partials: Sequence[Partial],
    online: CpuSet,
    name: str,
    get: Callable[[Partial], tuple[tuple[int, CpuSet], ...] | None],
    *,
    unique: bool = False,
) -> tuple[tuple[int, CpuSet], ...]:
    views = []
    for one in partials:
        groups = [(label, cut) for label, cpus in get(one) or () if (cut := cpus & online)]
        if groups:
            views.append(View(one, _disjoint(groups), seen_by(one)))
    return join(log, name, name, views, unique=unique)


def _disjoint(groups: Sequence[tuple[L, CpuSet]]) -> tuple[tuple[L, CpuSet], ...]:
    """Return the groups without CPUs that an earlier one has."""
    taken, result = CpuSet(), []
    for label, cpus in groups:
        if left := cpus - taken:
            result.append((label, left))
        taken |= cpus
    return tuple(result)


def _llcs(log: Log, partials: Sequence[Partial], online: CpuSet) -> tuple[Llc, ...]:
    views = []
    for one in partials:
        if one.llcs is None:
            continue
        groups = _highest(log, one, online)
        if groups:
            views.append(View(one, groups, seen_by(one)))
    joined = join(log, "last-level caches", "llcs", views)
    return tuple(
        Llc(id=number, level=label[0], cpus=cpus, sizeKiB=label[1])
        for number, (label, cpus) in enumerate(joined)
    )


def _highest(
    log: Log, partial: Partial, online: CpuSet
) -> tuple[tuple[tuple[int, int | None], CpuSet], ...]:
    """Return one source's caches without CPUs that have a cache of a higher level.

    Two of one level that share a CPU cannot both be right: neither is used.
    """
    live = [
        LlcPart(cut, one.level, one.size_kib)
        for one in partial.llcs or ()
        if (cut := one.cpus & online)
    ]
    live = sorted(dict.fromkeys(live), key=lambda c: (-c.level, c.cpus.lowest, c.cpus.mask))
    result: list[tuple[tuple[int, int | None], CpuSet]] = []
    above, level, at_level = CpuSet(), None, CpuSet()
    for cache in live:
        if cache.level != level:
            above, level, at_level = above | at_level, cache.level, CpuSet()
        cpus = cache.cpus - above
        if twice := cpus & at_level:
            log.about(
                partial, f"two L{cache.level} caches hold CPU {twice}; its caches are not used"
            )
            return ()
        at_level |= cpus
        if cpus:
            result.append(((cache.level, cache.size_kib), cpus))
    return tuple(result)


def _capacities(log: Log, partials: Sequence[Partial]) -> Mapping[int, int]:
    def get(partial: Partial) -> Mapping[int, int] | None:
        return dict(partial.capacities) if partial.capacities else None

    def cut(value: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
        return {cpu: figure for cpu, figure in value.items() if cpu in other}

    def show(value: Mapping[int, int]) -> str:
        return " ".join(f"{cpu}:{value[cpu]}" for cpu in sorted(value))

    return choose(log, partials, "capacities", get, family="capacities", show=show, cut=cut) or {}
