"""A tensor-parallel engine has fewer cores than threads that spin.

With `tensorParallel` of 2 or more some threads of an engine poll instead of sleeping: every worker
of vLLM, every scheduler of SGLang. Each keeps a core busy, beside the engine step and the API
server.

## Why it matters

A thread that spins does not need to be woken quickly; it needs a core. With fewer cores than
spinners, one rank waits for its turn while the others spin for its answer, and one slow rank
stalls all. The API server and the engine step compete with them. Two threads of one core do not
help: siblings share it, so cores are counted, not CPUs.

Polling also looks like demand. With vLLM at two ranks, shortening the spin window from 1 s to 2 ms
took its CPU use from 333 % to 89 % at the same throughput; with SGLang's `--sleep-on-idle` an idle
engine went from 200 % to 0.0 %. So where cores are short, a knob of the engine is worth more than a
larger lane.

## What to do

Give the lane a core per spinning rank plus what engine step and API server need (the message adds
it up), or stop the spinning with the knob the message names, if the version has one. Then measure.

## Example

Wrong, two workers, engine step and API server on two cores:

```yaml
workload: {engine: vllm, version: "0.24.0", tensorParallel: 2, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: 2}
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", tensorParallel: 2, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: 4}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import union
from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity, Span
from compiler.model.base import Stage
from compiler.model.intent import CoreRange, Intent
from compiler.model.profile import EngineProfile, Knob
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Policy
from compiler.profiles import stage_matches
from compiler.resolve.lanes import lane_name
from compiler.rules.rule import Rule, on
from compiler.versions import contains as version_in

CODE: Final = Code("TRC211", "too-few-cpus-for-spinners", Severity.ERROR, __doc__, adjustable=True)

_BESIDE: Final = ("engine-step", "api")
"""Stages that must run while the ranks spin."""

_SLEEPS: Final = re.compile(r"sleep|idle", re.I)


@dataclass(frozen=True)
class _Need:
    """Cores that an intent's engines keep busy."""

    intent: Loaded[Intent]
    profile: Loaded[EngineProfile]
    spinning: Mapping[Stage, int]
    beside: Mapping[Stage, int]

    @property
    def cores(self) -> int:
        return sum(self.spinning.values()) + sum(self.beside.values())

    @property
    def counts(self) -> bool:
        """Whether ranks spin for each other."""
        return self.intent.model.spec.workload.tensor_parallel > 1 and bool(self.spinning)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes, or nodes where there is no lane, with too few cores for the ranks."""
    needs = {
        need.intent.name: need
        for intent in compilation.policy.intents
        if (need := _need(compilation.policy, intent)) is not None
    }
    if not compilation.classes:
        yield from _alone(needs)
    for group in compilation.classes:
        for found in (*_lanes(group, needs), *_without_lane(group, needs)):
            yield on(group, found)


def _need(policy: Policy, intent: Loaded[Intent]) -> _Need | None:
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
    return _Need(intent, profile, spinning, beside)


def _alone(needs: Mapping[str, _Need]) -> Iterator[Diagnostic]:
    """Judge the sizes as written, without any node."""
    lanes: dict[str, list[_Need]] = {}
    for need in needs.values():
        lanes.setdefault(lane_name(need.intent) or "", []).append(need)
    for name, members in sorted(lanes.items()):
        for need in members:
            lane = need.intent.model.spec.lane
            if lane is None or not isinstance(lane.cores, CoreRange):
                continue
            span = need.intent.span("spec", "lane", "cores")
            yield from _judge(f"lane {name}", lane.cores.max, span, members)
            break


def _lanes(group: CompiledClass, needs: Mapping[str, _Need]) -> Iterator[Diagnostic]:
    granted = {lane.name: lane.cores for lane in group.plan.lanes} if group.plan else {}
    for lane in group.resolution.lanes:
        have = granted.get(lane.name, lane.max)
        members = [needs[name] for name in lane.intents if name in needs]
        if have is not None:
            yield from _judge(f"lane {lane.name}", have, lane.cores.winner.span, members)


def _without_lane(group: CompiledClass, needs: Mapping[str, _Need]) -> Iterator[Diagnostic]:
    """Judge engines that share the machine: what their units may use must do."""
    for expansion in group.expansions:
        need = needs.get(expansion.intent.name)
        if need is None or lane_name(expansion.intent) is not None:
            continue
        cpus = group.topology.effective
        if group.plan is not None:
            cpus = union(u.cpus for u in group.plan.units if u.intent == expansion.intent.name)
        have = sum(1 for core in group.topology.cores if core.siblings & cpus)
        span = expansion.intent.span("spec", "workload", "tensorParallel")
        yield from _judge(f"{expansion.intent.name}, without a lane,", have, span, [need])


def _judge(who: str, have: int, span: Span, members: Sequence[_Need]) -> Iterator[Diagnostic]:
    ranked = [need for need in members if need.counts]
    total = sum(need.cores for need in members)
    if not ranked or have >= total:
        return
    first = ranked[0]
    work = first.intent.model.spec.workload
    parts = [
        f"{cores} for {stage}{' (spinning)' if stage in need.spinning else ''}"
        for need in members
        for stage, cores in (*need.spinning.items(), *need.beside.items())
    ]
    engine = f"{first.profile.name} with tensorParallel {work.tensor_parallel}"
    others = f" and {len(members) - 1} more" if len(members) > 1 else ""
    yield CODE.at(
        span,
        f"{who} has {have} {'core' if have == 1 else 'cores'}, and {engine}{others} needs "
        f"{total}: {', '.join(parts)}",
        help=f"give it {total} cores{_spins(first)}{_knob(first)}",
    )


def _spins(need: _Need) -> str:
    version = need.intent.model.spec.workload.version
    for row in need.profile.model.spec.polling:
        if (
            row.parallel != "single"
            and set(row.stages) & set(need.spinning)
            and version is not None
            and version_in(row.versions, version)
        ):
            return f"\nwhat spins: {row.behaviour}"
    return ""


def _knob(need: _Need) -> str:
    work = need.intent.model.spec.workload
    found = [
        knob
        for knob in need.profile.model.spec.knobs
        if knob.advice != "avoid"
        and _SLEEPS.search(f"{knob.name} {knob.note}")
        and (work.version is None or version_in(knob.versions, work.version))
    ]
    name = need.profile.name
    if not found:
        of = f" {work.version}" if work.version is not None else ""
        return f"\nthe profile knows no flag of {name}{of} that stops it"
    return "".join(_knob_text(knob, work.traffic) for knob in found)


def _knob_text(knob: Knob, traffic: str) -> str:
    setting = f"{knob.name}={knob.value}" if knob.value is not None else knob.name
    against = f", not for {traffic} traffic" if knob.traffic and traffic not in knob.traffic else ""
    return f"\n{setting} stops it (versions {knob.versions}{against}): {knob.note}"


RULE: Final = Rule(CODE, check)
