"""CPUs, cores, packages and caches of a topology that hwloc wrote."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.cpuset import MAX_CPUS, CpuSet, union
from compiler.facts.formats.hwloc_tree import Topology, cut, read_mask, read_number
from compiler.facts.partial import LSCPU, LlcPart, Note, ReadError

Grouping = tuple[tuple[int, CpuSet], ...]


@dataclass(frozen=True, slots=True)
class Masks:
    """Which CPUs there are; None: not said.

    Attributes:
        online: CPUs that have a PU object.
        present: all CPUs, among them those that are offline or kept from hwloc.
        allowed: what hwloc's own process may use, where that is less than ``present``.
    """

    online: CpuSet | None
    present: CpuSet | None
    allowed: CpuSet | None


def read_masks(topology: Topology, notes: list[Note]) -> Masks:
    """Return which CPUs there are.

    hwloc's complete set is what Linux calls present, not possible.  It does not tell a CPU that
    is offline from one that its own process may not use (version 1 does): neither has a PU.

    Raises:
        ReadError: a PU has no number, or the number of another one.
    """
    online = _numbered(topology)
    machine = topology.machine.element
    complete = cut(read_mask(machine, "complete_cpuset"), None)
    known_online = cut(read_mask(machine, "online_cpuset"), complete) or None
    if online is None:
        notes.append(
            Note(
                "no PU objects, so the CPUs that are online and their cores are unknown (export "
                "again with lstopo --of xml, without a filter)"
            )
        )
    else:
        if known_online is not None:
            if hidden := known_online - online:
                notes.append(
                    Note(f"CPU {hidden} is online but not in the file; hwloc could not use it")
                )
            # An export of the "whole system" has objects for CPUs that are offline.
            online = online & known_online or online
        elif complete is not None and (missing := complete - online):
            notes.append(
                Note(
                    f"CPU {missing} is not in the file: offline, or not usable where hwloc ran; "
                    "taken as not online. If it is online, the node will refuse plans made from "
                    f"this file alone: add what `{LSCPU}` prints there"
                )
            )
        if complete is not None and not online <= complete:
            notes.append(Note(f"CPU {online - complete} is not in complete_cpuset; not used"))
            complete = None
    allowed = cut(read_mask(machine, "allowed_cpuset"), online if complete is None else complete)
    everything = complete if complete is not None else online
    if not allowed or everything is None or not allowed < everything:
        allowed = None
    return Masks(online, complete, allowed)


def _numbered(topology: Topology) -> CpuSet | None:
    seen: set[int] = set()
    for pu in topology.of("PU"):
        line = pu.element.line
        if pu.os_index is None:
            raise ReadError("PU without os_index, the CPU's number", line=line)
        if pu.os_index >= MAX_CPUS:
            raise ReadError(f"CPU {pu.os_index} is outside 0-{MAX_CPUS - 1}", line=line)
        if pu.os_index in seen:
            raise ReadError(f"CPU {pu.os_index} is in the file twice", line=line)
        seen.add(pu.os_index)
    return CpuSet(seen) if seen else None


def read_cores(topology: Topology, online: CpuSet | None) -> tuple[CpuSet, ...] | None:
    """Return sibling sets; None where the file has no cores."""
    if online is None:
        return None
    sets = _disjoint([cut(core.mask, online) for core in topology.of("Core")])
    return tuple(sorted(sets, key=lambda one: one.lowest)) or None


def read_groups(topology: Topology, kind: str, online: CpuSet | None) -> Grouping | None:
    """Return packages, dies or clusters (``Package``, ``Die``, ``Cluster``) by number.

    None where there are none, where one has no number or where two share a CPU.
    """
    rows: list[tuple[int, CpuSet]] = []
    for one in topology.objects:
        is_cluster = one.kind == "Group" and one.element.get("subtype") == "Cluster"
        if one.kind != kind and not (kind == "Cluster" and is_cluster):
            continue
        cpus = cut(one.mask, online)
        if cpus is None or one.os_index is None:
            return None
        if cpus:
            rows.append((one.os_index, cpus))
    if len(_disjoint([cpus for _, cpus in rows])) < len(rows):
        return None
    return tuple(sorted(rows, key=lambda row: row[1].lowest)) or None


def read_llcs(
    topology: Topology, online: CpuSet | None, notes: list[Note]
) -> tuple[LlcPart, ...] | None:
    """Return the highest cache that is not for instructions of every CPU; None: no caches."""
    rows: list[LlcPart] = []
    covered = CpuSet()
    caches = [(cache, cut(cache.mask, online)) for cache in topology.of("Cache")]
    for cache, cpus in sorted(caches, key=lambda pair: -pair[0].level):
        if not cpus or cpus <= covered:
            continue
        if not cpus.isdisjoint(covered):
            notes.append(
                Note(
                    f"the L{cache.level} cache of CPU {cpus} overlaps another one; caches are "
                    "not used",
                    cache.element.line,
                )
            )
            return None
        covered |= cpus
        size = read_number(cache.element, "cache_size") or 0
        rows.append(LlcPart(cpus, cache.level, size // 1024 or None))
    return tuple(sorted(rows, key=lambda row: row.cpus.lowest)) or None


def _disjoint(sets: list[CpuSet | None]) -> list[CpuSet]:
    """Return the sets that are not empty; none of them if two overlap."""
    some = [one for one in sets if one]
    return some if len(union(some)) == sum(map(len, some)) else []
