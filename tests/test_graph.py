"""The tier graph: inheritance, cycles, order."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph import Need, cycles, depths, inherit, ordered

NAMES = "abcdefg"
ROOT = Path(__file__).resolve().parent.parent
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=15)
FORWARD = PAIRS.map(lambda pairs: [pair for pair in pairs if pair[0] < pair[1]])


def paths(edges: list[tuple[str, str]], start: str) -> list[tuple[str, ...]]:
    """Return every path from a node that visits no node twice, the short ones first."""
    found: list[tuple[str, ...]] = [(start,)]
    for path in found:  # grows while it is read
        found += [(*path, b) for a, b in sorted(set(edges)) if a == path[-1] and b not in path]
    return found


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


def test_of_chains_to_the_same_tier_the_shorter_is_shown_then_the_first_by_name() -> None:
    base = {"a": 1, "b": 4, "y": 1, "z": 1, "node": 4}
    long = [Need("a", "b", 1), Need("b", "node", 1)]
    assert inherit(base, [*long, Need("z", "node", 1)])["node"].chain == (Need("z", "node", 1),)
    both = [*long, Need("z", "node", 1), Need("y", "node", 1)]
    assert inherit(base, both)["node"].chain == (Need("y", "node", 1),)
    # A chain that arrives at a lower tier is no rival, however short.
    low = [*long, Need("z", "node", 2)]
    assert inherit(base, low)["node"].chain == tuple(long)


def test_a_node_that_stands_where_it_is_needed_owes_it_to_nobody() -> None:
    assert inherit({"a": 1, "b": 1}, [Need("a", "b", 1)])["b"].chain == ()


def test_needs_and_what_they_lead_to_are_values() -> None:
    need = Need("a", "b", 1)
    got = inherit({"a": 1, "b": 4}, [need])["b"]
    assert len({got, inherit({"b": 4, "a": 1}, [Need("a", "b", 1)])["b"]}) == 1
    with pytest.raises(FrozenInstanceError):
        need.tier = 0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        got.tier = 0  # type: ignore[misc]


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
            assert one.chain[:-1] == got[one.chain[-1].source].chain
            rivals = [
                (*got[need.source].chain, need)
                for need in needs
                if need.target == name and max(got[need.source].tier, need.tier) == one.tier
            ]
            assert one.chain == min(rivals, key=lambda chain: (len(chain), chain))
        else:
            assert one.tier == base[name]


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


def test_the_shortest_cycle_is_shown_and_of_those_the_first() -> None:
    short = [("a", "d"), ("d", "a")]
    assert cycles([("a", "b"), ("b", "c"), ("c", "a"), *short]) == (("a", "d"),)
    three = [("a", "c"), ("c", "b"), ("b", "d"), ("d", "a"), ("a", "d"), ("c", "e"), ("e", "a")]
    assert cycles(three) == (("a", "d"),)
    three.remove(("a", "d"))
    assert cycles(three) == (("a", "c", "e"),)
    assert cycles([*three, ("a", "b")]) == (("a", "b", "d"),)
    # A cycle elsewhere in the same component is not the one through its smallest name.
    assert cycles([("a", "b"), ("b", "c"), ("c", "b"), ("c", "a")]) == (("a", "b", "c"),)
    assert cycles([("b", "a"), ("a", "b"), ("b", "b")]) == (("a", "b"),)


@settings(max_examples=60)
@given(PAIRS)
def test_cycles_are_those_that_looking_at_every_path_finds(edges: list[tuple[str, str]]) -> None:
    reached = {name: {path[-1] for path in paths(edges, name)} for name in NAMES}
    want = []
    for name in NAMES:
        mutual = {other for other in reached[name] if name in reached[other]}
        closed = [path for path in paths(edges, name) if (path[-1], name) in edges]
        if name == min(mutual) and closed:
            want.append(min(closed, key=lambda path: (len(path), path)))
    assert cycles(edges) == tuple(want)


@given(PAIRS, st.randoms(use_true_random=False))
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
    with pytest.raises(ValueError, match=r"^edges have a cycle$"):
        depths("ab", [("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match=r"^edges have a cycle$"):
        depths("a", [("a", "a")])


def test_depths_of_nodes_without_edges_are_zero() -> None:
    assert depths("cab", []) == {"a": 0, "b": 0, "c": 0}
    assert depths("cab", [("c", "b")]) == {"a": 0, "b": 1, "c": 0}
    assert depths([], []) == {}


@settings(max_examples=60)
@given(FORWARD)
def test_depth_is_the_longest_way_to_a_node(edges: list[tuple[str, str]]) -> None:
    ways = [path for name in NAMES for path in paths(edges, name)]
    want = {name: max(len(way) for way in ways if way[-1] == name) - 1 for name in NAMES}
    assert depths(NAMES, edges) == want


def test_ordered_keeps_pairs_and_otherwise_follows_keys() -> None:
    assert ordered(3, [(2, 0)], ["a", "b", "c"]) == [1, 2, 0]
    assert ordered(3, [], ["c", "b", "a"]) == [2, 1, 0]
    with pytest.raises(ValueError, match=r"^pairs have a cycle$"):
        ordered(2, [(0, 1), (1, 0)], ["a", "b"])


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from("ab"), max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6),
)
def test_ordered_is_the_first_of_all_orders(keys: list[str], pairs: list[tuple[int, int]]) -> None:
    count = len(keys)
    before = [(a, b) for a, b in pairs if a < count and b < count]
    kept = [
        order
        for order in permutations(range(count))
        if all(a != b and order.index(a) < order.index(b) for a, b in before)
    ]
    if not kept:
        with pytest.raises(ValueError, match="cycle"):
            ordered(count, before, keys)
        return
    first = min(kept, key=lambda order: [(keys[i], i) for i in order])
    assert ordered(count, before, keys) == list(first)


def test_networkx_is_not_loaded_before_there_are_edges() -> None:
    program = (
        "import sys\n"
        "from compiler.graph import Need, cycles, depths, inherit, ordered\n"
        "inherit({'a': 1, 'b': 2}, [Need('a', 'b', 1)])\n"
        "cycles([]), depths('a', []), ordered(1, [], 'a')\n"
        "sys.exit('networkx' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
