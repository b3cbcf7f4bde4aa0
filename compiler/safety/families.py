"""Families of lanes: their members, and the band of each member in the rules."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cpuset import union
from compiler.plan import Lane, NodePlan
from compiler.safety.violation import Violation


def check_families(plan: NodePlan) -> Iterator[Violation]:
    """Find families whose members do not belong together."""
    families: dict[str, list[Lane]] = {}
    for lane in plan.lanes:
        if lane.family is not None:
            families.setdefault(lane.family, []).append(lane)
    for name, members in families.items():
        if any(lane.name == name for lane in plan.lanes):
            yield Violation("family-name", f"family {name} and a lane have one name")
        if len(members) < 2:
            yield Violation("family-small", f"family {name} has one member, {members[0].name}")
        if len({(lane.tier, lane.intents) for lane in members}) > 1:
            yield Violation("family-apart", f"members of family {name} differ in tier or intents")
        for lane in members:
            if not lane.name.startswith(f"{name}@"):
                yield Violation("family-name", f"lane {lane.name} is a member of family {name}")
        seen: set[str] = set()
        for lane in members:
            if twice := seen & set(lane.devices):
                yield Violation("family-devices", f"two members of family {name} have {min(twice)}")
            seen |= set(lane.devices)
            if not lane.devices:
                yield Violation("family-devices", f"lane {lane.name} is near no device")


def check_member_bands(plan: NodePlan) -> Iterator[Violation]:
    """Find rules whose bands do not match the members of their family."""
    bands = {band.id: band for band in plan.bands}
    lanes = {lane.name: lane for lane in plan.lanes}
    units = {unit.name: unit for unit in plan.units}
    families = {lane.family for lane in plan.lanes if lane.family is not None}
    for rule in plan.rules:
        whole, unit = bands.get(rule.band), units.get(rule.unit)
        mine = [lanes.get(member.lane) for member in rule.members]
        of = {lane.family if lane is not None else None for lane in mine}
        if mine:
            family = next(iter(of))
            names = sorted(lane.name for lane in plan.lanes if lane.family == family)
            if len(of) > 1 or family is None or names != [one.lane for one in rule.members]:
                yield Violation(
                    "rule-members", f"rule {rule.id} does not name the members of one family"
                )
                continue
            if whole is not None and whole.cpus != union(lanes[name].cpus for name in names):
                yield Violation(
                    "rule-members", f"band {rule.band} of rule {rule.id} is not family {family}"
                )
        elif unit is not None and unit.lane in families and rule.band == unit.band:
            yield Violation(
                "rule-members", f"rule {rule.id} gives family {unit.lane} and names no member"
            )
        for member in rule.members:
            band = bands.get(member.band)
            if band is None or band.cpus != lanes[member.lane].cpus:
                yield Violation(
                    "member-band",
                    f"rule {rule.id}: band {member.band} has not the CPUs of {member.lane}",
                )
            elif whole is not None and (band.tier, band.order) != (whole.tier, whole.order):
                yield Violation(
                    "member-band",
                    f"rule {rule.id}: bands {member.band} and {whole.id} differ in tier or order",
                )
