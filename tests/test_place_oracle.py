"""The placer against brute force on small random machines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet, union
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest, Placement, place
from compiler.topology import topology_of
from tests.machines import cached_machines, lane_lists, machines
from tests.place_oracle import Oracle


def compare(facts: NodeFacts, requests: list[LaneRequest], explicit: int | None) -> None:
    topology = topology_of(facts)
    how, keep, sets = Oracle(topology, requests).solve(explicit)
    found = place(topology, requests, explicit, system_tier=1)

    def cpus(cores: Iterable[int]) -> CpuSet:
        return union(topology.cores[i].cpus for i in cores)

    if how == "refused":
        assert isinstance(found, tuple)
        assert found
        return
    assert isinstance(found, Placement)
    assert found.housekeeping == cpus(keep)
    ordered = sorted(requests, key=lambda r: r.rank)
    assert {name: str(granted.cpus) for name, granted in found.lanes.items()} == {
        r.name: str(cpus(cores)) for r, cores in zip(ordered, sets, strict=True)
    }
    assert list(found.lanes) == [r.name for r in ordered]
    assert not any(d.kind == "search-stopped" for d in found.degradations)
    kinds = {d.kind for d in found.degradations if d.about == "housekeeping"}
    assert ("housekeeping-shared" in kinds) == (how == "together")


@given(machines(max_cores=8), lane_lists(3, 4), st.sampled_from([None, None, None, 1, 2]))
@settings(max_examples=300)
def test_placement_equals_brute_force(
    facts: NodeFacts, requests: list[LaneRequest], explicit: int | None
) -> None:
    compare(facts, requests, explicit)


@given(machines(max_cores=11, max_caches=5), lane_lists(1, 8))
@settings(max_examples=150)
def test_the_set_of_one_lane_equals_brute_force(
    facts: NodeFacts, requests: list[LaneRequest]
) -> None:
    compare(facts, requests, None)


@given(cached_machines(max_cores=11, max_caches=6), lane_lists(2, 5))
@settings(max_examples=300)
def test_many_caches_equal_brute_force(facts: NodeFacts, requests: list[LaneRequest]) -> None:
    compare(facts, requests, 1)


@given(
    cached_machines(max_cores=9, max_caches=4),
    st.integers(0, 2**48),
)
@settings(max_examples=200)
def test_lanes_that_need_caches_of_their_own(facts: NodeFacts, seed: int) -> None:
    rng = Random(seed)
    requests = [
        LaneRequest(
            name=f"l{i}",
            tier=rng.randrange(2),
            order=i,
            min=rng.randint(1, 3),
            max=rng.choice([3, 4, None]),
            share="guarded",
            prefer=rng.choice([(), ("performance",), ("efficiency",)]),
            require=rng.choice([(), ("same-llc",), ("same-llc",), ("performance",)]),
        )
        for i in range(3)
    ]
    requests = [r if not {*r.prefer} & {*r.require} else replace(r, prefer=()) for r in requests]
    compare(facts, requests, 1)
