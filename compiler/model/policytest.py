"""PolicyTest: what a policy must do, checked by ``tierc test``; no part of any plan."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from compiler.cpuset import CpuListError, CpuSet
from compiler.model.base import (
    CpuList,
    Labels,
    LabelValue,
    LaneName,
    Metadata,
    Misfit,
    Model,
    Name,
    NodeName,
    wrap_scalar,
)
from compiler.model.intent import Share
from compiler.model.project import CodeName, SeverityName
from compiler.model.selector import NodeSelector

FactsPath = Annotated[
    str, Field(pattern=r"^[^/\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^/\x00-\x1f\x7f])?\.(yaml|yml|json)$")
]
"""A file of node facts, relative to the file of the test."""

SnapshotPath = Annotated[
    str, Field(pattern=r"^[^/\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^/\x00-\x1f\x7f])?\.plan\.json$")
]
"""A file that keeps a plan, relative to the file of the test."""


def _some_cpu(cpus: CpuSet) -> CpuSet:
    if not cpus:
        raise CpuListError("the CPU list is empty, and nothing runs within no CPU")
    return cpus


SomeCpus = Annotated[CpuList, AfterValidator(_some_cpu)]
Text = Annotated[str, Field(min_length=1)]


class Pod(Model):
    """The pod a thread runs in."""

    namespace: Annotated[LabelValue, Field(min_length=1)]
    """Namespace of the pod."""
    labels: Labels = Field(default_factory=dict)
    """All labels of the pod; one that is not here, the pod has not."""


class GivenThread(Model):
    """What is known of a thread; what is left out is unknown, and the answer must not need it."""

    comm: Text | None = None
    """The thread's name as ps -eLo comm shows it; cut to 15 bytes, as the kernel does."""
    leader_comm: Text | None = None
    """Name of the thread's process."""
    cgroup: str | None = None
    """Cgroup below the cgroup v2 root, without a leading slash; @pods is the node's pods root."""
    cmdline: str | None = None
    """Command line of the process, arguments separated by spaces."""
    pod: Pod | None = None
    """The pod, for rules with a pod selector."""
    kthread: bool = False
    """Whether it is a kernel thread; comm is then its name."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = {
            "comm": self.comm,
            "leaderComm": self.leader_comm,
            "cgroup": self.cgroup,
            "cmdline": self.cmdline,
            "pod": self.pod,
        }
        present = [key for key, value in given.items() if value is not None]
        if not present:
            raise Misfit(f"given needs at least one of {', '.join(given)}")
        if self.kthread:
            if self.comm is None:
                raise Misfit("a kernel thread needs comm, its name", ("kthread",))
            if len(present) > 1:
                raise Misfit(
                    f"a kernel thread has no {present[1]}; give its comm only",
                    ("kthread",),
                    (present[1],),
                )
        if self.cgroup is not None and self.cgroup.startswith("/"):
            raise Misfit(
                "cgroup has a leading slash; write the path below the cgroup v2 root", ("cgroup",)
            )
        return self


class ThreadExpectation(Model):
    """What must become of a thread; all that is given must hold."""

    matched: bool | None = None
    """Whether any rule has the thread; one that none has runs at tier normal."""
    intent: Name | None = None
    """Intent whose rule has it."""
    unit: Text | None = None
    """Unit whose rule has it: INTENT/STAGE, INTENT, or node/gpu-driver."""
    tier: Name | None = None
    """Tier it gets."""
    in_lane: bool | None = None
    """Whether it gets a lane at all."""
    lane: LaneName | None = None
    """Lane it gets, or family of lanes; which member depends on the GPUs its process has."""
    cpus_within: SomeCpus | None = None
    """CPUs beyond which it may not run."""
    not_sharing_with: Annotated[tuple[Text, ...], Field(min_length=1)] = ()
    """Lanes, intents, units, housekeeping or leftovers with which it may share no CPU."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.model_fields_set:
            raise Misfit(
                "expect needs at least one of matched, intent, unit, tier, inLane, lane, "
                "cpusWithin, notSharingWith"
            )
        for key, value in (("intent", self.intent), ("unit", self.unit), ("lane", self.lane)):
            if self.matched is False and value is not None:
                raise Misfit(
                    f"a thread that no rule matches has no {key}; drop matched or {key}",
                    ("matched",),
                    (key,),
                )
        if self.in_lane is False and self.lane is not None:
            raise Misfit("inLane: false and lane contradict each other", ("inLane",), ("lane",))
        if self.matched is False and self.in_lane:
            raise Misfit("a thread that no rule matches is in no lane", ("matched",), ("inLane",))
        return self


class ThreadTest(Model):
    """A thread, and what must become of it on every node of the test."""

    given: GivenThread
    expect: ThreadExpectation


class CoreBounds(Model):
    """How many cores; at least one bound."""

    min: Annotated[int | None, Field(ge=1, le=4096)] = None
    """Not fewer."""
    max: Annotated[int | None, Field(ge=1, le=4096)] = None
    """Not more."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is None and self.max is None:
            raise Misfit("cores needs min, max or both")
        if self.min is not None and self.max is not None and self.max < self.min:
            raise Misfit(f"max {self.max} is below min {self.min}", ("min",), ("max",))
        return self


def _exactly(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"min": value, "max": value}
    return value


_COUNT = {"type": "integer", "minimum": 1, "maximum": 4096}
CoreCount = Annotated[
    CoreBounds,
    BeforeValidator(_exactly),
    WithJsonSchema(
        {
            "description": "Whole cores: a number, or bounds.",
            "anyOf": [
                _COUNT,
                {
                    "type": "object",
                    "properties": {"min": _COUNT, "max": _COUNT},
                    "minProperties": 1,
                    "additionalProperties": False,
                },
            ],
        }
    ),
]


class LaneTest(Model):
    """A lane, and what must be true of it on every node of the test."""

    name: LaneName
    """Name of the lane; of a family all must hold of each member, and ``chat@numa0`` is one."""
    exists: bool = True
    """Whether the nodes have the lane."""
    cores: CoreCount | None = None
    """How many cores it must have got."""
    cpus_within: SomeCpus | None = None
    """CPUs beyond which it may not reach."""
    whole_cores: bool | None = None
    """Whether it has all threads of each of its cores."""
    share: Share | None = None
    """Who else may use it."""
    tier: Name | None = None
    """Highest tier among those who live in it."""
    not_sharing_with: Annotated[tuple[Text, ...], Field(min_length=1)] = ()
    """Lanes, intents, units, housekeeping or leftovers with which it may share no CPU."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not self.exists:
            given = {
                "cores": self.cores,
                "cpusWithin": self.cpus_within,
                "wholeCores": self.whole_cores,
                "share": self.share,
                "tier": self.tier,
                "notSharingWith": self.not_sharing_with or None,
            }
            for key, value in given.items():
                if value is not None:
                    raise Misfit(f"a lane that must not exist has no {key}", ("exists",), (key,))
        return self


class FindingTest(Model):
    """Findings by code and place; all that is given must fit."""

    code: CodeName
    """Code of the finding."""
    severity: SeverityName | None = None
    """Its severity, after the project's adjustments."""
    intent: Name | None = None
    """Intent in whose document one of its places is."""
    node: NodeName | None = None
    """Node it is found on."""
    file: Text | None = None
    """File of its first place, relative to the repository."""
    line: Annotated[int | None, Field(ge=1)] = None
    """Line of its first place."""
    message: Text | None = None
    """Text its message contains."""


_FindingItem = CodeName | FindingTest
_Finding = Annotated[FindingTest, wrap_scalar("code", _FindingItem)]


class FindingsTest(Model):
    """Which findings the policy must have, and which it must not."""

    present: Annotated[tuple[_Finding, ...], Field(min_length=1)] = ()
    """Findings of which each must be there; the short form is the code."""
    absent: Annotated[tuple[_Finding, ...], Field(min_length=1)] = ()
    """Findings of which none may be there; the short form is the code."""
    none: SeverityName | None = None
    """No finding at all may have this severity or a worse one."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.model_fields_set:
            raise Misfit("findings needs at least one of present, absent, none")
        return self


class PolicyTestSpec(Model):
    """The body of a test; at least one of threads, lanes, findings and snapshot."""

    nodes: NodeSelector | None = None
    """Which nodes; omitted: all of them."""
    facts: Annotated[tuple[FactsPath, ...], Field(min_length=1)] = ()
    """Files with node facts, relative to this file; the test then sees these nodes only."""
    threads: Annotated[tuple[ThreadTest, ...], Field(min_length=1)] = ()
    """Threads, and what must become of them."""
    lanes: Annotated[tuple[LaneTest, ...], Field(min_length=1)] = ()
    """Lanes, and what must be true of them."""
    findings: FindingsTest | None = None
    """What tierc lint must say, and what not."""
    snapshot: SnapshotPath | None = None
    """File with the plan the nodes must have; tierc test --update writes it."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not (self.threads or self.lanes or self.findings or self.snapshot):
            raise Misfit("a test needs at least one of threads, lanes, findings, snapshot")
        return self


class PolicyTest(Model):
    """What the policy must do on some nodes."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["PolicyTest"]
    metadata: Metadata
    spec: PolicyTestSpec
