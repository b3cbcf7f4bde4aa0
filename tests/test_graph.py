"""The tier graph: inheritance, cycles, order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.graph import Need, cycles, depths, inherit, ordered

NAMES = "abcdefg"


def test_a_needed_node_is_raised_and_says_by_whom() -> None:
    got = inherit({"chat": 1, "driver": 4}, [Need("chat", "driver", 1, "because")])
    assert got["driver"].tier == 1
    assert [need.why for need in got["driver"].chain] == ["because"]
    assert got["chat"].chain == ()


def test_a_need_passes_on_no_more_than_its_own_tier() -> None:
    # `source` stands at 1 for another reason; this path needs its neighbour only at 2
    got = inherit({"source": 1, "target": 4}, [Need("source", "target", 2)])
    assert got["target"].tier == 2


def test_inheritance_runs_over_several_steps() -> None:
    got = inherit({"a": 0, "b": 4, "c": 4}, [Need("a", "b", 0, "a-b"), Need("b", "c", 0, "b-c")])
    assert [need.why for need in got["c"].chain] == ["a-b", "b-c"]


def test_a_higher_node_is_not_lowered() -> None:
    assert inherit({"low": 5, "high": 1}, [Need("low", "high", 0)])["high"].tier == 1


@pytest.mark.parametrize("need", [Need("a", "nowhere", 1), Need("nowhere", "a", 1)])
def test_a_need_of_or_by_an_unknown_node_is_refused(need: Need) -> None:
    with pytest.raises(KeyError, match="nowhere"):
        inherit({"a": 1}, [need])


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), min_size=1),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(0, 6)), max_size=15
    ),
    st.randoms(use_true_random=False),
)
def test_inheritance_is_the_least_fixed_point(
    base: dict[str, int], edges: list[tuple[str, str, int]], shuffler: random.Random
) -> None:
    needs = [Need(a, b, cap) for a, b, cap in edges if a in base and b in base]
    # the definition, by repetition until nothing changes
    want = dict(base)
    while True:
        new = dict(want)
        for need in needs:
            new[need.target] = min(new[need.target], max(want[need.source], need.tier))
        if new == want:
            break
        want = new
    shuffled = list(needs)
    shuffler.shuffle(shuffled)
    got = inherit(base, needs)
    assert {name: one.tier for name, one in got.items()} == want
    assert got == inherit(dict(reversed(base.items())), shuffled)
    for name, one in got.items():
        if one.chain:
            assert one.chain[-1].target == name
            assert max(base[one.chain[0].source], *(n.tier for n in one.chain)) == one.tier


def test_a_cycle_is_shown_from_its_smallest_name() -> None:
    edges = [("decode", "prefill"), ("prefill", "batch"), ("batch", "decode")]
    assert cycles(edges) == (("batch", "decode", "prefill"),)


def test_a_self_reference_is_a_cycle() -> None:
    assert cycles([("x", "x"), ("x", "y")]) == (("x",),)


def test_a_diamond_is_no_cycle_and_its_end_comes_last() -> None:
    diamond = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    assert cycles(diamond) == ()
    assert depths("abcd", diamond) == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_two_separate_cycles_are_both_reported() -> None:
    assert cycles([("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]) == (("a", "b"), ("c", "d"))


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=15),
    st.randoms(use_true_random=False),
)
def test_cycles_do_not_depend_on_order(
    edges: list[tuple[str, str]], shuffler: random.Random
) -> None:
    shuffled = list(edges)
    shuffler.shuffle(shuffled)
    found = cycles(edges)
    assert found == cycles(shuffled)
    for cycle in found:
        assert cycle[0] == min(cycle)
        closed = (*cycle, cycle[0])
        assert all((closed[i], closed[i + 1]) in edges for i in range(len(cycle)))


def test_depths_refuse_cycles() -> None:
    with pytest.raises(ValueError, match="cycle"):
        depths("ab", [("a", "b"), ("b", "a")])


def test_ordered_keeps_pairs_and_otherwise_follows_keys() -> None:
    assert ordered(3, [(2, 0)], ["a", "b", "c"]) == [1, 2, 0]
    assert ordered(3, [], ["c", "b", "a"]) == [2, 1, 0]
    with pytest.raises(ValueError, match="cycle"):
        ordered(2, [(0, 1), (1, 0)], ["a", "b"])
