"""What every placement keeps, on random machines, and that plans made from them are safe."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.cpuset import union
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest, Placement, place
from compiler.topology import topology_of
from tests.machines import gpu, lane_lists, machines, many_caches, random_lane
from tests.place_machines import odd_machine, server, server_lanes
from tests.safe_plans import SYSTEM, plan_of


def keeps_its_promises(facts: NodeFacts, requests: list[LaneRequest], explicit: int | None) -> None:
    topology = topology_of(facts)
    found = place(topology, requests, explicit, system_tier=SYSTEM)
    if isinstance(found, tuple):
        assert found
        names = {"housekeeping", *(request.name for request in requests)}
        assert {refusal.about for refusal in found} <= names
        assert all(refusal.message and refusal.help for refusal in found)
        return
    assert found.lanes.keys() == {request.name for request in requests}
    assert found.housekeeping
    assert found.housekeeping <= topology.effective
    kinds = {row.kind for row in found.degradations}
    apart = [granted.cpus for granted in found.lanes.values()]
    if "housekeeping-shared" not in kinds:
        apart.append(found.housekeeping)
        assert not found.open_lanes
        if explicit is not None:
            cores = [c for c in topology.cores if c.cpus & found.housekeeping]
            assert len(cores) == explicit
    assert sum(map(len, apart)) == len(union(apart))  # pairwise disjoint
    closed = []
    for request in requests:
        granted = found.lanes[request.name]
        cores = [core for core in topology.cores if core.cpus & granted.cpus]
        assert granted.cpus == union(core.cpus for core in cores)  # no core is split
        assert request.min <= granted.cores == len(cores)
        assert request.max is None or granted.cores <= request.max
        assert all(core.isolated is granted.isolated for core in cores)
        assert not any(core.mixed for core in cores)
        if granted.isolated:
            assert "isolated" in (*request.prefer, *request.require)
        if request.share == "exclusive":
            assert all(core.cpus == core.siblings for core in cores)
            assert request.name not in found.open_lanes
        if request.share != "open" and request.name not in found.open_lanes:
            closed.append(granted.cpus)
        if request.name in found.open_lanes:
            assert request.share == "guarded"
            assert any(
                row.about == request.name and row.kind == "guard-dropped"
                for row in found.degradations
            )
        if "same-llc" in request.require:
            assert len({core.llc for core in cores}) == 1
            assert cores[0].llc is not None
        if "isolated" in request.require:
            assert granted.isolated
        if "whole-cores" in request.require:
            assert all(core.cpus == core.siblings for core in cores)
        if "performance" in request.require:
            assert {core.kind for core in cores} == {topology.kinds[0]}
    assert topology.effective - union(closed)
    assert safety.check(plan_of(topology, requests, found)) == ()
    again = place(topology, requests[::-1], explicit, system_tier=SYSTEM)
    assert again == found


EXPLICIT = st.sampled_from([None, None, None, 1, 2, 3])


@given(machines(max_cores=16), lane_lists(6, 5), EXPLICIT)
@settings(max_examples=300)
def test_small_machines(
    facts: NodeFacts, requests: list[LaneRequest], explicit: int | None
) -> None:
    keeps_its_promises(facts, requests, explicit)


@given(st.integers(0, 2**48), EXPLICIT)
@settings(max_examples=200)
def test_machines_as_they_are_built(seed: int, explicit: int | None) -> None:
    rng = Random(seed)
    requests = [random_lane(rng, f"l{i}", 5) for i in range(rng.randint(1, 6))]
    keeps_its_promises(odd_machine(rng, 24), requests, explicit)


@pytest.mark.slow
@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_large_servers(seed: int) -> None:
    rng = Random(seed)
    facts = server(rng)
    keeps_its_promises(facts, server_lanes(rng, topology_of(facts)), None)


@pytest.mark.slow
@given(machines(max_cores=40), lane_lists(8, 8), EXPLICIT)
@settings(max_examples=400)
def test_larger_machines(
    facts: NodeFacts, requests: list[LaneRequest], explicit: int | None
) -> None:
    keeps_its_promises(facts, requests, explicit)


@pytest.mark.parametrize("seed", range(8))
def test_sixty_four_cores_in_eight_caches_need_few_steps(seed: int) -> None:
    rng = Random(seed)
    topology = topology_of(many_caches(8, 8))
    requests = [
        LaneRequest(
            name=f"l{i}",
            tier=rng.randrange(3),
            order=i,
            min=rng.randint(1, 5),
            max=rng.choice([None, 6, 12]),
            share="guarded",
            prefer=("same-llc",) if rng.random() < 0.7 else (),
            require=(),
        )
        for i in range(6)
    ]
    found = place(topology, requests, None, system_tier=SYSTEM, effort=2_000)
    assert isinstance(found, Placement)
    assert not any(row.kind == "search-stopped" for row in found.degradations)


@pytest.mark.parametrize("size", [1, 7, 20, 40])
def test_devices_near_single_caches_need_few_steps(size: int) -> None:
    near = ["0-7,64-71", "8-15,72-79", "16-19,40-47,80-83,104-111", "63,127", "56-57,120-121"]
    topology = topology_of(
        many_caches(8, 8, devices=[gpu(f"gpu{i}", cpus) for i, cpus in enumerate(near)])
    )
    requests = [
        LaneRequest("a", 1, 0, size, size, "guarded", prefer=("whole-cores", "performance")),
        LaneRequest("b", 1, 1, 5, 9, "guarded", prefer=("gpu-local",)),
        LaneRequest("c", 2, 0, 5, None, "guarded", prefer=("gpu-local", "same-llc")),
    ]
    found = place(topology, requests, None, system_tier=SYSTEM, effort=2_000)
    assert isinstance(found, Placement)
    assert not any(row.kind == "search-stopped" for row in found.degradations)


def needs_few_steps(seed: int, lanes: int, effort: int) -> None:
    """Place lanes and families on a large server, and expect that no search is cut short."""
    rng = Random(seed)
    topology = topology_of(server(rng))
    requests = [
        replace(one, member_of=one.name.partition("@")[0]) if "@" in one.name else one
        for one in server_lanes(rng, topology)[:lanes]
    ]
    found = place(topology, requests, None, system_tier=SYSTEM, effort=effort)
    assert isinstance(found, Placement)
    assert not any(row.kind == "search-stopped" for row in found.degradations)


@pytest.mark.parametrize("seed", [9, 24, 35, 63, 68, 88])
def test_families_that_need_a_core_near_each_gpu_need_few_steps(seed: int) -> None:
    needs_few_steps(seed, lanes=16, effort=150)


@pytest.mark.parametrize(("seed", "effort"), [(26, 150), (86, 150), (88, 400), (234, 250)])
def test_lanes_that_must_lie_in_one_cache_need_few_steps(seed: int, effort: int) -> None:
    needs_few_steps(seed, lanes=8 if seed > 86 else 16, effort=effort)
