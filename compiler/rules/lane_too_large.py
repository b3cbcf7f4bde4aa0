"""A lane is larger than the machine.

Lanes are sized in whole cores, not in CPUs: a machine with 8 cores of two threads shows 16 CPUs
and has 8 cores. Usable are the cores that are online and allowed, without isolated CPUs (unless the
lane asks for those) and without what the kubelet owns.

## Why it matters

A minimum above the usable cores cannot be met: the node gets no plan. Placement says so itself
(TRC400); this rule says it as well where other errors keep placement from running, so that both
are seen at once. A maximum that no selected node has is never reached: the number says something
that cannot come true, mostly because CPUs were counted instead of cores. That is a warning. A
maximum that some selected node has is fine: one intent may serve machines of several sizes.

## What to do

Lower `cores`, or write `rest` for all that is left. Check with `tierc facts validate` whether the
node's facts leave out CPUs that are there.

## Example

The node has 8 cores of two threads. Wrong:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: {min: 2, max: 16}}
```

Right:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: {min: 2, max: 6}}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.codes.placement import QUARANTINED, UNPLACEABLE
from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.model.intent import CoreRange, Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.resolve.types import ResolvedLane
from compiler.rules.machine import cores_for
from compiler.rules.rule import Rule, on
from compiler.words import counted

CODE: Final = Code("TRC209", "lane-too-large", Severity.ERROR, __doc__, adjustable=True)


@dataclass
class _Reach:
    """A maximum as written, and the largest machine it meets."""

    lane: str
    max: int
    span: Span
    best: int = 0
    cpus: int = 0
    facts: Span = field(default_factory=lambda: Span.of_file(""))
    nodes: set[str] = field(default_factory=set)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find minima above a node's cores, and maxima above every node's."""
    intents = {intent.name: intent for intent in compilation.policy.intents}
    quarantine = compilation.policy.project.spec.on_unplaceable == "quarantine"
    reaches: dict[Span, _Reach] = {}
    for group in compilation.classes:
        for lane in group.resolution.lanes:
            cores = cores_for(group.topology, lane.require, lane.prefer)
            if group.plan is None and lane.min > len(cores):
                severity = Severity.WARNING if quarantine else None
                yield on(group, _minimum(group, lane, len(cores), severity))
                continue
            written = _written_max(intents[lane.cores.winner.intent], lane)
            if written is None or lane.max is None:
                continue
            reach = reaches.setdefault(written, _Reach(lane.name, lane.max, written))
            reach.nodes.update(group.nodes)
            if len(cores) > reach.best:
                reach.best = len(cores)
                reach.cpus = len(group.topology.online)
                reach.facts = group.sample.key_span("spec", "cores")
    for reach in reaches.values():
        if reach.best < reach.max:
            yield replace(_maximum(reach), nodes=tuple(sorted(reach.nodes)))


def _written_max(intent: Loaded[Intent], lane: ResolvedLane) -> Span | None:
    """Return where a user wrote the maximum; None where a profile or a measurement gives it."""
    spec = intent.model.spec.lane
    if spec is None or not isinstance(spec.cores, CoreRange) or lane.max != spec.cores.max:
        return None
    return intent.span("spec", "lane", "cores", "max")


def _minimum(
    group: CompiledClass, lane: ResolvedLane, have: int, severity: Severity | None
) -> Diagnostic:
    return CODE.at(
        lane.cores.winner.span,
        f"lane {lane.name} needs {counted(lane.min, 'core')} and the node has {have} usable",
        related=[Related(group.sample.key_span("spec", "cores"), _machine(group))],
        severity=severity,
        help="lower cores.min, or select other nodes",
    )


def _machine(group: CompiledClass) -> str:
    topology = group.topology
    return (
        f"{counted(len(topology.cores), 'core')} with {len(topology.online)} CPUs online, "
        f"{len(topology.effective)} CPUs usable without isolated ones"
    )


def _maximum(reach: _Reach) -> Diagnostic:
    with_isolated = (
        f"; it has {reach.cpus} CPUs, and cores counts whole cores"
        if reach.max <= reach.cpus
        else ""
    )
    return CODE.at(
        reach.span,
        f"lane {reach.lane} can never have {counted(reach.max, 'core')}: the largest node it is "
        f"on has {reach.best} usable{with_isolated}",
        related=[Related(reach.facts, "the cores of that node")],
        severity=Severity.WARNING,
        help=f"lower it to what is meant, at most {reach.best}; or write cores: rest",
    )


RULE: Final = Rule(CODE, check, yields_to={UNPLACEABLE.id: "node", QUARANTINED.id: "node"})
