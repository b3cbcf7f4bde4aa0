"""What is told of globs without their automata is what the automata say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.patterns import Glob, PatternError
from compiler.patterns.compare import _contains_at_sight, _escapes
from compiler.patterns.glob_shape import automaton, path_automaton
from compiler.patterns.names import COMM_BYTES

COMMS = st.text("*?ab/:", min_size=1, max_size=18)
NAMES = st.text("ab/:xé\n", max_size=17)
PARTS = st.one_of(st.just("**"), st.text("*?a.", min_size=1, max_size=4))
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
PLACES = st.text("a.x/\n", max_size=9)


def read(kind: str, text: str) -> Glob | None:
    try:
        return Glob.comm(text) if kind == "comm" else Glob.cgroup(text)
    except PatternError:
        return None


def slowly(glob: Glob, name: str) -> bool:
    """Whether the automata accept a name."""
    data = name.encode()
    if glob.kind == "comm":
        return len(data) <= COMM_BYTES and automaton(glob.text, "comm").accepts(data)
    data = data.removeprefix(b"/")
    return automaton(glob.text, "cgroup").accepts(data) and path_automaton().accepts(data)


@settings(max_examples=300, deadline=None)
@given(COMMS, NAMES)
def test_matching_a_comm(text: str, name: str) -> None:
    if (glob := read("comm", text)) is not None:
        assert glob.matches(name) == slowly(glob, name)


@settings(max_examples=300, deadline=None)
@given(PATHS, PLACES)
def test_matching_a_cgroup(text: str, name: str) -> None:
    if (glob := read("cgroup", text)) is not None:
        assert glob.matches(name) == slowly(glob, name)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.tuples(st.just("comm"), COMMS), st.tuples(st.just("cgroup"), PATHS)))
def test_the_sample_matches(row: tuple[str, str]) -> None:
    glob = read(*row)
    if glob is not None:
        sample = glob.shape.sample
        assert (sample is None) == glob.is_empty
        assert sample is None or slowly(glob, sample.decode())


@pytest.mark.parametrize(
    ("kind", "text", "sample"),
    [
        ("comm", "*", ""),
        ("comm", "svc-??*", "svc-xx"),
        ("comm", "a*b*c", "abc"),
        ("comm", "VLLM::EngineCore", None),  # 16 bytes
        ("cgroup", "**", ""),
        ("cgroup", "*", "x"),
        ("cgroup", "a/**/b", "a/b"),
        ("cgroup", "a/*.slice", "a/.slice"),
        ("cgroup", "a/.*/b", "a/.x/b"),  # `.` is no component of a path
        ("cgroup", "..*", "..x"),
        ("cgroup", "*.?", ".x"),
        ("cgroup", "**/?", "x"),
    ],
)
def test_samples(kind: str, text: str, sample: str | None) -> None:
    glob = read(kind, text)
    assert glob is not None
    assert glob.shape.sample == (None if sample is None else sample.encode())


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just("comm"), COMMS, COMMS),
        st.tuples(st.just("cgroup"), PATHS, PATHS),
    )
)
def test_what_is_contained_at_sight(row: tuple[str, str, str]) -> None:
    kind, one, other = row
    wide, narrow = read(kind, one), read(kind, other)
    if wide is None or narrow is None:
        return
    quick = _contains_at_sight(wide, narrow)
    assert quick in (None, _escapes(narrow, wide) is None)


@pytest.mark.parametrize("text", ["svc-0*", "a*b", "?a", "*a*b"])
def test_a_glob_with_a_letter_at_an_end_never_holds_all_names(text: str) -> None:
    assert _contains_at_sight(Glob.comm(text), Glob.comm("?*")) is False
