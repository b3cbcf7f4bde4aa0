"""A lane of one core for an engine that keeps two busy.

The lane has one physical core, which shows as two CPUs or more, and the stages of the engines in it
are known to need more than one: the engine step and the API server, for one.

## Why it matters

Two siblings are not two cores. They share the execution units and the first caches, and a program
confined to the two siblings of one core was measured 20 to 25 % slower than on two cores
(llama.cpp). In the CPU list, `4,12`, it looks like two CPUs, one for each stage; at run time
tokenizing a long prompt takes its time from the step that launches the GPU's kernels.

## What to do

Give the lane a core for each busy stage; the message adds them up. If only one core can be spared,
protect `decode` alone and leave the API server out of the lane, knowing what that costs the time to
first token. Engines with tensor parallelism are counted by TRC211.

## Example

Wrong, on a machine with two threads a core:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: 1}
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: 2}
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from compiler.cpuset import CpuSet
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.pipeline import Compilation, CompiledClass
from compiler.rules.engines import Need, need_of, release
from compiler.rules.rule import Rule, on

CODE: Final = Code("TRC224", "smt-pair-lane", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes of one core with siblings, for engines that need two or more."""
    needs = {
        need.intent.name: need
        for intent in compilation.policy.intents
        if (need := need_of(compilation.policy, intent)) is not None
    }
    for group in compilation.classes:
        for found in _of_class(group, needs):
            yield on(group, found)


def _of_class(group: CompiledClass, needs: Mapping[str, Need]) -> Iterator[Diagnostic]:
    if group.plan is None:
        return
    for planned in group.plan.lanes:
        lane = group.resolution.asked(planned.name)
        if lane is None:
            continue
        cpus = planned.cpus
        members = [needs[name] for name in lane.intents if name in needs]
        if planned.family is not None:
            members = [need.of_engines(1) for need in members]
        total = sum(need.cores for need in members)
        if not _is_pair(group, cpus) or total < 2 or any(need.counts for need in members):
            continue  # ranks that spin for each other are another rule's finding
        first = members[0]
        parts = [
            f"{cores} for {stage}"
            for need in members
            for stage, cores in (*need.spinning.items(), *need.beside.items())
        ]
        who = release(first.profile, first.intent.model.spec.workload.version)
        others = f" and {len(members) - 1} more" if len(members) > 1 else ""
        yield CODE.at(
            lane.cores.winner.span,
            f"lane {lane.name} is one core, whose CPUs {cpus} are siblings, and {who}{others} "
            f"keeps {total} cores busy: {', '.join(parts)}",
            help=f"give it {total} cores",
        )


def _is_pair(group: CompiledClass, cpus: CpuSet) -> bool:
    """Tell whether CPUs are siblings of one core, and more than one."""
    return len(cpus) > 1 and any(cpus <= core.siblings for core in group.topology.cores)


RULE: Final = Rule(CODE, check)
