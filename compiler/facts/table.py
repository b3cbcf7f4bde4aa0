"""CPU facts as one row per CPU: what the merge of sources makes, before it is compressed."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.model.facts import CoreKind


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
        die: id of its die, unique in its package only.
        cluster: id of its cluster.
    """

    cpu: int
    core: CpuSet
    llc: int | None = None
    numa: int | None = None
    package: int | None = None
    kind: CoreKind = "standard"
    capacity: int | None = None
    die: int | None = None
    cluster: int | None = None
