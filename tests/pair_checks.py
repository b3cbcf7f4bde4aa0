"""What every plan must keep, asked a second time from the facts and documents as written.

Written from the design (placement, safety) and docs/placement.md.  Nothing here uses the passes
that make plans, nor ``compiler.safety``: a mistake there must not hide itself here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from compiler.cpuset import CpuSet, union
from compiler.model.facts import Device, NodeFacts
from compiler.plan import Lane, NodePlan
from tests.pair_outputs import node_software, tier_id
from tests.pair_seen import Asked, Document, Seen, SeenCore, asked_lanes


def problems(
    facts: NodeFacts, documents: Sequence[Document], project: Document, plan: NodePlan
) -> list[str]:
    """Return what is wrong with a plan."""
    seen = Seen(facts)
    asked = asked_lanes(seen, documents)
    return [
        *_machine(seen, plan),
        *_housekeeping(seen, project, plan),
        *_pools(seen, plan),
        *_cores(seen, plan),
        *_kept_out(plan),
        *_asked(seen, asked, plan),
        *_sizes(asked, documents, plan),
        *node_software(plan),
        *_members(plan),
        *_units(seen, documents, plan),
    ]


def _machine(seen: Seen, plan: NodePlan) -> Iterator[str]:
    for name in ("online", "effective", "isolated"):
        if getattr(plan.machine, name) != getattr(seen, name):
            yield f"{name} is {getattr(plan.machine, name)}, not {getattr(seen, name)}"
    for where, cpus in cpu_sets(plan, "plan"):
        if cpus - seen.online:
            yield f"{where} has CPUs {cpus - seen.online}, which are not online"
    if _noted(plan, "reservation-unknown") != seen.may_lose_any:
        yield f"the kubelet may give any CPU away: {seen.may_lose_any}, and the note says otherwise"
    if seen.may_lose_any:
        for lane in plan.lanes:
            if lane.share == "exclusive":
                yield f"lane {lane.name} is exclusive, and the kubelet may give its CPUs away"


def cpu_sets(value: object, where: str) -> Iterator[tuple[str, CpuSet]]:
    """Yield every set of CPUs anywhere in a plan."""
    if isinstance(value, CpuSet):
        yield where, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from cpu_sets(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from cpu_sets(item, f"{where}[{i}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from cpu_sets(item, f"{where}.{key}")


def _noted(plan: NodePlan, *kinds: str, about: str | None = None) -> bool:
    return any(
        row.kind in kinds and (about is None or row.about == about) for row in plan.degradations
    )


def _housekeeping(seen: Seen, project: Document, plan: NodePlan) -> Iterator[str]:
    keep = plan.housekeeping
    if not keep:
        yield "housekeeping is empty"
    if keep - seen.effective:
        yield f"housekeeping has CPUs {keep - seen.effective}, which are not effective"
    cores = seen.cores_of(keep)
    for core in cores:
        if (core.siblings & seen.effective) - keep:
            yield f"housekeeping has a part of core {core.siblings}"
    number = project["spec"].get("reserve", {}).get("housekeeping", "auto")
    wanted = seen.wanted_housekeeping if number == "auto" else number
    inside = [lane for lane in plan.lanes if lane.cpus & keep]
    if number != "auto" and inside:
        yield f"housekeeping is a number and shares lane {inside[0].name}"
    if bool(inside) != _noted(plan, "housekeeping-shared"):
        yield "housekeeping in a lane and its note do not go together"
    if len(cores) > wanted:
        yield f"housekeeping has {len(cores)} cores, {wanted} are wanted"
    if len(cores) < wanted and (
        number != "auto" or not _noted(plan, "housekeeping-shrunk", "housekeeping-shared")
    ):
        yield f"housekeeping has {len(cores)} cores of {wanted}, and nothing says so"


def _closed(plan: NodePlan) -> list[Lane]:
    return [lane for lane in plan.lanes if lane.share != "open"]


def _pools(seen: Seen, plan: NodePlan) -> Iterator[str]:
    shared = seen.effective - union(lane.cpus for lane in _closed(plan))
    if not plan.shared:
        yield "the shared pool is empty"
    if plan.shared != shared:
        yield f"the shared pool is {plan.shared}, not {shared}"
    left = seen.effective - union(lane.cpus for lane in plan.lanes) - plan.housekeeping
    if plan.leftovers != left:
        yield f"leftovers are {plan.leftovers}, not {left}"
    grown = [lane.name for lane in plan.lanes if lane.cores > lane.min_cores and not lane.isolated]
    if not left and grown:
        yield f"lane {grown[0]} grew, and no core is outside lanes and housekeeping"


def _cores(seen: Seen, plan: NodePlan) -> Iterator[str]:
    for i, lane in enumerate(plan.lanes):
        if not lane.cpus:
            yield f"lane {lane.name} is empty"
        if lane.cpus - seen.effective - seen.isolated:
            yield f"lane {lane.name} has CPUs that tierc may not use"
        if bool(lane.cpus & seen.isolated) != lane.isolated or (
            lane.isolated and lane.cpus - seen.isolated
        ):
            yield f"lane {lane.name} is not wholly on isolated CPUs or wholly off them"
        cores = seen.cores_of(lane.cpus)
        if len(cores) != lane.cores:
            yield f"lane {lane.name} has {len(cores)} cores and says {lane.cores}"
        for core in cores:
            if core.usable - lane.cpus:
                yield f"lane {lane.name} has a part of core {core.siblings}"
            if lane.share == "exclusive" and core.usable != core.siblings:
                yield f"exclusive lane {lane.name} has core {core.siblings}, which others may use"
        whole = union(core.siblings for core in cores)
        for other in plan.lanes[i + 1 :]:
            if whole & other.cpus:
                yield f"lanes {lane.name} and {other.name} share cores"
        if lane.share == "open":
            continue
        for name, pool in (("the shared pool", plan.shared), ("leftovers", plan.leftovers)):
            if whole & pool:
                yield f"{name} has siblings {whole & pool} of {lane.share} lane {lane.name}"
        if whole & plan.housekeeping and (
            lane.share == "exclusive" or not _noted(plan, "housekeeping-shared")
        ):
            yield f"housekeeping has siblings of {lane.share} lane {lane.name}"


def _kept_out(plan: NodePlan) -> Iterator[str]:
    system = tier_id(plan, "system")
    families = {
        lane.name: union(
            one.cpus
            for one in plan.lanes
            if one.name == lane.name or (one.family is not None and one.family == lane.family)
        )
        for lane in plan.lanes
    }
    for lane in _closed(plan):
        for unit in plan.units:
            mine = unit.lane in (lane.name, lane.family) and unit.lane is not None
            lower = lane.share == "exclusive" or unit.tier > lane.tier
            if lower and not mine and unit.cpus & lane.cpus:
                yield f"unit {unit.name} reaches into {lane.share} lane {lane.name}"
        for band in plan.bands:
            lower = lane.share == "exclusive" or band.tier > lane.tier
            if lower and band.cpus & lane.cpus and not band.cpus <= families[lane.name]:
                yield f"band {band.id} reaches into {lane.share} lane {lane.name}"
        if lane.cpus & plan.housekeeping and lane.tier < system:
            yield f"housekeeping is behind the guard of lane {lane.name}"


def _asked(seen: Seen, asked: Mapping[str, Asked], plan: NodePlan) -> Iterator[str]:
    """Check what lanes must and should be near, and that what they are not is told."""
    got: dict[str, list[Lane]] = {}
    for lane in plan.lanes:
        got.setdefault(lane.family or lane.name, []).append(lane)
    if got.keys() != asked.keys():
        yield f"lanes are {sorted(got)}, asked are {sorted(asked)}"
        return
    for name, lanes in got.items():
        want = asked[name]
        names = sorted(one["metadata"]["name"] for one in want.intents)
        devices = want.devices(seen)
        for lane in lanes:
            if list(lane.intents) != names:
                yield f"lane {lane.name} is of {lane.intents}, not {names}"
            if lane.isolated and "isolated" not in want.require | want.prefer:
                yield f"lane {lane.name} is isolated, and nobody asked for it"
            for word in sorted(want.require):
                for text in _unmet(seen, word, lane, devices):
                    yield f"lane {lane.name} requires {word}: {text}"
            for word in sorted(want.prefer):
                told = any(
                    row.kind == word and (row.about == name or row.about.startswith(f"{name}@"))
                    for row in plan.degradations
                )  # a lane that spans localities tells it of each
                if not told and (texts := list(_unmet(seen, word, lane, devices))):
                    yield f"lane {lane.name} prefers {word}, and it is not told: {texts[0]}"
        if "gpu-local" in want.require | want.prefer:
            yield from _covered(seen, want, lanes, devices, plan)
        yield from _shares(want, lanes, plan)


def _shares(want: Asked, lanes: Sequence[Lane], plan: NodePlan) -> Iterator[str]:
    """Check who may share; where several intents join, only when they say the same."""
    said = {one["spec"].get("lane", {}).get("share") for one in want.intents} - {None}
    if len(said) > 1:
        return
    share = said.pop() if said else "guarded"
    for lane in lanes:
        dropped = share == "guarded" and lane.share == "open"
        if dropped and _noted(plan, "guard-dropped", about=lane.name):
            continue
        if lane.share != share:
            yield f"lane {lane.name} is {lane.share}, not {share}"


def _unmet(seen: Seen, word: str, lane: Lane, devices: set[str]) -> Iterator[str]:
    """Yield how a lane falls short of a word, and where the facts cannot tell."""
    cores = seen.cores_of(lane.cpus)
    if word == "gpu-local":
        mine = devices & _ids(seen, lane) if lane.devices else devices
        every = lane.family is not None  # all its GPUs are in one place
        yield from _far(seen, cores, [seen.gpus[id] for id in sorted(mine)], every=every)
        unknown = [id for id in sorted(devices) if seen.near(seen.gpus[id]) is None]
        if unknown:
            yield f"where {unknown[0]} is is not known"
    elif word == "nic-local":
        known = [nic for nic in seen.nics.values() if seen.near(nic) is not None]
        yield from _far(seen, cores, known, every=False)
    elif word == "same-llc":
        caches = {core.llc for core in cores}
        if len(caches) > 1 or None in caches:
            yield f"caches {caches}"
    elif word in ("performance", "efficiency"):
        kind = seen.kinds[0]
        if word == "efficiency":
            kind = "efficiency" if "efficiency" in seen.kinds else seen.kinds[-1]
        for core in cores:
            if core.kind != kind:
                yield f"core {core.siblings} is {core.kind}"
    elif word == "whole-cores":
        for core in cores:
            if core.usable != core.siblings:
                yield f"core {core.siblings} is shared with others"
    elif word == "isolated":
        if lane.cpus - seen.isolated:
            yield f"CPUs {lane.cpus - seen.isolated} are not"
    else:
        assert word == "leftovers"  # it speaks of units without a lane


def _far(
    seen: Seen, cores: Sequence[SeenCore], devices: Sequence[Device], *, every: bool
) -> Iterator[str]:
    sets = [seen.near(device) or CpuSet() for device in devices]
    if not sets:
        yield "there is none"
    for core in cores:
        hits = [core.usable <= cpus for cpus in sets]
        if not (all(hits) if every else any(hits)):
            yield f"core {core.siblings} is not near {[device.id for device in devices]}"


def _ids(seen: Seen, lane: Lane) -> set[str]:
    return {
        id
        for id, device in seen.gpus.items()
        if {device.bdf, device.uuid, id} & set(lane.devices) and device.parent is None
    }


def _covered(
    seen: Seen, want: Asked, lanes: Sequence[Lane], devices: set[str], plan: NodePlan
) -> Iterator[str]:
    """Check that every GPU whose place is known has a core of the lane near it, or it is told."""
    name, confined = want.name, "same-llc" in want.require
    told = any(row.about == name or row.about.startswith(f"{name}@") for row in plan.degradations)
    places = {id: cpus for id in devices if (cpus := seen.near(seen.gpus[id])) is not None and cpus}
    for id, cpus in sorted(places.items()):
        if told or any(core.usable <= cpus for lane in lanes for core in seen.cores_of(lane.cpus)):
            continue
        if len(lanes) == 1 and (confined or lanes[0].cores < len(set(places.values()))):
            continue  # in one cache, or of fewer cores than there are places
        yield f"no core of lane {name} is near {id}, and nothing says so"


def _sizes(
    asked: Mapping[str, Asked], documents: Sequence[Document], plan: NodePlan
) -> Iterator[str]:
    """Check the sizes of lanes that one intent writes."""
    demands = {d["spec"]["intent"]: d["spec"] for d in documents if d["kind"] == "Demand"}
    for lane in plan.lanes:
        want = asked.get(lane.family or lane.name)
        if want is None or len(want.intents) > 1:
            continue
        one = want.intents[0]
        cores = one["spec"].get("lane", {}).get("cores")
        if cores is None:
            continue  # sized by the profile of the engine
        if cores == "rest":
            low, high = 1, math.inf
        elif cores == "measured":
            demand = demands[one["metadata"]["name"]]
            if demand["spinSuspect"]:
                yield f"lane {lane.name} is sized by a spin loop"
            low = max(1, math.ceil(demand["cores"]["p50"]))
            high = max(low, math.ceil(demand["cores"]["p99"]))
        elif isinstance(cores, int):
            low = high = cores
        else:
            low, high = cores["min"], cores["max"]
        if not low <= lane.cores <= high:
            yield f"lane {lane.name} has {lane.cores} cores, asked are {cores}"


def _units(seen: Seen, documents: Sequence[Document], plan: NodePlan) -> Iterator[str]:
    system = tier_id(plan, "system")
    by_name = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Intent"}
    for band in plan.bands:
        if not band.cpus:
            yield f"band {band.id} has no CPU"
    for unit in plan.units:
        if not unit.cpus:
            yield f"unit {unit.name} has no CPU"
        if unit.lane is None and unit.cpus - seen.effective:
            yield f"unit {unit.name} has CPUs that are not effective"
        spec = by_name.get(unit.intent or "", {})
        if "leftovers" in spec.get("require", ()) and unit.lane is None:
            if unit.cpus != plan.leftovers:
                yield f"unit {unit.name} requires leftovers {plan.leftovers}, has {unit.cpus}"
        elif (
            unit.lane is None
            and unit.tier <= system
            and "leftovers" not in spec.get("prefer", ())
            and plan.housekeeping - unit.cpus
        ):
            yield f"unit {unit.name} of tier {unit.tier} is kept out of housekeeping"
        if spec.get("keep") == "system" and unit.tier > tier_id(plan, "background"):
            yield f"unit {unit.name} is kept at system and has tier {unit.tier}"


def _members(plan: NodePlan) -> Iterator[str]:
    """Check what a process gets once it is known which GPUs it has."""
    lanes = {lane.name: lane for lane in plan.lanes}
    bands = {band.id: band for band in plan.bands}
    for rule in plan.rules:
        for member in rule.members:
            lane, band = lanes[member.lane], bands[member.band]
            if lane.family is None or band.cpus != lane.cpus:
                yield f"rule {rule.id} gives {member.lane} CPUs {band.cpus}, not {lane.cpus}"
            if not band.cpus <= bands[rule.band].cpus or band.tier != bands[rule.band].tier:
                yield f"rule {rule.id} gives {member.lane} another band than its family"
