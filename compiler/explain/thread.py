"""Which rule has a thread, and why."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.explain.match import Thread, describe_condition, match
from compiler.explain.reasons import cpu_reasons, planned, tier_reasons
from compiler.pipeline import CompiledClass
from compiler.plan import NodePlan
from compiler.policy import Ladder
from compiler.suggest import nearest


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """One rule that has, or could have, the thread."""

    rule: int
    unit: str
    intent: str | None
    tier: str
    lane: str | None
    cpus: str
    """Of a family of lanes: those of all its members."""
    members: tuple[tuple[str, str, str], ...]
    """Of a family: each member, its CPUs, and the GPUs of the processes that it is for."""
    match: str
    at: str
    unknown: tuple[str, ...]
    """What must be known to tell; empty where the rule matches."""
    needs: str | None
    named: bool
    """The rule looks for the thread's own name, and that is known and fits."""
    spawns: bool
    """The process starts others: CPU affinity is not set on it, since they would inherit it."""
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThreadAnswer:
    """Which rule has a thread."""

    node: str
    thread: str
    winner: RuleAnswer | None
    possible: tuple[RuleAnswer, ...]
    """Rules before the winner that would have it if what is unknown were so."""
    losers: tuple[RuleAnswer, ...]
    """Rules after the winner that match as well."""
    default_tier: str
    default_cpus: str
    close: tuple[str, ...]
    """Names that rules look for and that resemble the thread's, where none has its name."""


def explain_thread(group: CompiledClass, ladder: Ladder, node: str, thread: Thread) -> ThreadAnswer:
    """Return which rule of the node's plan has the thread, as far as what is known tells.

    Raises:
        ValueError: the class has no plan.
    """
    plan = planned(group)
    winner: RuleAnswer | None = None
    possible: list[RuleAnswer] = []
    losers: list[RuleAnswer] = []
    for rule in plan.rules:
        verdict, unknown = match(rule.match, thread)
        if verdict == "no":
            continue
        answer = _rule_answer(group, ladder, rule.id, unknown)
        if winner is not None:
            if verdict == "matches":
                losers.append(answer)
        elif verdict == "could":
            possible.append(answer)
        else:
            winner = answer
    default = plan.bands[plan.default_band]
    return ThreadAnswer(
        node=node,
        thread=thread.describe(),
        winner=winner,
        possible=tuple(possible),
        losers=tuple(losers),
        default_tier=ladder.name(default.tier),
        default_cpus=str(default.cpus),
        close=() if winner or any(p.named for p in possible) else _close(plan, thread),
    )


def _close(plan: NodePlan, thread: Thread) -> tuple[str, ...]:
    if thread.comm is None:
        return ()
    names = {
        text
        for rule in plan.rules
        for text in (rule.match.comm, rule.match.leader_comm, rule.match.kthread)
        if text is not None
    }
    return tuple(nearest(thread.comm, names, 3))


def _rule_answer(
    group: CompiledClass, ladder: Ladder, id: int, unknown: tuple[str, ...]
) -> RuleAnswer:
    plan, resolution = planned(group), group.resolution
    rule, resolved = plan.rules[id], resolution.rules[id]
    band = plan.bands[rule.band]
    tier_unit = resolution.unit(resolved.tier_unit).by_itself()
    lane_unit = next(u for u in plan.units if u.name == resolved.lane_unit)
    own = next(u for u in plan.units if u.name == rule.unit)
    return RuleAnswer(
        rule=id,
        unit=rule.unit,
        intent=own.intent,
        tier=ladder.name(band.tier),
        lane=lane_unit.lane,
        cpus=str(band.cpus),
        members=tuple(
            (lane.name, str(lane.cpus), ", ".join(lane.devices))
            for member in rule.members
            for lane in plan.lanes_of(member.lane)
        ),
        match=describe_condition(rule.match),
        at=str(resolved.matcher.span),
        unknown=unknown,
        needs=rule.needs,
        named=rule.match.kthread is not None or rule.match.comm is not None,
        spawns=rule.spawns,
        why=(*tier_reasons(tier_unit, resolution, ladder), *cpu_reasons(lane_unit, group)),
    )
