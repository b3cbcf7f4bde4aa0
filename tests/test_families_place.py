"""Families and spanning lanes in the placer: against brute force, and as properties."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet, union
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest, Placement, place
from compiler.resolve.localities import apportion, localities_of
from compiler.topology import topology_of
from tests.machines import facts, gpu, machines
from tests.place_oracle import Oracle

SYSTEM = 3


def request(name: str, size: int, most: int | None, **more: object) -> LaneRequest:
    base = LaneRequest(name, tier=1, order=0, min=size, max=most, share="guarded")
    return replace(base, **more)  # type: ignore[arg-type]


def divided(whole: LaneRequest, kind: str, gpus: dict[str, tuple[str, ...]]) -> LaneRequest:
    """Divide a request evenly enough: every part has the size of the whole."""
    parts = tuple(
        replace(
            whole,
            name=f"{whole.name}@{suffix}",
            devices=ids,
            part_of=whole.name if kind == "spanning" else None,
            member_of=whole.name if kind == "family" else None,
        )
        for suffix, ids in gpus.items()
    )
    return replace(whole, divided=kind, parts=parts)  # type: ignore[arg-type]


@given(machines(max_cores=8), st.integers(0, 2**48))
@settings(max_examples=150)
def test_a_family_is_placed_as_lanes_of_their_own(machine: NodeFacts, seed: int) -> None:
    rng = Random(seed)
    topology = topology_of(machine)
    size = rng.randint(1, 2)
    words = rng.choice([("gpu-local",), ("performance", "gpu-local"), ("gpu-local", "same-llc")])
    hard = rng.random() < 0.3
    whole = request(
        "f",
        size,
        rng.choice([size, size + 1, None]),
        prefer=() if hard else words,
        require=("gpu-local",) if hard else (),
        share=rng.choice(["open", "guarded", "exclusive"]),
    )
    kind = rng.choice(["family", "spanning"])
    family = divided(whole, kind, {"a": ("gpu0",), "b": ("gpu1",)})
    other = request("o", 1, 2, tier=rng.choice([0, 2]))
    found = place(topology, [family, other], None, system_tier=SYSTEM)
    flat = [*family.parts, other]
    oracle = Oracle(topology, flat)
    how, keep, sets = oracle.solve(None)
    if how != "apart":
        if isinstance(found, Placement) and not hard and kind == "family":
            # it gave way before housekeeping did
            assert "family-collapsed" in {d.kind for d in found.degradations} or how == "refused"
        return
    assert isinstance(found, Placement)
    cpus = {
        r.name: union(topology.cores[i].cpus for i in cores)
        for r, cores in zip(oracle.requests, sets, strict=True)
    }
    assert found.housekeeping == union(topology.cores[i].cpus for i in keep)
    if kind == "family":
        assert {name: lane.cpus for name, lane in found.lanes.items()} == cpus
    else:
        assert found.lanes["o"].cpus == cpus["o"]
        assert found.lanes["f"].cpus == cpus["f@a"] | cpus["f@b"]
        assert set(found.lanes) == {"f", "o"}


@given(st.integers(0, 2**48))
@settings(max_examples=150)
def test_members_are_near_their_gpus_where_there_is_room(seed: int) -> None:
    """Nodes of equal size, GPUs near whole nodes, lanes that fit beside housekeeping on each."""
    rng = Random(seed)
    nodes, size = rng.randint(2, 4), rng.randint(4, 8)
    sides = [f"{i * size}-{(i + 1) * size - 1}" for i in range(nodes)]
    near = [rng.randrange(nodes) for _ in range(rng.randint(2, 6))]
    machine = facts(
        [{"cpus": side, "llc": i, "numa": i} for i, side in enumerate(sides)],
        online=f"0-{nodes * size - 1}",
        llcs=dict(enumerate(sides)),
        numa=dict(enumerate(sides)),
        devices=[gpu(f"gpu{i}", sides[at], numa=at) for i, at in enumerate(near)],
    )
    topology = topology_of(machine)
    found = localities_of(topology, [f"gpu{i}" for i in range(len(near))])
    assert [place.suffix for place in found.known] == [f"numa{at}" for at in sorted(set(near))]
    families = []
    cores = rng.randint(1, (size - 2) // 2)
    for name in ("a", "b"):
        whole = request(name, cores, cores, prefer=("gpu-local",))
        gpus = {place.suffix: place.gpus for place in found.known}
        families.append(divided(whole, "family", gpus) if len(gpus) > 1 else whole)
    placed = place(topology, families, 1, system_tier=SYSTEM)
    assert isinstance(placed, Placement)
    for name, lane in placed.lanes.items():
        at = name.partition("@")[2] or found.known[0].suffix
        assert lane.cpus <= next(p.cpus for p in found.known if p.suffix == at)
    assert not placed.degradations


def uneven(*, kinds: bool = False) -> NodeFacts:
    """Four cores near gpu0 and eight near gpu1; with ``kinds`` only 2-3 and 8-11 are fast."""
    fast, slow = {"kind": "performance"}, {"kind": "efficiency"}
    cores: list[dict[str, object]] = [
        {"cpus": "0-3", "llc": 0, "numa": 0},
        {"cpus": "4-11", "llc": 1, "numa": 1},
    ]
    if kinds:
        cores = [
            {"cpus": "0-1", "llc": 0, "numa": 0, **slow},
            {"cpus": "2-3", "llc": 0, "numa": 0, **fast},
            {"cpus": "4-7", "llc": 1, "numa": 1, **slow},
            {"cpus": "8-11", "llc": 1, "numa": 1, **fast},
        ]
    return facts(
        cores,
        online="0-11",
        llcs={0: "0-3", 1: "4-11"},
        numa={0: "0-3", 1: "4-11"},
        devices=(gpu("gpu0", "0-3", numa=0), gpu("gpu1", "4-11", numa=1)),
    )


class TestGrowthOfMembers:
    """Housekeeping has CPU 0; one core is left over where something grew."""

    def grown(
        self, least: int, most: int | None, *words: str, kinds: bool = False
    ) -> tuple[dict[str, str], list[tuple[str, str]]]:
        whole = request("f", least, most, prefer=words)
        lane = divided(whole, "family", {"a": ("gpu0",), "b": ("gpu1",)})
        placed = place(topology_of(uneven(kinds=kinds)), [lane], 1, system_tier=SYSTEM)
        assert isinstance(placed, Placement)
        cpus = {name: str(lane.cpus) for name, lane in placed.lanes.items()}
        return cpus, [(d.about, d.kind) for d in placed.degradations]

    @pytest.mark.parametrize("most", [6, 7, 12, None])
    def test_a_member_leaves_the_cores_near_its_sibling_alone(self, most: int | None) -> None:
        right = "4-9" if most == 6 else "4-10"
        assert self.grown(1, most, "gpu-local") == ({"f@a": "1-3", "f@b": right}, [])

    def test_a_minimum_may_go_past_and_then_does_not_grow(self) -> None:
        cpus, said = self.grown(4, None, "gpu-local")
        assert cpus == {"f@a": "1-4", "f@b": "5-10"}
        assert said == [("f@a", "gpu-local")]

    def test_a_word_before_it_does_not_move_what_grew(self) -> None:
        """Grown to 3, f@a is near gpu0 although a fast core, 8, would be free on the other side."""
        cpus, said = self.grown(1, 3, "performance", "gpu-local", kinds=True)
        assert cpus == {"f@a": "1-3", "f@b": "8-10"}
        assert said == [("f@a", "performance")]

    def test_without_the_word_and_once_collapsed_it_grows_anywhere(self) -> None:
        cpus, _ = self.grown(1, None, "whole-cores")
        assert {name: len(CpuSet.parse(text)) for name, text in cpus.items()} == {
            "f@a": 5,
            "f@b": 5,
        }
        whole = request("f", 6, None, prefer=("gpu-local",))
        lane = divided(whole, "family", {"a": ("gpu0",), "b": ("gpu1",)})
        placed = place(topology_of(uneven()), [lane], 1, system_tier=SYSTEM)
        assert isinstance(placed, Placement)
        assert {d.kind for d in placed.degradations} == {"family-collapsed"}
        assert str(placed.lanes["f"].cpus) == "1-10"


@given(st.integers(0, 40), st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_shares_add_up_and_never_shrink(cores: int, weights: list[int]) -> None:
    shares = apportion(cores, weights)
    assert sum(shares) == cores
    if cores >= len(weights):
        assert min(shares) >= 1
    more = apportion(cores + 1, weights)
    assert all(a <= b for a, b in zip(shares, more, strict=True))
    # no core could move to where there are more GPUs for each core, the first ones apart
    for i, mine in enumerate(shares):
        for j, theirs in enumerate(shares):
            if mine > 1:
                assert weights[j] * mine <= weights[i] * (theirs + 1)


@pytest.mark.parametrize(
    ("cores", "weights", "shares"),
    [
        (0, [1, 2], (0, 0)),
        (1, [1, 2], (0, 1)),
        (1, [2, 2], (1, 0)),
        (2, [4, 1], (1, 1)),
        (5, [4, 1], (4, 1)),
        (10, [4, 1], (8, 2)),
        (6, [1, 2], (2, 4)),
        (8, [4, 4], (4, 4)),
    ],
)
def test_shares_by_hand(cores: int, weights: list[int], shares: tuple[int, ...]) -> None:
    assert apportion(cores, weights) == shares


def test_housekeeping_shares_with_a_spanning_lane_as_a_whole() -> None:
    machine = facts(
        [{"cpus": "0-1", "llc": 0, "numa": 0}, {"cpus": "2-3", "llc": 1, "numa": 1}],
        online="0-3",
        llcs={0: "0-1", 1: "2-3"},
        numa={0: "0-1", 1: "2-3"},
        devices=(gpu("gpu0", "0-1", numa=0), gpu("gpu1", "2-3", numa=1)),
    )
    whole = request("f", 2, 2, prefer=("gpu-local",))
    lane = divided(whole, "spanning", {"a": ("gpu0",), "b": ("gpu1",)})
    placed = place(topology_of(machine), [replace(lane, min=4, max=4)], None, system_tier=SYSTEM)
    assert isinstance(placed, Placement)
    assert str(placed.lanes["f"].cpus) == "0-3"
    assert str(placed.housekeeping) == "0"
    assert placed.open_lanes == {"f"}  # its guard would leave no CPU for anybody else
    texts = [d.message for d in placed.degradations]
    assert any(text.startswith("shares CPU 0 with lane f:") for text in texts)


def test_lanes_after_a_share_that_gets_nothing_have_theirs() -> None:
    machine = facts(
        [{"cpus": "0-2", "llc": 0, "numa": 0}, {"cpus": "3", "llc": 1, "numa": 1}],
        online="0-3",
        llcs={0: "0-2", 1: "3"},
        numa={0: "0-2", 1: "3"},
        devices=(gpu("gpu0", "0-2", numa=0), gpu("gpu1", "3", numa=1)),
    )
    whole = request("f", 1, 2, require=("gpu-local",))
    lane = divided(whole, "spanning", {"a": ("gpu0",), "b": ("gpu1",)})
    lane = replace(lane, parts=(replace(lane.parts[0], max=1), replace(lane.parts[1], min=0)))
    later = request("z", 1, 1, tier=2, require=("gpu-local",), devices=("gpu1",))
    placed = place(topology_of(machine), [lane, later], None, system_tier=SYSTEM)
    assert isinstance(placed, Placement)
    assert str(placed.housekeeping) == "0"
    assert {name: str(one.cpus) for name, one in placed.lanes.items()} == {"f": "1", "z": "3"}


@pytest.mark.parametrize(
    "fields",
    [
        {"divided": "family"},
        {"parts": (request("x", 1, 1),)},
        {"part_of": "y", "min": 0, "max": 0},
        {"min": 0},
    ],
)
def test_requests_that_contradict_themselves(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="lane x"):
        replace(request("x", 1, 1), **fields)  # type: ignore[arg-type]


def test_names_of_parts_are_names() -> None:
    lane = divided(request("f", 1, 1), "family", {"a": ("gpu0",), "b": ("gpu1",)})
    machine = topology_of(facts([{"cpus": "0-3"}], online="0-3"))
    with pytest.raises(ValueError, match="f@a"):
        place(machine, [lane, request("f@a", 1, 1)], None, system_tier=SYSTEM)
