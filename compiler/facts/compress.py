"""Rows per CPU -> groups of cores that are equal in all that the model knows of them."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cpuset import CpuSet, union
from compiler.facts.table import CpuRow
from compiler.model.facts import CoreGroup


def compress(rows: Sequence[CpuRow]) -> tuple[CoreGroup, ...]:
    """Return the groups, ordered by lowest CPU.

    Cores fall into one group when LLC, NUMA node, package, die, cluster, kind, capacity and
    number of threads are equal and the n-th threads ascend together with the first ones; the last
    is what makes the planes of :attr:`CoreGroup.smt` pair up.  The rows' cores must be disjoint
    or equal.
    """
    by_cpu = {row.cpu: row for row in rows}
    open_groups: dict[tuple[object, ...], list[list[tuple[int, ...]]]] = {}
    for core in sorted({row.core for row in rows}, key=lambda c: c.lowest):
        threads = tuple(core)
        row = by_cpu[threads[0]]
        place = (row.llc, row.numa, row.package, row.die, row.cluster)
        key = (*place, row.kind, row.capacity, len(threads))
        candidates = open_groups.setdefault(key, [])
        for group in candidates:
            if all(new > old for new, old in zip(threads, group[-1], strict=True)):
                group.append(threads)
                break
        else:
            candidates.append([threads])
    made = [_group(by_cpu[cores[0][0]], cores) for found in open_groups.values() for cores in found]
    return tuple(sorted(made, key=lambda group: group.cpus.lowest))


def _group(row: CpuRow, cores: Sequence[tuple[int, ...]]) -> CoreGroup:
    planes = tuple(CpuSet(plane) for plane in zip(*cores, strict=True))
    return CoreGroup(
        cpus=union(planes),
        smt=planes if len(planes) > 1 else (),
        llc=row.llc,
        numa=row.numa,
        package=row.package,
        die=row.die,
        cluster=row.cluster,
        kind=row.kind,
        capacity=row.capacity,
    )
