"""Did you mean."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.suggest import distance, nearest

FIELDS = [
    "nodes", "workload", "protect", "demote", "keep", "prefer", "require", "lane", "above",
    "irqs", "knobs", "precedence", "matchLabels", "matchExpressions", "names", "engine",
    "version", "tensorParallel", "instances", "traffic", "gpus", "pods", "cgroup",
]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("protct", "protect"),
        ("portect", "protect"),
        ("matchLabel", "matchLabels"),
        ("match_labels", "matchLabels"),
        ("matchlabels", "matchLabels"),
        ("match-expressions", "matchExpressions"),
        ("lanes", "lane"),
        ("node", "nodes"),
        ("irq", "irqs"),
        ("Keep", "keep"),
        ("cgruop", "cgroup"),
        ("tensor_parallel", "tensorParallel"),
    ],
)
def test_slips(word: str, expected: str) -> None:
    assert nearest(word, FIELDS) == [expected]


@pytest.mark.parametrize("word", ["zzz", "", "x", "completely-else", "z" * 10_000])
def test_no_suggestion(word: str) -> None:
    assert nearest(word, FIELDS) == []


def test_a_known_word_is_no_suggestion_for_itself() -> None:
    assert nearest("lane", ["lane", "lanes"]) == ["lanes"]


def test_ties_do_not_depend_on_order() -> None:
    assert nearest("bat", ["cat", "bar", "hat"]) == ["bar"]
    assert nearest("bat", ["hat", "cat", "bar"], limit=2) == ["bar", "cat"]
    assert nearest("bat", [], limit=2) == []


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [
        ("", "abc", 3),
        ("abc", "abc", 0),
        ("kitten", "sitting", 3),
        ("ab", "ba", 1),
        ("ca", "abc", 3),
    ],
)
def test_distance(a: str, b: str, steps: int) -> None:
    # ca -> abc is 3 for optimal string alignment (2 would edit a swapped pair again).
    assert distance(a, b) == steps


@settings(max_examples=100)
@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_distance_is_symmetric_and_bounded(a: str, b: str) -> None:
    steps = distance(a, b)
    assert steps == distance(b, a)
    assert abs(len(a) - len(b)) <= steps <= max(len(a), len(b))
    assert (steps == 0) == (a == b)
