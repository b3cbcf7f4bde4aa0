"""NodePlan: the compiled form of one class of nodes.

Frozen and free of node names, places in files and time, so that equal nodes have equal plans.
Targets read nothing else.  ``PLAN_VERSION`` changes when a reader of plan.json has to.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from compiler.cpuset import CpuSet, union
from compiler.model.base import CpuList, Preference, Stage

PLAN_VERSION: Final = 3
MAX_RULES: Final = 256
MAX_BANDS: Final = 64

Effect = Literal["protect", "demote", "keep", "needed", "place"]
"""Why a unit has its tier: asked by its intent, or *needed* by a protected path.  ``place`` is
an intent that only places."""

Mode = Literal["observe", "fallback", "sched_ext"]

IrqWhy = Literal["written", "default", "no-lane", "not-near", "unclaimed"]
"""Why interrupts go where they do: an intent says so (``irqs``); by default, as an intent with a
lane uses the device; they are left, as an intent says ``irqs: lane`` and has none, or as no CPU
of its lane is known to be near the NIC; or no intent speaks of the device."""


class PlanModel(BaseModel):
    """Base of the IR: frozen, camelCase in JSON."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        defer_build=True,
    )


class Condition(PlanModel):
    """What a thread must be for a rule to have it; all that are given must hold.

    Globs are normalised texts of :mod:`compiler.patterns`; ``@pods`` is already replaced.
    """

    comm: str | None = None
    leader_comm: str | None = None
    kthread: str | None = None
    cgroup: str | None = None
    cmdline: str | None = None
    pods: str | None = None
    """Canonical text of a late-bound pod selector; the rule is inactive until it is resolved."""


class MemberBand(PlanModel):
    """The band of a thread whose process is bound to one member of a family of lanes."""

    lane: str
    """Name of the member."""
    band: int
    """Id of a band with the CPUs of the member alone."""


class Rule(PlanModel):
    """One line of the ordered, first-match rule list."""

    id: int
    """Place in the order, from 0."""
    unit: str
    """Name of the unit it belongs to."""
    band: int
    """Id of the band a matching thread gets; of a family, as long as nobody knows which GPUs its
    process has, the one with the CPUs of all members."""
    match: Condition
    spawns: bool = False
    """The process starts others, which would inherit CPU affinity set on it."""
    needs: str | None = None
    """What must be set for the name to exist, such as an environment variable."""
    members: tuple[MemberBand, ...] = ()
    """Where the rule gives a family: its members, each with the band for processes that have GPUs
    of that member's ``devices`` open, by name."""


class Band(PlanModel):
    """What a scheduler is told about a set of threads."""

    id: int
    tier: int
    """Tier id, 0 the highest."""
    order: int
    """Order inside the tier, 0 first."""
    cpus: CpuList
    """CPUs its threads may use."""
    min_cpus: int
    """Fewest CPUs with which applying makes sense; below it an applier skips and reports."""
    hard: bool
    """Whether ``cpus`` is a boundary (a lane, or kept out of one) rather than a wish."""
    prefer_idle_core: bool
    """Whether a wholly idle core is wanted before an idle sibling."""


class Tier(PlanModel):
    """A service level as the scheduler needs it."""

    id: int
    name: str
    slice_ns: int
    weight: int
    floor: int
    """CPU time kept under contention, in thousandths."""
    preempt: bool


class Unit(PlanModel):
    """The threads one intent speaks of, at stage granularity."""

    name: str
    """``intent/stage``, ``intent``, or ``node/gpu-driver``."""
    intent: str | None
    """None for units of the node."""
    stage: Stage | None
    tier: int
    order: int
    effect: Effect
    lane: str | None
    """Name of a lane, or of a family of lanes: see :meth:`NodePlan.lanes_of`."""
    cpus: CpuList
    """Of a family: those of all members."""
    band: int


class Workload(PlanModel):
    """What an intent says of its workload beyond its threads; for targets that act on it."""

    intent: str
    engine: str | None
    version: str | None
    tensor_parallel: int
    instances: int
    traffic: Literal["mostly-idle", "steady", "saturated"]
    knobs: Literal["auto", "off"]
    """Whether flags of the engine may be emitted."""
    irqs: Literal["lane", "housekeeping", "leave"] | None
    """Where interrupts of its devices go; None: a target's default."""


class Lane(PlanModel):
    """CPUs given to units."""

    name: str
    """As written; a member of a family is called ``chat@numa0``."""
    cpus: CpuList
    cores: int
    """Whole cores it was given."""
    min_cores: int
    max_cores: int | None
    """None: all that is left."""
    share: Literal["open", "guarded", "exclusive"]
    tier: int
    """Highest tier among its members."""
    intents: tuple[str, ...]
    prefer: tuple[Preference, ...]
    require: tuple[Preference, ...]
    isolated: bool = False
    """Whether it lies on isolcpus CPUs, where the kernel does not balance load."""
    family: str | None = None
    """Name of the family it is a member of: a lane for each locality of its GPUs."""
    devices: tuple[str, ...] = ()
    """GPUs that it should be near, where it asks for that: PCI addresses (else the UUID, else the
    id in the facts), in order of their ids.  A process that has some of them open belongs to this
    member of its family."""


class Degradation(PlanModel):
    """Something asked for softly that this machine could not give."""

    about: str
    """Lane, unit or ``housekeeping``."""
    kind: str
    """Kebab-case word, stable."""
    message: str


class Machine(PlanModel):
    """The machine the plan is for."""

    arch: str | None
    online: CpuList
    effective: CpuList
    """Online and allowed, less isolated and kubelet-owned."""
    isolated: CpuList
    cores: tuple[CpuList, ...]
    """Sibling sets of online CPUs, by lowest CPU."""
    llcs: tuple[CpuList, ...]
    """Online CPUs of each last-level cache, by lowest CPU; empty: unknown."""
    gpus: tuple[str, ...] | None = None
    """PCI addresses of the GPUs, in order; None: not all are known."""
    nics: tuple[str, ...] | None = None
    """PCI addresses of the network devices, in order; None: not all are known."""
    nohz_full: CpuList | None = None
    """CPUs without a periodic tick (``nohz_full=``); None: there are none, or it is not known."""
    pods_root: str | None = None
    """Cgroup below which all pods are; None: there are none, or it is not known."""


class DeviceIrqs(PlanModel):
    """Where the interrupts of one device go.  Their numbers are known at run time only."""

    device: str
    """PCI address."""
    kind: Literal["gpu", "nic"]
    where: Literal["lane", "housekeeping", "leave"]
    """``leave``: nothing sets them."""
    cpus: CpuList | None = None
    """CPUs that may serve them, never empty; None where they are left."""
    lanes: tuple[str, ...] = ()
    """Lanes, or members of families, that the CPUs are of; by name."""
    intents: tuple[str, ...] = ()
    """Intents that decided it, by name; none where nobody speaks of the device."""
    why: IrqWhy
    """How they decided it."""


class LeftOut(PlanModel):
    """Something a target cannot express."""

    feature: str
    unit: str | None
    rules: tuple[int, ...]
    message: str
    lane: str | None = None
    """The lane, or the family of lanes, that it is about."""


class NodePlan(PlanModel):
    """The compiled IR of one class of nodes."""

    plan_version: int = PLAN_VERSION
    mode: Mode
    fingerprint: str
    """SHA-256 of :func:`compiler.fingerprint.cpu_text` of the machine."""
    device_fingerprint: str | None = None
    """SHA-256 of :func:`compiler.fingerprint.device_text` of the machine; None where neither its
    GPUs nor its network devices are known."""
    machine: Machine
    housekeeping: CpuList
    shared: CpuList
    """The shared pool: effective less exclusive and guarded lanes; where unmatched threads run."""
    leftovers: CpuList
    """CPUs in no lane and not housekeeping."""
    tiers: tuple[Tier, ...]
    default_band: int
    bands: tuple[Band, ...]
    rules: tuple[Rule, ...]
    units: tuple[Unit, ...]
    lanes: tuple[Lane, ...]
    workloads: tuple[Workload, ...] = ()
    """One an intent that has units here, by name."""
    irqs: tuple[DeviceIrqs, ...] = ()
    """GPUs and network devices with a PCI address, by address."""
    degradations: tuple[Degradation, ...]
    features: tuple[str, ...] = ()
    """Everything the plan needs of a target, sorted; see ``compiler.features``."""
    left_out: Mapping[str, tuple[LeftOut, ...]] = Field(default_factory=dict)
    """Per target, what it could not express."""

    def lanes_of(self, name: str) -> tuple[Lane, ...]:
        """Return the lane of that name, or the members of the family of that name.

        This is how a name of ``Unit.lane``, or one that a user gives, is looked up: families have
        no entry of their own in ``lanes``.  Empty where nothing is called so.
        """
        return tuple(lane for lane in self.lanes if name in (lane.name, lane.family))

    def cpus_of(self, name: str) -> CpuSet:
        """Return the CPUs of a lane, or of all members of a family; none where there is none."""
        return union(lane.cpus for lane in self.lanes_of(name))

    def data(self) -> dict[str, object]:
        """Return the plan as plain data, keys in camelCase, nulls left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def load(cls, data: Mapping[str, object]) -> NodePlan:
        """Return the plan that :meth:`data` wrote; ``data`` stays as it is.

        Raises:
            ValidationError: it is no such plan: something else is wrong than nulls left out.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            rows = error.errors(include_url=False, include_context=False, include_input=False)
            absent = [row["loc"] for row in rows if row["type"] == "missing"]
            if len(absent) < len(rows):
                raise
        whole = deepcopy(data)
        for loc in absent:
            place: Any = whole
            for step in loc[:-1]:
                place = place[step]
            place[loc[-1]] = None
        return cls.model_validate(whole)  # what must not be null is an error now
