"""An entry of `enforce` selects no node of the policy.

The first entry whose `nodes` selects a node decides its mode. Selectors follow Kubernetes: all
parts must hold, labels compare exactly, and names are the names of the NodeFacts documents.

## Why it matters

The mode of such an entry applies nowhere, and nothing else says so: the nodes meant get the mode
of a later entry, or are only observed. Mostly a label is misspelt, or it was renamed on the nodes
and not in the project file.

## What to do

Correct the part that the message names; labels and names that nearly fit are suggested. If the
nodes are not there yet, add their facts, or silence this one finding with a comment that says so.

## Example

The node has the label `pool: small`. Wrong, the node is only observed:

```yaml
enforce:
  - nodes: {matchLabels: {pool: smal}}
    mode: fallback
---
workload: {group: node-infra}
keep: system
```

Right:

```yaml
enforce:
  - nodes: {matchLabels: {pool: small}}
    mode: fallback
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
from compiler.rules.selectors import Written, blame, listed, nodes_of, takes_none

CODE: Final = Code("TRC229", "enforce-selects-no-node", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find entries of ``enforce`` that no node has, and the part of the selector to blame."""
    policy = compilation.policy
    nodes, doc = nodes_of(policy), policy.project_doc
    if not nodes or doc is None:
        return
    for i, entry in enumerate(policy.project.spec.enforce):
        if entry.nodes is None or not takes_none(entry.nodes, nodes):
            continue
        yield blame(
            CODE,
            Written(entry.nodes, doc, ("spec", "enforce", i, "nodes")),
            nodes,
            f"mode {entry.mode} applies to no node: this entry selects none of the policy's "
            f"({listed(nodes)})",
            "write two entries",
        )


RULE: Final = Rule(CODE, check)
