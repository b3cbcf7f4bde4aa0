"""Interrupts: only on CPUs that are there and that tierc may use, never on none."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.plan import NodePlan
from compiler.safety.parts import unique
from compiler.safety.violation import Violation


def check_irqs(plan: NodePlan) -> Iterator[Violation]:
    """Find devices whose interrupts go nowhere, to missing CPUs, or out of where they are said to.

    CPUs of guarded and exclusive lanes are for interrupts of devices of those lanes alone.
    """
    usable = plan.machine.effective | plan.machine.isolated
    for one in plan.irqs:
        what = f"interrupts of {one.device}"
        if (one.where == "leave") != (one.cpus is None):
            yield Violation("irqs-where", f"{what}: {one.where} with CPUs {one.cpus}")
        if one.cpus is None:
            continue
        if not one.cpus:
            yield Violation("irqs-empty", f"{what} have no CPU")
        if gone := one.cpus - plan.machine.online:
            yield Violation("irqs-offline", f"{what}: CPUs {gone} are not online")
        elif rest := one.cpus - usable:
            yield Violation("irqs-unusable", f"{what}: CPUs {rest} are not for tierc to use")
        if one.where == "housekeeping":
            if rest := one.cpus - plan.housekeeping:
                yield Violation("irqs-outside", f"{what}: CPUs {rest} are not housekeeping")
            continue
        named = [lane for lane in plan.lanes if lane.name in one.lanes]
        for name in one.lanes:
            if name not in {lane.name for lane in named}:
                yield Violation("irqs-lane", f"{what}: there is no lane {name}")
        for lane in named:
            one_of = set(lane.intents) & set(one.intents)
            if not one_of:
                yield Violation("irqs-stranger", f"{what}: no intent of lane {lane.name} uses it")
            if not lane.cpus & one.cpus:
                yield Violation("irqs-lane", f"{what}: none of them is on lane {lane.name}")
        outside = one.cpus
        for lane in named:
            outside -= lane.cpus
        if outside:
            yield Violation("irqs-outside", f"{what}: CPUs {outside} are in none of their lanes")
    yield from unique("irqs-devices", "device", [one.device for one in plan.irqs])
