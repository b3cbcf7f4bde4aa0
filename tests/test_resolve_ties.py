"""Intents of equal standing on one thread: they complete each other, or it is said."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.diagnostics import Diagnostic
from tests.policies import intent
from tests.test_resolve import ask, build, errors, match, only, plan_of
from tests.test_resolve_overlap import given_to

MEDIA = "lane: {name: media, cores: 2}"

# -- one lane, and a tier from one of the two ----------------------------------------------------


@pytest.mark.parametrize(("one", "other"), [("job-*", "*-live"), ("*-live", "job-*")])
@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
def test_a_tier_is_not_lost_to_an_intent_that_only_places_in_the_same_lane(
    tmp_path: Path, one: str, other: str, names: tuple[str, str]
) -> None:
    first, second = names
    _, findings = build(
        tmp_path,
        match(first, f'comm: "{one}"', f"keep: interactive\n{MEDIA}"),
        match(second, f'comm: "{other}"', MEDIA),
    )
    found = only(findings, "TRC310")
    assert found.message == (
        f'{first} and {second} both claim threads such as comm "job-live", with tier interactive '
        "from one and no tier from the other"
    )


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
def test_equal_patterns_in_the_same_lane_complete_each_other(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    first, second = names
    compilation, findings = build(
        tmp_path,
        match(first, "comm: job", f"keep: interactive\n{MEDIA}"),
        match(second, "comm: job", MEDIA),
    )
    assert not errors(findings)
    assert given_to(compilation, comm="job") == ("interactive", "media")


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
@pytest.mark.parametrize("lane", [MEDIA, ""])
@pytest.mark.parametrize(
    ("tiered", "placed"),
    [('comm: "a*", leaderComm: b', 'comm: a, leaderComm: "b*"'),
     ('comm: a, leaderComm: "b*"', 'comm: "a*", leaderComm: b')],
)  # fmt: skip
def test_where_a_rule_can_be_written_for_what_both_take_they_complete_each_other(
    tmp_path: Path, names: tuple[str, str], lane: str, tiered: str, placed: str
) -> None:
    first, second = names
    compilation, findings = build(
        tmp_path,
        match(first, tiered, f"keep: interactive\n{lane}"),
        match(second, placed, MEDIA),
    )
    assert not errors(findings)
    assert given_to(compilation, comm="a", leader_comm="b") == ("interactive", "media")
    own = ("a", "bx"), ("ax", "b")
    one, other = own if placed.startswith("comm: a,") else own[::-1]
    assert given_to(compilation, comm=one[0], leader_comm=one[1]) == ("normal", "media")
    assert given_to(compilation, comm=other[0], leader_comm=other[1]) == (
        "interactive",
        "media" if lane else None,
    )


def test_a_precedence_settles_it(tmp_path: Path) -> None:
    for number, tier in ((1, "interactive"), (-1, "normal")):
        compilation, findings = build(
            tmp_path / str(number),
            match("a", 'comm: "job-*"', f"keep: interactive\n{MEDIA}\nprecedence: {number}"),
            match("z", 'comm: "*-live"', MEDIA),
        )
        assert not errors(findings)
        assert given_to(compilation, comm="job-live") == (tier, "media")


def test_three_of_which_one_leaves_the_tier_open_are_one_finding(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("a", 'comm: "job-*"', f"keep: interactive\n{MEDIA}"),
        match("b", 'comm: "*-live"', MEDIA),
        match("c", 'comm: "*b-li*"', f"keep: system\n{MEDIA}"),
    )
    # b and c also meet where a does not: that is another thread, and a is not blamed for it
    assert [f.message for f in findings if f.code == "TRC310"] == [
        'a, b and c all claim threads such as comm "job-live", with tier interactive (a), no tier '
        "(b) and tier system (c)",
        'b and c both claim threads such as comm "b-live", with tier system from one and no tier '
        "from the other",
    ]


PROFILE = """\
apiVersion: tierc.dev/v1alpha1
kind: EngineProfile
metadata: {name: mine}
spec:
  known: ["1.0", "2.0"]
  paths: {decode: [engine-step]}
  stages:
    engine-step: {cores: {min: 1, max: 2}, match: [{comm: engine, evidence: source}]}
    api: {match: [{comm: "api-*", evidence: source}]}
    worker: {match: [{comm: w, leaderComm: "x*", evidence: source}]}
"""


def test_a_stage_that_is_left_out_and_placed_is_not_completed_by_an_overlapping_intent(
    tmp_path: Path,
) -> None:
    # joint rules are made for intents that only place: chat has a verb, for its other stages
    _, findings = build(
        tmp_path,
        PROFILE,
        intent("chat", f'workload: {{engine: mine, version: "1.0"}}\nprotect: decode\n{MEDIA}'),
        match("z", 'comm: "w*", leaderComm: x', f"keep: interactive\n{MEDIA}"),
    )
    assert only(findings, "TRC310").message.endswith(
        "with tier interactive from one and no tier from the other"
    )


def test_stages_of_which_nothing_is_said_tie_with_nothing(tmp_path: Path) -> None:
    # the profile's name of the API server overlaps with the pattern, and chat says nothing of it
    compilation, findings = build(
        tmp_path,
        PROFILE,
        intent("chat", 'workload: {engine: mine, version: "1.0"}\nprotect: decode'),
        match("z", 'comm: "*-live"', "keep: interactive"),
    )
    assert not errors(findings)
    assert given_to(compilation, comm="api-live") == ("interactive", None)


def test_those_that_claim_a_pod_together_are_told_together(tmp_path: Path) -> None:
    def of(name: str, pods: str, rest: str) -> str:
        return intent(name, f"workload: {{match: [{{comm: a}}], pods: {pods}}}\n{rest}")

    label = "{matchLabels: {app: x}}"
    _, findings = build(
        tmp_path,
        of("one", "{namespace: n}", "demote: background"),
        of("two", label, "demote: idle"),
        of("three", label, "keep: interactive"),
        of("four", "{namespace: n, matchLabels: {app: y}}", "keep: system"),
    )
    # two and three claim every pod with the label, of which one claims those in a namespace
    assert [f.message.partition(", with ")[0] for f in errors(findings)] == [
        'one, two and three all claim threads such as comm "a" and pods in namespace n; app=x',
        'two and three both claim threads with comm "a" and pods app=x',
    ]


def test_three_in_several_lanes_of_which_one_leaves_the_tier_open(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("a", "comm: job", "keep: interactive\nlane: {cores: 1}"),
        match("b", "comm: job", "lane: {cores: 1}"),
        match("c", "comm: job", "keep: system\nlane: {cores: 1}"),
    )
    assert only(findings, "TRC310").message.endswith(
        "with tier interactive (a), lane b (b) and tier system (c)"
    )


def test_two_that_only_place_in_one_lane_say_the_same(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path, match("a", 'comm: "job-*"', MEDIA), match("z", 'comm: "*-live"', MEDIA)
    )
    assert not errors(findings)
    assert given_to(compilation, comm="job-live") == ("normal", "media")


PLACED = [("a", "z"), ("z", "a")]
"""Who is above whom: names order rules that nothing else orders, so both ways are tried."""


@pytest.mark.parametrize(("high", "low"), PLACED)
@pytest.mark.parametrize(("one", "other"), [("job-*", "*-live"), ("job", "job")])
def test_two_that_only_place_in_one_lane_in_different_orders(
    tmp_path: Path, high: str, low: str, one: str, other: str
) -> None:
    _, findings = build(
        tmp_path,
        match(high, f'comm: "{one}"', f"{MEDIA}\nabove: [{low}]"),
        match(low, f'comm: "{other}"', MEDIA),
    )
    found = only(findings, "TRC310")
    assert found.message.startswith(f"{high} and {low} both claim threads ")
    assert found.message.endswith(", with different places in the order of tier normal")
    assert found.help is not None
    assert "precedence" in found.help


def test_an_order_against_a_third_is_an_order(tmp_path: Path) -> None:
    # z stays first and a comes second, after other: the thread would be one or the other
    _, findings = build(
        tmp_path,
        match("other", "comm: else", MEDIA + "\nabove: [a]"),
        match("a", 'comm: "job-*"', MEDIA),
        match("z", 'comm: "*-live"', MEDIA),
    )
    assert only(findings, "TRC310").message.startswith("a and z both claim threads such as ")


@pytest.mark.parametrize(("high", "low"), PLACED)
def test_orders_of_a_narrower_pattern_or_by_precedence_are_no_question(
    tmp_path: Path, high: str, low: str
) -> None:
    for comm, rest, winner in (("job-live", "", low), ("*-live", "\nprecedence: 1", low)):
        compilation, findings = build(
            tmp_path / comm.strip("*-"),
            match(high, 'comm: "job-*"', f"{MEDIA}\nabove: [{low}]"),
            match(low, f'comm: "{comm}"', MEDIA + rest),
        )
        assert not errors(findings)
        answer = ask(compilation, comm="job-live")
        assert answer.winner is not None
        assert answer.winner.unit == winner


@pytest.mark.parametrize(("high", "low"), PLACED)
@pytest.mark.parametrize("wide", ["*", "*-live", "job-*"])
def test_orders_do_not_matter_where_a_third_gives_the_tier(
    tmp_path: Path, high: str, low: str, wide: str
) -> None:
    # what both claim has tier and order of the wide one, whoever of the two goes first
    lanes = [
        match(high, 'comm: "job-*"', f"{MEDIA}\nabove: [{low}]"),
        match(low, 'comm: "*-live"', MEDIA),
    ]
    compilation, findings = build(
        tmp_path, *lanes, match("wide", f'comm: "{wide}"', "keep: interactive")
    )
    assert not [f for f in errors(findings) if "order of tier" in f.message]
    if not errors(findings):
        assert given_to(compilation, comm="job-live") == ("interactive", "media")


def test_three_that_only_place_in_several_orders(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("a", "comm: job", MEDIA + "\nabove: [b]"),
        match("b", "comm: job", MEDIA + "\nabove: [c]"),
        match("c", "comm: job", MEDIA),
    )
    assert only(findings, "TRC310").message == (
        'a, b and c all claim threads with comm "job", with different places in the order of tier '
        "normal"
    )


def test_three_of_one_tier_in_three_lanes_are_told_by_their_lanes(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        *(match(name, "comm: job", "keep: interactive\nlane: {cores: 1}") for name in "abc"),
    )
    assert only(findings, "TRC310").message == (
        'a, b and c all claim threads with comm "job", with lane a (a), lane b (b) and lane c (c)'
    )


def test_three_of_one_tier_in_several_orders_are_told_by_these(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("a", "comm: job", "protect: all\nabove: [b]"),
        match("b", "comm: job", "protect: all\nabove: [c]"),
        match("c", "comm: job", "protect: all"),
    )
    assert only(findings, "TRC310").message == (
        'a, b and c all claim threads with comm "job", with different places in the order of tier '
        "latency"
    )


# -- random policies -----------------------------------------------------------------------------


class Claim(NamedTuple):
    """An intent: patterns of comm and leaderComm, the tier and the lane that it asks for."""

    comm: str
    leader: str | None
    tier: str | None
    lane: str | None

    def takes(self, comm: str, leader: str) -> bool:
        return fnmatchcase(comm, self.comm) and fnmatchcase(leader, self.leader or "*")

    def document(self, name: str) -> str:
        item = f'comm: "{self.comm}"'
        if self.leader is not None:
            item += f', leaderComm: "{self.leader}"'
        rest = [
            f"keep: {self.tier}" if self.tier is not None else "",
            f"lane: {{name: {self.lane}, cores: 1}}" if self.lane is not None else "",
        ]
        return match(name, item, "\n".join(filter(None, rest)))


NAMES = ["".join(letters) for size in (1, 2, 3) for letters in product("ab", repeat=size)]
LEADERS = ["a", "b", "ab"]
COMMS = ["a", "b", "ab", "a*", "*b", "*a", "?b", "a?", "*", "*ab", "ab*", "a*b"]
THREADS = [(comm, leader) for comm in NAMES for leader in LEADERS]


def random_claims(rng: Random) -> list[Claim]:
    """Draw a few intents on the same fields, most of whose patterns meet."""
    both = rng.random() < 0.4
    out = []
    for _ in range(rng.choice([2, 2, 3])):
        tier = rng.choice([None, None, "interactive", "system"])
        lane = rng.choice(["m", "m", "n", None] if tier else ["m", "m", "m", "n"])
        leader = rng.choice(["a", "a*", "*b", "*"]) if both else None
        out.append(Claim(rng.choice(COMMS), leader, tier, lane))
    return out


def wrong(claims: list[Claim], comm: str, leader: str, got: tuple[str, str | None]) -> str | None:
    """Say what an intent asks of a thread, and no narrower one denies, that it does not get."""
    taken = {c: {t for t in THREADS if c.takes(*t)} for c in claims}
    mine = [c for c in claims if c.takes(comm, leader)]
    narrow = [c for c in mine if not any(taken[o] < taken[c] for o in mine)]
    tiers = {c.tier for c in narrow} - {None} or {c.tier for c in mine} - {None} or {"normal"}
    if any(c.tier is not None for c in narrow) and tiers != {got[0]}:
        return f"tier {got[0]}, where {sorted(map(str, tiers))} is asked for"
    if got[0] not in tiers:
        return f"tier {got[0]}, which none of {sorted(map(str, tiers))} is"
    lanes = {c.lane for c in narrow} - {None}
    if not lanes:  # of wider ones only those that have no verb give theirs
        lanes = {c.lane for c in mine if c.tier is None} or {None}
        return None if got[1] in lanes else f"lane {got[1]}, which none of {lanes} is"
    if any(c.lane is None for c in narrow) and all(c.tier for c in narrow):
        return "a lane that another verb's intent does not ask for"
    return None if lanes == {got[1]} else f"lane {got[1]}, where {lanes} is asked for"


def compiled_claims(
    claims: list[Claim],
) -> tuple[list[Diagnostic], dict[tuple[str, str], tuple[str, str | None]]]:
    with TemporaryDirectory() as place:
        documents = [claim.document(f"i{n}") for n, claim in enumerate(claims)]
        compilation, findings = build(Path(place), *documents)
        if errors(findings):
            return errors(findings), {}
        plan_of(compilation)
        got: dict[tuple[str, str], tuple[str, str | None]] = {}
        for comm, leader in THREADS:
            winner = ask(compilation, comm=comm, leader_comm=leader, cgroup="x", cmdline="x").winner
            got[comm, leader] = ("normal", None) if winner is None else (winner.tier, winner.lane)
        return [], got


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_no_intent_of_equal_standing_is_denied_without_a_finding(seed: int) -> None:
    claims = random_claims(Random(seed))
    said, got = compiled_claims(claims)
    if said:
        assert {one.code for one in said} == {"TRC310"}, (claims, said)
        # and it is said of intents that claim a thread together and do not ask for the same
        assert any(
            a.takes(*thread) and b.takes(*thread) and a[2:] != b[2:]
            for thread in THREADS
            for a in claims
            for b in claims
        ), claims
        return
    for thread, answer in got.items():
        fault = wrong(claims, *thread, answer)
        assert fault is None, f"{thread} gets {fault}: {claims}"
