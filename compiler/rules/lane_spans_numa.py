"""An engine's lane lies on several NUMA nodes, and one would do.

The lane was given cores of more than one NUMA node, a single node could hold the minimum, and there
is one process to serve: one engine without tensor parallelism.

## Why it matters

Threads of one process that wander between NUMA nodes find their memory on the other side of the
link, and the GPU is near one side only. Binding each rank to its node took the median decode step
of an 8-NUMA machine from 70.4 to 14.1 ms. More cores do not make up for it: lanes grow to their
maximum even where that leaves a node behind, because the maximum is what was asked for.

## What to do

Lower `cores.max` to what one node has left, which the message says. If the lane must be large,
serve it with one engine for each node. Engines with tensor parallelism, several instances, or GPUs
on several nodes are not reported: their ranks belong on both sides.

## Example

The node has two NUMA nodes of four cores. Wrong:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: {min: 2, max: 6}}
---
numa: ["0-3,8-11", "4-7,12-15"]
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: {min: 2, max: 4}}
---
numa: ["0-3,8-11", "4-7,12-15"]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import Lane, NodePlan
from compiler.resolve.types import ResolvedLane
from compiler.rules.rule import Rule, on
from compiler.topology import NumaView

CODE: Final = Code("TRC223", "lane-spans-numa", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes of single engines that cross NUMA nodes without need."""
    for group in compilation.classes:
        if group.plan is None or len(group.topology.cpu_numas) < 2:
            continue
        for lane in group.plan.lanes:
            wanted = group.resolution.asked(lane.name)
            # cores: rest asks for whatever is there
            if wanted is not None and wanted.max is not None and _is_one_process(group, wanted):
                yield from (on(group, f) for f in _judge(group, group.plan, lane, wanted))


def _is_one_process(group: CompiledClass, lane: ResolvedLane) -> bool:
    """Tell whether a lane serves one engine of one rank."""
    members = [e.intent for e in group.expansions if e.intent.name in lane.intents]
    work = members[0].model.spec.workload
    return (
        len(members) == 1 and work.engine is not None and work.tensor_parallel * work.instances == 1
    )


def _near(group: CompiledClass, lane: ResolvedLane) -> tuple[NumaView, ...]:
    """Return the NUMA nodes that would do for a lane: those near its devices, or all."""
    nodes = group.topology.cpu_numas
    views = [group.topology.device(name) for name in lane.devices]
    near = union(view.cpus for view in views if view is not None and view.cpus)
    return tuple(node for node in nodes if node.cpus & near) if near else nodes


def _judge(
    group: CompiledClass, plan: NodePlan, lane: Lane, wanted: ResolvedLane
) -> Iterator[Diagnostic]:
    topology = group.topology
    used = [node for node in topology.cpu_numas if node.cpus & lane.cpus]
    near = _near(group, wanted)
    if len(used) < 2 or (wanted.devices and len(near) > 1):
        return
    usable = topology.isolated if lane.isolated else topology.effective
    taken = union([plan.housekeeping, *(o.cpus for o in plan.lanes if o.name != lane.name)])
    room = {node.id: _cores(group, (node.cpus & usable) - taken) for node in near}
    best = max(sorted(room), key=lambda id: room[id])
    if not wanted.min <= room[best] < lane.cores:
        return  # it must cross, or what it prefers spreads it
    yield CODE.at(
        wanted.cores.winner.span,
        f"lane {lane.name} has {lane.cores} cores on NUMA nodes "
        f"{' and '.join(str(node.id) for node in used)}, and node {best} alone has {room[best]}, "
        f"enough for its minimum of {wanted.min}",
        related=[Related(group.sample.key_span("spec", "numa"), "the NUMA nodes")],
        help=f"set cores.max to at most {room[best]}",
    )


def _cores(group: CompiledClass, cpus: CpuSet) -> int:
    """Return how many whole cores are in a set."""
    return sum(1 for core in group.topology.cores if core.cpus and core.cpus <= cpus)


RULE: Final = Rule(CODE, check)
