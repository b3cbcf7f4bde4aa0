"""Units, bands, rules and tiers: that they fit together, and are no more than there may be."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cpuset import CpuSet
from compiler.plan import MAX_BANDS, MAX_RULES, NodePlan, Unit
from compiler.safety.parts import family_cpus, tier_named, unique
from compiler.safety.violation import Violation


def check_units(plan: NodePlan) -> Iterator[Violation]:
    """Find units without CPUs, apart from their band, or not on the CPUs of their lane."""
    lanes = {lane.family or lane.name: family_cpus(plan, lane) for lane in plan.lanes}
    bands = {band.id: band for band in plan.bands}
    for unit in plan.units:
        if not unit.cpus:
            yield Violation("unit-empty", f"unit {unit.name} has no CPU")
        band = bands.get(unit.band)
        if band is None:
            yield Violation("unit-band", f"unit {unit.name} is in band {unit.band}: there is none")
        elif (band.tier, band.order, band.cpus) != (unit.tier, unit.order, unit.cpus):
            yield Violation("unit-band", f"unit {unit.name} and its band {band.id} differ")
        yield from _unit_place(plan, unit, lanes)
    yield from unique("unit-names", "unit", [unit.name for unit in plan.units])


def _unit_place(plan: NodePlan, unit: Unit, lanes: dict[str, CpuSet]) -> Iterator[Violation]:
    if unit.lane is None:
        if outside := unit.cpus - plan.machine.effective:
            yield Violation("unit-outside", f"unit {unit.name}: CPUs {outside} are not effective")
    elif unit.lane not in lanes:
        yield Violation("unit-lane", f"unit {unit.name} is in lane {unit.lane}: there is none")
    elif unit.cpus != (cpus := lanes[unit.lane]):
        yield Violation(
            "unit-lane", f"unit {unit.name} has {unit.cpus}, its lane {unit.lane} has {cpus}"
        )


def check_bands(plan: NodePlan) -> Iterator[Violation]:
    """Find bands that no scheduler could hold: too many, empty, of no tier."""
    tiers = {tier.id for tier in plan.tiers}
    if len(plan.bands) > MAX_BANDS:
        yield Violation("band-count", f"{len(plan.bands)} bands; at most {MAX_BANDS}")
    if [band.id for band in plan.bands] != list(range(len(plan.bands))):
        yield Violation("band-ids", "band ids do not count up from 0")
    if plan.default_band not in {band.id for band in plan.bands}:
        yield Violation("default-band", f"there is no band {plan.default_band}, the default")
    for band in plan.bands:
        if not band.cpus:
            yield Violation("band-empty", f"band {band.id} has no CPU")
        if band.tier not in tiers:
            yield Violation("band-tier", f"band {band.id} has tier {band.tier}: there is none")
        if not 1 <= band.min_cpus <= max(1, len(band.cpus)):
            yield Violation(
                "band-min-cpus", f"band {band.id} needs {band.min_cpus} of {len(band.cpus)} CPUs"
            )


def check_default_band(plan: NodePlan) -> Iterator[Violation]:
    """Find CPUs of threads without a rule that are not in the shared pool."""
    for band in plan.bands:
        if band.id == plan.default_band and (lost := band.cpus - plan.shared):
            yield Violation(
                "default-band-outside",
                f"threads without a rule have CPUs {lost}, which are not in the shared pool",
            )


def check_rules(plan: NodePlan) -> Iterator[Violation]:
    """Find rules out of order, too many, or of units and bands that do not exist."""
    units = {unit.name for unit in plan.units}
    bands = {band.id for band in plan.bands}
    if len(plan.rules) > MAX_RULES:
        yield Violation("rule-count", f"{len(plan.rules)} rules; at most {MAX_RULES}")
    ids = [rule.id for rule in plan.rules]
    if ids != sorted(set(ids)) or any(id < 0 for id in ids):
        yield Violation("rule-ids", "rule ids do not rise, from 0 or above")
    for rule in plan.rules:
        if rule.band not in bands:
            yield Violation("rule-band", f"rule {rule.id} gives band {rule.band}: there is none")
        if rule.unit not in units:
            yield Violation("rule-unit", f"rule {rule.id} is of unit {rule.unit}: there is none")


def check_tiers(plan: NodePlan) -> Iterator[Violation]:
    """Find tiers that are not numbered in order, or missing."""
    if [tier.id for tier in plan.tiers] != list(range(len(plan.tiers))):
        yield Violation("tier-ids", "tier ids do not count up from 0")
    for name in ("system", "background"):
        if tier_named(plan, name) is None:
            yield Violation("tier-missing", f"there is no tier {name}")
