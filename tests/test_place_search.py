"""The search for one lane's set against trying everything, with columns in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.model.base import Preference
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest
from compiler.place.aims import Aim, Column, Reach, aim_of
from compiler.place.bits import ones
from compiler.place.cells import Cells, cells_of, less
from compiler.place.demand import Demand
from compiler.place.fit import Effort, fit
from compiler.place.ground import ground_of, twins_of
from compiler.place.search import choose
from compiler.topology import topology_of
from tests.machines import facts, gpu, many_caches, random_lane
from tests.place_counts import best, cost_of, fits
from tests.place_machines import coarse_machine


def any_columns(rng: Random, aim: Aim, cells: Cells) -> tuple[Column, ...]:
    """Put the columns of a lane's cost into any order; perhaps with devices and weights of ours."""
    columns = list(dict.fromkeys(aim.columns))
    bits = {d.id: 1 << i for i, d in enumerate(cells.topology.devices)}
    if bits and not any(isinstance(column, Reach) for column in columns):
        near = tuple(sum(bits[i] for i in cell.traits.near) for cell in cells.cells)
        columns.append(Reach(near, sum(bits.values())))
    if rng.random() < 0.3:
        columns.append(tuple(rng.randrange(3) for _ in cells.cells))
    rng.shuffle(columns)
    return tuple(columns[: rng.randint(1, len(columns))] if rng.random() < 0.2 else columns)


def even_machine(rng: Random) -> NodeFacts:
    """Make equal caches in one or two nodes, some with isolated cores, or near devices.

    Devices are near one cache, a core of it, a pair of caches or a node: much is interchangeable,
    and a little of it is not.
    """
    caches, per, nodes = rng.randint(4, 6), rng.randint(1, 3), rng.choice([1, 1, 2])
    n = caches * per
    first = [rng.randrange(per + 1) for _ in range(caches)]  # some caches are in pieces

    def near() -> list[int]:
        cache, other = rng.randrange(caches), rng.randrange(caches)
        mine = [cpu for cpu in range(n) if cpu // per == cache]
        if (how := rng.randrange(6)) == 0:
            return mine[:1]
        if how == 1:
            return [cpu for cpu in range(n) if cpu // per in (cache, other)]
        if how == 2:
            return [cpu for cpu in range(n) if cpu // per % nodes == cache % nodes]
        return mine

    own = rng.random() < 0.6  # each cache is near a device of its own
    kinds = ["gpu"] * caches if own else []
    kinds += [rng.choice(["gpu", "gpu", "nic"]) for _ in range(rng.randint(0, 2))]
    isolated = [cache * per + first[cache] for cache in range(caches) if first[cache] < per]
    return facts(
        [{"cpus": [c], "llc": c // per, "numa": c // per % nodes} for c in range(n)],
        online=f"0-{n - 1}",
        llcs={cache: [*range(cache * per, (cache + 1) * per)] for cache in range(caches)},
        numa={k: [c for c in range(n) if c // per % nodes == k] for k in range(nodes)},
        devices=[
            {
                **gpu(f"{kind}{number}", None, kind=kind),
                "locality": {
                    "cpus": [*range(number * per, number * per + per)]
                    if own and number < caches
                    else near(),
                    "scope": "numa",
                },
            }
            for number, kind in enumerate(kinds)
        ],
        cpus={"isolated": isolated} if rng.random() < 0.4 else None,
    )


def member(rng: Random, name: str, most: int) -> LaneRequest:
    """Ask for a lane near one GPU, or in one cache, or for any."""
    lane = random_lane(rng, name, most)
    if rng.random() < 0.5:
        lane = replace(lane, devices=(f"gpu{rng.randrange(4)}",))
    require: tuple[Preference, ...] = rng.choice([("gpu-local",), ("same-llc",), ("same-llc",), ()])
    return replace(lane, require=require, prefer=tuple(w for w in lane.prefer if w not in require))


def check(
    rng: Random,
    facts: NodeFacts,
    later: int,
    shuffle: bool,
    lane: Callable[[Random, str, int], LaneRequest] = random_lane,
) -> None:
    cells = cells_of(topology_of(facts))
    aims = []
    for number in range(1 + later):
        aim = aim_of(lane(rng, f"l{number}", 6), cells)
        if isinstance(aim, Aim) and aim.options:
            aims.append(aim)
    if not aims:
        return
    total = sum(cells.free)
    first, *others = aims
    demand = first.demand(rng.randint(1, max(1, total * 2 // 3)))
    rest = [aim.demand(rng.randint(1, max(1, total // 4))) for aim in others]
    columns = any_columns(rng, first, cells) if shuffle else first.columns
    expected = best(cells, cells.free, demand, columns, rest)
    fallback = fit(cells, cells.free, [demand, *rest], Effort(10_000))
    assert (fallback is None) == (expected is None)
    if fallback is None or expected is None:
        return
    choice = choose(cells, cells.free, demand, columns, rest=rest, fallback=fallback, limit=10_000)
    assert choice.gap is None
    assert (choice.cost, cells.ids(cells.free, choice.counts)) == expected
    assert choice.cost == cost_of(cells, choice.counts, columns)
    left = less(cells.free, choice.counts)
    assert len(choice.rest) == len(rest)
    for one, held in zip(rest, choice.rest, strict=True):
        assert sum(held) == one.cores
        assert any(all(c in option for c, n in enumerate(held) if n) for option in one.options)
        left = less(left, held)
    assert min(left) >= 0


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_alone_with_columns_in_any_order(seed: int) -> None:
    rng = Random(seed)
    check(rng, coarse_machine(rng, 7), later=0, shuffle=True)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_before_others_with_columns_in_any_order(seed: int) -> None:
    rng = Random(seed)
    check(rng, coarse_machine(rng, 6), later=3, shuffle=True)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_before_others(seed: int) -> None:
    rng = Random(seed)
    check(rng, coarse_machine(rng, 7), later=2, shuffle=False)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_where_caches_are_alike(seed: int) -> None:
    rng = Random(seed)
    check(rng, even_machine(rng), later=3, shuffle=rng.random() < 0.3, lane=member)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_the_best_set_uses_no_cache_instead_of_one_that_is_never_worse(seed: int) -> None:
    rng = Random(seed)
    cells = cells_of(topology_of(even_machine(rng)))
    read = [aim_of(member(rng, f"l{i}", 6), cells) for i in range(rng.randint(1, 4))]
    aims = [aim for aim in read if isinstance(aim, Aim) and aim.options]
    if not aims:
        return
    total = sum(cells.free)
    rest = [aim.demand(rng.randint(1, max(1, total // 4))) for aim in aims[1:]]
    columns = aims[0].columns
    ground = ground_of(cells, cells.free, columns)
    cores = rng.randint(1, max(1, total * 2 // 3))
    for option in aims[0].options:
        expected = best(cells, cells.free, Demand(cores, (option,)), columns, rest)
        if expected is not None:
            used = {
                cells.cluster_of[c]
                for c, cell in enumerate(cells.cells)
                for i in expected[1]
                if i in cell.cores
            }
            twins = twins_of(ground, ground.within(option), [one.options for one in rest])
            for cluster, worse in enumerate(twins):
                assert cluster in used or used.isdisjoint(ones(worse))


def test_caches_that_each_have_a_gpu_are_alike() -> None:
    near = [gpu(f"gpu{i}", f"{i * 2}-{i * 2 + 1},{8 + i * 2}-{9 + i * 2}") for i in range(4)]
    cells = cells_of(topology_of(many_caches(4, 2, devices=near)))
    aim = aim_of(LaneRequest("a", 1, 0, 3, 3, "guarded", prefer=("gpu-local",)), cells)
    assert isinstance(aim, Aim)
    ground = ground_of(cells, cells.free, aim.columns)
    every = ground.within(range(4))
    assert [[*ones(one)] for one in twins_of(ground, every, [])] == [[1, 2, 3], [2, 3], [3], []]
    # Any one of the caches for a lane: alike.  The first one, or either of two: not.
    each, first, two = [frozenset({c}) for c in range(4)], frozenset({0}), frozenset({1, 2})
    assert twins_of(ground, every, [tuple(each)]) == twins_of(ground, every, [])
    assert [[*ones(one)] for one in twins_of(ground, every, [(first,), (two,)])] == [
        [],
        [2],
        [],
        [],
    ]


@pytest.mark.slow
@given(st.integers(0, 2**48), st.integers(0, 3), st.booleans())
@settings(max_examples=6000)
def test_many_more(seed: int, later: int, shuffle: bool) -> None:
    rng = Random(seed)
    check(rng, coarse_machine(rng, 6), later, shuffle)


def test_a_search_is_not_measured_for_ever_by_a_set_that_is_gone() -> None:
    """Seed 3188: the best set of a part went as the like of another, and two branches beyond its
    cost were put back and looked at again until the search was cut short."""
    rng = Random(3188)
    check(rng, even_machine(rng), 3, True, member)


@pytest.mark.slow
@given(st.integers(0, 2**48), st.integers(0, 4), st.booleans())
@settings(max_examples=4000)
def test_many_more_where_caches_are_alike(seed: int, later: int, shuffle: bool) -> None:
    rng = Random(seed)
    check(rng, even_machine(rng), later, shuffle, member)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_search_cut_short_promises_no_more_than_is_so(seed: int) -> None:
    rng = Random(seed)
    cells = cells_of(topology_of(coarse_machine(rng, 6)))
    aims = [aim_of(random_lane(rng, f"l{i}", 6), cells) for i in range(3)]
    first, *others = [aim for aim in aims if isinstance(aim, Aim) and aim.options] or [None]
    if first is None:
        return
    demand = first.demand(rng.randint(1, max(1, sum(cells.free) // 2)))
    rest = [aim.demand(2) for aim in others]
    fallback = fit(cells, cells.free, [demand, *rest], Effort(10_000))
    if fallback is None:
        return
    columns = any_columns(rng, first, cells)
    limit = rng.randint(0, 6)
    choice = choose(cells, cells.free, demand, columns, rest=rest, fallback=fallback, limit=limit)
    expected = best(cells, cells.free, demand, columns, rest)
    assert expected is not None
    assert fits(less(cells.free, choice.counts), rest)
    assert choice.cost == cost_of(cells, choice.counts, columns)
    if choice.gap is None and limit:
        assert (choice.cost, cells.ids(cells.free, choice.counts)) == expected
    elif choice.gap is not None:
        assert choice.gap <= expected[0] <= choice.cost
