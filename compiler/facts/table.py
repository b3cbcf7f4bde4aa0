"""CPU facts as one row per CPU: what every reader produces, before it is compressed.

Other formats give the same rows, so that several sources of one machine can be merged per CPU
before anything is folded into groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.model.facts import CoreKind, Llc, Numa


class FactsError(Exception):
    """No facts can be had: ``path`` is what was looked at, ``message`` says why and what to do."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


@dataclass(frozen=True, slots=True)
class CpuRow:
    """What is known of one online CPU; None is unknown.

    Attributes:
        cpu: its id.
        core: the online CPUs of its core, itself included.
        llc: id of its last-level cache.
        numa: id of its NUMA node.
        package: id of its socket.
        kind: the kind of its core.
        capacity: the kernel's ``cpu_capacity``.
    """

    cpu: int
    core: CpuSet
    llc: int | None = None
    numa: int | None = None
    package: int | None = None
    kind: CoreKind = "standard"
    capacity: int | None = None


@dataclass(frozen=True)
class CpuTable:
    """The CPUs of one machine.

    Attributes:
        possible, present, isolated, nohz_full: kernel masks; None is unknown.
        online: never empty; equal to the CPUs of ``rows``.
        rows: by CPU id.
        llcs: last-level caches by lowest CPU, cut to the online CPUs.
        numa: NUMA nodes by id, cut to the online CPUs.
    """

    online: CpuSet
    rows: tuple[CpuRow, ...]
    llcs: tuple[Llc, ...] = ()
    numa: tuple[Numa, ...] = ()
    possible: CpuSet | None = None
    present: CpuSet | None = None
    isolated: CpuSet | None = None
    nohz_full: CpuSet | None = None
