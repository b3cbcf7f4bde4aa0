"""Kinds of cores from hwloc's cpukinds (since version 2.4).

hwloc makes a cpukind of every difference it sees, clocks included, and identical cores are sold
with different clocks.  So only two things tell kinds apart here: the type of core that the kernel
names (CoreType), and the kernel's capacity of a CPU where one is clearly above the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.formats.hwloc_tree import Topology, cut, info, read_mask, read_number
from compiler.facts.formats.xml import Element
from compiler.facts.kinds import GAP
from compiler.facts.partial import KindPart, LlcPart, Note, ReadError
from compiler.facts.shown import clean
from compiler.model.facts import CoreKind

MAX_CPUKINDS: Final = 256
_RANKS: Final[tuple[CoreKind, ...]] = ("performance", "efficiency", "lowpower")
_CORE_TYPES: Final[Mapping[str, CoreKind]] = {
    "IntelCore": "performance",
    "IntelAtom": "efficiency",
    "IntelLowPower": "lowpower",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A cpukind: its CPUs, what it is told by, and the line it stands on."""

    cpus: CpuSet
    core_type: str | None
    capacity: int | None
    efficiency: int | None
    line: int


def read_kinds(
    topology: Topology,
    online: CpuSet | None,
    cores: Sequence[CpuSet],
    llcs: Sequence[LlcPart],
    notes: list[Note],
) -> tuple[KindPart, ...] | None:
    """Return kinds of cores, fastest first; empty: all alike; None: nothing tells.

    Raises:
        ReadError: there are more than :data:`MAX_CPUKINDS`, or one has a malformed set.
    """
    rows = _rows(topology, online)
    if online is None or not rows:
        return None
    line = rows[0].line
    if union(row.cpus for row in rows) != online or sum(len(r.cpus) for r in rows) != len(online):
        notes.append(Note("the cpukinds do not have every CPU once; not used", line))
        return None
    kinds = _by_type(rows, llcs, notes)
    if kinds is None:
        kinds = _by_capacity(rows)
    if kinds is None:
        if len(rows) > 1:
            notes.append(
                Note(
                    f"{len(rows)} cpukinds, but they differ in clocks at most, which does not "
                    "make kinds of cores; taken as standard",
                    line,
                )
            )
        return None
    for core in cores:
        if len([kind for kind in kinds if not kind.cpus.isdisjoint(core)]) > 1:
            notes.append(Note(f"the cpukinds split the core of CPU {core}; not used", line))
            return None
    return kinds


def read_capacities(topology: Topology, online: CpuSet | None) -> Mapping[int, int] | None:
    """Return the kernel's ``cpu_capacity`` by CPU; None where one has none."""
    rows = _rows(topology, online)
    values = {cpu: row.capacity for row in rows for cpu in row.cpus}
    known = {cpu: value for cpu, value in sorted(values.items()) if value is not None}
    return known if online and CpuSet(known) == online else None


def _rows(topology: Topology, online: CpuSet | None) -> list[_Row]:
    rows: list[_Row] = []
    for number, element in enumerate(topology.root.all("cpukind")):
        if number == MAX_CPUKINDS:
            raise ReadError(f"more than {MAX_CPUKINDS} cpukinds", line=element.line)
        if cpus := cut(read_mask(element, "cpuset"), online):
            capacity = info(element, "LinuxCapacity") or ""
            is_number = capacity.isascii() and capacity.isdecimal() and len(capacity) < 10
            rows.append(
                _Row(
                    cpus=cpus,
                    core_type=_core_type(element),
                    capacity=(int(capacity) or None) if is_number else None,
                    efficiency=read_number(element, "forced_efficiency"),
                    line=element.line,
                )
            )
    return rows


def _by_type(
    rows: Sequence[_Row], llcs: Sequence[LlcPart], notes: list[Note]
) -> tuple[KindPart, ...] | None:
    types = sorted({row.core_type for row in rows if row.core_type is not None})
    if any(row.core_type is None for row in rows):
        return None
    groups = {name: union(row.cpus for row in rows if row.core_type == name) for name in types}
    named: dict[CoreKind, CpuSet] = {}
    if all(name in _CORE_TYPES for name in types):
        named = {_CORE_TYPES[name]: cpus for name, cpus in groups.items()}
        named = _outside_the_llc(named, llcs)
        if len(named) == 1:
            return ()
    elif len(types) == 1:
        return ()
    else:
        best = {
            name: max(
                -1 if row.efficiency is None else row.efficiency
                for row in rows
                if row.core_type == name
            )
            for name in types
        }
        if len(set(best.values())) < len(best) or -1 in best.values():
            notes.append(
                Note(
                    f"nothing says which of the core types {', '.join(types)} is faster; taken "
                    "as standard",
                    rows[0].line,
                )
            )
            return None
        for rank, name in enumerate(sorted(types, key=lambda name: -best[name])):
            kind = _RANKS[min(rank, len(_RANKS) - 1)]
            named[kind] = named.get(kind, CpuSet()) | groups[name]
    return tuple(KindPart(kind, named[kind], "cpukind") for kind in _RANKS if kind in named)


def _outside_the_llc(
    named: Mapping[CoreKind, CpuSet], llcs: Sequence[LlcPart]
) -> dict[CoreKind, CpuSet]:
    """Tell low-power cores, which have the type of the other small ones, by their cache."""
    small = named.get("efficiency", CpuSet())
    top = max((llc.level for llc in llcs), default=0)
    inside = small & union(llc.cpus for llc in llcs if llc.level == top)
    outside = small & union(llc.cpus for llc in llcs if llc.level < top)
    if not inside or not outside or inside | outside != small or "lowpower" in named:
        return dict(named)
    return {**named, "efficiency": inside, "lowpower": outside}


def _by_capacity(rows: Sequence[_Row]) -> tuple[KindPart, ...] | None:
    known = [(row.capacity, row.cpus) for row in rows if row.capacity is not None]
    if len(known) < len(rows):
        return None
    groups: list[tuple[int, CpuSet]] = []
    last = None
    for capacity, cpus in sorted(known, key=lambda pair: (-pair[0], pair[1].lowest)):
        if groups and last is not None and last < GAP * capacity:
            groups[-1] = (groups[-1][0], groups[-1][1] | cpus)
        else:
            groups.append((capacity, cpus))
        last = capacity
    if len(groups) < 2:
        return None
    named: dict[CoreKind, tuple[int, CpuSet]] = {}
    for rank, (capacity, cpus) in enumerate(groups):
        kind = _RANKS[min(rank, len(_RANKS) - 1)]
        best, others = named.get(kind, (capacity, CpuSet()))
        named[kind] = best, others | cpus
    return tuple(
        KindPart(kind, cpus, "cpukind", figure="LinuxCapacity", value=value)
        for kind, (value, cpus) in named.items()
    )


def _core_type(element: Element) -> str | None:
    text = info(element, "CoreType")
    return None if text is None else clean(text, 40)
