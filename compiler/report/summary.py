"""What a build decided, as a few lines a person reads."""

from __future__ import annotations

from collections.abc import Collection

from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import NodePlan
from compiler.policy import Ladder
from compiler.report.table import table

_NAMES_SHOWN = 4


def describe(compilation: Compilation, nodes: Collection[str] | None = None) -> str:
    """Return per class of nodes: mode, housekeeping, lanes, who runs where, what is left out."""
    ladder = compilation.policy.ladder
    parts = [
        _class(group, ladder)
        for group in compilation.classes
        if nodes is None or set(nodes) & set(group.nodes)
    ]
    return "\n".join(parts)


def _class(group: CompiledClass, ladder: Ladder) -> str:
    names = ", ".join(group.nodes[:_NAMES_SHOWN])
    if len(group.nodes) > _NAMES_SHOWN:
        names += f" and {len(group.nodes) - _NAMES_SHOWN} more"
    if group.plan is None:
        return f"{names}: no plan\n"
    plan = group.plan
    lines = [f"{names}: {_mode(group)}"]
    rows = [("housekeeping", str(plan.housekeeping), "", "node software")]
    rows += [
        (
            f"lane {lane.name}",
            str(lane.cpus),
            lane.share,
            _members(plan, lane.family or lane.name, ladder),
        )
        for lane in plan.lanes
    ]
    rows.append(("leftovers", str(plan.leftovers) or "none", "", _without_lane(plan, ladder)))
    lines += table(rows, indent=2)
    lines += [f"  note: {d.about}: {d.message}" for d in plan.degradations]
    lines += [
        f"  left out: {message}"
        for message in sorted({row.message for rows in plan.left_out.values() for row in rows})
    ]
    return "\n".join(lines) + "\n"


def _mode(group: CompiledClass) -> str:
    plan = group.plan
    text = {
        "observe": "observe (report only)",
        "fallback": "CPU affinity",
        "sched_ext": "scheduler maps, CPU affinity as fallback",
    }[plan.mode if plan is not None else "observe"]
    skipped = "".join(f"; {name} {why}" for name, why in sorted(group.skipped.items()))
    return text + skipped


def _members(plan: NodePlan, lane: str, ladder: Ladder) -> str:
    return ", ".join(
        f"{unit.name} {ladder.name(unit.tier)}"
        for unit in sorted(plan.units, key=lambda u: (u.tier, u.order, u.name))
        if unit.lane == lane
    )


def _without_lane(plan: NodePlan, ladder: Ladder) -> str:
    return ", ".join(
        f"{unit.name} {ladder.name(unit.tier)}"
        for unit in plan.units
        if unit.lane is None and plan.leftovers and unit.cpus == plan.leftovers
    )
