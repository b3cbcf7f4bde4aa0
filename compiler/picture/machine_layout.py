"""Node facts -> a picture of the machine: which box is in which, and what is in each.

A fixed order of nesting would be wrong on some machine: sub-NUMA clusters put several nodes below
one cache, a virtual machine may have 32 packages in one node.  So a level with fewer parts is
further outside, and where a part still reaches into several boxes it is drawn in each, as a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.model.facts import CoreKind, FactsSpec, NodeFacts
from compiler.picture.machine import (
    Box,
    CoreRow,
    LaneKey,
    Level,
    Machine,
    MachineLane,
    Mark,
    MemoryNodes,
)
from compiler.picture.machine_devices import device_marks, placed
from compiler.picture.machine_summary import summary
from compiler.topology import KINDS_BY_SPEED, Topology, topology_of

_ORDER: Final[tuple[Level, ...]] = ("package", "die", "numa", "llc")
_JOINED: Final = 4
"""From so many boxes of one core each they are drawn as one."""

_Id = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class _Core:
    cpus: CpuSet
    kind: CoreKind
    capacity: int | None
    at: Mapping[Level, _Id]
    marks: tuple[tuple[Mark, ...], ...]
    lanes: tuple[tuple[str, ...], ...]


def machine_picture(facts: NodeFacts, lanes: Sequence[MachineLane] = ()) -> Machine:
    """Return the picture of a machine; the operator's overrides are applied.

    Every online CPU is in exactly one row.

    Args:
        facts: the machine.
        lanes: owners of CPUs, in the order of their letters; a CPU may have several or none.
    """
    spec = facts.spec
    topology = topology_of(facts)
    online = topology.online
    keys = tuple(LaneKey(_letter(i), lane) for i, lane in enumerate(lanes))
    isolated = spec.overrides.isolated
    if isolated is None:
        isolated = spec.cpus.isolated
    marks: dict[Mark, CpuSet] = {
        "i": (isolated or CpuSet()) & online,
        "n": (spec.cpus.nohz_full or CpuSet()) & online,
        "x": online - topology.allowed,
        "k": topology.kubelet_owned & online,
    }
    cores = _cores(spec, topology, marks, keys)
    levels = _levels(cores)
    boxes = _boxes(cores, levels, spec, _extents(cores, levels))
    devices = device_marks(facts, topology)
    boxes, outside = placed(boxes, [one for one in devices if one.near])
    present = spec.cpus.present
    return Machine(
        name=facts.metadata.name,
        arch=spec.arch,
        online=online,
        levels=levels,
        boxes=boxes,
        devices=outside,
        unplaced=tuple(one for one in devices if not one.near),
        memory=_memory(spec, topology),
        offline=None if present is None else present - online,
        isolated=marks["i"],
        nohz_full=marks["n"],
        not_allowed=marks["x"],
        kubelet=marks["k"],
        lanes=keys,
        facts=summary(spec, topology),
        warnings=spec.warnings,
    )


def _letter(index: int) -> str:
    """Return A to Z, then AA, AB and so on."""
    text = ""
    index += 1
    while index:
        index, place = divmod(index - 1, 26)
        text = chr(ord("A") + place) + text
    return text


def _cores(
    spec: FactsSpec, topology: Topology, marks: Mapping[Mark, CpuSet], lanes: Sequence[LaneKey]
) -> list[_Core]:
    llc_of = {core.siblings.lowest: core.llc for core in topology.cores}
    found = []
    for group in spec.cores:
        for cpus in group.cores():
            llc = llc_of[cpus.lowest]
            die = group.die is not None and group.package is not None
            found.append(
                _Core(
                    cpus=cpus,
                    kind=group.kind,
                    capacity=group.capacity,
                    at={
                        "package": None if group.package is None else (group.package,),
                        "die": (group.package or 0, group.die or 0) if die else None,
                        "numa": None if group.numa is None else (group.numa,),
                        "llc": None if llc is None else (llc,),
                    },
                    marks=tuple(
                        tuple(mark for mark, where in marks.items() if cpu in where) for cpu in cpus
                    ),
                    lanes=tuple(
                        tuple(key.letter for key in lanes if cpu in key.lane.cpus) for cpu in cpus
                    ),
                )
            )
    return sorted(found, key=lambda core: core.cpus.lowest)


def _levels(cores: Sequence[_Core]) -> tuple[Level, ...]:
    """Return the levels to draw, outermost first.

    Dies only where a package has several: else they say nothing.
    """
    parts = {level: {core.at[level] for core in cores} for level in _ORDER}
    known = [level for level in _ORDER if parts[level] != {None}]
    if "die" in known and len(parts["die"]) <= len(parts["package"]):
        known.remove("die")
    order = sorted(known, key=lambda level: len(parts[level]))
    return tuple(order) or ("machine",)


def _extents(cores: Sequence[_Core], levels: Sequence[Level]) -> Mapping[tuple[Level, _Id], CpuSet]:
    masks: dict[tuple[Level, _Id], int] = {}
    for core in cores:
        for level in levels:
            key = (level, core.at.get(level))
            masks[key] = masks.get(key, 0) | core.cpus.mask
    return {key: CpuSet.from_mask(mask) for key, mask in masks.items()}


def _boxes(
    cores: Sequence[_Core],
    levels: Sequence[Level],
    spec: FactsSpec,
    extents: Mapping[tuple[Level, _Id], CpuSet],
) -> tuple[Box, ...]:
    level, deeper = levels[0], levels[1:]
    parts: dict[_Id, list[_Core]] = {}
    for core in cores:
        parts.setdefault(core.at.get(level), []).append(core)
    out = []
    for id_ in sorted(parts, key=lambda id_: (id_ is None, id_ or ())):
        inside = parts[id_]
        cpus = union(core.cpus for core in inside)
        out.append(
            _sized(
                Box(
                    level=level,
                    ids=() if id_ is None else (id_[-1],),
                    cpus=cpus,
                    part=id_ is not None and cpus != extents[level, id_],
                    boxes=_boxes(inside, deeper, spec, extents) if deeper else (),
                    rows=() if deeper else _rows(inside),
                ),
                spec,
            )
        )
    return tuple(out) if deeper else _joined(out, cores)


def _sized(box: Box, spec: FactsSpec) -> Box:
    if box.level == "numa" and box.ids:
        memory = next((n.memory_mib for n in spec.numa if n.id == box.ids[0]), None)
        return replace(box, memory_mib=memory)
    if box.level == "llc" and box.ids:
        found = next((llc for llc in spec.llcs if llc.id == box.ids[0]), None)
        if found is not None:
            return replace(box, cache_level=found.level, size_kib=found.size_kib)
    return box


def _joined(boxes: Sequence[Box], cores: Sequence[_Core]) -> tuple[Box, ...]:
    """Draw many boxes of one core each as one: private caches, a package for each virtual CPU."""
    by_cpu = {core.cpus.lowest: core for core in cores}

    def look(box: Box) -> tuple[object, ...]:
        single = sum(len(row.cores) for row in box.rows) == 1 and box.ids and not box.part
        return (single, box.level, box.cache_level, box.size_kib, box.memory_mib)

    out: list[Box] = []
    for (single, *_), group in groupby(boxes, key=look):
        alike = sorted(group, key=lambda box: box.cpus.lowest)
        if not single or len(alike) < _JOINED:
            out += sorted(alike, key=lambda box: (not box.ids, box.ids))
            continue
        for rows, same in groupby(alike, key=lambda box: _look(by_cpu[box.cpus.lowest])):
            del rows
            run = list(same)
            out.append(
                replace(
                    run[0],
                    ids=tuple(box.ids[0] for box in run),
                    cpus=union(box.cpus for box in run),
                    rows=_rows([by_cpu[box.cpus.lowest] for box in run]),
                )
            )
    return tuple(out)


def _look(core: _Core) -> tuple[int, str, int | None, object, object]:
    return len(core.cpus), core.kind, core.capacity, core.marks, core.lanes


def _rows(cores: Sequence[_Core]) -> tuple[CoreRow, ...]:
    """Return alike cores together; faster kinds first, then by lowest CPU."""
    rows: dict[tuple[object, ...], list[_Core]] = {}
    for core in cores:
        rows.setdefault(_look(core), []).append(core)
    ordered = sorted(
        rows.values(),
        key=lambda row: (KINDS_BY_SPEED.index(row[0].kind), row[0].cpus.lowest),
    )
    differ = _differing(ordered, lambda core: core.capacity)
    return tuple(
        CoreRow(
            kind=row[0].kind,
            cores=tuple(core.cpus for core in row),
            marks=row[0].marks,
            lanes=row[0].lanes,
            capacity=row[0].capacity if row[0].kind in differ else None,
        )
        for row in ordered
    )


def _differing(
    rows: Iterable[Sequence[_Core]], of: Callable[[_Core], int | None]
) -> frozenset[CoreKind]:
    """Return the kinds whose cores differ in something."""
    seen: dict[CoreKind, set[int | None]] = {}
    for row in rows:
        seen.setdefault(row[0].kind, set()).add(of(row[0]))
    return frozenset(kind for kind, values in seen.items() if len(values) > 1)


def _memory(spec: FactsSpec, topology: Topology) -> tuple[MemoryNodes, ...]:
    empty = {node.id for node in topology.numas if not node.cpus}
    nodes = sorted((node for node in spec.numa if node.id in empty), key=lambda node: node.id)
    groups: dict[tuple[str, int | None], list[int]] = {}
    for node in nodes:
        role = "CPUs offline" if node.cpus else node.role
        groups.setdefault((role, node.memory_mib), []).append(node.id)
    return tuple(MemoryNodes(tuple(ids), role, mib) for (role, mib), ids in groups.items())
