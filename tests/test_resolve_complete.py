"""What a rule leaves open comes from the next rule that says it, and from no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.plan import NodePlan
from tests.policies import intent
from tests.test_resolve import ask, build, errors, match, plan_of


def rows(name: str, items: Sequence[str], rest: str) -> str:
    return intent(
        name, f"workload: {{match: [{', '.join(f'{{{one}}}' for one in items)}]}}\n{rest}"
    )


# -- one unit, several rules ---------------------------------------------------------------------

SERVICES = ('cgroup: "system.slice/api.service/**"', 'cgroup: "system.slice/log.service/**"')


@pytest.mark.parametrize("verb", ["protect: [{path: all, tier: critical}]", "demote: idle"])
def test_a_tier_given_to_one_rule_of_an_intent_is_not_given_to_its_others(
    tmp_path: Path, verb: str
) -> None:
    compilation, findings = build(
        tmp_path,
        rows("place", SERVICES, "lane: {cores: 2}"),
        rows("api", SERVICES[:1], verb),
    )
    assert not errors(findings)
    tier = "critical" if "critical" in verb else "idle"
    api = ask(compilation, comm="x", cgroup="system.slice/api.service").winner
    log = ask(compilation, comm="x", cgroup="system.slice/log.service").winner
    assert api is not None
    assert log is not None
    assert (api.tier, api.lane) == (tier, "place")
    assert (log.tier, log.lane) == ("normal", "place")
    assert any(f"tier {tier}: api says" in why for why in api.why)
    assert log.why[0] == "tier normal: no intent says anything about its tier"
    plan = plan_of(compilation)
    tiers = {rule.match.cgroup: plan.bands[rule.band].tier for rule in plan.rules}
    assert plan.tiers[tiers["system.slice/log.service/**"]].name == "normal"


def test_a_stage_without_a_verb_has_the_tier_only_where_another_intent_gives_it(
    tmp_path: Path,
) -> None:
    """What an engine's protection leaves out is in the lane all the same."""
    chat = intent(
        "chat",
        'workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/**"}\n'
        "protect: [{stage: engine-step}]\nlane: {cores: 2}",
    )
    named = match("named", 'comm: "vllm", cgroup: "system.slice/**"', "keep: critical")
    compilation, findings = build(tmp_path, chat, named)
    assert not errors(findings)
    plan = plan_of(compilation)
    mine = [rule for rule in plan.rules if rule.unit == "chat/api"]
    got = {plan.tiers[plan.bands[rule.band].tier].name for rule in mine}
    # rules by the exact name are within the other intent's, those by a command line alone are not
    assert got == {"critical", "normal"}
    for rule in mine:
        tier = plan.tiers[plan.bands[rule.band].tier].name
        assert (tier == "critical") == (rule.match.comm == "vllm")


# -- precedence ----------------------------------------------------------------------------------


def test_a_tier_of_lower_precedence_is_not_joined_before_one_that_has_the_whole_rule(
    tmp_path: Path,
) -> None:
    compilation, findings = build(
        tmp_path,
        match("place", "comm: job-a", "lane: {cores: 1}\nprecedence: 1"),
        match("jobs", 'comm: "job-*"', "demote: background"),
        match("slice", 'cgroup: "live.slice/**"', "protect: all\nprecedence: -1"),
    )
    assert not errors(findings)
    winner = ask(compilation, comm="job-a", cgroup="live.slice").winner
    assert winner is not None
    assert (winner.tier, winner.lane) == ("background", "place")
    # what only the last claims it still has
    other = ask(compilation, comm="x", cgroup="live.slice").winner
    assert other is not None
    assert other.tier == "latency"


def test_a_lane_of_lower_precedence_is_not_joined_before_one_that_has_the_whole_rule(
    tmp_path: Path,
) -> None:
    compilation, findings = build(
        tmp_path,
        match("jobs", "comm: job-a", "demote: background\nprecedence: 1"),
        match("first", 'comm: "job-*"', "lane: {name: one, cores: 1}"),
        match("second", 'cgroup: "live.slice/**"', "lane: {name: two, cores: 1}\nprecedence: -1"),
    )
    assert not errors(findings)
    winner = ask(compilation, comm="job-a", cgroup="live.slice").winner
    assert winner is not None
    assert (winner.tier, winner.lane) == ("background", "one")


# -- above ---------------------------------------------------------------------------------------

ENGINE = """
workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
"""
INTERACTIVE = "protect: [{path: all, tier: interactive}]"


def places(plan: NodePlan) -> dict[str, tuple[str, int]]:
    return {unit.name: (plan.tiers[unit.tier].name, unit.order) for unit in plan.units}


def test_above_holds_in_every_tier_that_two_intents_share(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        intent("chat", ENGINE + "above: [embed]"),
        match("embed", "comm: embed", INTERACTIVE),
    )
    assert not errors(findings)
    plan = plan_of(compilation)
    got = places(plan)
    assert got["chat/engine-step"] == ("latency", 0)
    assert got["chat/api"] == ("interactive", 0)
    assert got["embed"] == ("interactive", 1)
    bands = {rule.unit: plan.bands[rule.band].order for rule in plan.rules}
    assert bands["chat/api"] < bands["embed"]


def test_an_order_in_one_tier_orders_nothing_in_another(tmp_path: Path) -> None:
    """What is second in tier latency is not second in tier interactive, where nobody is above."""
    compilation, findings = build(
        tmp_path,
        match("first", "comm: first", "protect: all\nabove: [chat]"),
        intent("chat", ENGINE),
        match("embed", "comm: embed", INTERACTIVE),
    )
    assert not errors(findings)
    got = places(plan_of(compilation))
    assert got["first"] == ("latency", 0)
    assert got["chat/engine-step"] == ("latency", 1)
    assert got["chat/api"] == ("interactive", 0)
    assert got["embed"] == ("interactive", 0)


def test_lanes_are_ordered_where_their_threads_have_the_tier_from_others(tmp_path: Path) -> None:
    """Lanes are granted in that order, so what is above has the lower CPUs, whatever its name."""
    for first, second in (("m", "n"), ("n", "m")):
        compilation, findings = build(
            tmp_path,
            match(first, f"comm: {first}", f"lane: {{cores: 1}}\nabove: [{second}]"),
            match(second, f"comm: {second}", "lane: {cores: 1}"),
            rows("tiers", ["comm: m", "comm: n"], "protect: all"),
        )
        assert not errors(findings)
        plan = plan_of(compilation)
        lanes = {lane.name: lane for lane in plan.lanes}
        assert {plan.tiers[lane.tier].name for lane in lanes.values()} == {"latency"}
        # of equal cores the lowest go first
        assert lanes[first].cpus.lowest < lanes[second].cpus.lowest


# -- command lines -------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", ["^a[(]b|c", "^a[]|(]b|c", "^a[^(]b|c", r"^a\(b|c"])
def test_a_bracket_in_a_class_is_no_group(tmp_path: Path, wide: str) -> None:
    """Else ``^a[(]b|c`` would seem to begin every command line that it takes."""
    compilation, findings = build(
        tmp_path,
        match("wide", f"cmdline: '{wide}'", "keep: interactive"),
        match("narrow", "cmdline: '^xc'", "demote: background"),
    )
    assert not errors(findings)
    winner = ask(compilation, cmdline="xc").winner
    assert winner is not None
    assert winner.tier == "background"


# -- any policy ----------------------------------------------------------------------------------

TIERS = ("critical", "latency", "interactive", "system", "normal", "background", "idle")
COMMS = ("a", "ab", "abc", "a*", "ab*", "*", "b")
PATHS = ("x", "x/y", "x/**", "x/y/**", "**", "z/**")
THREADS = tuple(product(("a", "ab", "abc", "b", "c"), ("x", "x/y", "x/y/z", "z", "w")))


@dataclass(frozen=True)
class Row:
    """One match item, and what its intent says."""

    comm: str | None
    cgroup: str | None
    tier: str | None
    lane: str | None
    precedence: int

    @property
    def rank(self) -> tuple[int, bool, int, bool]:
        """What goes before containment."""
        fields = (self.comm is not None) + (self.cgroup is not None)
        return -self.precedence, self.cgroup is None, -fields, self.comm is None

    def takes(self, thread: tuple[str, str]) -> bool:
        name, path = thread
        if self.comm is not None and not (
            name.startswith(self.comm[:-1]) if self.comm.endswith("*") else name == self.comm
        ):
            return False
        if self.cgroup is None or self.cgroup == "**":
            return True
        below = self.cgroup.removesuffix("/**")
        return path == below or (below != self.cgroup and path.startswith(below + "/"))

    @property
    def width(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """How wide each of its patterns is, smaller is narrower: patterns of one field are nested
        where both take one thread."""
        comm, cgroup = self.comm or "*", (self.cgroup or "**").removesuffix("**").rstrip("/")
        return (
            (-len(comm.rstrip("*")), comm.endswith("*")),
            (-len(cgroup), (self.cgroup or "**").endswith("**")),
        )


def random_intents(rng: Random) -> list[list[Row]]:
    out = []
    for _ in range(rng.randint(2, 4)):
        tier = rng.choice([None, None, *TIERS[:3], *TIERS[5:]])
        lane = rng.choice(["m", "n"]) if tier is None or rng.random() < 0.3 else None
        precedence = rng.choice([0, 0, 1, 2])
        mine = []
        for _ in range(rng.randint(1, 2)):
            comm = rng.choice(COMMS) if rng.random() < 0.6 else None
            cgroup = rng.choice(PATHS) if comm is None or rng.random() < 0.4 else None
            mine.append(Row(comm, cgroup, tier, lane, precedence))
        out.append(mine)
    return out


def document(name: str, mine: Sequence[Row]) -> str:
    items = [
        ", ".join(
            f'{key}: "{text}"'
            for key, text in (("comm", row.comm), ("cgroup", row.cgroup))
            if text is not None
        )
        for row in mine
    ]
    one = mine[0]
    verb = "" if one.tier is None else f"keep: {one.tier}\n"
    lane = "" if one.lane is None else f"lane: {{name: {one.lane}, cores: 1}}\n"
    return rows(name, items, f"{verb}{lane}precedence: {one.precedence}")


def meant(intents: Sequence[Sequence[Row]], thread: tuple[str, str]) -> tuple[str, str | None]:
    """Return the tier and lane of a thread by what the documents say.

    Raises:
        LookupError: of two rules neither is narrower, so that which goes first is not said.
    """
    hits = sorted(
        (row for mine in intents for row in mine if row.takes(thread)),
        key=lambda row: (row.rank, row.width, row.tier is not None),
    )
    for one, other in pairwise(hits):
        if one.rank == other.rank and not all(
            a <= b for a, b in zip(one.width, other.width, strict=True)
        ):
            raise LookupError
    if not hits:
        return "normal", None
    first = hits[0]
    if first.tier is None:
        return next((row.tier for row in hits if row.tier is not None), "normal"), first.lane
    if first.lane is None:
        return first.tier, next((row.lane for row in hits if row.tier is None), None)
    return first.tier, first.lane


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_every_thread_has_what_the_first_rules_say(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    intents = random_intents(Random(seed))
    documents = [document(f"i{n}", mine) for n, mine in enumerate(intents)]
    compilation, findings = build(tmp_path_factory.mktemp("p"), *documents)
    if errors(findings):
        return
    for thread in THREADS:
        try:
            wanted = meant(intents, thread)
        except LookupError:
            continue
        answer = ask(compilation, comm=thread[0], cgroup=thread[1], leader_comm="q", cmdline="q")
        winner = answer.winner
        got = ("normal", None) if winner is None else (winner.tier, winner.lane)
        assert got == wanted, (thread, intents)


def test_most_random_policies_compile(tmp_path_factory: pytest.TempPathFactory) -> None:
    # The property above is worth something only when plans come out.
    compiled = compared = 0
    for seed in range(40):
        intents = random_intents(Random(seed))
        documents = [document(f"i{n}", mine) for n, mine in enumerate(intents)]
        _, findings = build(tmp_path_factory.mktemp("p"), *documents)
        compiled += not errors(findings)
        for thread in THREADS:
            try:
                compared += meant(intents, thread) != ("normal", None)
            except LookupError:
                continue
    assert compiled > 20
    assert compared > 400
