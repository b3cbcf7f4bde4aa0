"""Node selection, against the rules of Kubernetes label selectors."""

from __future__ import annotations

import pytest

from compiler.model.selector import NodeSelector
from compiler.select import selects

LABELS = {"zone": "a", "gpus": "8", "empty": "", "word": "many"}


def selector(**parts: object) -> NodeSelector:
    return NodeSelector.model_validate(parts)


def expression(key: str, operator: str, *values: str) -> NodeSelector:
    row: dict[str, object] = {"key": key, "operator": operator}
    if values:
        row["values"] = values
    return selector(matchExpressions=(row,))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, True),
        (selector(), True),
        (selector(matchLabels={"zone": "a"}), True),
        (selector(matchLabels={"zone": "b"}), False),
        (selector(matchLabels={"zone": "a", "absent": "x"}), False),
        (selector(matchLabels={"empty": ""}), True),
        (selector(matchLabels={"absent": ""}), False),
        (selector(names=("n1", "n2")), True),
        (selector(names=("n2",)), False),
        (selector(names=("n1",), matchLabels={"zone": "b"}), False),
        (selector(matchLabels={"kubernetes.io/hostname": "n1"}), True),
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("absent", "In", "a"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("absent", "NotIn", "a"), True),
        (expression("empty", "Exists"), True),
        (expression("absent", "Exists"), False),
        (expression("absent", "DoesNotExist"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("gpus", "Gt", "7"), True),
        (expression("gpus", "Gt", "8"), False),
        (expression("gpus", "Lt", "10"), True),
        (expression("word", "Gt", "1"), False),
        (expression("absent", "Lt", "1"), False),
    ],
)
def test_selection(chosen: NodeSelector | None, expected: bool) -> None:
    assert selects(chosen, "n1", LABELS) is expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"key": "a", "operator": "In"}, "needs at least one"),
        ({"key": "a", "operator": "Exists", "values": ("x",)}, "takes no values"),
        ({"key": "a", "operator": "Gt", "values": ("x",)}, "decimal number"),
        ({"key": "a", "operator": "Gt", "values": ("1", "2")}, "one value"),
    ],
)
def test_senseless_expressions_are_refused(row: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        selector(matchExpressions=(row,))
