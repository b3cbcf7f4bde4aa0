"""An engine is wider than the GPUs that its intent means on a node.

`tensorParallel` says that one engine uses more GPUs at once than the node has of those under
`gpus`, which are all of the node where that is not written.

## Why it matters

A rank has a GPU of its own, so such an engine either runs over several nodes or the number is
wrong. Taken at its word it makes a lane for ranks that are not there: a profile's cores are counted
for every rank, the check of spinning ranks (TRC211) counts them too, and with GPUs on several NUMA
nodes the lane is one that spans all of them, where a lane for each might have been meant.

Nothing is said where the node's facts know no GPU, where a GPU under `gpus` is missing (TRC318
says so), or where a GPU is divided into instances (MIG), which may serve a rank each.

## What to do

Write the GPUs that one engine uses on this node. For an engine that runs over several nodes these
are its ranks here; with one rank on each node the number must stay above 1, because the threads of
an engine without tensor parallelism have other names: keep it, under a comment
`# tierc: ignore[TRC231] the reason`. If the intent is for other nodes, select those. If the
facts are short of GPUs, collect them again.

## Example

The node has two GPUs. Wrong:

```yaml
workload: {engine: vllm, version: "0.24.0", tensorParallel: 4, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
---
gpus: 2
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", tensorParallel: 2, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
---
gpus: 2
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Sink
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.resolve.gpus import gpus_of
from compiler.rules.rule import Rule, on
from compiler.words import counted, listed

CODE: Final = Code("TRC231", "more-ranks-than-gpus", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find engines wider than the GPUs that are meant."""
    for group in compilation.classes:
        for expansion in group.expansions:
            gpus = _meant(group, expansion.intent)
            if 0 < len(gpus) < expansion.intent.model.spec.workload.tensor_parallel:
                yield on(group, _finding(group, expansion.intent, gpus))


def _meant(group: CompiledClass, intent: Loaded[Intent]) -> tuple[str, ...]:
    """Return the GPUs an intent means, in the facts' order; none where that cannot be counted."""
    said = Sink()
    meant = gpus_of(intent, group.sample, said)
    devices = group.sample.model.spec.devices
    if said.has_errors or any(device.parent in meant for device in devices):
        return ()
    return tuple(device.id for device in devices if device.id in meant)


def _finding(group: CompiledClass, intent: Loaded[Intent], gpus: tuple[str, ...]) -> Diagnostic:
    work = intent.model.spec.workload
    have = counted(len(gpus), "GPU")
    where = f"the node has {have}" if isinstance(work.gpus, str) else f"gpus means {have} here"
    advice = (
        f"write how many it uses on this node, at most {len(gpus)}"
        if len(gpus) > 1
        else "write 1; or keep the number where one engine has a rank on each of several nodes"
    )
    return CODE.at(
        intent.span("spec", "workload", "tensorParallel"),
        f"an engine of {intent.name} uses {work.tensor_parallel} GPUs (tensorParallel), and "
        f"{where}: it runs over several nodes, or the number is wrong",
        related=[Related(group.sample.key_span("spec", "devices"), f"GPUs: {listed(gpus)}")],
        help=advice,
    )


RULE: Final = Rule(CODE, check)
