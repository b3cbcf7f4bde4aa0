"""An intent selects no node of the policy.

`nodes` follows Kubernetes: all parts must hold, labels compare exactly, and names are the names
of the NodeFacts documents.

## Why it matters

An intent without a node compiles to nothing, silently. Mostly a label is misspelt, or it was
renamed on the nodes and not here. The engine then runs unprotected on every node.

## What to do

Correct the part that the message names; labels and names that nearly fit are suggested. If the
nodes are not there yet, add their facts, or silence this one finding with a comment that says so.

## Example

The node has the label `pool: small`. Wrong:

```yaml
nodes: {matchLabels: {pool: smal}}
workload: {group: node-infra}
keep: system
```

Right:

```yaml
nodes: {matchLabels: {pool: small}}
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
from compiler.rules.selectors import Written, blame, listed, nodes_of

CODE: Final = Code("TRC205", "selects-no-node", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find intents that no node has, and the part of the selector to blame."""
    nodes = nodes_of(compilation.policy)
    if not nodes:
        return
    used = {e.intent.name for group in compilation.classes for e in group.expansions}
    for intent in compilation.policy.intents:
        selector = intent.model.spec.nodes
        if selector is None or intent.name in used:
            continue
        yield blame(
            CODE,
            Written(selector, intent.doc, ("spec", "nodes")),
            nodes,
            f"{intent.name} selects none of the policy's nodes ({listed(nodes)})",
            "write two intents",
        )


RULE: Final = Rule(CODE, check)
