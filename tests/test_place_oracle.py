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
from tests.machines import cached_machines, facts, gpu, lane_lists, machines, random_lane
from tests.place_machines import odd_machine
from tests.place_oracle import Oracle


def compare(machine: NodeFacts, requests: list[LaneRequest], explicit: int | None) -> None:
    topology = topology_of(machine)
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
    machine: NodeFacts, requests: list[LaneRequest], explicit: int | None
) -> None:
    compare(machine, requests, explicit)


@given(machines(max_cores=11, max_caches=5), lane_lists(1, 8))
@settings(max_examples=150)
def test_the_set_of_one_lane_equals_brute_force(
    machine: NodeFacts, requests: list[LaneRequest]
) -> None:
    compare(machine, requests, None)


@given(cached_machines(max_cores=11, max_caches=6), lane_lists(2, 5))
@settings(max_examples=300)
def test_many_caches_equal_brute_force(machine: NodeFacts, requests: list[LaneRequest]) -> None:
    compare(machine, requests, 1)


@given(
    cached_machines(max_cores=9, max_caches=4),
    st.integers(0, 2**48),
)
@settings(max_examples=200)
def test_lanes_that_need_caches_of_their_own(machine: NodeFacts, seed: int) -> None:
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
    compare(machine, requests, 1)


@given(st.integers(0, 2**48), st.sampled_from([None, 1]))
@settings(max_examples=250)
def test_machines_as_they_are_built_equal_brute_force(seed: int, explicit: int | None) -> None:
    rng = Random(seed)
    requests = [random_lane(rng, f"l{i}", 4) for i in range(rng.randint(1, 3))]
    compare(odd_machine(rng, 9), requests, explicit)


def machine_of_devices(rng: Random) -> NodeFacts:
    """Make up to three NUMA nodes, and devices near nodes, caches or any cores."""
    n = rng.randint(4, 10)
    caches, nodes = rng.randint(1, 4), rng.randint(1, 3)
    node_of_cache = [rng.randrange(nodes) for _ in range(caches)]
    cache = [rng.randrange(caches) for _ in range(n)]
    if rng.random() < 0.6:
        cache.sort()
    node = [node_of_cache[c] if rng.random() < 0.95 else rng.randrange(nodes) for c in cache]
    kinds = rng.choice([["standard"], ["standard"], ["performance", "efficiency"]])
    some = rng.choice(["node", "cache", "core", "any"])
    devices = []
    for number in range(rng.randint(2, 6)):
        how = rng.choice(["node", "cache", "core"]) if some == "any" else some
        if how == "core":
            near = [i for i in range(n) if rng.random() < 0.3]
        elif how == "cache":
            near = [i for i in range(n) if cache[i] == number % caches]
        else:
            mine = rng.randrange(nodes)
            near = [i for i in range(n) if node[i] == mine]
        kind = rng.choice(["gpu", "gpu", "nic"])
        where = {"cpus": near, "scope": "numa"}
        devices.append({**gpu(f"{kind}{number}", None, kind=kind), "locality": where})
    return facts(
        [
            {"cpus": [i], "llc": cache[i], "numa": node[i], "kind": rng.choice(kinds)}
            for i in range(n)
        ],
        online=f"0-{n - 1}",
        llcs={c: [i for i in range(n) if cache[i] == c] for c in range(caches)},
        numa={k: [i for i in range(n) if node[i] == k] for k in range(nodes)},
        devices=devices,
        cpus={"isolated": [i for i in range(1, n) if rng.random() < 0.3]}
        if rng.random() < 0.15
        else None,
    )


def lane_of_devices(rng: Random, name: str, most: int) -> LaneRequest:
    """Make a lane that wants to be near devices, with other words around it."""
    prefer = rng.choice(
        [
            ("gpu-local",),
            ("gpu-local",),
            ("gpu-local", "nic-local"),
            ("nic-local", "performance", "gpu-local"),
            ("performance", "gpu-local"),
            ("same-llc", "gpu-local"),
            ("gpu-local", "isolated"),
        ]
    )
    hard = prefer[0] == "gpu-local" and rng.random() < 0.2
    least = rng.randint(1, most)
    return LaneRequest(
        name=name,
        tier=rng.randrange(2),
        order=0,
        min=least,
        max=rng.choice([least, least, least + 2, None]),
        share="guarded",
        prefer=prefer[1:] if hard else prefer,
        require=prefer[:1] if hard else rng.choice([(), (), (), ("whole-cores",)]),
        devices=rng.choice([None, None, None, ("gpu0", "gpu1", "gpu2")]),
    )


@given(st.integers(0, 2**48))
@settings(max_examples=300)
def test_lanes_near_many_devices(seed: int) -> None:
    rng = Random(seed)
    machine = machine_of_devices(rng)
    lanes = rng.choice([1, 1, 2, 3])
    requests = [lane_of_devices(rng, f"l{i}", 6 // lanes) for i in range(lanes)]
    compare(machine, requests, 1)


@given(st.integers(0, 2**48))
@settings(max_examples=300)
def test_members_whose_localities_overlap(seed: int) -> None:
    """Two or three members, each near any cores, and at times a lane beside them."""
    rng = Random(seed)
    n = rng.randint(5, 9)
    members = rng.choice([2, 2, 3])
    machine = facts(
        [{"cpus": [i], "llc": i * 2 // n, "numa": 0} for i in range(n)],
        online=f"0-{n - 1}",
        llcs={c: [i for i in range(n) if i * 2 // n == c] for c in range(2)},
        numa={0: f"0-{n - 1}"},
        devices=[
            {
                **gpu(f"gpu{m}", None),
                "locality": {
                    "cpus": [i for i in range(n) if rng.random() < chance],
                    "scope": "numa",
                },
            }
            for m in range(members)
            for chance in [rng.choice([0.3, 0.6, 0.9])]
        ],
    )
    words = rng.choice([("gpu-local",), ("same-llc", "gpu-local")])
    requests = [
        LaneRequest(
            name=f"f@{m}",
            tier=1,
            order=0,
            min=least,
            max=rng.choice([least, least + 2, None]),
            share="guarded",
            prefer=words,
            devices=(f"gpu{m}",),
            member_of="f",
        )
        for m in range(members)
        for least in [rng.randint(1, 2)]
    ]
    if rng.random() < 0.4:
        requests.append(replace(random_lane(rng, "o", 2), tier=rng.choice([0, 2])))
    compare(machine, requests, 1)
