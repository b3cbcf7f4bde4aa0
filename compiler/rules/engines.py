"""What an intent's engine keeps busy, how it waits, and the knobs that change it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from compiler.decode import Loaded
from compiler.model.base import Stage
from compiler.model.intent import Intent
from compiler.model.profile import EngineProfile, Knob
from compiler.policy import Policy
from compiler.profiles import stage_matches
from compiler.versions import contains as version_in

_BESIDE: Final = ("engine-step", "api")
"""Stages that must run while the ranks spin."""

_SLEEPS: Final = re.compile(r"sleep|idle", re.I)


@dataclass(frozen=True)
class Need:
    """Cores that an intent's engines keep busy.

    Attributes:
        spinning: cores of stages that poll.
        beside: cores of the other stages that must run meanwhile.
    """

    intent: Loaded[Intent]
    profile: Loaded[EngineProfile]
    spinning: Mapping[Stage, int]
    beside: Mapping[Stage, int]

    @property
    def cores(self) -> int:
        """All of them."""
        return sum(self.spinning.values()) + sum(self.beside.values())

    def of_engines(self, engines: int) -> Need:
        """Return what a number of the intent's engines keeps busy, in place of all."""
        all_ = self.intent.model.spec.workload.instances
        return replace(
            self,
            spinning={stage: cores // all_ * engines for stage, cores in self.spinning.items()},
            beside={stage: cores // all_ * engines for stage, cores in self.beside.items()},
        )

    @property
    def counts(self) -> bool:
        """Whether ranks spin for each other."""
        return self.intent.model.spec.workload.tensor_parallel > 1 and bool(self.spinning)


def need_of(policy: Policy, intent: Loaded[Intent]) -> Need | None:
    """Return what an engine's stages with threads of their own need, None for other workloads."""
    work = intent.model.spec.workload
    profile = policy.profiles.get(work.engine or "")
    if profile is None:
        return None
    spinning: dict[Stage, int] = {}
    beside: dict[Stage, int] = {}
    for stage, rows in stage_matches(profile.model, work.version, work.tensor_parallel).items():
        known = profile.model.spec.stages[stage]
        if known.cores is None or all(row.match.needs is not None for row in rows):
            continue  # without threads of its own, or behind a switch
        cores = known.cores.min * work.instances * (work.tensor_parallel if known.per_rank else 1)
        if known.spins:
            spinning[stage] = cores
        elif stage in _BESIDE:
            beside[stage] = cores
    return Need(intent, profile, spinning, beside)


@dataclass(frozen=True)
class Wait:
    """How an engine's polling stages wait.

    Attributes:
        behaviour: in the profile's words.
        cores: how many the stages keep busy.
    """

    behaviour: str
    cores: int


def waits_of(profile: Loaded[EngineProfile], intent: Loaded[Intent]) -> tuple[Wait, ...]:
    """Return how stages marked ``spins`` wait in the intent's version.

    One, or none where the version has no such stage; for an intent without a version all that the
    profile has.  Counted by the profile alone: a version whose threads have no names also waits.
    """
    work = intent.model.spec.workload
    parallel = "multi" if work.tensor_parallel > 1 else "single"
    found = stage_matches(profile.model, work.version, work.tensor_parallel)
    cores = {
        stage: (known.cores.min if known.cores is not None else 1)
        * work.instances
        * (work.tensor_parallel if known.per_rank else 1)
        for stage, known in profile.model.spec.stages.items()
        if known.spins and found[stage]
    }
    rows = [
        row
        for row in profile.model.spec.polling
        if row.parallel in (None, parallel)
        and set(row.stages) & set(cores)
        and (work.version is None or version_in(row.versions, work.version))
    ]
    return tuple(
        Wait(row.behaviour, sum(cores[stage] for stage in row.stages if stage in cores))
        for row in (rows if work.version is None else rows[:1])
    )


def sleep_knobs(profile: Loaded[EngineProfile], version: str | None) -> list[Knob]:
    """Return the knobs that make the engine sleep where it would poll, in the profile's order.

    Args:
        version: of the engine; None: of any version.
    """
    return [
        knob
        for knob in profile.model.spec.knobs
        if knob.advice != "avoid"
        and _SLEEPS.search(f"{knob.name} {knob.note}")
        and (version is None or version_in(knob.versions, version))
    ]


def setting(knob: Knob) -> str:
    """Return a knob as one sets it."""
    return f"{knob.name}={knob.value}" if knob.value is not None else knob.name


def suits(knob: Knob, traffic: str) -> bool:
    """Tell whether a knob is a good idea under this traffic."""
    return not knob.traffic or traffic in knob.traffic


def release(profile: Loaded[EngineProfile], version: str | None) -> str:
    """Return the engine and its version as a person would say it."""
    return f"{profile.name} {version}" if version is not None else profile.name
