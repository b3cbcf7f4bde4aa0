"""Names for the CPU lists of a plan, so that a script holds each list once."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.plan import Band, NodePlan, Rule
from targets.shell import shown


@dataclass(frozen=True, slots=True)
class CpuList:
    """CPUs under a name.

    Attributes:
        name: ``lane:NAME`` of a lane or a family, ``all``, ``shared``, ``leftovers``,
            ``housekeeping``, or ``D1``, ... for what has no name of its own.
        cpus: the CPUs.
        min_cpus: fewest with which setting makes sense; None where no rule has the list.
    """

    name: str
    cpus: CpuSet
    min_cpus: int | None

    @property
    def row(self) -> tuple[str, str, str]:
        """Name, minimum and CPUs as fields of a table."""
        least = "-" if self.min_cpus is None else str(self.min_cpus)
        return self.name, least, str(self.cpus) or "-"


def cpu_lists(plan: NodePlan, rules: list[Rule]) -> tuple[list[CpuList], dict[int, CpuList]]:
    """Return every list, those of lanes first, and the list of each rule by its id.

    Raises:
        ValueError: a rule has a band that the plan lacks.
    """
    bands = {band.id: band for band in plan.bands}
    lane_of = {unit.name: unit.lane for unit in plan.units}
    known: dict[str, CpuList] = {}
    of_rule: dict[int, CpuList] = {}
    for rule in rules:
        band = bands.get(rule.band)
        if band is None:
            raise ValueError(f"rule {rule.id} has band {rule.band}, which the plan lacks")
        of_rule[rule.id] = _list_of(plan, band, lane_of.get(rule.unit), known)
    written = dict.fromkeys(
        name for lane in plan.lanes for name in (lane.family, lane.name) if name is not None
    )
    for lane in written:
        name = _lane_name(lane)
        known.setdefault(name, CpuList(name, plan.cpus_of(lane), None))
    names = [_lane_name(lane) for lane in written]
    rest = sorted(known.keys() - set(names), key=lambda name: (len(name), name))
    return [known[name] for name in (*names, *rest)], of_rule


def _list_of(plan: NodePlan, band: Band, lane: str | None, known: dict[str, CpuList]) -> CpuList:
    least = max(band.min_cpus, 1)
    named = [
        ("all", plan.machine.effective),
        ("shared", plan.shared),
        ("leftovers", plan.leftovers),
        ("housekeeping", plan.housekeeping),
    ]
    if lane is not None:
        named.insert(0, (_lane_name(lane), plan.cpus_of(lane)))
    for name, cpus in named:
        if band.cpus and cpus == band.cpus:
            one = known.setdefault(name, CpuList(name, cpus, least))
            if one.min_cpus == least:
                return one
    number = 1
    while True:
        name = f"D{number}"
        one = known.setdefault(name, CpuList(name, band.cpus, least))
        if (one.cpus, one.min_cpus) == (band.cpus, least):
            return one
        number += 1


def _lane_name(lane: str) -> str:
    return f"lane:{shown(lane)}"
