"""Project: ``tierc.yaml`` at the root of a policy repository."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from compiler.model.base import Misfit, Model, Name
from compiler.model.cluster import KubernetesOptions, Rollout
from compiler.model.selector import NodeSelector

Mode = Literal["observe", "fallback", "sched_ext", "auto"]
SeverityName = Literal["info", "warning", "error"]
CodeName = Annotated[str, Field(pattern=r"^TRC[0-9]{3}$")]


class Sources(Model):
    """Where documents are, relative to the project file."""

    intents: tuple[str, ...] = ("intents/",)
    """Files and directories with intents, profiles, ladders and demands."""
    nodes: tuple[str, ...] = ("nodes/",)
    """Files and directories with node facts."""
    tests: tuple[str, ...] = ("tests/",)
    """Files and directories with tests and the node facts only they use; no part of the policy."""


class Enforce(Model):
    """How a set of nodes is to be enforced."""

    nodes: NodeSelector | None = None
    """Which nodes; omitted: all."""
    mode: Mode
    """observe: report only; fallback: CPU affinity; sched_ext: the seeds; auto: sched_ext where
    the node's facts allow it, else fallback."""
    accept_unenforced_cpu_limits: bool = False
    """Consent to sched_ext on a kubelet node, where CPU limits of pods may go unenforced."""


def _housekeeping_tag(value: object) -> str:
    return "word" if isinstance(value, str) else "number"


Housekeeping = Annotated[
    Annotated[Literal["auto"], Tag("word")] | Annotated[int, Field(ge=1, le=256), Tag("number")],
    Discriminator(_housekeeping_tag),
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 256}]}
    ),
]


class Reserve(Model):
    """What is kept for the system."""

    housekeeping: Housekeeping = "auto"
    """Cores for node software: auto, or a number of cores."""


class LintOptions(Model):
    """How findings are judged."""

    fail_on: SeverityName = "error"
    severity: Mapping[CodeName, SeverityName | Literal["off"]] = Field(default_factory=dict)
    """Severity per lint rule; off silences it."""


class TasksetOptions(Model):
    """Options of the taskset target."""


class BpfOptions(Model):
    """Options of the bpf target."""


class CpusetOptions(Model):
    """Options of the cpuset target."""


class IrqOptions(Model):
    """Options of the irq target."""


def _none_as_empty(value: object) -> object:
    return {} if value is None else value


class Targets(Model):
    """Which targets are emitted; a target that is not named is not."""

    taskset: Annotated[
        TasksetOptions | None,
        BeforeValidator(_none_as_empty, json_schema_input_type=TasksetOptions | None),
    ] = None
    bpf: Annotated[
        BpfOptions | None,
        BeforeValidator(_none_as_empty, json_schema_input_type=BpfOptions | None),
    ] = None
    cpuset: Annotated[
        CpusetOptions | None,
        BeforeValidator(_none_as_empty, json_schema_input_type=CpusetOptions | None),
    ] = None
    irq: Annotated[
        IrqOptions | None,
        BeforeValidator(_none_as_empty, json_schema_input_type=IrqOptions | None),
    ] = None
    kubernetes: Annotated[
        KubernetesOptions | None,
        BeforeValidator(_none_as_empty, json_schema_input_type=KubernetesOptions | None),
    ] = None

    @property
    def enabled(self) -> tuple[str, ...]:
        """Names of the targets asked for, sorted."""
        return tuple(sorted(self.model_fields_set))


class ProjectSpec(Model):
    """The body of a project file."""

    sources: Sources = Field(default_factory=Sources)
    enforce: tuple[Enforce, ...] = ()
    """First entry that selects a node decides; a node none selects is observed only."""
    reserve: Reserve = Field(default_factory=Reserve)
    targets: Targets = Field(default_factory=lambda: Targets(taskset=TasksetOptions()))
    rollout: Rollout = Field(default_factory=Rollout)
    """The order in which nodes of a cluster get new plans; omitted: all at once."""
    lint: LintOptions = Field(default_factory=LintOptions)
    on_unplaceable: Literal["error", "quarantine"] = "error"
    """error: one node that cannot be planned stops the build; quarantine: that node gets no
    plan, and it is said."""


class ProjectMetadata(Model):
    """A project may have a name."""

    name: Name | None = None


class Project(Model):
    """Options of a policy repository."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["Project"]
    metadata: ProjectMetadata = Field(default_factory=ProjectMetadata)
    spec: ProjectSpec = Field(default_factory=ProjectSpec)

    @model_validator(mode="after")
    def _some_target(self) -> Self:
        if not self.spec.targets.enabled:
            raise Misfit(
                "targets is empty; name at least one, such as taskset: {}", ("spec", "targets")
            )
        return self
