"""Whether the sources of one node are files of two machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.partial import Partial

_SEES_ALL: Final = frozenset({"sysfs", "lscpu", "node"})
"""Readers that know of every CPU whatever cgroup they ran in; others may see fewer."""
_FEWER: Final = 0.75
"""Share of CPUs that is too few for CPUs brought offline one by one."""


@dataclass(frozen=True, slots=True)
class TwoMachines:
    """Two sources that cannot well be of one machine; ``reason`` says why."""

    one: Partial
    other: Partial
    reason: str

    @property
    def message(self) -> str:
        """One sentence."""
        return f"these files look like two machines: {self.reason}"


def two_machines(partials: Sequence[Partial]) -> TwoMachines | None:
    """Return the first two sources whose core facts contradict each other massively; else None.

    That is a number of online CPUs that is much smaller than another one, devices near CPUs that
    another source does not have, or on NUMA nodes that it does not have.  Facts that were merged
    before do not contradict the others of their document.

    Args:
        partials: most trusted first.
    """
    known = [one for one in partials if _count(one) and one.reader in _SEES_ALL]
    for number, one in enumerate(known):
        for other in known[number + 1 :]:
            few, many = sorted((_count(one), _count(other)))
            if one.file != other.file and few <= _FEWER * many:
                return TwoMachines(
                    one, other, f"{_count(one)} CPUs in the one, {_count(other)} in the other"
                )
    for one in known:
        found = next((pair for p in partials if (pair := _elsewhere(one, p)) is not None), None)
        if found is not None:
            return found
    return None


def _count(partial: Partial) -> int:
    return len(_online(partial)) or partial.cpu_count or 0


def _online(partial: Partial) -> CpuSet:
    return partial.online or union(partial.cores or ())


def _elsewhere(machine: Partial, other: Partial) -> TwoMachines | None:
    """Compare where a source says that devices are with the CPUs and nodes of a machine."""
    if other.file == machine.file or not _online(machine):
        return None
    masks = (_online(machine), machine.possible, machine.present)
    cpus = union(mask for mask in masks if mask is not None)
    near = union(device.cpus for device in other.devices or () if device.cpus is not None)
    if strange := near - cpus:
        return TwoMachines(
            machine, other, f"CPUs {cpus} in the one, devices near CPUs {strange} in the other"
        )
    nodes = {node.id for node in machine.numa or ()}
    if not nodes:
        return None
    # A GPU's memory is a node that some tools do not list.
    memory = {device.memory_node for device in other.devices or ()}
    memory |= {node.id for node in other.numa or () if not node.cpus}
    named = {id_ for device in other.devices or () for id_ in device.numa} - memory
    if missing := sorted(named - nodes):
        return TwoMachines(
            machine,
            other,
            f"NUMA nodes {_ids(nodes)} in the one, devices on {_ids(missing)} in the other",
        )
    return None


def _ids(nodes: Sequence[int] | set[int]) -> str:
    ordered = sorted(nodes)
    rest = len(ordered) - 8
    return ", ".join(map(str, ordered[:8])) + (f" and {rest} more" if rest > 0 else "")
