"""A planned node -> a picture of its machine with the owners of its CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.cpuset import CpuSet
from compiler.model.facts import NodeFacts
from compiler.picture.machine import Machine, MachineLane, Pool
from compiler.picture.machine_layout import machine_picture
from compiler.plan import Lane, NodePlan, Unit
from compiler.words import counted


def planned_picture(facts: NodeFacts, plan: NodePlan | None) -> Machine:
    """Return the picture of a node with its lanes, its housekeeping and what is left over.

    Args:
        facts: the node.
        plan: the plan of its class; None where it has none, which the picture says.
    """
    if plan is None:
        bare = machine_picture(facts)
        return replace(bare, notes=("no plan, see the findings: lanes are not drawn",))
    machine = machine_picture(facts, owners(facts, plan))
    return replace(
        machine,
        facts=(*machine.facts, ("plan", f"mode {plan.mode}")),
        pools=_pools(plan),
        notes=tuple(f"{row.about}: {row.message}" for row in plan.degradations),
    )


def owners(facts: NodeFacts, plan: NodePlan) -> tuple[MachineLane, ...]:
    """Return who owns CPUs: lanes by tier and name, then housekeeping, then what is left over.

    A core may have two owners, where housekeeping shares a lane.
    """
    tiers = {tier.id: tier.name for tier in plan.tiers}
    ids = {
        name: device.id
        for device in facts.spec.devices
        for name in (device.id, device.uuid, device.bdf)
        if name is not None
    }
    lanes = [
        MachineLane(
            name=lane.name,
            cpus=lane.cpus,
            detail=_detail(lane, plan, tiers[lane.tier], ids),
            family=lane.family,
        )
        for lane in sorted(plan.lanes, key=lambda lane: (lane.tier, lane.name))
    ]
    node = MachineLane("housekeeping", plan.housekeeping, "node software", "housekeeping")
    if not plan.leftovers:
        return (*lanes, node)
    return (*lanes, node, MachineLane("leftovers", plan.leftovers, "in no lane", "leftovers"))


def _detail(lane: Lane, plan: NodePlan, tier: str, ids: dict[str, str]) -> str:
    parts = [f"tier {tier}", lane.share, counted(lane.cores, "core")]
    if lane.isolated:
        parts.append("isolated")
    if lane.family is not None:
        parts.append(f"of family {lane.family}")
    if lane.devices:
        parts.append(f"for {', '.join(ids.get(name, name) for name in lane.devices)}")
    units = [u for u in plan.units if u.lane is not None and u.lane in (lane.name, lane.family)]
    return f"{', '.join(parts)}; {_units_text(units) or 'no units'}"


def _units_text(units: Iterable[Unit]) -> str:
    """Return units as ``chat (engine-step, api), web``: by intent, highest first."""
    stages: dict[str, list[str]] = {}
    for unit in units:
        whole, _, stage = unit.name.partition("/")
        stages.setdefault(whole, []).extend([stage] if stage else [])
    return ", ".join(f"{name} ({', '.join(of)})" if of else name for name, of in stages.items())


def _pools(plan: NodePlan) -> tuple[Pool, ...]:
    """Return where threads run that are in no lane: units by their CPUs, then what has no rule."""
    free: dict[CpuSet, list[Unit]] = {}
    for unit in plan.units:
        if unit.lane is None:
            free.setdefault(unit.cpus, []).append(unit)
    default = plan.bands[plan.default_band].cpus
    return (
        *(Pool(_units_text(units), cpus) for cpus, units in free.items()),
        Pool("what no rule matches", default),
    )
