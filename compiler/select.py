"""Node selection with the semantics of Kubernetes label selectors."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.model.selector import Expression, NodeSelector

HOSTNAME_LABEL = "kubernetes.io/hostname"


def selects(selector: NodeSelector | None, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether the selector takes the node; None and the empty selector take every node.

    As in Kubernetes, ``NotIn`` holds where the label is absent, and ``Gt`` and ``Lt`` only where
    its value is a decimal number.  The host name label is implied by the node's name.
    """
    if selector is None:
        return True
    have = {HOSTNAME_LABEL: name, **labels}
    return (
        all(have.get(key) == value for key, value in selector.match_labels.items())
        and all(_holds(expression, have) for expression in selector.match_expressions)
        and (selector.names is None or name in selector.names)
    )


def _holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.key)
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not (value.isascii() and value.isdecimal()):
                return False
            bound = int(expression.values[0])
            return int(value) > bound if expression.operator == "Gt" else int(value) < bound
