"""CPUs as the DRA driver for CPUs publishes them: one device a CPU, or a group of CPUs.

It publishes the CPUs it hands out, which may be fewer than the machine has: so cores, caches and
nodes follow for those, and which CPUs are online does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import MAX_CPUS, CpuListError, CpuSet
from compiler.facts.formats.kubernetes_object import whole
from compiler.facts.partial import LlcPart, Note, NumaPart
from compiler.facts.shown import clean
from compiler.source import Data

_NUMA: Final = ("resource.kubernetes.io/numaNode", "dra.cpu/numaNodeID", "dra.net/numaNode")
_MAX_ID: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What the devices say; None: nothing, or not of every CPU."""

    cores: tuple[CpuSet, ...] | None
    packages: tuple[tuple[int, CpuSet], ...] | None
    llcs: tuple[LlcPart, ...] | None
    numa: tuple[NumaPart, ...] | None


def cpu_facts(
    devices: Iterable[tuple[Mapping[str, Data], int]], notes: list[Note]
) -> CpuFacts | None:
    """Return the facts of the CPUs among ``devices`` (attributes, line); None if there are none."""
    single: dict[int, Mapping[str, Data]] = {}
    groups: dict[int, CpuSet] = {}
    for values, line in devices:
        cpu = whole(values.get("dra.cpu/cpuID"))
        if cpu is not None:
            if not 0 <= cpu < MAX_CPUS:
                notes.append(Note(f"CPU {cpu} is outside 0-{MAX_CPUS - 1}, not used", line))
            elif cpu in single:
                notes.append(Note(f"CPU {cpu} is there twice, the second is not used", line))
            else:
                single[cpu] = values
            continue
        listed, node = values.get("dra.cpu/cpuIDs"), _id(values, *_NUMA)
        if not isinstance(listed, str) or node is None:
            continue
        try:
            groups[node] = groups.get(node, CpuSet()) | CpuSet.parse(listed)
        except CpuListError as error:
            notes.append(Note(clean(str(error)), line))
    if not single:
        numa = tuple(NumaPart(id=node, cpus=cpus) for node, cpus in sorted(groups.items()))
        return CpuFacts(None, None, None, numa) if numa else None
    cores = _by(single, ("dra.cpu/socketID",), ("dra.cpu/coreID",))
    packages = _by(single, ("dra.cpu/socketID",))
    caches = _by(single, ("dra.cpu/cacheL3ID",))
    nodes = _by(single, _NUMA)
    return CpuFacts(
        cores=None if cores is None else tuple(sorted(cores.values(), key=_lowest)),
        packages=None if packages is None else tuple((k[0], c) for k, c in packages.items()),
        llcs=None if caches is None else tuple(LlcPart(c, level=3) for c in caches.values()),
        numa=None if nodes is None else tuple(NumaPart(k[0], cpus=c) for k, c in nodes.items()),
    )


def _lowest(cpus: CpuSet) -> int:
    return cpus.lowest


def _by(
    cpus: Mapping[int, Mapping[str, Data]], *steps: tuple[str, ...]
) -> dict[tuple[int, ...], CpuSet] | None:
    """Group CPUs by ids, each under one of several names; None unless every CPU has all of them."""
    found: dict[tuple[int, ...], list[int]] = {}
    for cpu, values in cpus.items():
        ids = [_id(values, *names) for names in steps]
        key = tuple(one for one in ids if one is not None)
        if len(key) < len(steps):
            return None
        found.setdefault(key, []).append(cpu)
    return {key: CpuSet(members) for key, members in sorted(found.items())}


def _id(values: Mapping[str, Data], *names: str) -> int | None:
    """Return the first id under one of the names; negative ones are unknown."""
    for name in names:
        value = whole(values.get(name))
        if value is not None and 0 <= value < _MAX_ID:
            return value
    return None
