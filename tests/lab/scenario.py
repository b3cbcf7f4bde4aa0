"""What a scenario adds to a guest.

A guest is booted once for all scenarios that share its machine, and the scheduler is attached once:
both take longer than the measurements.  So a scenario gives steps, and the guest runs those of one
phase together: first under the kernel's own scheduler, then with the affinity that tierc's script
sets, then with tierc's scheduler without a seed, then with seeds, in the order given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tests.lab.check import Check
from tests.lab.machine import Machine


class Phase(IntEnum):
    """Who schedules."""

    EEVDF = 0
    """The kernel, and nothing of tierc is there."""
    STATIC = 1
    """The kernel; the step calls ``static POLICY`` once its threads exist."""
    EMPTY = 2
    """tierc's scheduler without a seed."""
    SEEDED = 3
    """tierc's scheduler with the seed of the step's policy."""


@dataclass(frozen=True)
class Step:
    """Something to run in the guest.

    Attributes:
        phase: who schedules meanwhile.
        script: POSIX sh for busybox; the functions of payload/lib.sh are defined.  It prints what
            it found in lines that begin with ``LAB`` and the scenario's name, ends what it
            started, and takes no longer than it must: a second of an emulated CPU that works is a
            second and more of the machine below.
        policy: for SEEDED the name of the policy whose seed is in force.
        change: a shell script run with the policy's directory as its argument, on the copy that
            is loaded: for seeds that are wrong on purpose.
    """

    phase: Phase
    script: str
    policy: str = ""
    change: str = ""


@dataclass(frozen=True)
class Result:
    """What a guest did.

    Attributes:
        console: all it printed.
        plans: the decoded plan.json of each policy that its steps name.
        machine: where it ran.
    """

    console: str
    plans: Mapping[str, Mapping[str, Any]]
    machine: Machine


@dataclass(frozen=True)
class Table:
    """Figures: the names of columns, and rows as they are printed."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


@dataclass(frozen=True)
class Report:
    """What came of a scenario in one guest."""

    checks: Sequence[Check] = ()
    table: Table | None = None
    notes: Sequence[str] = field(default=())
    """Lines for the reader, without a verdict."""


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    Attributes:
        name: its letter in the lines it prints.
        title: what it is about, in a line.
        policies: YAML documents by name, the project first, as for `tests.lab.policy.build`.
        steps: what to run in a guest.
        judge: what to make of what the guest printed.
    """

    name: str
    title: str
    policies: Mapping[str, str]
    steps: Callable[[Machine], Sequence[Step]]
    judge: Callable[[Result], Report]
