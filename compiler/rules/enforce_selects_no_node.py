"""An entry of `enforce` selects no node of the policy, or stands below one that takes all.

The first entry whose `nodes` selects a node decides its mode. Selectors follow Kubernetes: all
parts must hold, labels compare exactly, and names are the names of the NodeFacts documents. An
entry without `nodes` selects every node, so it belongs at the end; what follows has no effect.

## Why it matters

The mode of such an entry applies nowhere, and nothing else says so: the nodes meant get the mode
of another entry, or are only observed. Mostly a label is misspelt, it was renamed on the nodes and
not in the project file, or the entry was added below the one for all nodes.

## What to do

Correct the part that the message names; labels and names that nearly fit are suggested. Move an
entry for some nodes above the one for all. If the nodes are not there yet, add their facts, or
silence this one finding with a comment that says so.

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

from collections.abc import Iterator, Sequence
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.model.project import Enforce
from compiler.model.selector import NodeSelector
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule
from compiler.rules.selectors import Nodes, Written, blame, listed, nodes_of, takes_none
from compiler.select import selects
from compiler.source import Document

CODE: Final = Code("TRC229", "enforce-selects-no-node", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find entries of ``enforce`` that decide for no node, and what is to blame."""
    policy = compilation.policy
    nodes, doc = nodes_of(policy), policy.project_doc
    if not nodes or doc is None:
        return
    entries = policy.project.spec.enforce
    for i, entry in enumerate(entries):
        if entry.nodes is None:
            continue
        if takes_none(entry.nodes, nodes):
            yield blame(
                CODE,
                Written(entry.nodes, doc, ("spec", "enforce", i, "nodes")),
                nodes,
                f"mode {entry.mode} applies to no node: this entry selects none of the policy's "
                f"({listed(nodes)})",
                "write two entries",
            )
        elif (behind := _behind_all(doc, entries, i, nodes)) is not None:
            yield behind


def _behind_all(
    doc: Document, entries: Sequence[Enforce], i: int, nodes: Nodes
) -> Diagnostic | None:
    """Return the finding that an entry for all nodes, with another mode, precedes one for some."""
    entry = entries[i]
    everywhere = next(j for j, one in enumerate(entries) if j == i or _takes_all(one))
    if everywhere == i or _asks(entries[everywhere]) == _asks(entry) or _takes_all(entry):
        return None
    mine = [name for name, labels in nodes.items() if selects(entry.nodes, name, labels)]
    route = ("spec", "enforce")
    return CODE.at(
        doc.key_span(*route, i, "nodes"),
        f"mode {entry.mode} applies to no node: an entry before it takes every node, "
        f"those that it selects ({listed(mine)}) among them",
        related=[Related(doc.span(*route, everywhere, "mode"), "this mode applies")],
        help="the first entry that selects a node decides: move this one above that for all",
    )


def _takes_all(entry: Enforce) -> bool:
    return entry.nodes is None or entry.nodes == NodeSelector()


def _asks(entry: Enforce) -> tuple[str, bool]:
    return entry.mode, entry.accept_unenforced_cpu_limits


RULE: Final = Rule(CODE, check)
