"""The CPUs that nobody owns alone: housekeeping, the shared pool, leftovers."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cpuset import union
from compiler.plan import NodePlan
from compiler.safety.parts import tier_named
from compiler.safety.violation import Violation


def check_shared_pool(plan: NodePlan) -> Iterator[Violation]:
    """Find a shared pool that is empty, or not what closed lanes leave."""
    closed = union(lane.cpus for lane in plan.lanes if lane.share != "open")
    if not plan.shared:
        yield Violation("shared-empty", "the shared pool is empty")
    if plan.shared != (right := plan.machine.effective - closed):
        yield Violation("shared", f"the shared pool is {plan.shared}, it must be {right}")


def check_leftovers(plan: NodePlan) -> Iterator[Violation]:
    """Find leftovers that are not what lanes and housekeeping leave."""
    taken = union((plan.housekeeping, *(lane.cpus for lane in plan.lanes)))
    if plan.leftovers != (right := plan.machine.effective - taken):
        yield Violation("leftovers", f"leftovers are {plan.leftovers}, they must be {right}")


def check_housekeeping(plan: NodePlan) -> Iterator[Violation]:
    """Find housekeeping that is empty, outside, or in a lane that keeps it out."""
    if not plan.housekeeping:
        yield Violation("housekeeping-empty", "housekeeping has no CPU")
    if outside := plan.housekeeping - plan.machine.effective:
        yield Violation("housekeeping-outside", f"housekeeping CPUs {outside} are not effective")
    system = tier_named(plan, "system")
    for lane in plan.lanes:
        both = lane.cpus & plan.housekeeping
        if not both or lane.share == "open":
            continue
        if lane.share == "exclusive" or system is None or lane.tier < system.id:
            yield Violation(
                "housekeeping-closed",
                f"housekeeping CPUs {both} are in {lane.share} lane {lane.name}, which keeps "
                "node software out",
            )


def check_housekeeping_kept(plan: NodePlan) -> Iterator[Violation]:
    """Find units below node software on its CPUs although others are left."""
    system = tier_named(plan, "system")
    if system is None or not plan.leftovers:
        return
    for unit in plan.units:
        both = unit.cpus & plan.housekeeping
        if unit.lane is None and unit.tier > system.id and both:
            yield Violation(
                "housekeeping-used",
                f"unit {unit.name}, below tier system, has housekeeping CPUs {both} although "
                f"{plan.leftovers} are left over",
            )
