"""Who gets a thread that several intents claim: joint rules, needed node threads, ties, pods."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.model.selector import PodSelector
from compiler.patterns import PatternTooComplex, contains, intersects
from compiler.pipeline import Compilation
from compiler.plan import Condition
from compiler.resolve.conditions import condition_contains, condition_meets, parse_field
from compiler.resolve.pods import pods_both, pods_contain, pods_meet, pods_take, pods_text
from tests.policies import intent
from tests.test_resolve import ask, build, errors, match, only, plan_of

DECODE = intent(
    "chat",
    """
    workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/**"}
    protect: decode
    """,
)


def given_to(compilation: Compilation, **thread: object) -> tuple[str, str | None]:
    answer = ask(compilation, **thread)
    assert answer.winner is not None
    return answer.winner.tier, answer.winner.lane


# -- intents that only place ---------------------------------------------------------------------


def test_a_service_placed_by_cgroup_keeps_the_tiers_given_by_name(tmp_path: Path) -> None:
    chat = intent("chat", 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode')
    place = match("place", 'cgroup: "system.slice/vllm.service/**"', "lane: {cores: 3}")
    compilation, findings = build(tmp_path, chat, place)
    assert not errors(findings)
    engine = {"comm": "VLLM::EngineCor", "leader_comm": "VLLM::EngineCor", "cmdline": "x"}
    inside = "system.slice/vllm.service"
    assert given_to(compilation, **engine, cgroup=inside) == ("latency", "place")
    assert given_to(compilation, **engine, cgroup="user.slice") == ("latency", None)
    other = {"comm": "foo", "leader_comm": "foo", "cmdline": "x", "cgroup": inside}
    assert given_to(compilation, **other) == ("normal", "place")
    # the lane is one of latency work, so that interactive work stays out of its guard
    (lane,) = plan_of(compilation).lanes
    assert plan_of(compilation).tiers[lane.tier].name == "latency"


@pytest.mark.parametrize("precedence", [-1, 0, 1])
def test_tier_and_cpus_come_together_whichever_rule_goes_first(
    tmp_path: Path, precedence: int
) -> None:
    compilation, findings = build(
        tmp_path,
        match("tier", "comm: a", "keep: interactive"),
        match("place", "leaderComm: b", f"lane: {{cores: 2}}\nprecedence: {precedence}"),
    )
    assert not errors(findings)
    assert given_to(compilation, comm="a", leader_comm="b") == ("interactive", "place")
    assert given_to(compilation, comm="a", leader_comm="x") == ("interactive", None)
    assert given_to(compilation, comm="x", leader_comm="b") == ("normal", "place")


@pytest.mark.parametrize("precedence", [-1, 0, 1])
def test_a_wider_placing_rule_gives_a_narrower_one_its_lane(
    tmp_path: Path, precedence: int
) -> None:
    compilation, findings = build(
        tmp_path,
        match("tier", 'comm: "job-live*"', "keep: interactive"),
        match("place", 'comm: "job*"', f"lane: {{cores: 2}}\nprecedence: {precedence}"),
    )
    assert not errors(findings)
    assert given_to(compilation, comm="job-live-1") == ("interactive", "place")
    assert given_to(compilation, comm="job-1") == ("normal", "place")


def test_a_joint_rule_starts_other_processes_where_one_of_its_halves_does(tmp_path: Path) -> None:
    """kubelet does and conmon does too, coredns does not: the group says so of each name."""
    compilation, findings = build(
        tmp_path,
        intent("infra", "workload: {group: node-infra}\nlane: {cores: 2}"),
        match("tier", 'cgroup: "system.slice/**"', "keep: interactive"),
    )
    assert not errors(findings)
    spawns = {
        rule.match.comm: rule.spawns
        for rule in plan_of(compilation).rules
        if rule.match.cgroup is not None and rule.match.comm is not None
    }
    assert spawns["kubelet"]
    assert not spawns["coredns"]


def test_leftovers_can_be_given_by_an_intent_that_only_places(tmp_path: Path) -> None:
    compilation, _ = build(
        tmp_path,
        match("tier", "comm: job", "demote: background"),
        match("place", "comm: job", "prefer: [leftovers]"),
        match("lane", "comm: x", "protect: all\nlane: {cores: 2}"),
    )
    answer = ask(compilation, comm="job")
    assert answer.winner is not None
    assert answer.winner.tier == "background"
    assert answer.winner.cpus == str(plan_of(compilation).leftovers)


def test_placing_and_tier_that_overlap_inexpressibly_are_a_conflict(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("tier", 'comm: "job-*"', "keep: interactive"),
        match("place", 'comm: "*-live"', "lane: {cores: 2}"),
    )
    assert only(findings, "TRC310").message == (
        'tier and place both claim threads such as comm "job-live", with tier interactive from '
        "one and lane place from the other"
    )


def test_equal_claims_of_which_only_one_has_a_lane_are_a_conflict(tmp_path: Path) -> None:
    # whether job has CPUs of its own would depend on the names of the intents
    _, findings = build(
        tmp_path,
        match("one", "comm: job", "protect: all\nlane: {cores: 2}"),
        match("two", "comm: job", "protect: all"),
    )
    assert only(findings, "TRC310").message.endswith("with lane one and no lane")


@pytest.mark.parametrize("names", [("a", "z"), ("z", "a")])
def test_a_stage_left_out_of_protect_takes_its_tier_from_an_equal_rule(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    # chat says nothing of its API server but the lane; the order of the names must not matter
    engine, other = names
    chat = intent(
        engine, 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode\nlane: {cores: 2}'
    )
    compilation, findings = build(tmp_path, chat, match(other, "comm: vllm", "keep: interactive"))
    assert not errors(findings)
    assert given_to(compilation, comm="vllm", leader_comm="x", cgroup="x", cmdline="x") == (
        "interactive",
        engine,
    )


def test_stages_of_which_nothing_is_said_take_no_threads(tmp_path: Path) -> None:
    # narrower (two fields) than the other rule; chat says nothing about its API server
    compilation, findings = build(
        tmp_path, DECODE, match("api", "leaderComm: vllm", "keep: interactive")
    )
    assert not errors(findings)
    assert not any(rule.unit == "chat/api" for rule in plan_of(compilation).rules)
    assert given_to(
        compilation, comm="vllm", leader_comm="vllm", cgroup="system.slice/x", cmdline="x"
    ) == ("interactive", None)


# -- threads of the node -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "rest"),
    [
        ("kthread: nvidia", "keep: system"),
        ('kthread: "nvid*"', "keep: system\nprecedence: 9"),
        ('kthread: "n*"', "demote: idle\nprecedence: 9"),
        ('kthread: "n*"', "prefer: [leftovers]"),
    ],
)
def test_what_a_path_needs_is_raised_whoever_claims_it(
    tmp_path: Path, pattern: str, rest: str
) -> None:
    compilation, findings = build(tmp_path, DECODE, match("other", pattern, rest))
    assert not errors(findings)
    assert given_to(compilation, comm="nvidia", kthread=True) == ("latency", None)


@pytest.mark.parametrize("pattern", ["nvidia", '"n*"'])
def test_a_higher_tier_for_what_a_path_needs_stands(tmp_path: Path, pattern: str) -> None:
    top = match("top", f"kthread: {pattern}", "protect: [{path: all, tier: critical}]")
    compilation, findings = build(tmp_path, DECODE, top)
    assert not errors(findings)
    assert given_to(compilation, comm="nvidia", kthread=True) == ("critical", None)


def test_protecting_and_demoting_the_driver_contradict_each_other(tmp_path: Path) -> None:
    one = intent("one", "workload: {engine: vllm}\nprotect: [{stage: gpu-driver}]")
    low = intent("low", "workload: {group: gpu-driver}\ndemote: background")
    _, findings = build(tmp_path, one, low)
    found = only(findings, "TRC312")
    assert found.message == (
        "low demotes node/gpu-driver to background, and one protects it at latency"
    )
    assert (found.span.line, found.related[0].span.line) == (13, 6)


def test_each_demotion_of_what_a_path_needs_is_told(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        DECODE,
        match("one", "kthread: nvidia", "demote: background"),
        match("two", "kthread: nvidia", "demote: background"),
        match("wide", 'kthread: "n*"', "demote: background"),
    )
    assert [f.message for f in findings if f.code == "TRC312"] == [
        "one demotes threads of node/gpu-driver, and chat needs them",
        "two demotes threads of node/gpu-driver, and chat needs them",
    ]
    assert only(findings, "TRC330").message == (
        "this demotion spares node/gpu-driver, which chat needs"
    )


# -- above ---------------------------------------------------------------------------------------


def test_above_is_transitive_over_an_intent_that_is_not_on_the_node(tmp_path: Path) -> None:
    middle = intent(
        "middle",
        "nodes: {names: [elsewhere]}\nworkload: {match: [{comm: b}]}\nprotect: all\nabove: [a]",
    )
    compilation, findings = build(
        tmp_path,
        match("a", "comm: a", "protect: all"),
        middle,
        match("z", "comm: z", "protect: all\nabove: [middle]"),
    )
    assert not errors(findings)
    assert {u.name: u.order for u in plan_of(compilation).units} == {"z": 0, "a": 1}


# -- pods ----------------------------------------------------------------------------------------


def pods(name: str, selector: str, rest: str) -> str:
    return intent(name, f"workload: {{match: [{{comm: a}}], pods: {selector}}}\n{rest}")


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        ("{matchLabels: {app: x}}", "{matchLabels: {app: y}}", False),
        ("{namespace: x}", "{namespace: y}", False),
        ("{namespace: x}", "{matchLabels: {namespace: x}}", True),
        ("{matchLabels: {app: x}}", "{matchLabels: {team: y}}", True),
        ("{matchLabels: {app: x}}", "{matchLabels: {app: x, team: y}}", False),
        (
            "{matchExpressions: [{key: app, operator: NotIn, values: [x]}]}",
            "{matchLabels: {app: x}}",
            False,
        ),
    ],
)
def test_pod_selectors_conflict_only_where_one_pod_could_carry_both(
    tmp_path: Path, one: str, other: str, conflict: bool
) -> None:
    _, findings = build(
        tmp_path, pods("one", one, "demote: background"), pods("two", other, "demote: idle")
    )
    assert [f.code for f in errors(findings)] == ["TRC310"] * conflict


def selectors() -> st.SearchStrategy[PodSelector]:
    keys, values = st.sampled_from("ab"), st.sampled_from("xy")
    row = st.one_of(
        st.fixed_dictionaries(
            {
                "key": keys,
                "operator": st.sampled_from(["In", "NotIn"]),
                "values": st.lists(values, min_size=1, max_size=2).map(tuple),
            }
        ),
        st.fixed_dictionaries(
            {"key": keys, "operator": st.sampled_from(["Exists", "DoesNotExist"])}
        ),
    )
    return st.builds(
        lambda ns, labels, rows: PodSelector.model_validate(
            {"namespace": ns, "matchLabels": labels, "matchExpressions": tuple(rows)}
        ),
        st.sampled_from([None, "n", "m"]),
        st.dictionaries(keys, values, min_size=1, max_size=2),
        st.lists(row, max_size=2),
    )


PODS = [
    (ns, {k: v for k, v in (("a", a), ("b", b)) if v is not None})
    for ns in ("n", "m", "o")
    for a in (None, "x", "y", "z")
    for b in (None, "x", "y", "z")
]
"""Every pod that selectors over a, b, x, y and two namespaces can tell apart."""


def takes(selector: PodSelector, namespace: str, labels: dict[str, str]) -> bool:
    def holds(key: str, operator: str, values: tuple[str, ...]) -> bool:
        value = labels.get(key)
        return {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[operator]

    return (
        selector.namespace in (None, namespace)
        and all(labels.get(k) == v for k, v in selector.match_labels.items())
        and all(holds(e.key, e.operator, e.values) for e in selector.match_expressions)
    )


@settings(max_examples=300)
@given(one=selectors(), other=selectors())
def test_pod_selectors_compare_as_the_pods_they_take(one: PodSelector, other: PodSelector) -> None:
    a, b = pods_text(one), pods_text(other)
    mine = [pod for pod in PODS if takes(one, *pod)]
    theirs = [pod for pod in PODS if takes(other, *pod)]
    assert [pod for pod in PODS if pods_take(a, *pod)] == mine
    both = [pod for pod in mine if pod in theirs]
    assert pods_meet(a, b) == bool(both)
    assert [pod for pod in PODS if pods_take(pods_both(a, b), *pod)] == both
    if pods_contain(a, b):
        assert all(pod in mine for pod in theirs)
    elif theirs:
        assert any(pod not in mine for pod in theirs)


# -- quick looks must not change answers ---------------------------------------------------------

TEXTS = {
    "comm": [
        "a",
        "a*",
        "*a",
        "ab*",
        "a*b",
        "?b",
        "*",
        "aaaaaaaaaaaaaa?",
        "aaaaaaaaaaaaaaaa",
        "*x*",
    ],
    "cgroup": ["a", "a/**", "**", "**/a", "**/a/**", "a/*", "a/*/b", "a*/b", "*/b/**", "a/b"],
    "cmdline": [
        "a",
        "^a",
        "^a|b",
        "^(a|b)",
        "^a(b)|c",
        "^c",
        "^(a|b)|c",
        "a$",
        r"^a\.b",
        "^ab*",
        "^ab+",
        "^a.c",
        "^a( |$)",
        "ab",
    ],
}


@pytest.mark.parametrize("field", sorted(TEXTS))
def test_comparing_agrees_with_the_patterns(field: str) -> None:
    for wide in TEXTS[field]:
        for narrow in TEXTS[field]:
            big, small = (Condition(**{field: text}) for text in (wide, narrow))
            patterns = parse_field(field, wide), parse_field(field, narrow)
            same = wide == narrow
            assert condition_contains(big, small) == (same or contains(*patterns)), (wide, narrow)
            assert condition_meets(big, small) == (same or intersects(*patterns)), (wide, narrow)


def test_what_cannot_be_decided_is_not_contained_and_may_meet() -> None:
    """Which letter is so far from the end takes an automaton beyond the bound."""
    tail = "(a|b)" * 14
    wide, narrow = f"^(a|b)*a{tail}$|^(a|b)*b{tail}$", f"^(a|b){tail}(a|b)*$"
    with pytest.raises(PatternTooComplex):
        contains(parse_field("cmdline", wide), parse_field("cmdline", narrow))
    assert not condition_contains(Condition(cmdline=wide), Condition(cmdline=narrow))
    assert condition_meets(Condition(cmdline=wide), Condition(cmdline=narrow))


def test_hundreds_of_rules_are_compared_in_seconds(tmp_path: Path) -> None:
    rng = Random(1)
    documents = [
        match(f"i{i}", f'comm: "job*", cgroup: "system.slice/s{i}.service/**"', "demote: idle")
        for i in range(250)
    ]
    rng.shuffle(documents)
    compilation, findings = build(tmp_path, *documents)
    assert not errors(findings)
    assert len(plan_of(compilation).rules) == 250


def test_more_rules_than_a_map_holds_are_refused(tmp_path: Path) -> None:
    items = ", ".join(f"{{comm: j{i}}}" for i in range(257))
    _, findings = build(tmp_path, intent("many", f"workload: {{match: [{items}]}}\ndemote: idle"))
    assert only(findings, "TRC319").message == (
        "the node needs 257 rules and a scheduler map holds 256; many has most, 257"
    )


def test_more_bands_than_a_map_holds_are_the_policys_fault(tmp_path: Path) -> None:
    chain = [
        match(f"a{i}", f"comm: j{i}", "protect: all" + f"\nabove: [a{i + 1}]" * (i < 69))
        for i in range(70)
    ]
    _, findings = build(tmp_path, *chain)
    (found,) = errors(findings)
    assert found.code == "TRC319"
    assert found.message.startswith("the node needs 71 bands")
