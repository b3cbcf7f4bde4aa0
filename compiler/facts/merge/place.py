"""Which CPUs a device is near, by what all sources say of it and the merged tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.cpus import CpuTable
from compiler.facts.merge.identity import Entry
from compiler.facts.merge.log import Log
from compiler.facts.merge.numa import NumaTable
from compiler.facts.merge.online import seen_by
from compiler.facts.partial import Confidence, Partial
from compiler.model.facts import Locality

_Scope = Literal["llc", "numa", "package", "machine", "unknown"]
UNKNOWN: Final = Locality()

_PRINTS_THE_NODE: Final = frozenset({"sysfs", "nvml", "nvidia-smi topo"})
"""Readers whose CPU list is made from the NUMA node, so it cannot be finer than it.

``local_cpulist`` is derived from ``numa_node``; NVIDIA's tools print it, shortened at times.
"""
_MAY_BE_CUT: Final = frozenset({"nvml", "nvidia-smi topo"})
"""Readers whose CPU list may be shortened, by the width of a table or the cgroup of the tool."""
_SHORT: Final = 6
"""CPUs that a truncated list of ``nvidia-smi topo -m`` has at most."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a device is; ``everywhere`` are its NUMA nodes if they hold every CPU."""

    numa: int | None
    locality: Locality
    everywhere: tuple[int, ...] = ()


class Placer:
    """Places the devices of one node."""

    def __init__(self, log: Log, table: CpuTable, numa: NumaTable) -> None:
        self._log = log
        self._table = table
        self._numa = numa
        self._llcs = frozenset(llc.cpus for llc in table.llcs)
        self._packages = frozenset(table.packages)

    def place(self, name: str, entries: Sequence[Entry]) -> Placed:
        """Return where the device is that ``entries`` (most trusted first) speak of.

        - A NUMA node with CPUs: its CPUs.  A printed list that is only a part of them is
          shortened, and the node counts; one that is whole caches or dies of the node is finer,
          and counts.
        - No such node, but a printed list that is less than the machine: that list.
        - Otherwise unknown, never node 0; but where only one node has CPUs it can only be that
          one (inferred).
        """
        claim = self._nodes(name, entries)
        printed = self._printed(entries)
        if claim is not None:
            entry, nodes = claim
            cpus = self._cpus_of(nodes)
            if cpus:
                return self._on_nodes(name, entry, nodes, cpus, printed)
        only = claim[1][0] if claim is not None and len(claim[1]) == 1 else None
        return self._by_list(name, entries, printed, only)

    # --- what sources say ----------------------------------------------------------------------

    def _nodes(self, name: str, entries: Sequence[Entry]) -> tuple[Entry, tuple[int, ...]] | None:
        """Return the NUMA nodes that count: first those with CPUs, then those without.

        Grace machines show a GPU's memory as a node; a source that puts the GPU on it and one
        that puts it on the node with the CPUs do not contradict each other.
        """
        said = []
        for entry in entries:
            known = tuple(n for n in sorted(set(entry.part.numa)) if n in self._numa.by_id)
            if known:
                # On Grace the memory nodes near a GPU are listed beside the one with the CPUs.
                said.append((entry, tuple(n for n in known if self._cpus_of((n,))) or known))
            elif entry.part.numa:
                missing = (
                    "there is no such node" if self._numa.nodes else "no source tells the nodes"
                )
                self._log.about(
                    entry.partial,
                    f"{name}: is on node {_ids(entry.part.numa)}, but {missing}; not used",
                )
        with_cpus = [one for one in said if self._cpus_of(one[1])]
        for entry, nodes in with_cpus[1:]:
            first, ours = with_cpus[0]
            if not (set(ours) <= set(nodes) or set(nodes) <= set(ours)):
                self._log.disagree(
                    f"{name} numa", first.partial, _ids(ours), entry.partial, _ids(nodes)
                )
        return next(iter(with_cpus or said), None)

    def _cpus_of(self, nodes: Iterable[int]) -> CpuSet:
        return union(self._numa.by_id[node] for node in nodes)

    def _printed(self, entries: Sequence[Entry]) -> list[tuple[Entry, CpuSet]]:
        return [
            (entry, cpus)
            for entry in entries
            if entry.part.cpus is not None and (cpus := entry.part.cpus & self._table.online)
        ]

    # --- on a node with CPUs -------------------------------------------------------------------

    def _on_nodes(
        self,
        name: str,
        entry: Entry,
        nodes: tuple[int, ...],
        base: CpuSet,
        printed: Sequence[tuple[Entry, CpuSet]],
    ) -> Placed:
        cpus, confidence = base, _believed(entry)
        for other, listed in printed:
            view = seen_by(other.partial) & self._table.online or self._table.online
            if listed == base & view:
                continue
            if listed < base and not _may_be_cut(other.partial):
                if self._is_finer(other.partial, listed, view):
                    if listed < cpus and cpus == base:
                        cpus, confidence = listed, _believed(other)
                    elif not cpus <= listed:
                        self._log.disagree(
                            f"{name} locality", entry.partial, cpus, other.partial, listed
                        )
                    continue
            elif base <= listed and not _prints_the_node(other.partial):
                continue  # coarser, but true
            only = "only " if listed < base else ""
            self._log.about(
                other.partial,
                f"{name}: is on node {_ids(nodes)} (CPUs {base}), but its local CPUs are "
                f"{only}{listed}; the node counts",
            )
        numa = nodes[0] if len(nodes) == 1 else None
        all_of_many = len(nodes) > 1 and base == union(n.cpus for n in self._numa.bearing)
        return Placed(numa, self._near(cpus, confidence), nodes if all_of_many else ())

    def _is_finer(self, partial: Partial, cpus: CpuSet, view: CpuSet) -> bool:
        """Return whether a part of a node is a place: whole caches, a die, cluster or package."""
        if partial.merged or _prints_the_node(partial):
            return partial.merged
        if any(cpus == part & view for part in (*self._table.parts, *self._table.packages)):
            return True
        inside = [llc.cpus & view for llc in self._table.llcs if llc.cpus & cpus]
        return bool(inside) and union(inside) == cpus

    # --- by a list of CPUs ---------------------------------------------------------------------

    def _by_list(
        self,
        name: str,
        entries: Sequence[Entry],
        printed: Sequence[tuple[Entry, CpuSet]],
        numa: int | None,
    ) -> Placed:
        online, bearing = self._table.online, self._numa.bearing
        everywhere = False
        for entry, cpus in printed:
            if cpus in (online, seen_by(entry.partial) & online):
                everywhere = True
                continue
            cut = _may_be_cut(entry.partial)
            within = [node for node in bearing if cpus <= node.cpus] if cut else []
            if len(within) == 1 and cpus < within[0].cpus:
                node = within[0]
                self._log.about(
                    entry.partial,
                    f"{name}: its local CPUs are only {cpus} of node {node.id} (CPUs "
                    f"{node.cpus}); the node counts",
                )
                return Placed(node.id, self._near(node.cpus, "inferred"))
            confidence = _believed(entry)
            if cut and looks_truncated(cpus):
                confidence = "suspect"
                self._log.about(
                    entry.partial,
                    f"{name}: its local CPUs are {cpus}, which looks like a shortened list; add a "
                    "source that knows the NUMA nodes",
                )
            same = self._numa.by_cpus.get(cpus)
            return Placed(same if numa is None else numa, self._near(cpus, confidence))
        if len(bearing) == 1 and (numa is None or everywhere):
            only = bearing[0]
            return Placed(only.id if numa is None else numa, self._near(only.cpus, "inferred"))
        if not self._numa.nodes and everywhere:
            return Placed(None, self._near(online, "inferred"))
        if numa is not None:
            self._log.remark(
                f"{name}: is on node {numa}, which has no CPUs; which CPUs are near is unknown"
            )
        elif bearing and not any(entry.part.numa for entry in entries):
            self._log.remark(
                f"{name}: no NUMA node is known (numa_node -1 or missing) and {len(bearing)} nodes "
                "have CPUs; which CPUs are near is unknown"
            )
        return Placed(numa, UNKNOWN)

    # --- what a set is -------------------------------------------------------------------------

    def _near(self, cpus: CpuSet, confidence: Confidence) -> Locality:
        return Locality(cpus=cpus, scope=self._scope(cpus), confidence=confidence)

    def _scope(self, cpus: CpuSet) -> _Scope:
        if cpus == self._table.online:
            return "machine"
        if cpus in self._numa.by_cpus:
            return "numa"
        if cpus in self._llcs:
            return "llc"
        return "package" if cpus in self._packages else "unknown"


def looks_truncated(cpus: CpuSet) -> bool:
    """Return whether a list looks like one that ``nvidia-smi topo -m`` cut: 0,2,4,6,8,10.

    That is at least two and at most six single CPUs at equal distances of two or more.
    """
    ids = list(cpus) if len(cpus) <= _SHORT else []
    steps = {b - a for a, b in pairwise(ids)}
    return len(steps) == 1 and min(steps) > 1


def _prints_the_node(partial: Partial) -> bool:
    return partial.reader in _PRINTS_THE_NODE and not partial.merged


def _may_be_cut(partial: Partial) -> bool:
    return partial.reader in _MAY_BE_CUT and not partial.merged


def _believed(entry: Entry) -> Confidence:
    """Return the confidence of a place; a suspect list leaves the NUMA node beside it believed."""
    stated = entry.part.confidence
    if not entry.part.numa or entry.partial.merged:
        return stated
    if stated == "suspect":
        return "measured"
    return "inferred" if stated == "unknown" else stated


def _ids(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))
