"""The placer against brute force on small random machines."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet, union
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest, Placement, place
from compiler.topology import topology_of
from tests.machines import lane_lists, machines
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


@given(machines(max_cores=11), lane_lists(1, 8))
@settings(max_examples=150)
def test_the_set_of_one_lane_equals_brute_force(
    facts: NodeFacts, requests: list[LaneRequest]
) -> None:
    compare(facts, requests, None)
