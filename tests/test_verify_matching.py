"""All rules at once give what the rules one by one give."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.explain.match import Thread, match
from compiler.plan import Rule
from compiler.verify.matching import RuleIndex
from tests.taskset_plans import rule

COMMS = [
    "a",
    "ab",
    "abc",
    "VLLM::EngineCor",
    "VLLM::EngineCorexx",
    "é" * 8,
    "",
    "x\n",
    "kworker/1:0-e",
]
COMM_GLOBS = [
    "a",
    "a*",
    "*b",
    "a?c",
    "*",
    "VLLM::EngineCor*",
    "VLLM::*",
    "é*",
    "?*?",
    "kworker/1:0",
]
GROUPS = ["", "s", "s/x.scope", "s/x.scope/deep", "other/x.scope"]
GROUP_GLOBS = ["s", "s/**", "s/*", "**/x.scope/**", "s/x.*", "**", "*/*/deep"]
LINES = [b"", b"py\0-m\0serve\0", b"py -m serve --x\0\0", b"x" * 50]
LINE_PATTERNS = ["serve", "^py", "-m serve$", "x+", "."]


def conditions() -> st.SearchStrategy[dict[str, str]]:
    user = st.fixed_dictionaries(
        {},
        optional={
            "comm": st.sampled_from(COMM_GLOBS),
            "leaderComm": st.sampled_from(COMM_GLOBS),
            "cgroup": st.sampled_from(GROUP_GLOBS),
            "cmdline": st.sampled_from(LINE_PATTERNS),
        },
    )
    kernel = st.fixed_dictionaries({"kthread": st.sampled_from(COMM_GLOBS)})
    return st.one_of(user.filter(bool), kernel)


def thread_facts() -> st.SearchStrategy[tuple[str, str, str | None, bool, bytes | None]]:
    return st.tuples(
        st.sampled_from(COMMS),
        st.sampled_from(COMMS),
        st.sampled_from([*GROUPS, None]),
        st.booleans(),
        st.sampled_from([*LINES, None]),
    )


def one_by_one(rules: list[Rule], thread: Thread) -> tuple[Rule | None, Rule | None]:
    """Return the first rule that matches, and the first before it that could."""
    could = None
    for one in rules:
        verdict, _ = match(one.match, thread)
        if verdict == "matches":
            return one, could
        if verdict == "could" and could is None:
            could = one
    return None, could


@settings(max_examples=150)
@given(st.lists(conditions(), min_size=1, max_size=8), st.lists(thread_facts(), max_size=6))
def test_the_same_as_one_by_one(
    matches: list[dict[str, str]],
    threads: list[tuple[str, str, str | None, bool, bytes | None]],
) -> None:
    rules = [rule(2 * n, 0, **one) for n, one in enumerate(matches)]
    index = RuleIndex(rules)
    for comm, leader, cgroup, kernel, line in threads:
        found = index.find(comm, leader, cgroup, kernel=kernel, cmdline=lambda line=line: line)
        known = None if line is None else line.decode()
        thread = Thread(comm, leader, cgroup, known, kernel)
        assert (found.rule, found.open) == one_by_one(rules, thread)


def never() -> bytes | None:
    raise AssertionError("the command line is not needed")


@pytest.mark.parametrize(
    ("rules", "comm", "winner"),
    [
        ([rule(0, 0, comm="a"), rule(1, 0, cmdline="x")], "a", 0),
        ([rule(0, 0, cmdline="x", comm="b"), rule(1, 0, comm="a")], "a", 1),
        ([rule(0, 0, kthread="*"), rule(1, 0, comm="a")], "a", 1),
    ],
)
def test_a_command_line_is_read_only_where_it_decides(
    rules: list[Rule], comm: str, winner: int
) -> None:
    found = RuleIndex(rules).find(comm, comm, "", kernel=False, cmdline=never)
    assert found.rule == rules[winner]


def test_a_late_bound_rule_is_never_sure() -> None:
    rules = [rule(0, 0, comm="a", pods="ns: x"), rule(1, 0, comm="a")]
    found = RuleIndex(rules).find("a", "a", "", kernel=False, cmdline=never)
    assert (found.rule, found.open) == (rules[1], rules[0])


def test_rules_that_a_thread_fits_behind_the_first() -> None:
    rules = [rule(0, 0, comm="a*"), rule(1, 0, comm="b"), rule(2, 0, comm="ab")]
    found = RuleIndex(rules).find("ab", "x", "", kernel=False, cmdline=never)
    assert found.fits == 0b101


def test_no_rules_at_all() -> None:
    empty = RuleIndex([]).find("a", "a", None, kernel=False, cmdline=never)
    assert (empty.rule, empty.open, empty.fits) == (None, None, 0)


def test_the_most_rules_with_names_of_all_kinds_stay_fast() -> None:
    """10,000 different names and 256 rules that no table answers: compared by their ends first."""
    rules = [rule(n, 0, comm=f"{n:03}*x{n % 7}") for n in range(256)]
    index = RuleIndex(rules)
    asked: list[Callable[[], bytes | None]] = [never]
    for n in range(10_000):
        index.find(f"t{n}", "leader", "", kernel=False, cmdline=asked[0])
    hit = index.find("017abx3", "leader", "", kernel=False, cmdline=never)
    assert hit.rule == rules[17]
