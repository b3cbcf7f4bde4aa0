"""Joins partitions of the CPUs (cores, packages, caches, ...) that several sources describe."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.log import Log
from compiler.facts.partial import Partial

L = TypeVar("L", bound=Hashable)

_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class View(Generic[L]):
    """One source's groups of CPUs, each with a label, disjoint and cut to the online CPUs.

    Attributes:
        seen: the CPUs that the source sees at all.  An export made inside a cgroup misses some,
            and says nothing of the groups that those belong to.
    """

    partial: Partial
    groups: tuple[tuple[L, CpuSet], ...]
    seen: CpuSet


def join(
    log: Log, fact: str, family: str, views: Sequence[View[L]], *, unique: bool = False
) -> tuple[tuple[L, CpuSet], ...]:
    """Return the groups of the first view, completed by those of the others.

    Sources are compared on the CPUs that both know, by which of them are together; labels count
    for nothing, because every tool numbers in its own way.  One that differs is a disagreement
    and is not used.  One that agrees adds the CPUs that the sources before it do not see.

    Args:
        log: where disagreements and suppliers go.
        fact: how messages name the groups.
        family: the family they belong to.
        views: most trusted first.
        unique: whether two groups cannot have one label; a group that would is left out.
    """
    groups: list[tuple[L, CpuSet]] = []
    known, seen = CpuSet(), CpuSet()
    first: Partial | None = None
    for view in views:
        theirs = union(cpus for _, cpus in view.groups)
        if first is None:
            first = view.partial
        elif differ := _differ(groups, view.groups, known & theirs):
            log.disagree(fact, first, _text(differ[0]), view.partial, _text(differ[1]))
            continue
        before = known
        for label, cpus in view.groups:
            new = cpus - before
            if not new:
                continue
            # Groups of one view are disjoint: only what was known before can be met.
            met = not before.isdisjoint(cpus)
            place = next((i for i, (_, old) in enumerate(groups) if old & cpus), -1) if met else -1
            if place < 0:
                if unique and any(label == used for used, _ in groups):
                    continue
                groups.append((label, new))
            elif new.isdisjoint(seen):
                groups[place] = (groups[place][0], groups[place][1] | new)
            else:
                log.disagree(fact, first, groups[place][1], view.partial, cpus)
                continue
            known |= new
        if known != before or view.partial.merged:
            log.supplied(view.partial, family)
        seen |= view.seen
    return tuple(sorted(groups, key=lambda group: (group[1].lowest, group[1].mask)))


def _differ(
    ours: Sequence[tuple[L, CpuSet]], theirs: Sequence[tuple[L, CpuSet]], common: CpuSet
) -> tuple[list[CpuSet], list[CpuSet]] | None:
    """Return the groups that one side has and the other lacks, cut to the common CPUs, if any."""
    mine = {cut for _, cpus in ours if (cut := cpus & common)}
    other = {cut for _, cpus in theirs if (cut := cpus & common)}
    if mine == other:
        return None
    return _sorted(mine - other), _sorted(other - mine)


def _sorted(sets: Iterable[CpuSet]) -> list[CpuSet]:
    return sorted(sets, key=lambda cpus: (cpus.lowest, cpus.mask))


def _text(groups: Sequence[CpuSet]) -> str:
    """Return groups as text: ``0,4 1,5``."""
    shown = " ".join(map(str, groups[:_SHOWN]))
    return shown if len(groups) <= _SHOWN else f"{shown} and {len(groups) - _SHOWN} more"
