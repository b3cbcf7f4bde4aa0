"""An option is written for a target that the project does not have.

`rollout` orders what target `kubernetes` emits; `irqs` of an intent is carried out by target `irq`.
Without the target neither has any effect.

## Why it matters

Nothing else says so: the plan records what was asked, the files of other targets come out as usual,
and the first sign is that all nodes change at once, or that interrupts stay where they were.

## What to do

Add the target to `spec.targets` of the project, `kubernetes: {}` or `irq: {}`, or remove the
option. Where interrupts are placed by other means, write `irqs: leave`: it says so, and needs no
target.

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
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule

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
        return
    for intent in policy.intents:
        if intent.model.spec.irqs in ("lane", "housekeeping"):
            yield CODE.at(
                intent.key_span("spec", "irqs"),
                f"irqs: {intent.model.spec.irqs} has no effect: target irq, which moves "
                "interrupts, is not enabled",
                help="add irq: {} to targets of the project, or remove irqs",
            )


RULE: Final = Rule(CODE, check)
