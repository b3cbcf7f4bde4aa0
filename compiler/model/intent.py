"""Intent: what to do about which workload on which nodes."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from compiler.model.base import (
    Metadata,
    Misfit,
    Model,
    Name,
    Preference,
    Stage,
    Version,
    one_of,
    wrap_scalar,
)
from compiler.model.selector import NodeSelector, PodSelector

GroupName = Literal["node-infra", "observability", "model-staging", "batch", "gpu-driver"]
Share = Literal["open", "guarded", "exclusive"]


class Match(Model):
    """Conditions on a thread; all that are given must hold."""

    comm: str | None = None
    """Glob on the thread's name, at most 15 bytes."""
    leader_comm: str | None = None
    """Glob on the name of the thread's process (its thread-group leader)."""
    kthread: str | None = None
    """Glob on the name of a kernel thread; the other fields never match kernel threads."""
    cgroup: str | None = None
    """Glob on the cgroup path below the cgroup v2 root, without a leading slash."""
    cmdline: str | None = None
    """Regular expression (subset) searched in the process's command line."""

    @model_validator(mode="after")
    def _some_condition(self) -> Self:
        given = self.conditions
        if not given:
            raise Misfit(
                "a match item needs at least one of comm, leaderComm, kthread, cgroup, cmdline"
            )
        if self.kthread is not None and len(given) > 1:
            raise Misfit(
                "kthread stands alone: kernel threads have no cgroup or command line",
                *((key,) for key in given),
            )
        return self

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions that are given, by their keys in files."""
        given = {
            "comm": self.comm,
            "leaderComm": self.leader_comm,
            "kthread": self.kthread,
            "cgroup": self.cgroup,
            "cmdline": self.cmdline,
        }
        return {key: text for key, text in given.items() if text is not None}


class GpuModel(Model):
    """GPUs by model name."""

    model: str
    """Text the device's model name contains, case-insensitive."""


def _gpu_tag(value: object) -> str:
    return "GpuModel" if isinstance(value, dict | GpuModel) else "text"


Gpu = Annotated[
    Annotated[str, Field(min_length=1), Tag("text")] | Annotated[GpuModel, Tag("GpuModel")],
    Discriminator(_gpu_tag),
]


def _gpus_tag(value: object) -> str:
    return "list" if isinstance(value, tuple | list) else "word"


Gpus = Annotated[
    Annotated[Literal["allocated", "all"], Tag("word")]
    | Annotated[tuple[Gpu, ...], Field(min_length=1), Tag("list")],
    Discriminator(_gpus_tag),
]


class Workload(Model):
    """Whose threads: exactly one of ``engine``, ``group`` and ``match``."""

    engine: Name | None = None
    """Name of an engine profile."""
    group: GroupName | None = None
    """A built-in group of node software."""
    match: Annotated[tuple[Match, ...] | None, Field(min_length=1)] = None
    """Threads by name, cgroup or command line; a thread matches when any item does."""
    version: Version | None = None
    """Engine version; omitted: every variant the profile knows."""
    tensor_parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    """Tensor-parallel size of one engine."""
    instances: Annotated[int, Field(ge=1, le=256)] = 1
    """Engines of this intent expected on one node."""
    traffic: Literal["mostly-idle", "steady", "saturated"] = "steady"
    """What the engine sees; decides which waiting knobs make sense."""
    gpus: Gpus = "allocated"
    """What ``gpu-local`` refers to."""
    pods: PodSelector | None = None
    """Narrows every matcher to these pods; resolved on the node."""
    cgroup: str | None = None
    """Narrows every matcher to this cgroup glob; ``@pods`` is the node's pods root."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        one_of({"engine": self.engine, "group": self.group, "match": self.match}, "workload")
        if self.engine is None:
            only = {"version", "tensor_parallel", "instances", "traffic"} & self.model_fields_set
            if only:
                words = sorted("tensorParallel" if n == "tensor_parallel" else n for n in only)
                raise Misfit(
                    f"{words[0]} says something only about an engine; add engine or drop it",
                    (words[0],),
                )
        return self


class Protect(Model):
    """What to protect: a path, a single stage, or ``all``; the short form is the path's name."""

    path: Name | None = None
    """A path of the engine profile, or ``all``."""
    stage: Stage | None = None
    """One stage only."""
    tier: Name | None = None
    """Tier to give; default ``latency``."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        one_of({"path": self.path, "stage": self.stage}, "a protect item")
        return self


_ProtectItem = Name | Protect
_ProtectList = Annotated[tuple[_ProtectItem, ...], Field(min_length=1)]


def _as_list(value: object) -> object:
    return (value,) if isinstance(value, str | dict) else value


class CoreRange(Model):
    """How many whole cores a lane has."""

    min: Annotated[int, Field(ge=1, le=4096)]
    """What it must have."""
    max: Annotated[int, Field(ge=1, le=4096)]
    """What it takes where there is room."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max < self.min:
            raise Misfit(f"max {self.max} is below min {self.min}", ("min",), ("max",))
        return self


def _cores_tag(value: object) -> str:
    return "word" if isinstance(value, str) else "range"


def _cores(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"min": value, "max": value}
    return value


Cores = Annotated[
    Annotated[CoreRange, Tag("range")] | Annotated[Literal["rest", "measured"], Tag("word")],
    Discriminator(_cores_tag),
    BeforeValidator(_cores),
    WithJsonSchema(
        {
            "description": "Whole cores: a number, {min, max}, rest, or measured (from a Demand).",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 4096},
                {
                    "type": "object",
                    "properties": {
                        "min": {"type": "integer", "minimum": 1, "maximum": 4096},
                        "max": {"type": "integer", "minimum": 1, "maximum": 4096},
                    },
                    "required": ["min", "max"],
                    "additionalProperties": False,
                },
                {"enum": ["rest", "measured"]},
            ],
        }
    ),
]


class Lane(Model):
    """CPUs of their own."""

    name: Name | None = None
    """Name of the lane; intents that give the same name share it.  Default: the intent's name."""
    cores: Cores | None = None
    """How many, in each locality of its GPUs where there are several; for an engine the default is
    what its profile says."""
    share: Share | None = None
    """open: anyone; guarded (default): lower tiers are kept out; exclusive: nobody else."""


class IntentSpec(Model):
    """The body of an intent."""

    nodes: NodeSelector | None = None
    """Which nodes; omitted: every node."""
    workload: Workload
    protect: Annotated[
        tuple[Annotated[Protect, wrap_scalar("path", _ProtectItem)], ...] | None,
        Field(min_length=1),
        BeforeValidator(_as_list, json_schema_input_type=_ProtectItem | _ProtectList),
    ] = None
    """Raise these paths or stages."""
    demote: Name | None = None
    """Lower the workload to this tier."""
    keep: Name | None = None
    """Hold the workload at this tier."""
    prefer: tuple[Preference, ...] = ()
    """What the CPUs should be, most important first; unmet is reported."""
    require: tuple[Preference, ...] = ()
    """What the CPUs must be; unmet is an error."""
    lane: Lane | None = None
    """CPUs of its own."""
    above: tuple[Name, ...] = ()
    """Intents that come after this one inside the same tier."""
    irqs: Literal["lane", "housekeeping", "leave"] | None = None
    """Where interrupts of the workload's devices go."""
    knobs: Literal["auto", "off"] = "auto"
    """Whether findings advise flags of the engine; off: they are seen to elsewhere."""
    precedence: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Higher wins where intents overlap."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        one_of(
            {"protect": self.protect, "demote": self.demote, "keep": self.keep},
            "an intent",
            required=False,
        )
        both = sorted(set(self.prefer) & set(self.require))
        if both:
            raise Misfit(
                f"{both[0]} is both preferred and required; keep require",
                ("prefer", self.prefer.index(both[0])),
                ("require", self.require.index(both[0])),
            )
        for name in ("prefer", "require"):
            words: tuple[str, ...] = getattr(self, name)
            for place, word in enumerate(words):
                if word in words[:place]:
                    raise Misfit(
                        f"{name} names {word} twice", (name, words.index(word)), (name, place)
                    )
        kinds = [
            (name, place)
            for name, words in (("prefer", self.prefer), ("require", self.require))
            for place, word in enumerate(words)
            if word in ("performance", "efficiency")
        ]
        if len(kinds) > 1:
            raise Misfit("performance and efficiency contradict each other; keep one", *kinds)
        return self


class Intent(Model):
    """What to do about which workload on which nodes."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["Intent"]
    metadata: Metadata
    spec: IntentSpec
