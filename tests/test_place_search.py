"""The search for one lane's set against trying everything, with columns in any order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.place.aims import Aim, Column, Reach, aim_of
from compiler.place.cells import Cells, cells_of, less
from compiler.place.fit import Effort, fit
from compiler.place.search import choose
from compiler.topology import topology_of
from tests.machines import random_lane
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


def check(rng: Random, cells_wanted: int, later: int, shuffle: bool) -> None:
    cells = cells_of(topology_of(coarse_machine(rng, cells_wanted)))
    aims = []
    for number in range(1 + later):
        aim = aim_of(random_lane(rng, f"l{number}", 6), cells)
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
    check(Random(seed), 7, later=0, shuffle=True)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_before_others_with_columns_in_any_order(seed: int) -> None:
    check(Random(seed), 6, later=3, shuffle=True)


@given(st.integers(0, 2**48))
@settings(max_examples=250)
def test_a_lane_before_others(seed: int) -> None:
    check(Random(seed), 7, later=2, shuffle=False)


@pytest.mark.slow
@given(st.integers(0, 2**48), st.integers(0, 3), st.booleans())
@settings(max_examples=6000)
def test_many_more(seed: int, later: int, shuffle: bool) -> None:
    check(Random(seed), 6, later, shuffle)


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
