from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.artifact import (
    MAX_COMPONENT,
    MAX_PATH,
    Artifact,
    canonical_json,
    json_artifact,
    ordered,
    parents,
    script_artifact,
    text_artifact,
)


@pytest.mark.parametrize(
    "path", ["plan.json", "nodes/spark-a.example.com/taskset/apply.sh", ".x/a+b@c_d", "a" * 255]
)
def test_accepts_plain_paths(path: str) -> None:
    assert Artifact(path, b"").path == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/./b",
        "a//b",
        "a/",
        "a b",
        "a\nb",
        "a\n",
        "$(id)",
        "a'b",
        "a\\b",
        "a\0b",
        "-rf",
        "a/-rf",
        "é",
        "a/٣",
        "\udc80",
        "a" * (MAX_COMPONENT + 1),
        "/".join(["abcdefg"] * (MAX_PATH // 8 + 1)),
    ],
)
def test_refuses_paths_that_could_leave_the_tree_or_surprise_a_shell(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        Artifact(path, b"")


@pytest.mark.parametrize("mode", [0, 0o600, 0o777, 0o4755])
def test_refuses_modes_git_does_not_keep(mode: int) -> None:
    with pytest.raises(ValueError, match="mode"):
        Artifact("a", b"", mode)


def test_canonical_json_form() -> None:
    value = {"b": (1, 2), "a": {"ü": None, "t": True}, "e": {}}
    assert canonical_json(value) == (
        b'{\n  "a": {\n    "t": true,\n    "\\u00fc": null\n  },\n'
        b'  "b": [\n    1,\n    2\n  ],\n  "e": {}\n}\n'
    )


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_json)
def test_canonical_json_reads_back_and_does_not_depend_on_key_order(value: Any) -> None:
    data = canonical_json(value)
    assert json.loads(data) == value
    assert data.isascii()
    assert data.endswith(b"\n")
    assert canonical_json(_reversed(value)) == data


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_canonical_json_refuses_what_json_has_no_word_for(value: object) -> None:
    with pytest.raises(ValueError):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1: 2}, {"a": {None: 1}}, [{True: 1}], {"a": {1}}, {"a": b""}])
def test_canonical_json_refuses_other_types(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_canonical_json_refuses_a_value_inside_itself() -> None:
    loop: list[object] = []
    loop.append({"again": loop})
    with pytest.raises(ValueError, match="itself"):
        canonical_json(loop)
    shared: list[int] = [1]
    assert json.loads(canonical_json([shared, shared])) == [[1], [1]]


def test_helpers() -> None:
    assert json_artifact("a.json", []) == Artifact("a.json", b"[]\n")
    assert text_artifact("a", "x\ny\n\n") == Artifact("a", b"x\ny\n")
    assert text_artifact("a", "grün") == Artifact("a", "grün\n".encode())
    assert script_artifact("a.sh", "#!/bin/sh\n:") == Artifact("a.sh", b"#!/bin/sh\n:\n", 0o755)
    with pytest.raises(ValueError, match="#!"):
        script_artifact("a.sh", "echo")
    for bad in ("a\r\n", "a\0"):
        with pytest.raises(ValueError):
            text_artifact("a", bad)


def test_ordered_sorts_and_finds_collisions() -> None:
    a, b = Artifact("b/c", b""), Artifact("a", b"")
    assert ordered([a, b]) == (b, a)
    with pytest.raises(ValueError, match="two artifacts"):
        ordered([a, Artifact("b/c", b"other")])
    with pytest.raises(ValueError, match="directory"):
        ordered([a, Artifact("b-x", b""), Artifact("b", b"")])


def test_parents() -> None:
    assert parents("a") == ()
    assert parents("a/b/c") == ("a", "a/b")
