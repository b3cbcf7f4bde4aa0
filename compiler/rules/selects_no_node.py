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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.model.intent import Intent
from compiler.model.selector import Expression, NodeSelector
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule
from compiler.select import HOSTNAME_LABEL, selects
from compiler.suggest import nearest

CODE: Final = Code("TRC205", "selects-no-node", Severity.WARNING, __doc__, adjustable=True)

_SHOWN: Final = 5

Nodes = Mapping[str, Mapping[str, str]]
"""Labels of every node by its name, the implied host name among them."""


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find intents that no node has, and the part of the selector to blame."""
    nodes = {
        node.name: {HOSTNAME_LABEL: node.name, **node.model.metadata.labels}
        for node in compilation.policy.nodes
    }
    if not nodes or compilation.policy.lost & {"NodeFacts", ""}:
        return  # the node meant may be in a document that could not be read, which is reported
    used = {e.intent.name for group in compilation.classes for e in group.expansions}
    for intent in compilation.policy.intents:
        selector = intent.model.spec.nodes
        if selector is None or intent.name in used:
            continue
        faults = list(_faults(intent, selector, nodes))
        whole = f"{intent.name} selects none of the policy's nodes ({_listed(nodes)})"
        if not faults:
            yield CODE.at(
                intent.key_span("spec", "nodes"),
                f"{whole}: each part of nodes holds somewhere, and no node has all of them",
                help="all parts must hold on one node; for either of two, write two intents",
            )
            continue
        span, message, hint = faults[0]
        yield CODE.at(
            span,
            f"{whole}: {message}",
            related=[Related(other, text) for other, text, _ in faults[1:]],
            help=hint,
        )


def _faults(
    intent: Loaded[Intent], selector: NodeSelector, nodes: Nodes
) -> Iterator[tuple[Span, str, str]]:
    """Yield the parts that hold on no node at all: place, what is wrong, what to do."""
    for key, value in selector.match_labels.items():
        if _holds({"matchLabels": {key: value}}, nodes):
            continue
        if not any(key in labels for labels in nodes.values()):
            span = intent.key_span("spec", "nodes", "matchLabels", key)
            yield span, f"no node has a label {key}", _meant_key(key, nodes)
        else:
            span = intent.span("spec", "nodes", "matchLabels", key)
            yield span, f'no node has {key}: "{value}"', _meant_value(key, (value,), nodes)
    for i, expression in enumerate(selector.match_expressions):
        if _holds({"matchExpressions": (expression,)}, nodes):
            continue
        yield _expression_fault(intent, i, expression, nodes)
    names = selector.names or ()
    if names and not any(name in nodes for name in names):
        close = nearest(names[0], nodes)
        yield (
            intent.span("spec", "nodes", "names", 0),
            f"no node is called {' or '.join(names)}",
            f"did you mean {close[0]}?" if close else "names are metadata.name of NodeFacts",
        )


def _expression_fault(
    intent: Loaded[Intent], i: int, expression: Expression, nodes: Nodes
) -> tuple[Span, str, str]:
    route = ("spec", "nodes", "matchExpressions", i)
    key, operator = expression.key, expression.operator
    present = any(key in labels for labels in nodes.values())
    if not present:
        return intent.span(*route, "key"), f"no node has a label {key}", _meant_key(key, nodes)
    written = f"{key} {operator} {', '.join(expression.values)}".strip()
    if operator == "In":
        hint = _meant_value(key, expression.values, nodes)
        return intent.span(*route, "values", 0), f"no node has {written}", hint
    place = "values" if operator in ("Gt", "Lt") else "operator"
    span = intent.span(*route, place, 0) if place == "values" else intent.span(*route, place)
    return span, f"{written} holds on no node", _values_text(key, nodes)


def _holds(part: Mapping[str, object], nodes: Nodes) -> bool:
    selector = NodeSelector.model_validate(part)
    return any(selects(selector, name, labels) for name, labels in nodes.items())


def _meant_key(key: str, nodes: Nodes) -> str:
    keys = {have for labels in nodes.values() for have in labels}
    close = nearest(key, keys)
    return f"did you mean {close[0]}?" if close else f"labels of the nodes: {_listed(keys)}"


def _meant_value(key: str, values: Sequence[str], nodes: Nodes) -> str:
    have = {labels[key] for labels in nodes.values() if key in labels}
    close = [near for value in values for near in nearest(value, have)]
    return (f'did you mean "{close[0]}"? ' if close else "") + _values_text(key, nodes)


def _values_text(key: str, nodes: Nodes) -> str:
    have = {labels[key] for labels in nodes.values() if key in labels}
    return f"values of {key}: {_listed(have)}"


def _listed(words: Iterable[str]) -> str:
    ordered = sorted(words)
    more = len(ordered) - _SHOWN
    return ", ".join(ordered[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


RULE: Final = Rule(CODE, check)
