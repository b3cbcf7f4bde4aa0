"""Lanes: whole cores of the sizes asked for, apart from each other, closed to whom they say."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.plan import Lane, NodePlan
from compiler.safety.parts import family_cpus, unique
from compiler.safety.violation import Violation


def check_lanes(plan: NodePlan) -> Iterator[Violation]:
    """Find lanes of a wrong size, of parts of cores, or where they must not lie."""
    usable = plan.machine.effective | plan.machine.isolated
    for lane in plan.lanes:
        cores = [core for core in plan.machine.cores if core & lane.cpus]
        if lane.cores != len(cores):
            yield Violation("lane-cores", f"lane {lane.name} says {lane.cores}, has {len(cores)}")
        if len(cores) < max(1, lane.min_cores):
            yield Violation(
                "lane-small", f"lane {lane.name} has {len(cores)} of {lane.min_cores} cores"
            )
        if lane.max_cores is not None and len(cores) > lane.max_cores:
            yield Violation(
                "lane-large", f"lane {lane.name} has {len(cores)} of {lane.max_cores} cores"
            )
        for core in cores:
            if rest := core & usable - lane.cpus:
                yield Violation(
                    "core-split", f"lane {lane.name} has a part of core {core}, not {rest}"
                )
        place = plan.machine.isolated if lane.isolated else plan.machine.effective
        if wrong := lane.cpus - place:
            word = "isolated" if lane.isolated else "effective"
            yield Violation("lane-outside", f"lane {lane.name}: CPUs {wrong} are not {word}")


def check_lanes_apart(plan: NodePlan) -> Iterator[Violation]:
    """Find lanes that overlap or have one name."""
    for i, one in enumerate(plan.lanes):
        for other in plan.lanes[i + 1 :]:
            if both := one.cpus & other.cpus:
                yield Violation(
                    "lanes-overlap", f"lanes {one.name} and {other.name} both have CPUs {both}"
                )
    yield from unique("lane-names", "lane", [lane.name for lane in plan.lanes])


def check_kept_out(plan: NodePlan) -> Iterator[Violation]:
    """Find units and bands on CPUs of lanes that are closed to them."""
    for lane in plan.lanes:
        if lane.share == "open":
            continue
        whole = family_cpus(plan, lane)
        for unit in plan.units:
            both = unit.cpus & lane.cpus
            inside = unit.lane is not None and unit.lane in (lane.name, lane.family)
            if both and not inside and _is_closed_to(lane, unit.tier):
                yield Violation(
                    f"unit-in-{lane.share}-lane",
                    f"unit {unit.name} has CPUs {both} of {lane.share} lane {lane.name}",
                )
        for band in plan.bands:
            both = band.cpus & lane.cpus
            if both and not band.cpus <= whole and _is_closed_to(lane, band.tier):
                yield Violation(
                    f"band-in-{lane.share}-lane",
                    f"band {band.id} has CPUs {both} of {lane.share} lane {lane.name} and others",
                )


def _is_closed_to(lane: Lane, tier: int) -> bool:
    return lane.share == "exclusive" or tier > lane.tier
