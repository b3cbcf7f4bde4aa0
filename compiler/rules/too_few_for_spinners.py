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

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compiler.cpuset import union
from compiler.diagnostics import Code, Diagnostic, Severity, Span
from compiler.model.intent import CoreRange
from compiler.model.profile import Knob
from compiler.pipeline import Compilation, CompiledClass
from compiler.resolve.lanes import lane_name
from compiler.rules.engines import Need, need_of, release, setting, sleep_knobs, suits, waits_of
from compiler.rules.rule import Rule, on
from compiler.words import counted

CODE: Final = Code("TRC211", "too-few-cpus-for-spinners", Severity.ERROR, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes, or nodes where there is no lane, with too few cores for the ranks."""
    needs = {
        need.intent.name: need
        for intent in compilation.policy.intents
        if (need := need_of(compilation.policy, intent)) is not None
    }
    if not compilation.classes:
        yield from _alone(needs)
    for group in compilation.classes:
        for found in (*_lanes(group, needs), *_without_lane(group, needs)):
            yield on(group, found)


def _alone(needs: Mapping[str, Need]) -> Iterator[Diagnostic]:
    """Judge the sizes as written, without any node."""
    lanes: dict[str, list[Need]] = {}
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


def _lanes(group: CompiledClass, needs: Mapping[str, Need]) -> Iterator[Diagnostic]:
    for lane in group.resolution.lanes:
        members = [needs[name] for name in lane.intents if name in needs]
        span = lane.cores.winner.span
        planned = group.plan.lanes_of(lane.name) if group.plan is not None else ()
        if any(one.family is not None for one in planned):
            # What runs in each locality at once is not known; one engine is the least.
            one_each = [need.of_engines(1) for need in members]
            least = min(planned, key=lambda one: one.cores)
            yield from _judge(f"lane {least.name}", least.cores, span, one_each)
            continue
        have = sum(one.cores for one in planned) if planned else lane.max
        if have is not None:
            yield from _judge(f"lane {lane.name}", have, span, members)


def _without_lane(group: CompiledClass, needs: Mapping[str, Need]) -> Iterator[Diagnostic]:
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


def _judge(who: str, have: int, span: Span, members: Sequence[Need]) -> Iterator[Diagnostic]:
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
        f"{who} has {counted(have, 'core')}, and {engine}{others} needs "
        f"{total}: {', '.join(parts)}",
        help=f"give it {total} cores{_spins(first)}{_knob(first)}",
    )


def _spins(need: Need) -> str:
    if need.intent.model.spec.workload.version is None:
        return ""
    return "".join(
        f"\nwhat spins: {wait.behaviour}" for wait in waits_of(need.profile, need.intent)
    )


def _knob(need: Need) -> str:
    work = need.intent.model.spec.workload
    found = sleep_knobs(need.profile, work.version)
    if not found:
        of = release(need.profile, work.version)
        return f"\nthe profile knows no flag of {of} that stops it"
    return "".join(_knob_text(knob, work.traffic) for knob in found)


def _knob_text(knob: Knob, traffic: str) -> str:
    against = "" if suits(knob, traffic) else f", not for {traffic} traffic"
    return f"\n{setting(knob)} stops it (versions {knob.versions}{against}): {knob.note}"


RULE: Final = Rule(CODE, check)
