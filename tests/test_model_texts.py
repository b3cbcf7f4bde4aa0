"""Names and labels by themselves have the form that documents ask of them."""

from __future__ import annotations

import pytest

from compiler.model.texts import is_label, is_label_key, is_name, is_node_name


@pytest.mark.parametrize(
    ("text", "name", "node", "key", "value"),
    [
        ("a", True, True, True, True),
        ("gpu-a-01", True, True, True, True),
        ("a.example", False, True, True, True),
        ("example.com/pool", False, False, True, False),
        ("A_b", False, False, True, True),
        ("", False, False, False, True),
        ("-a", False, False, False, False),
        ("a\n", False, False, False, False),
        ("a b", False, False, False, False),
        ("ä", False, False, False, False),
        ("a" * 63, True, True, True, True),
        ("a" * 64, False, False, False, False),
        (".".join(["a" * 49] * 5), False, True, False, False),  # 249
        (".".join(["a" * 50] * 5), False, False, False, False),  # 254, one more than Kubernetes has
    ],
)
def test_forms(text: str, name: bool, node: bool, key: bool, value: bool) -> None:
    assert is_name(text) is name
    assert is_node_name(text) is node
    assert is_label_key(text) is key
    assert is_label("key", text) is value
    assert is_label(text, "") is key
