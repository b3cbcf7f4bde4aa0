"""A step of `rollout` names a node that the policy does not have.

A step's `names` are the names of NodeFacts documents. They are compared exactly.

## Why it matters

The node meant is in no step that names it, so it gets new plans with the last step, or with a part
of all nodes: not first, as a canary should, or not last. Nothing else would say so.

## What to do

Correct the name, or remove it. If the node is not there yet, add its facts first, with `tierc facts
collect` on the node or `tierc facts import` of what was collected there.

## Example

The node is called `box`. Wrong, `box` is not in the first step:

```yaml
enforce: [{mode: fallback}]
targets: {taskset: {}, kubernetes: {}}
rollout:
  steps:
    - names: [bx]
    - all
---
workload: {group: node-infra}
keep: system
```

Right:

```yaml
enforce: [{mode: fallback}]
targets: {taskset: {}, kubernetes: {}}
rollout:
  steps:
    - names: [box]
    - all
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
from compiler.rules.selectors import listed, nodes_of
from compiler.suggest import nearest

CODE: Final = Code("TRC232", "rollout-unknown-node", Severity.ERROR, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find names in steps that are no node's."""
    policy = compilation.policy
    nodes, doc = nodes_of(policy), policy.project_doc
    if not nodes or doc is None:
        return
    for i, step in enumerate(policy.project.spec.rollout.steps):
        if step == "all":
            continue
        for k, name in enumerate(step.names or ()):
            if name in nodes:
                continue
            close = nearest(name, nodes)
            yield CODE.at(
                doc.span("spec", "rollout", "steps", i, "names", k),
                f'a step of the rollout names "{name}", and no node is called so ({listed(nodes)})',
                help=(f'did you mean "{close[0]}"? ' if close else "")
                + "correct the name, or remove it",
            )


RULE: Final = Rule(CODE, check)
