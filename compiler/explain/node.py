"""Whose a CPU is, what a lane got, and what a node's plan is."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.decode import Loaded
from compiler.explain.members import ClassAnswer, StepAnswer, explain_class, explain_step
from compiler.explain.reasons import asked_text, left_out_of, member_text, planned, tier_reasons
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import DeviceIrqs, Lane
from compiler.policy import Ladder
from compiler.resolve.lanes import lane_name
from compiler.suggest import nearest
from compiler.words import listed


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
    node_class: ClassAnswer
    rollout: StepAnswer | None
    """None where no target for the cluster is asked for."""
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
    skipped: tuple[str, ...]
    """Targets asked for that emit nothing in this mode, and why."""
    intents: tuple[tuple[str, str, str], ...]
    """name, what it asks, where: all that select the node."""
    late_bound: tuple[tuple[str, str, str], ...]
    """unit, pods it waits for, where: rules that are inactive until the node resolves them."""
    irqs: tuple[str, ...] = ()
    """Devices whose interrupts are placed, where, and who says so."""


@dataclass(frozen=True, slots=True)
class LaneAnswer:
    """What a lane asked for and got."""

    node: str
    lane: str
    cpus: str
    cores: str
    share: str
    tier: str
    family: str | None
    """The family it is a member of."""
    localities: tuple[tuple[str, str, str], ...]
    """Of a family: each member, its CPUs, the GPUs of the processes it is for."""
    members: tuple[str, ...]
    """Units that run there."""
    words: tuple[tuple[str, str, str], ...]
    """require or prefer, the word, whether it is met and if not why."""
    devices: tuple[tuple[str, str], ...]
    """Devices that gpu-local and nic-local refer to, and the CPUs near them."""
    notes: tuple[str, ...]
    at: str


def explain_cpu(group: CompiledClass, ladder: Ladder, node: str, cpu: int) -> CpuAnswer:
    """Return whose a CPU is and why.

    Raises:
        ValueError: the class has no plan, or the machine has no such CPU online.
    """
    plan = planned(group)
    machine = plan.machine
    if cpu not in machine.online:
        raise ValueError(f"{node} has no CPU {cpu} online; it has {machine.online}")
    lanes = [lane for lane in plan.lanes if cpu in lane.cpus]
    why: list[str] = []
    if lanes:
        status = "lane"
        for lane in lanes:
            why.append(
                f"lane {lane.name} ({lane.share}, tier {ladder.name(lane.tier)}) of "
                f"{', '.join(lane.intents)}, {_at(group, lane)}"
            )
            if lane.family is not None:
                why.append(f"family {lane.family}: {member_text(lane)}")
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


def explain_node(compilation: Compilation, node: str) -> NodeAnswer:
    """Return the plan of a node in words.

    Raises:
        ValueError: there is no such node, or its class has no plan.
    """
    group, ladder = compilation.of_node(node), compilation.policy.ladder
    if group is None:
        raise ValueError(f"there is no node {node!r}")
    plan, resolution = planned(group), group.resolution
    return NodeAnswer(
        node=node,
        node_class=explain_class(compilation.policy, node),
        rollout=explain_step(compilation.policy, node),
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
                _at(group, lane),
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
            dict.fromkeys(
                row.message for name in sorted(plan.left_out) for row in plan.left_out[name]
            )
        ),
        skipped=tuple(f"{name} {why}" for name, why in sorted(group.skipped.items())),
        intents=tuple(
            (e.intent.name, _asks(e.intent), str(e.intent.key_span("kind")))
            for e in group.expansions
        ),
        late_bound=tuple(
            (rule.unit, rule.match.pods, str(resolution.rules[rule.id].matcher.span))
            for rule in plan.rules
            if rule.match.pods is not None
        ),
        irqs=tuple(_irqs(group, one) for one in plan.irqs if one.where != "leave"),
    )


def _at(group: CompiledClass, lane: Lane) -> str:
    """Return where a planned lane is asked for."""
    asked = group.resolution.asked(lane.family or lane.name)
    return str(asked.span) if asked is not None else ""


def _asks(intent: Loaded[Intent]) -> str:
    spec = intent.model.spec
    parts = []
    if spec.protect is not None:
        names = ", ".join(p.path or f"stage {p.stage}" for p in spec.protect)
        parts.append(f"protect {names}")
    parts += [f"{word} {tier}" for word in ("demote", "keep") if (tier := getattr(spec, word))]
    if (lane := lane_name(intent)) is not None:
        parts.append(f"lane {lane}")
    return ", ".join(parts) or "nothing"


def explain_lane(group: CompiledClass, ladder: Ladder, node: str, lane: str) -> LaneAnswer:
    """Return what a lane asked for and got.

    Raises:
        ValueError: the class has no plan, or the plan no such lane.
    """
    plan = planned(group)
    found = plan.lanes_of(lane)
    if not found:
        known = {name for one in plan.lanes for name in (one.name, one.family) if name is not None}
        close = nearest(lane, sorted(known))
        hint = f"; did you mean {close[0]}?" if close else ""
        if not hint:
            hint = f"; it has {listed(sorted(known))}" if known else "; it has none"
        raise ValueError(f"{node} has no lane {lane!r}{hint}")
    asked = group.resolution.asked(lane)
    assert asked is not None
    got = found[0]
    family = got.name != lane
    # What is said of a member, or of a part of a spanning lane, is said of the whole as well.
    parts = {part.name for part in asked.parts}
    failed: dict[str, list[str]] = {}
    for row in plan.degradations:
        if row.about == lane or row.about in parts:
            text = row.message if row.about == lane else f"{row.about}: {row.message}"
            failed.setdefault(row.kind, []).append(text)
    near = {*got.prefer, *got.require}
    devices = [
        device
        for device in group.topology.devices
        if ("gpu-local" in near and device.id in asked.devices)
        or (
            "nic-local" in near
            and device.type == "nic"
            and (asked.nics is None or device.id in asked.nics)
        )
    ]
    return LaneAnswer(
        node=node,
        lane=lane,
        cpus=str(plan.cpus_of(lane)),
        cores=f"{sum(one.cores for one in found)} "
        f"(asked for {asked_text(asked, ' in each locality' if family else None)})",
        share=" and ".join(sorted({one.share for one in found})),
        tier=ladder.name(got.tier),
        family=None if family else got.family,
        localities=tuple(
            (one.name, str(one.cpus), ", ".join(one.devices)) for one in found if family
        ),
        members=tuple(
            f"{u.name} ({ladder.name(u.tier)})"
            for u in plan.units
            if u.lane is not None and u.lane in (lane, got.family)
        ),
        words=tuple(
            (verb, word, f"not met: {'; '.join(failed[word])}" if word in failed else "met")
            for verb, words in (("require", got.require), ("prefer", got.prefer))
            for word in words
        ),
        devices=tuple(
            (d.id, "unknown" if d.cpus is None else str(d.cpus) or "no CPU") for d in devices
        ),
        notes=(
            *(text for kind, texts in sorted(failed.items()) if kind not in near for text in texts),
            *left_out_of(plan, got.family or lane),
        ),
        at=str(asked.span),
    )


def _irqs(group: CompiledClass, one: DeviceIrqs) -> str:
    """Say where the interrupts of a device go, and where that is written."""
    said = [
        claim.intent.span("spec", "irqs")
        if claim.written
        else claim.intent.key_span("spec", "workload")
        for claim in group.resolution.irqs
        if claim.intent.name in one.intents
    ]
    where = listed([f"lane {name}" for name in one.lanes]) or one.where
    many = len(one.intents) > 1
    how = (
        ("say so" if many else "says so")
        if one.why == "written"
        else "use it"
        if many
        else "uses it"
    )
    who = f"{listed(one.intents)} {how}, {', '.join(map(str, said))}"
    return f"{one.kind} {one.device} to {where}, CPUs {one.cpus}: {who}"
