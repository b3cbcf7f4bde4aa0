"""The safety check on plans with families: a good one passes, each fault is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compiler import safety
from compiler.cpuset import CpuSet
from compiler.plan import MemberBand, NodePlan
from tests.gpu_nodes import two_sockets
from tests.policies import compiled, intent, write
from tests.test_safety import change

CHAT = intent(
    "chat",
    """
    workload: {engine: vllm, version: "0.24.0", cgroup: "chat.slice/**"}
    protect: [decode, {path: ttft, tier: interactive}]
    prefer: [gpu-local]
    lane: {cores: 2, share: exclusive}
    """,
)
LEFT, RIGHT = CpuSet.parse("2-3,18-19"), CpuSet.parse("8-9,24-25")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> NodePlan:
    root = tmp_path_factory.mktemp("policy")
    result, _ = compiled(write(root, {"nodes/box.yaml": two_sockets(), "intents/a.yaml": CHAT}))
    plan = result.classes[0].plan
    assert plan is not None
    return plan


def test_a_good_plan_passes(good: NodePlan) -> None:
    assert [lane.cpus for lane in good.lanes] == [LEFT, RIGHT]
    assert safety.check(good) == ()


def lanes(plan: NodePlan, place: int, **fields: Any) -> NodePlan:
    return plan.model_copy(update={"lanes": change(plan.lanes, place, **fields)})


def first_rule(plan: NodePlan) -> int:
    return next(i for i, rule in enumerate(plan.rules) if rule.members)


def rules(plan: NodePlan, **fields: Any) -> NodePlan:
    return plan.model_copy(update={"rules": change(plan.rules, first_rule(plan), **fields)})


def band_of(plan: NodePlan, cpus: CpuSet, tier: int) -> int:
    return next(band.id for band in plan.bands if (band.cpus, band.tier) == (cpus, tier))


def bands(plan: NodePlan, old: CpuSet, **fields: Any) -> NodePlan:
    """Change the first band with these CPUs."""
    place = next(i for i, band in enumerate(plan.bands) if band.cpus == old)
    return plan.model_copy(update={"bands": change(plan.bands, place, **fields)})


def other_tier(plan: NodePlan) -> tuple[MemberBand, ...]:
    """Return the members of the first rule, one with its band of another tier."""
    rule = plan.rules[first_rule(plan)]
    tier = plan.bands[rule.band].tier
    other = next(b for b in plan.bands if b.cpus == LEFT and b.tier != tier)
    return (MemberBand(lane="chat@numa0", band=other.id), rule.members[1])


MUTATIONS: dict[str, tuple[set[str], Callable[[NodePlan], NodePlan]]] = {
    "members that overlap": (
        {
            "lanes-overlap",
            "leftovers",
            "shared",
            "member-band",
            "rule-members",
            "unit-lane",
            "band-in-exclusive-lane",  # the old union reaches beyond the family
            "irqs-outside",
            "irqs-lane",
        },
        lambda p: lanes(p, 1, cpus=LEFT),
    ),
    "a unit with one member only": (
        {"unit-lane", "unit-band"},
        lambda p: p.model_copy(
            update={
                "units": change(
                    p.units, [u.name for u in p.units].index("chat/engine-step"), cpus=LEFT
                )
            }
        ),
    ),
    "a member called otherwise": (
        {"family-name", "rule-members", "irqs-lane", "irqs-outside"},
        lambda p: lanes(p, 0, name="chut@numa0"),
    ),
    "a lane with the family's name": (
        {"family-name", "lanes-overlap", "unit-lane", "band-in-exclusive-lane"},
        lambda p: p.model_copy(
            update={
                "lanes": (
                    *p.lanes,
                    p.lanes[0].model_copy(update={"name": "chat", "family": None}),
                )
            }
        ),
    ),
    "members of two tiers": ({"family-apart"}, lambda p: lanes(p, 0, tier=2)),
    "one GPU in two members": (
        {"family-devices"},
        lambda p: lanes(p, 0, devices=p.lanes[1].devices[:1]),
    ),
    "a rule without one of the members": (
        {"rule-members"},
        lambda p: rules(p, members=p.rules[first_rule(p)].members[:1]),
    ),
    "a rule of a family without members": ({"rule-members"}, lambda p: rules(p, members=())),
    "a rule with a member that is not there": (
        {"rule-members"},
        lambda p: rules(
            p, members=(MemberBand(lane="gone", band=0), p.rules[first_rule(p)].members[1])
        ),
    ),
    "a rule with a band of something else": (
        {"rule-members", "member-band"},
        lambda p: rules(p, band=p.default_band),
    ),
    "members the wrong way round": (
        {"member-band"},
        lambda p: rules(
            p,
            members=tuple(
                MemberBand(lane=one.lane, band=other.band)
                for one, other in zip(
                    p.rules[first_rule(p)].members,
                    p.rules[first_rule(p)].members[::-1],
                    strict=True,
                )
            ),
        ),
    ),
    "a member's band of another tier": (
        {"member-band"},
        lambda p: rules(p, members=other_tier(p)),
    ),
    "a member's band that reaches out": (
        {"member-band", "band-in-exclusive-lane"},
        lambda p: bands(p, LEFT, cpus=LEFT | CpuSet.parse("4")),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_trips_its_invariant(good: NodePlan, name: str) -> None:
    kinds, mutate = MUTATIONS[name]
    found = safety.check(mutate(good))
    assert {violation.kind for violation in found} == kinds
    assert all(violation.message for violation in found)
