"""Why a unit has its tier and its CPUs, with file and line."""

from __future__ import annotations

from compiler.pipeline import CompiledClass
from compiler.plan import NodePlan, Unit
from compiler.policy import Ladder
from compiler.resolve.types import Resolution, ResolvedUnit
from compiler.words import counted


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
        got = next(p for p in plan.lanes if p.name == unit.lane)
        asked = f"asked for {lane.cores.value}"
        words = ", ".join(
            (*(f"require {w}" for w in lane.require), *(f"prefer {w}" for w in lane.prefer))
        )
        return (
            f"lane {unit.lane}: {counted(got.cores, 'core')} ({asked}), "
            f"{got.share}" + (f", {words}" if words else "") + f", {lane.span}",
            *(f"{d.about}: {d.message}" for d in plan.degradations if d.about == unit.lane),
        )
    if unit.cpus == plan.leftovers:
        return (f"CPUs {unit.cpus}: what no lane and no housekeeping has",)
    if unit.cpus == plan.machine.effective:
        return (f"CPUs {unit.cpus}: no boundary",)
    return (f"CPUs {unit.cpus}: outside lanes that outrank it",)


def planned(group: CompiledClass) -> NodePlan:
    """Return the plan of a class.

    Raises:
        ValueError: it has none.
    """
    if group.plan is None:
        raise ValueError("no plan: the policy has errors on this node; see tierc lint")
    return group.plan
