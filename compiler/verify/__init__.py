"""A node beside its compiled plan: machine, threads, lanes, interrupts, scheduler.

Reads ``/proc``, ``/sys``, ``/etc/tierc`` and ``/var/lib/tierc`` below one root and changes nothing.
"""

from __future__ import annotations

from compiler.verify.machine import FactsError
from compiler.verify.nodedir import NodeDir, NodeDirError, load_node_dir
from compiler.verify.result import (
    BandStatistics,
    Finding,
    InterruptCheck,
    LaneCount,
    Row,
    SchedulerCheck,
    TableCheck,
    UnitCount,
    UnusedRule,
    User,
    Verification,
)
from compiler.verify.run import verify
from compiler.verify.sysroot import DeniedError

__all__ = [
    "BandStatistics",
    "DeniedError",
    "FactsError",
    "Finding",
    "InterruptCheck",
    "LaneCount",
    "NodeDir",
    "NodeDirError",
    "Row",
    "SchedulerCheck",
    "TableCheck",
    "UnitCount",
    "UnusedRule",
    "User",
    "Verification",
    "load_node_dir",
    "verify",
]
