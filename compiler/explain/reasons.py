"""Why a unit has its tier and its CPUs, with file and line."""

from __future__ import annotations

from compiler.pipeline import CompiledClass
from compiler.plan import Lane, NodePlan, Unit
from compiler.policy import Ladder
from compiler.resolve.types import Resolution, ResolvedLane, ResolvedUnit
from compiler.words import counted, listed


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


def cpu_reasons(unit: Unit, group: CompiledClass) -> tuple[str, ...]:
    """Return why a unit has its CPUs: its lane and what that asked for, or what pool it is in."""
    plan = planned(group)
    if unit.lane is not None:
        lane = next(r for r in group.resolution.lanes if r.name == unit.lane)
        got = plan.lanes_of(unit.lane)
        family = got[0].family is not None
        asked = asked_text(lane, " each" if family else None)
        words = ", ".join(
            (*(f"require {w}" for w in lane.require), *(f"prefer {w}" for w in lane.prefer))
        )
        shares = " and ".join(sorted({one.share for one in got}))
        size = counted(sum(one.cores for one in got), "core")
        where = f" in {counted(len(got), 'member')}" if family else ""
        names = {unit.lane, *(part.name for part in lane.parts)}
        return (
            f"lane {unit.lane}: {size}{where} (asked for {asked}), "
            f"{shares}" + (f", {words}" if words else "") + f", {lane.span}",
            *(f"{d.about}: {d.message}" for d in plan.degradations if d.about in names),
            *left_out_of(plan, unit.lane),
        )
    if unit.cpus == plan.leftovers:
        return (f"CPUs {unit.cpus}: what no lane and no housekeeping has",)
    if unit.cpus == plan.machine.effective:
        return (f"CPUs {unit.cpus}: no boundary",)
    return (f"CPUs {unit.cpus}: outside lanes that outrank it",)


def left_out_of(plan: NodePlan, lane: str) -> tuple[str, ...]:
    """Return what targets leave out of a lane or family, each sentence once."""
    rows = (row for name in sorted(plan.left_out) for row in plan.left_out[name])
    return tuple(dict.fromkeys(row.message for row in rows if row.lane == lane))


def asked_text(lane: ResolvedLane, each: str | None) -> str:
    """Return the size that was asked for; of a family that of its members.

    Args:
        lane: the lane or family.
        each: None for a lane that is one; else the words behind a size that all members have.
    """
    if each is None:
        return lane.cores.value
    sizes = {part.cores for part in lane.parts}
    if len(sizes) == 1:
        return f"{sizes.pop()}{each}"
    return listed([f"{part.cores} in {part.name}" for part in lane.parts])


def member_text(lane: Lane) -> str:
    """Return which processes of a family a member is for."""
    gpus = ", ".join(lane.devices)
    return f"{lane.name}: CPUs {lane.cpus}, for processes with GPUs {gpus}; others have the union"


def planned(group: CompiledClass) -> NodePlan:
    """Return the plan of a class.

    Raises:
        ValueError: it has none.
    """
    if group.plan is None:
        raise ValueError("no plan: the policy has errors on this node; see tierc lint")
    return group.plan
