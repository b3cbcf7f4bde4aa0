"""From resolved intents and placed lanes to the NodePlan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler import features
from compiler.cpuset import CpuSet, union
from compiler.fingerprint import cpu_text, device_digest, digest
from compiler.irqs import device_irqs
from compiler.place import Placement
from compiler.plan import (
    Band,
    Degradation,
    Lane,
    Machine,
    MemberBand,
    Mode,
    NodePlan,
    Rule,
    Tier,
    Unit,
    Workload,
)
from compiler.policy import Ladder
from compiler.resolve.types import Resolution, ResolvedLane, ResolvedUnit
from compiler.topology import Topology


@dataclass(frozen=True, slots=True)
class _Domain:
    """CPUs of a unit, and how strictly they bind."""

    cpus: CpuSet
    min_cpus: int
    hard: bool
    idle_core: bool


def assemble(
    ladder: Ladder, mode: Mode, resolution: Resolution, topology: Topology, placement: Placement
) -> NodePlan:
    """Return the plan; pure, and the same for equal inputs."""
    lanes = tuple(
        planned
        for lane in sorted(resolution.lanes, key=lambda r: r.name)
        for planned in _lanes(lane, placement, topology)
    )
    pools = _Pools(topology, placement, lanes, ladder)
    degradations = [
        *placement.degradations,
        *(
            note
            for lane in resolution.lanes
            for note in lane.notes
            # what is said of a member is not so once its family has collapsed
            if lane.divided != "family" or note.about in (lane.name, *placement.lanes)
        ),
    ]
    domains = {u.name: _domain(u, u.tier, pools) for u in resolution.units}
    degradations += [
        _no_leftovers(u, domains[u.name])
        for u in resolution.units
        if u.lane is None and u.leftovers and not pools.leftovers
    ]
    default = _Domain(pools.shared, 1, pools.shared != topology.effective, False)
    keys = {(ladder.normal, 0, default)}
    tier_of = {u.name: (u.own_tier, u.own_order) for u in resolution.units}
    for unit in resolution.units:
        keys.add((unit.tier, unit.order, domains[unit.name]))
    lane_of = {unit.name: unit.lane for unit in resolution.units}
    members = {name: pools.members(lane) for name, lane in lane_of.items()}
    unit_of = {unit.name: unit for unit in resolution.units}
    # A rule may have its tier from another unit, lower than the highest its own unit is given.
    rule_domains = [
        _domain(unit_of[rule.lane_unit], tier_of[rule.tier_unit][0], pools)
        for rule in resolution.rules
    ]
    for rule, whole in zip(resolution.rules, rule_domains, strict=True):
        for domain in (whole, *members[rule.lane_unit].values()):
            keys.add((*tier_of[rule.tier_unit], domain))
    ranked = sorted(
        keys, key=lambda k: (k[0], k[1], k[2].cpus.mask, k[2].min_cpus, k[2].hard, k[2].idle_core)
    )
    ids = {key: i for i, key in enumerate(ranked)}
    plan = NodePlan(
        mode=mode,
        fingerprint=digest(
            cpu_text(
                topology.arch,
                topology.online,
                (core.siblings for core in topology.cores),
                topology.llcs,
            )
        ),
        device_fingerprint=device_digest(topology.gpus, topology.nics),
        machine=_machine(topology),
        housekeeping=placement.housekeeping,
        shared=pools.shared,
        leftovers=pools.leftovers,
        tiers=_tiers(ladder),
        default_band=ids[(ladder.normal, 0, default)],
        bands=tuple(_band(i, *key) for i, key in enumerate(ranked)),
        rules=tuple(
            Rule(
                id=i,
                unit=rule.unit,
                band=ids[(*tier_of[rule.tier_unit], rule_domains[i])],
                match=rule.condition,
                spawns=rule.matcher.spawns,
                needs=rule.matcher.needs,
                members=tuple(
                    MemberBand(lane=name, band=ids[(*tier_of[rule.tier_unit], domain)])
                    for name, domain in members[rule.lane_unit].items()
                ),
            )
            for i, rule in enumerate(resolution.rules)
        ),
        units=tuple(_unit(u, domains[u.name], ids) for u in resolution.units),
        lanes=lanes,
        workloads=_workloads(resolution),
        irqs=device_irqs(resolution.irqs, topology, lanes, placement.housekeeping),
        degradations=tuple(sorted(degradations, key=lambda d: (d.about, d.kind, d.message))),
    )
    return plan.model_copy(update={"features": features.of_plan(plan)})


class _Pools:
    """CPUs of those who have no lane."""

    def __init__(
        self, topology: Topology, placement: Placement, lanes: Sequence[Lane], ladder: Ladder
    ) -> None:
        self.effective = topology.effective
        self.housekeeping = placement.housekeeping
        self.system = ladder.system
        self.exclusive = union(lane.cpus for lane in lanes if lane.share == "exclusive")
        self.guarded = [
            lane
            for lane in lanes
            if lane.share == "guarded" and lane.name not in placement.open_lanes
        ]
        self._lanes = lanes
        self.shared = self.effective - self.exclusive - union(lane.cpus for lane in self.guarded)
        self.leftovers = (
            self.effective - union(lane.cpus for lane in lanes) - placement.housekeeping
        )

    def lanes_of(self, name: str) -> list[Lane]:
        """Return the lane, or the members of the family, of that name."""
        return [lane for lane in self._lanes if name in (lane.name, lane.family)]

    def domain(self, lanes: Sequence[Lane]) -> _Domain:
        """Return the CPUs of lanes together; to be bound to any of them must make sense."""
        return _Domain(
            cpus=union(lane.cpus for lane in lanes),
            min_cpus=min(_min_cpus(lane) for lane in lanes),
            hard=all(lane.share == "exclusive" or lane in self.guarded for lane in lanes),
            idle_core="whole-cores" in (*lanes[0].prefer, *lanes[0].require),
        )

    def members(self, name: str | None) -> dict[str, _Domain]:
        """Return the members of a family by name; nothing for a lane by itself."""
        if name is None:
            return {}
        return {one.name: self.domain([one]) for one in self._lanes if one.family == name}

    def of_tier(self, tier: int) -> CpuSet:
        """Return where a unit without a lane may run: out of lanes that outrank it.

        Housekeeping is kept from tiers below system as long as something else is left for them.
        """
        pool = (
            self.effective
            - self.exclusive
            - union(lane.cpus for lane in self.guarded if lane.tier < tier)
        )
        if tier > self.system and (rest := pool - self.housekeeping):
            return rest
        return pool


def _domain(unit: ResolvedUnit, tier: int, pools: _Pools) -> _Domain:
    """Return the CPUs of a unit's threads that have a tier."""
    if unit.lane is not None:
        return pools.domain(pools.lanes_of(unit.lane))
    cpus = pools.leftovers if unit.leftovers and pools.leftovers else pools.of_tier(tier)
    return _Domain(cpus, 1, cpus != pools.effective, False)


def _no_leftovers(unit: ResolvedUnit, domain: _Domain) -> Degradation:
    return Degradation(
        about=unit.name,
        kind="no-leftovers",
        message=f"no CPU is outside lanes and housekeeping; it runs on {domain.cpus}",
    )


def _min_cpus(lane: Lane) -> int:
    """Return the fewest CPUs that are the lane's minimum, at the width its cores have."""
    return max(1, len(lane.cpus) * lane.min_cores // max(1, lane.cores))


def _lanes(lane: ResolvedLane, placement: Placement, topology: Topology) -> list[Lane]:
    """Return the lane, or the members of the family that it is on this machine."""
    if lane.name in placement.lanes:  # by itself, spanning, or a family that collapsed
        return [_lane(lane, None, placement, topology)]
    return [_lane(lane.as_part(part), lane.name, placement, topology) for part in lane.parts]


def _lane(lane: ResolvedLane, family: str | None, placement: Placement, topology: Topology) -> Lane:
    granted = placement.lanes[lane.name]
    share = "open" if lane.name in placement.open_lanes else lane.share.value
    return Lane(
        name=lane.name,
        cpus=granted.cpus,
        cores=granted.cores,
        min_cores=lane.min,
        max_cores=lane.max,
        share=share,
        tier=lane.tier,
        intents=lane.intents,
        prefer=lane.prefer,
        require=lane.require,
        isolated=granted.isolated,
        family=family,
        devices=tuple(
            view.bdf or view.uuid or view.id
            for view in topology.of_type("gpu")
            if view.id in lane.devices
        ),
    )


def _workloads(resolution: Resolution) -> tuple[Workload, ...]:
    intents = {
        unit.draft.intent.name: unit.draft.intent
        for unit in resolution.units
        if unit.draft.intent is not None
    }
    return tuple(
        Workload(
            intent=name,
            engine=(work := intents[name].model.spec.workload).engine,
            version=work.version,
            tensor_parallel=work.tensor_parallel,
            instances=work.instances,
            traffic=work.traffic,
            knobs=intents[name].model.spec.knobs,
            irqs=intents[name].model.spec.irqs,
        )
        for name in sorted(intents)
    )


def _machine(topology: Topology) -> Machine:
    return Machine(
        arch=topology.arch,
        online=topology.online,
        effective=topology.effective,
        isolated=topology.isolated & topology.online,
        cores=tuple(core.siblings for core in topology.cores),
        llcs=topology.llcs,
        gpus=topology.gpus,
        nics=topology.nics,
        nohz_full=topology.nohz_full or None,
        pods_root=topology.pods_root,
    )


def _tiers(ladder: Ladder) -> tuple[Tier, ...]:
    return tuple(
        Tier(
            id=i,
            name=tier.name,
            slice_ns=tier.slice,
            weight=tier.weight,
            floor=tier.share,
            preempt=tier.preempt,
        )
        for i, tier in enumerate(ladder.tiers)
    )


def _band(id: int, tier: int, order: int, domain: _Domain) -> Band:
    return Band(
        id=id,
        tier=tier,
        order=order,
        cpus=domain.cpus,
        min_cpus=domain.min_cpus,
        hard=domain.hard,
        prefer_idle_core=domain.idle_core,
    )


def _unit(unit: ResolvedUnit, domain: _Domain, ids: Mapping[tuple[int, int, _Domain], int]) -> Unit:
    intent = unit.draft.intent
    return Unit(
        name=unit.name,
        intent=intent.name if intent is not None else None,
        stage=unit.draft.stage,
        tier=unit.tier,
        order=unit.order,
        effect=unit.effect,
        lane=unit.lane,
        cpus=domain.cpus,
        band=ids[(unit.tier, unit.order, domain)],
    )
