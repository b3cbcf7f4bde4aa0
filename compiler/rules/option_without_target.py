"""An option is written for a target that the project does not have, or that can do nothing.

`rollout` orders what target `kubernetes` emits; `irqs` of an intent is carried out by target `irq`.
Without the target neither has any effect. Target `irq` finds a GPU's interrupts by its PCI address
(`bdf`), which not every source of facts tells: `nvidia-smi topo -m` does not.

## Why it matters

Nothing else says so: the plan records what was asked, the files of other targets come out as usual,
and the first sign is that all nodes change at once, or that interrupts stay where they were.

## What to do

Add the target to `spec.targets` of the project, `kubernetes: {}` or `irq: {}`, or remove the
option. Where interrupts are placed by other means, write `irqs: leave`: it says so, and needs no
target. Where addresses are missing, collect the facts on the node, or import `nvidia-smi -q -x`
beside what there is.

## Example

Wrong, with `targets: {taskset: {}}` as it is by default:

```yaml
enforce: [{mode: fallback}]
rollout: {steps: [{percent: 10}, all]}
---
workload: {group: node-infra}
keep: system
```

Right:

```yaml
enforce: [{mode: fallback}]
---
workload: {group: node-infra}
keep: system
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.model.facts import NodeFacts
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.rules.rule import Rule
from compiler.words import listed

CODE: Final = Code("TRC233", "option-without-target", Severity.INFO, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find a rollout without kubernetes, and interrupts to move without irq."""
    policy = compilation.policy
    enabled = policy.project.spec.targets.enabled
    doc = policy.project_doc
    if doc is not None and policy.project.spec.rollout.steps and "kubernetes" not in enabled:
        yield CODE.at(
            doc.key_span("spec", "rollout"),
            "rollout has no effect: it orders what target kubernetes emits, which is not enabled",
            help="add kubernetes: {} to targets, or remove rollout",
        )
    if "irq" in enabled:
        yield from _without_address(policy)
        return
    for intent in policy.intents:
        if intent.model.spec.irqs in ("lane", "housekeeping"):
            yield CODE.at(
                intent.key_span("spec", "irqs"),
                f"irqs: {intent.model.spec.irqs} has no effect: target irq, which moves "
                "interrupts, is not enabled",
                help="add irq: {} to targets of the project, or remove irqs",
            )


def _without_address(policy: Policy) -> Iterator[Diagnostic]:
    """Yield the GPUs of each node whose interrupts target irq cannot find."""
    doc = policy.project_doc
    if doc is None:
        return
    found: dict[tuple[str, ...], list[Loaded[NodeFacts]]] = {}
    for node in policy.nodes:
        gpus = (one for one in node.model.spec.devices if one.type == "gpu" and one.parent is None)
        if unknown := tuple(gpu.id for gpu in gpus if gpu.bdf is None):
            found.setdefault(unknown, []).append(node)
    for unknown, nodes in found.items():
        finding = CODE.at(
            doc.key_span("spec", "targets", "irq"),
            f"target irq leaves the interrupts of {listed(unknown)}: the facts give no PCI address",
            related=[Related(nodes[0].key_span("spec", "devices"), f"devices of {nodes[0].name}")],
            help="collect the facts on the node, or import nvidia-smi -q -x beside what there is",
        )
        yield replace(finding, nodes=tuple(node.name for node in nodes))


RULE: Final = Rule(CODE, check)
