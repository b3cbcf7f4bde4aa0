"""Plans made from placements by the documented rules, for tests of the safety check."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cpuset import CpuSet, union
from compiler.fingerprint import cpu_text, digest
from compiler.place import LaneRequest, Placement
from compiler.plan import Band, Condition, Lane, Machine, NodePlan, Rule, Tier, Unit
from compiler.topology import Topology

TIER_NAMES = ("critical", "latency", "interactive", "system", "normal", "background", "idle")
SYSTEM, NORMAL, BACKGROUND = 3, 4, 5


def plan_of(topology: Topology, requests: Sequence[LaneRequest], placement: Placement) -> NodePlan:
    """Make a plan with a unit in each lane, node software, and batch demoted to background."""
    lanes = [_lane(request, placement) for request in sorted(requests, key=lambda r: r.name)]
    effective = topology.effective
    closed = union(lane.cpus for lane in lanes if lane.share != "open")
    shared = effective - closed
    taken = union(lane.cpus for lane in lanes) | placement.housekeeping

    def pool(tier: int) -> CpuSet:
        out = union(
            lane.cpus
            for lane in lanes
            if lane.share == "exclusive" or (lane.share == "guarded" and lane.tier < tier)
        )
        rest = effective - out - placement.housekeeping
        return rest if tier > SYSTEM and rest else effective - out

    units = [(lane.name, lane.tier, lane.name, lane.cpus) for lane in lanes]
    units.append(("batch", BACKGROUND, None, pool(BACKGROUND)))
    units.append(("node-infra", SYSTEM, None, pool(SYSTEM)))
    bands = [(NORMAL, shared), *((tier, cpus) for _, tier, _, cpus in units)]
    return NodePlan(
        mode="fallback",
        fingerprint=digest(
            cpu_text(
                topology.arch,
                topology.online,
                [core.siblings for core in topology.cores],
                topology.llcs,
            )
        ),
        machine=Machine(
            arch=topology.arch,
            online=topology.online,
            effective=effective,
            isolated=topology.isolated,
            cores=tuple(core.siblings for core in topology.cores),
            llcs=topology.llcs,
        ),
        housekeeping=placement.housekeeping,
        shared=shared,
        leftovers=effective - taken,
        tiers=tuple(
            Tier(id=i, name=name, slice_ns=3_000_000, weight=100, floor=0, preempt=False)
            for i, name in enumerate(TIER_NAMES)
        ),
        default_band=0,
        bands=tuple(_band(i, tier, cpus) for i, (tier, cpus) in enumerate(bands)),
        rules=tuple(
            Rule(id=i, unit=name, band=i + 1, match=Condition(comm=comm))
            for i, (name, comm) in enumerate(
                (name, {"batch": "stress-ng*", "node-infra": "kubelet"}.get(name, name))
                for name, _, _, _ in units
            )
        ),
        units=tuple(
            Unit(
                name=name,
                intent=name,
                stage=None,
                tier=tier,
                order=0,
                effect="keep",
                lane=lane,
                cpus=cpus,
                band=i + 1,
            )
            for i, (name, tier, lane, cpus) in enumerate(units)
        ),
        lanes=tuple(lanes),
        degradations=placement.degradations,
    )


def _band(number: int, tier: int, cpus: CpuSet) -> Band:
    return Band(
        id=number,
        tier=tier,
        order=0,
        cpus=cpus,
        min_cpus=1,
        hard=True,
        prefer_idle_core=False,
    )


def _lane(request: LaneRequest, placement: Placement) -> Lane:
    granted = placement.lanes[request.name]
    return Lane(
        name=request.name,
        cpus=granted.cpus,
        cores=granted.cores,
        min_cores=request.min,
        max_cores=request.max,
        share="open" if request.name in placement.open_lanes else request.share,
        tier=request.tier,
        intents=(request.name,),
        prefer=request.prefer,
        require=request.require,
        isolated=granted.isolated,
    )
