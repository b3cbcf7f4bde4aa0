"""A lane on an engine that sets its CPU affinity itself.

Some engines bind themselves: TensorRT-LLM's workers clear the mask they inherit, SGLang from 0.5.20
on binds each rank to the NUMA node it takes for the GPU's, and vLLM's `--numa-bind` looks for the
node by itself. A lane says the same thing otherwise, and both cannot be had.

## Why it matters

What the engine does later wins over the mask it was given: the threads leave the lane, or the
engine refuses to start because its affinity is already narrowed, as with `--numa-bind`. Binding
that knows better than the engine is not always better: clearing an external mask took one
TensorRT-LLM run from 692 to 391 s. So one of the two must be switched off, and it must be known
which.

## What to do

Set the variable or flag that the message names where the engine is started, or drop the lane and
leave the placing to the engine. tierc cannot see how an engine was started: `knobs: "off"` on the
intent of an engine says that its flags are handled elsewhere and silences this rule; with
`workload.match` silence the finding with a comment.

SGLang is reported only on nodes with several NUMA nodes that have CPUs: on others its binding
changes nothing.

## Example

Wrong, the flag looks for the NUMA node by itself:

```yaml
workload: {match: [{cmdline: "vllm serve .*--numa-bind( |$)", cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: 4}
```

Right, with the node named:

```yaml
workload: {match: [{cmdline: "vllm serve .*--numa-bind-nodes", cgroup: "serving.slice/**"}]}
protect: all
lane: {cores: 4}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Policy
from compiler.resolve.lanes import lane_name, lane_span
from compiler.rules.engines import release, setting
from compiler.rules.rule import Rule, on
from compiler.versions import contains as version_in

CODE: Final = Code("TRC215", "engine-sets-affinity", Severity.WARNING, __doc__, adjustable=True)

_NUMA_BIND: Final = re.compile(r"--numa-bind(?!-)")
_NUMA_NODES: Final = "--numa-bind-nodes"
_TRTLLM: Final = re.compile(r"\btrtllm|tensorrt_llm|mpi4py\\?\.futures")
_TRTLLM_KNOB: Final = "TLLM_NUMA_AWARE_WORKER_AFFINITY=0"


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes of engines that are known to bind themselves."""
    for intent in compilation.policy.intents:
        if lane_name(intent) is not None:
            yield from _matched(intent)
    for group in compilation.classes:
        if len(group.topology.cpu_numas) < 2:
            continue
        for expansion in group.expansions:
            found = _default_binding(compilation.policy, group, expansion.intent)
            if found is not None:
                yield on(group, found)


def _matched(intent: Loaded[Intent]) -> Iterator[Diagnostic]:
    """Judge what users match themselves, by the words in it."""
    for i, item in enumerate(intent.model.spec.workload.match or ()):
        for key in ("comm", "leaderComm", "cmdline"):
            text = item.conditions.get(key)
            if text is None:
                continue
            span = intent.span("spec", "workload", "match", i, key)
            lane = f"lane {lane_name(intent)}"
            if key == "cmdline" and _NUMA_BIND.search(text) and _NUMA_NODES not in text:
                yield CODE.at(
                    span,
                    f"{lane} narrows the CPU affinity of an engine started with --numa-bind, "
                    "which then refuses to look for its NUMA node",
                    help=f"start it with {_NUMA_NODES} and the node instead, or drop the lane",
                )
                break
            if _TRTLLM.search(text):
                yield CODE.at(
                    span,
                    f'{key} "{text}" is TensorRT-LLM, whose workers clear the CPU affinity that '
                    f"{lane} gives them",
                    help=f"start it with {_TRTLLM_KNOB} and silence this finding with a comment, "
                    "or drop the lane",
                )
                break


def _default_binding(
    policy: Policy, group: CompiledClass, intent: Loaded[Intent]
) -> Diagnostic | None:
    """Judge an engine whose profile has a knob to switch off NUMA binding of its own."""
    spec = intent.model.spec
    profile = policy.profiles.get(spec.workload.engine or "")
    version, lane = spec.workload.version, lane_name(intent)
    if profile is None or version is None or lane is None or spec.knobs == "off":
        return None
    knob = next(
        (
            k
            for k in profile.model.spec.knobs
            if "numa" in k.name.lower() and k.advice == "set" and version_in(k.versions, version)
        ),
        None,
    )
    if knob is None:
        return None
    nodes = ", ".join(str(node.id) for node in group.topology.cpu_numas)
    return CODE.at(
        lane_span(intent),
        f"lane {lane} is for {release(profile, version)}, which binds itself to a NUMA node of "
        f"its own choice (the node has {nodes})",
        help=f"start it with {setting(knob)}: {knob.note}\n"
        'where it is started so, knobs: "off" silences this',
    )


RULE: Final = Rule(CODE, check)
