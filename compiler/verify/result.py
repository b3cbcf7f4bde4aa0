"""What ``tierc verify`` found, as data for the reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from compiler.cpuset import CpuSet
from compiler.diagnostics import Code, Severity
from compiler.verify.machine import MachineCheck

Enforcer = Literal["affinity", "scheduler", "nothing"]
"""What should keep threads where the plan says."""

Kind = Literal["right", "outside", "below", "narrower", "cpuset", "pinned", "alone"]
"""How a thread's affinity compares with its rule's CPUs.

``alone``: nothing is set on it; ``right``; ``outside``: it may run elsewhere; ``narrower``: it may
not use all of them; ``below``: so few that it is below the rule's minimum; ``cpuset``: its control
group leaves too few; ``pinned``: under a scheduler, its affinity leaves too few of its domain.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as planned, or worth knowing.

    Attributes:
        code: what kind of thing.
        severity: that of the code unless the case is milder or worse.
        message: one sentence in lower case without a full stop.
        rows: names and numbers, the most important first.
        more: how many further rows there would be.
        help: what to do about it; empty where nothing need be done.
    """

    code: Code
    severity: Severity
    message: str
    rows: tuple[str, ...] = ()
    more: int = 0
    help: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One thread that has a rule, and how its affinity compares."""

    pid: int
    tid: int
    comm: str
    rule: int
    unit: str
    band: int
    kind: Kind
    allowed: CpuSet
    planned: CpuSet
    cpuset: str | None
    """Path of its cpuset where that matters."""


@dataclass(slots=True)
class UnitCount:
    """The threads of one unit, by how they compare."""

    name: str
    tier: str
    lane: str | None
    cpus: CpuSet
    threads: int = 0
    right: int = 0
    different: int = 0
    skipped: int = 0
    alone: int = 0


@dataclass(frozen=True, slots=True)
class User:
    """A thread without a rule, or in somebody's lane, and its use of CPU time."""

    pid: int
    tid: int
    comm: str
    cpu_seconds: float
    """Since it started."""
    cpu: int
    """Where it is, or was last."""
    running: bool
    """Whether it runs or waits for a CPU."""
    unit: str | None
    """Its unit; None: no rule matches it."""


@dataclass(slots=True)
class LaneCount:
    """A lane and who else may be there."""

    name: str
    cpus: CpuSet
    share: str
    tier: str
    own: int = 0
    """Threads that the plan puts there."""
    may: int = 0
    """Foreign threads whose affinity has CPUs of it."""
    now: int = 0
    """Those of them that run or wait there at this moment."""
    worst: list[User] = field(default_factory=list)
    """Some of them, those that run there first."""


@dataclass(frozen=True, slots=True)
class UnusedRule:
    """A rule that has no thread."""

    rule: int
    unit: str
    match: str
    reason: str
    """Empty where none can be known."""


@dataclass(slots=True)
class ThreadCount:
    """All threads of the node."""

    processes: int = 0
    threads: int = 0
    matched: int = 0
    unmatched: int = 0
    """User threads without a rule."""
    kernel_unmatched: int = 0
    undecided: int = 0
    """Threads whose rule depends on what cannot be read."""
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """A thread and the rule that the plan gives it."""

    pid: int
    comm: str
    rule: int | None
    band: int


@dataclass(frozen=True, slots=True)
class InterruptCheck:
    """An interrupt of a device that the plan places."""

    irq: int
    device: str
    action: str
    """What the kernel says of it, its handlers last; empty where that is nothing."""
    planned: CpuSet
    allowed: CpuSet | None
    """Where the kernel may deliver it; None: that cannot be read."""
    managed: bool
    """Whether the kernel lets nobody set it."""
    moved: bool
    """Whether it is elsewhere although our scripts have set it in this boot."""
    right: bool


@dataclass(frozen=True, slots=True)
class TableCheck:
    """A table of the slot in force beside the seed's."""

    name: str
    different: int
    missing: int
    extra: int
    example: str


@dataclass(frozen=True, slots=True)
class BandStatistics:
    """What the threads of a band had since the seed came into force, all CPUs together."""

    band: int
    judged: int
    """Times a thread was found to be of it."""
    run_ns: int
    runs: int
    """Times a thread was put on a CPU."""
    wait_ns: int
    """From queued to running, all of them together."""
    wait_max_ns: int
    preempts: int
    """Times a CPU was asked to give way."""


@dataclass(frozen=True, slots=True)
class SchedulerEnd:
    """How a scheduler ended."""

    kind: int
    """The kernel's ``enum scx_exit_kind``; from 1,024 on it is an error."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SchedulerCheck:
    """What is known of sched_ext on the node.

    Attributes:
        state: content of ``/sys/kernel/sched_ext/state``; None: the kernel has no sched_ext.
        ops: name of the loaded scheduler.
        ours: whether it is ours.
        slot: the slot in force; None: not known.
        generation: that of the slot in force.
        tables: those that differ; None: not compared.
        compared: how many were.
        bands: statistics of every band of the plan; None: not known.
        recorded: threads whose rule the scheduler recorded; None: it cannot.
        end: how our scheduler ended, where it did and left word.
    """

    state: str | None
    ops: str | None
    ours: bool
    slot: int | None = None
    generation: int | None = None
    tables: tuple[TableCheck, ...] | None = None
    compared: int = 0
    bands: tuple[BandStatistics, ...] | None = None
    recorded: int | None = None
    end: SchedulerEnd | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """Everything ``tierc verify`` has to say.

    Attributes:
        directory: the directory of the node, as given.
        mode: of the plan.
        targets: targets that have files there.
        enforcer: what should keep threads where the plan says.
        why: the reason, a few words.
        disabled: whether the kill switch is set.
        recorded: target -> things its scripts changed and not yet put back; None: unreadable.
        machine: the comparison of the machines.
        threads, units, lanes, unused, rows, users, interrupts: what they are called after; empty
            where the machine is another, and nothing else is compared.
        rows_left_out: how many further threads differ.
        matched: every thread that has a rule, at most 10,000; None: not asked for.
        scheduler: what is known of sched_ext.
        findings: worst first.
    """

    directory: str
    mode: str
    targets: tuple[str, ...]
    enforcer: Enforcer
    why: str
    disabled: bool
    recorded: dict[str, int | None]
    machine: MachineCheck
    threads: ThreadCount
    units: tuple[UnitCount, ...]
    lanes: tuple[LaneCount, ...]
    unused: tuple[UnusedRule, ...]
    rows: tuple[Row, ...]
    rows_left_out: int
    matched: tuple[Row, ...] | None
    users: tuple[User, ...]
    interrupts: tuple[InterruptCheck, ...]
    scheduler: SchedulerCheck
    findings: tuple[Finding, ...]

    def worst(self) -> Severity | None:
        """Return the severity of the worst finding; None without findings."""
        return max((found.severity for found in self.findings), default=None)
