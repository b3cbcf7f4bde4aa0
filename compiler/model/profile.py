"""EngineProfile and WorkloadGroup: how the threads of known software are recognised."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compiler.model.base import (
    NODE_STAGES,
    Metadata,
    Misfit,
    Model,
    Name,
    Stage,
    Version,
    VersionRange,
)
from compiler.model.intent import CoreRange, Match

Evidence = Literal["source", "tried", "observed", "derived", "general"]
"""How a name is known: read in the source, tried on a machine, seen in a public process dump,
derived by cutting a longer name to 15 bytes, general knowledge."""


class ProfileMatch(Match):
    """One way to recognise a thread, and how that is known."""

    versions: VersionRange = "*"
    """Engine versions for which it holds."""
    evidence: Evidence
    """How it is known."""
    needs: str | None = None
    """What must be set for the name to exist, such as an environment variable."""
    parallel: Literal["single", "multi"] | None = None
    """single: only without tensor parallelism; multi: only with it; omitted: both."""
    spawns: bool = False
    """Whether the process starts others that would inherit its CPU affinity."""
    generic: bool = False
    """The condition alone would also meet other software's threads: it is used only where an
    intent narrows its workload by ``pods`` or ``cgroup``."""
    stage: Stage | None = None
    """In a group: the stage of the node whose threads these are.  Engines name it above."""
    note: str | None = None


class StageProfile(Model):
    """One stage of an engine."""

    cores: CoreRange | None = None
    """Cores one engine's stage needs; omitted: it takes part in another stage's cores."""
    per_rank: bool = False
    """Whether the stage exists once per tensor-parallel rank."""
    spins: bool = False
    """Whether its threads poll: they need a core each, not wake-up latency."""
    match: tuple[ProfileMatch, ...] = ()
    """How its threads are recognised; none: it lives inside the stage named by ``inside``."""
    inside: tuple[Stage, ...] = ()
    """Stages whose threads do this stage's work when none of its own matchers applies."""
    note: str | None = None

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if not self.match and not self.inside:
            raise Misfit("a stage needs match, or inside: the stages whose threads do its work")
        return self


class Polling(Model):
    """How the engine waits."""

    versions: VersionRange = "*"
    stages: tuple[Stage, ...]
    behaviour: str
    """What it does, in words."""
    parallel: Literal["single", "multi"] | None = None
    """Whether it holds only without or only with tensor parallelism."""
    evidence: Evidence


class Knob(Model):
    """A flag or environment variable of the engine that changes how it waits or binds."""

    name: str
    versions: VersionRange = "*"
    kind: Literal["flag", "env"]
    value: str | None = None
    advice: Literal["set", "avoid", "optional"] = "optional"
    """set: advised under ``knobs: auto``; avoid: works against a lane; optional: only worth
    knowing."""
    traffic: tuple[Literal["mostly-idle", "steady", "saturated"], ...] = ()
    """Kinds of traffic for which it is a good idea; empty: any."""
    note: str
    evidence: Evidence


class ProfileSpec(Model):
    """The body of an engine profile."""

    known: tuple[Version, ...]
    """Oldest and newest version the profile was checked against, both included."""
    paths: Mapping[Name, Annotated[tuple[Stage, ...], Field(min_length=1)]]
    """Ordered stages; each needs its neighbours."""
    stages: Mapping[Stage, StageProfile]
    polling: tuple[Polling, ...] = ()
    knobs: tuple[Knob, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.known) != 2:
            raise Misfit("known is the oldest and the newest version, a list of two", ("known",))
        for name, stage in self.stages.items():
            if name in NODE_STAGES:
                raise Misfit(
                    f"stage {name} belongs to the node, not to an engine; paths may name it, "
                    "stages may not",
                    ("stages", name),
                )
            for place, host in enumerate(stage.inside):
                if host not in self.stages or host == name:
                    fault = "itself" if host == name else f"{host}, which the profile lacks"
                    raise Misfit(
                        f"stage {name} is inside {fault}", ("stages", name, "inside", place)
                    )
            for place, row in enumerate(stage.match):
                if row.stage is not None:
                    raise Misfit(
                        "stage belongs in the rows of groups; here the key above names it",
                        ("stages", name, "match", place, "stage"),
                    )
        for path, stages in self.paths.items():
            if path == "all":
                raise Misfit("a path cannot be called all: it means every stage", ("paths", path))
            for place, stage_name in enumerate(stages):
                if stage_name not in self.stages and stage_name not in NODE_STAGES:
                    raise Misfit(
                        f"path {path} names stage {stage_name}, which the profile lacks",
                        ("paths", path, place),
                    )
        return self


class EngineProfile(Model):
    """An engine's stages, names per version, paths, polling and knobs."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["EngineProfile"]
    metadata: Metadata
    spec: ProfileSpec


class GroupSpec(Model):
    """The body of a workload group."""

    description: str
    match: Annotated[tuple[ProfileMatch, ...], Field(min_length=1)]


class WorkloadGroup(Model):
    """Node software that is not an engine, by names; built into tierc."""

    api_version: Literal["tierc.dev/v1alpha1"]
    kind: Literal["WorkloadGroup"]
    metadata: Metadata
    spec: GroupSpec
