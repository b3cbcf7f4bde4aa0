"""Selectors that no node of the policy satisfies, and the part of them to blame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Span
from compiler.model.selector import Expression, NodeSelector
from compiler.policy import Policy
from compiler.select import HOSTNAME_LABEL, selects
from compiler.source import Document, Route
from compiler.suggest import nearest

_SHOWN: Final = 5

Nodes = Mapping[str, Mapping[str, str]]
"""Labels of every node by its name, the implied host name among them."""


@dataclass(frozen=True, slots=True)
class Written:
    """A selector, and where it is written."""

    selector: NodeSelector
    doc: Document
    route: Route

    def span(self, *below: str | int) -> Span:
        """Return the place of a value of the selector."""
        return self.doc.span(*self.route, *below)

    def key_span(self, *below: str | int) -> Span:
        """Return the place of a key of the selector, or of the selector's own key."""
        return self.doc.key_span(*self.route, *below)


def nodes_of(policy: Policy) -> Nodes:
    """Return the nodes by which a selector can be judged.

    No node where some could not be read: the node meant may be among those, which is reported.
    """
    if policy.lost & {"NodeFacts", ""}:
        return {}
    return {
        node.name: {HOSTNAME_LABEL: node.name, **node.model.metadata.labels}
        for node in policy.nodes
    }


def takes_none(selector: NodeSelector | None, nodes: Nodes) -> bool:
    """Tell whether a selector takes none of the nodes."""
    return not any(selects(selector, name, labels) for name, labels in nodes.items())


def blame(code: Code, written: Written, nodes: Nodes, whole: str, instead: str) -> Diagnostic:
    """Return the finding that a selector takes no node, at the part that holds nowhere.

    Args:
        whole: what selects nothing, as the beginning of the message.
        instead: what to write where each part holds somewhere.
    """
    faults = list(_faults(written, nodes))
    if not faults:
        return code.at(
            written.key_span(),
            f"{whole}: each part of nodes holds somewhere, and no node has all of them",
            help=f"all parts must hold on one node; for either of two, {instead}",
        )
    span, message, hint = faults[0]
    return code.at(
        span,
        f"{whole}: {message}",
        related=[Related(other, text) for other, text, _ in faults[1:]],
        help=hint,
    )


def _faults(written: Written, nodes: Nodes) -> Iterator[tuple[Span, str, str]]:
    """Yield the parts that hold on no node at all: place, what is wrong, what to do."""
    selector = written.selector
    for key, value in selector.match_labels.items():
        if _holds({"matchLabels": {key: value}}, nodes):
            continue
        if not any(key in labels for labels in nodes.values()):
            span = written.key_span("matchLabels", key)
            yield span, f"no node has a label {key}", _meant_key(key, nodes)
        else:
            span = written.span("matchLabels", key)
            yield span, f'no node has {key}: "{value}"', _meant_value(key, (value,), nodes)
    for i, expression in enumerate(selector.match_expressions):
        if _holds({"matchExpressions": (expression,)}, nodes):
            continue
        yield _expression_fault(written, i, expression, nodes)
    names = selector.names or ()
    if names and not any(name in nodes for name in names):
        close = nearest(names[0], nodes)
        yield (
            written.span("names", 0),
            f"no node is called {' or '.join(names)}",
            f"did you mean {close[0]}?" if close else "names are metadata.name of NodeFacts",
        )


def _expression_fault(
    written: Written, i: int, expression: Expression, nodes: Nodes
) -> tuple[Span, str, str]:
    route: Route = ("matchExpressions", i)
    key, operator = expression.key, expression.operator
    present = any(key in labels for labels in nodes.values())
    if not present:
        return written.span(*route, "key"), f"no node has a label {key}", _meant_key(key, nodes)
    text = f"{key} {operator} {', '.join(expression.values)}".strip()
    if operator == "In":
        hint = _meant_value(key, expression.values, nodes)
        return written.span(*route, "values", 0), f"no node has {text}", hint
    place = "values" if operator in ("Gt", "Lt") else "operator"
    span = written.span(*route, place, 0) if place == "values" else written.span(*route, place)
    return span, f"{text} holds on no node", _values_text(key, nodes)


def _holds(part: Mapping[str, object], nodes: Nodes) -> bool:
    selector = NodeSelector.model_validate(part)
    return any(selects(selector, name, labels) for name, labels in nodes.items())


def _meant_key(key: str, nodes: Nodes) -> str:
    keys = {have for labels in nodes.values() for have in labels}
    close = nearest(key, keys)
    return f"did you mean {close[0]}?" if close else f"labels of the nodes: {listed(keys)}"


def _meant_value(key: str, values: Sequence[str], nodes: Nodes) -> str:
    have = {labels[key] for labels in nodes.values() if key in labels}
    close = [near for value in values for near in nearest(value, have)]
    return (f'did you mean "{close[0]}"? ' if close else "") + _values_text(key, nodes)


def _values_text(key: str, nodes: Nodes) -> str:
    have = {labels[key] for labels in nodes.values() if key in labels}
    return f"values of {key}: {listed(have)}"


def listed(words: Iterable[str]) -> str:
    """Return the first words in order, and how many more there are."""
    ordered = sorted(words)
    more = len(ordered) - _SHOWN
    return ", ".join(ordered[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
