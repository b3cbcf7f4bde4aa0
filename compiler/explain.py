"""Answers about a plan: which rule, tier and CPUs a thread gets, and why; whose a CPU is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from compiler.patterns import CmdlineRegex, Glob, truncate_comm
from compiler.pipeline import CompiledClass
from compiler.plan import Condition, NodePlan, Unit
from compiler.policy import Ladder
from compiler.resolve.types import Resolution, ResolvedUnit

Verdict = Literal["matches", "could", "no"]


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of a thread; None is unknown, and kernel threads are told apart."""

    comm: str | None = None
    leader_comm: str | None = None
    cgroup: str | None = None
    cmdline: str | None = None
    kthread: bool = False

    def describe(self) -> str:
        """Return the known facts as text."""
        parts = [
            f'{word} "{value}"'
            for word, value in (
                ("kernel thread" if self.kthread else "comm", _cut(self.comm)),
                ("leader comm", _cut(self.leader_comm)),
                ("cgroup", self.cgroup),
                ("cmdline", self.cmdline),
            )
            if value is not None
        ]
        return ", ".join(parts)


def _cut(name: str | None) -> str | None:
    return None if name is None else truncate_comm(name)


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """One rule that has, or could have, the thread."""

    rule: int
    unit: str
    intent: str | None
    tier: str
    lane: str | None
    cpus: str
    match: str
    at: str
    unknown: tuple[str, ...]
    """What must be known to tell; empty where the rule matches."""
    needs: str | None
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


@dataclass(frozen=True, slots=True)
class CpuAnswer:
    """Whose a CPU is."""

    node: str
    cpu: int
    status: str
    siblings: str
    lanes: tuple[str, ...]
    units: tuple[str, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What a node's plan is."""

    node: str
    mode: str
    refused: tuple[str, ...]
    housekeeping: str
    shared: str
    leftovers: str
    lanes: tuple[tuple[str, str, str, str, str], ...]
    """name, CPUs, share, tier, where it is asked for."""
    units: tuple[tuple[str, str, str, str, str], ...]
    """name, tier, lane, CPUs, why."""
    degradations: tuple[str, ...]
    left_out: tuple[str, ...]
    skipped: tuple[str, ...] = field(default=())


def match(condition: Condition, thread: Thread) -> tuple[Verdict, tuple[str, ...]]:
    """Tell whether a rule's condition takes a thread, and what is unknown where it could.

    Names are cut to the 15 bytes that a scheduler sees; /proc shows more for kernel threads.
    """
    unknown: list[str] = []
    comm, leader = _cut(thread.comm), _cut(thread.leader_comm)
    if thread.kthread != (condition.kthread is not None):
        return "no", ()
    for word, pattern, value in (
        ("kernel thread name", condition.kthread, comm),
        ("comm", condition.comm, comm),
        ("leader comm", condition.leader_comm, leader),
    ):
        if pattern is None:
            continue
        if value is None:
            unknown.append(f"{word} {pattern}")
        elif not Glob.comm(pattern).matches(value):
            return "no", ()
    if condition.cgroup is not None:
        if thread.cgroup is None:
            unknown.append(f"cgroup {condition.cgroup}")
        elif not Glob.cgroup(condition.cgroup).matches(thread.cgroup):
            return "no", ()
    if condition.cmdline is not None:
        if thread.cmdline is None:
            unknown.append(f"cmdline {condition.cmdline}")
        elif not CmdlineRegex.parse(condition.cmdline).matches(thread.cmdline):
            return "no", ()
    if condition.pods is not None:
        unknown.append(f"pods {condition.pods}")
    return ("could", tuple(unknown)) if unknown else ("matches", ())


def describe_condition(condition: Condition) -> str:
    """Return a condition as a person would write it."""
    words = {
        "kthread": condition.kthread,
        "comm": condition.comm,
        "leaderComm": condition.leader_comm,
        "cmdline": condition.cmdline,
        "cgroup": condition.cgroup,
        "pods": condition.pods,
    }
    return " and ".join(f'{word} "{text}"' for word, text in words.items() if text is not None)


def explain_thread(group: CompiledClass, ladder: Ladder, node: str, thread: Thread) -> ThreadAnswer:
    """Return which rule of the node's plan has the thread.

    Raises:
        ValueError: the class has no plan.
    """
    plan = _plan(group)
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
    )


def _rule_answer(
    group: CompiledClass, ladder: Ladder, id: int, unknown: tuple[str, ...]
) -> RuleAnswer:
    plan, resolution = _plan(group), group.resolution
    rule, resolved = plan.rules[id], resolution.rules[id]
    band = plan.bands[rule.band]
    tier_unit = resolution.unit(resolved.tier_unit)
    lane_unit = next(u for u in plan.units if u.name == resolved.lane_unit)
    own = next(u for u in plan.units if u.name == rule.unit)
    return RuleAnswer(
        rule=id,
        unit=rule.unit,
        intent=own.intent,
        tier=ladder.name(band.tier),
        lane=lane_unit.lane,
        cpus=str(band.cpus),
        match=describe_condition(rule.match),
        at=str(resolved.matcher.span),
        unknown=unknown,
        needs=rule.needs,
        why=(*tier_reasons(tier_unit, resolution, ladder), *_cpu_reasons(lane_unit, group)),
    )


def tier_reasons(unit: ResolvedUnit, resolution: Resolution, ladder: Ladder) -> tuple[str, ...]:
    """Return why a unit has its tier, with file and line, winner first."""
    tier = ladder.name(unit.tier)
    out: list[str] = []
    if unit.chain:
        origin = unit.losers[0].tier if unit.losers else ladder.normal
        out += [
            f"raised from {ladder.name(origin)} to {tier} because {need.why}, "
            f"{resolution.reasons[need.why]}"
            for need in unit.chain
        ]
    elif unit.winner is not None:
        out.append(f"tier {tier}: {unit.winner.intent} says {unit.winner.text}, {unit.winner.span}")
    else:
        out.append(f"tier {tier}: no intent says anything about its tier")
    out += [
        f"{'also' if ask.tier == unit.tier else 'over'} {ladder.name(ask.tier)}: {ask.intent} "
        f"says {ask.text}, {ask.span}"
        for ask in unit.losers
        if not unit.chain or ask.tier != unit.tier
    ]
    return tuple(out)


def _cpu_reasons(unit: Unit, group: CompiledClass) -> tuple[str, ...]:
    plan = _plan(group)
    if unit.lane is not None:
        lane = next(r for r in group.resolution.lanes if r.name == unit.lane)
        planned = next(p for p in plan.lanes if p.name == unit.lane)
        asked = f"asked for {lane.cores.value}"
        words = ", ".join(
            (*(f"require {w}" for w in lane.require), *(f"prefer {w}" for w in lane.prefer))
        )
        return (
            f"lane {unit.lane}: {planned.cores} cores ({asked}), {planned.share}"
            + (f", {words}" if words else "")
            + f", {lane.span}",
            *(f"{d.about}: {d.message}" for d in plan.degradations if d.about == unit.lane),
        )
    if unit.cpus == plan.leftovers:
        return (f"CPUs {unit.cpus}: what no lane and no housekeeping has",)
    if unit.cpus == plan.machine.effective:
        return (f"CPUs {unit.cpus}: no boundary",)
    return (f"CPUs {unit.cpus}: outside lanes that outrank it",)


def explain_cpu(group: CompiledClass, ladder: Ladder, node: str, cpu: int) -> CpuAnswer:
    """Return whose a CPU is and why.

    Raises:
        ValueError: the class has no plan, or the machine has no such CPU online.
    """
    plan = _plan(group)
    machine = plan.machine
    if cpu not in machine.online:
        raise ValueError(f"{node} has no CPU {cpu} online; it has {machine.online}")
    lanes = [lane for lane in plan.lanes if cpu in lane.cpus]
    why: list[str] = []
    if lanes:
        status = "lane"
        for lane in lanes:
            asked = next(r for r in group.resolution.lanes if r.name == lane.name)
            why.append(
                f"lane {lane.name} ({lane.share}, tier {ladder.name(lane.tier)}) of "
                f"{', '.join(lane.intents)}, {asked.span}"
            )
    elif cpu in plan.housekeeping:
        status = "housekeeping"
        why.append("kept for node software; efficiency cores first, then the lowest ids")
    elif cpu in machine.isolated:
        status = "isolated"
        why.append("isolcpus: used only by lanes that ask for isolated CPUs")
    elif cpu not in machine.effective:
        status = "not ours"
        why.append("not allowed to the collector, or owned by the kubelet")
    else:
        status = "shared"
        why.append("in no lane: the shared pool, where demoted and unmatched threads run")
    if lanes and cpu in plan.housekeeping:
        why.append("also housekeeping: the machine is too small for both")
    return CpuAnswer(
        node=node,
        cpu=cpu,
        status=status,
        siblings=str(next(core for core in machine.cores if cpu in core)),
        lanes=tuple(lane.name for lane in lanes),
        units=tuple(f"{u.name} ({ladder.name(u.tier)})" for u in plan.units if cpu in u.cpus),
        why=tuple(why),
    )


def explain_node(group: CompiledClass, ladder: Ladder, node: str) -> NodeAnswer:
    """Return the plan of a node in words.

    Raises:
        ValueError: the class has no plan.
    """
    plan, resolution = _plan(group), group.resolution
    return NodeAnswer(
        node=node,
        mode=plan.mode,
        refused=group.decision.refused,
        housekeeping=str(plan.housekeeping),
        shared=str(plan.shared),
        leftovers=str(plan.leftovers),
        lanes=tuple(
            (
                lane.name,
                str(lane.cpus),
                lane.share,
                ladder.name(lane.tier),
                str(next(r for r in resolution.lanes if r.name == lane.name).span),
            )
            for lane in plan.lanes
        ),
        units=tuple(
            (
                unit.name,
                ladder.name(unit.tier),
                unit.lane or "-",
                str(unit.cpus),
                tier_reasons(resolution.unit(unit.name), resolution, ladder)[0],
            )
            for unit in sorted(plan.units, key=lambda u: (u.tier, u.order, u.name))
        ),
        degradations=tuple(f"{d.about}: {d.message}" for d in plan.degradations),
        left_out=tuple(
            row.message for name in sorted(plan.left_out) for row in plan.left_out[name]
        ),
        skipped=tuple(f"{name} {why}" for name, why in sorted(group.skipped.items())),
    )


def _plan(group: CompiledClass) -> NodePlan:
    if group.plan is None:
        raise ValueError("no plan: the policy has errors on this node; see tierc lint")
    return group.plan
