"""An exclusive lane would have one half of a core.

SMT siblings are CPUs of one core and share its units. A lane that has one sibling while others run
on the other is not exclusive, whatever its name.

## Why it matters

Work on the sibling takes up to half of the core, unseen by any scheduler: a program confined to
two siblings of one core was measured 20 to 25 % slower than on two cores. tierc gives lanes whole
cores, so only the node's facts can split one: isolated CPUs that leave out a sibling, CPUs that
are not allowed, CPUs the kubelet gave away. Then the lane finds too few whole cores. A sibling
that is offline belongs to nobody and splits nothing.

## What to do

Change the node so that both siblings of a core are isolated or neither is, and the same for CPUs
kept back. Where a split core is acceptable, `share: guarded` may take one that others share.

## Example

The node has cores of two threads, CPUs 0 and 8 being one core. Wrong, where only one sibling of
each is isolated:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: 2, share: exclusive}
---
cpus: {online: 0-15, isolated: 8-15}
```

Right:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: 2, share: exclusive}
---
cpus: {online: 0-15, isolated: "4-7,12-15"}
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import NodePlan
from compiler.resolve.types import ResolvedLane
from compiler.rules.machine import cores_for
from compiler.rules.rule import Rule, on

CODE: Final = Code("TRC208", "splits-siblings", Severity.ERROR, __doc__, adjustable=True)

_SHOWN: Final = 4


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find exclusive lanes that have, or could only have, parts of cores."""
    quarantine = compilation.policy.project.spec.on_unplaceable == "quarantine"
    for group in compilation.classes:
        for lane in group.resolution.lanes:
            if lane.share.value != "exclusive":
                continue
            if group.plan is not None:
                found = _planned(group, group.plan, lane)
            else:
                found = _unplaced(group, lane, Severity.WARNING if quarantine else None)
            if found is not None:
                yield on(group, found)


def _planned(group: CompiledClass, plan: NodePlan, lane: ResolvedLane) -> Diagnostic | None:
    """Check a lane as planned, from the plan's own list of siblings."""
    cpus = plan.cpus_of(lane.name)
    split = [core for core in plan.machine.cores if core & cpus and core - cpus]
    if not split:
        return None
    return CODE.at(
        lane.share.winner.span,
        f"exclusive lane {lane.name} has CPUs {union(split) & cpus} and not their siblings "
        f"{union(split) - cpus}, where others run",
        related=_causes(group, split),
        help="keep both siblings of a core together, or write share: guarded",
    )


def _unplaced(
    group: CompiledClass, lane: ResolvedLane, severity: Severity | None
) -> Diagnostic | None:
    """Check whether split cores are what a lane without a plan lacks."""
    cores = cores_for(group.topology, lane.require, lane.prefer)
    split = [core for core in cores if core.mixed or core.split]
    whole = len(cores) - len(split)
    if not whole < lane.min <= len(cores):
        return None
    siblings = [core.siblings for core in split]
    mixed = any(core.mixed for core in split)
    return CODE.at(
        lane.share.winner.span,
        f"exclusive lane {lane.name} needs {lane.min} whole cores and the node has {whole}: "
        f"{len(split)} more are split between siblings ({_pairs(siblings)})",
        related=_causes(group, siblings),
        severity=severity,
        help="isolate both siblings of a core or neither"
        if mixed
        else "give tierc both siblings of a core, or write share: guarded, which may share cores",
    )


def _pairs(cores: Sequence[CpuSet]) -> str:
    more = len(cores) - _SHOWN
    return "; ".join(str(core) for core in cores[:_SHOWN]) + (f"; {more} more" if more > 0 else "")


def _causes(group: CompiledClass, split: Sequence[CpuSet]) -> list[Related]:
    """Return the facts that tell siblings apart."""
    topology = group.topology
    out: list[Related] = []
    for cpus, what in (
        (topology.isolated, "isolated"),
        (topology.online - topology.allowed, "not allowed"),
        (topology.kubelet_owned, "the kubelet's"),
    ):
        if any(core & cpus and core - cpus for core in split):
            out.append(Related(_fact(group, what), f"CPUs {cpus} are {what}"))
    return out


def _fact(group: CompiledClass, what: str) -> Span:
    node = group.sample
    if what == "the kubelet's":
        return node.key_span("spec", "kubelet")
    word = "isolated" if what == "isolated" else "allowed"
    over = getattr(node.model.spec.overrides, word) is not None
    return node.key_span("spec", "overrides" if over else "cpus", word)


RULE: Final = Rule(CODE, check)
