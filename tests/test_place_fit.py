"""Cores held for demands, against Hall's condition."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.place.bits import bits_of
from compiler.place.reserve import Reserve, transport


def possible(free: list[int], amounts: list[int], options: list[frozenset[int]]) -> bool:
    """Every group of demands must have room in the cells it may use."""
    demands = range(len(amounts))
    groups = chain.from_iterable(combinations(demands, n) for n in range(1, len(amounts) + 1))
    return all(
        sum(amounts[d] for d in group)
        <= sum(free[cell] for cell in frozenset().union(*(options[d] for d in group)))
        for group in groups
    )


@given(st.integers(0, 2**48))
@settings(max_examples=400)
def test_cores_can_be_taken_as_long_as_the_demands_fit(seed: int) -> None:
    rng = Random(seed)
    cells = rng.randint(1, 5)
    free = [rng.randint(0, 3) for _ in range(cells)]
    demands = rng.randint(0, 4)
    amounts = [rng.randint(1, 3) for _ in range(demands)]
    options = [
        frozenset(cell for cell in range(cells) if rng.random() < 0.6) for _ in range(demands)
    ]
    reserve = Reserve.of(tuple(free), amounts, [bits_of(option) for option in options])
    assert (reserve is not None) == possible(free, amounts, options)
    if reserve is None:
        return
    untouched, before = reserve.copy(), reserve.held
    for _ in range(12):
        cell = rng.randrange(cells)
        left = [n - (i == cell) for i, n in enumerate(free)]
        allowed = left[cell] >= 0 and possible(left, amounts, options)
        assert reserve.take(cell) == allowed
        if allowed:
            free = left
        held = reserve.held
        assert [sum(row) for row in held] == amounts
        for i in range(cells):
            assert sum(row[i] for row in held) <= free[i]
        for row, option in zip(held, options, strict=True):
            assert all(count == 0 or i in option for i, count in enumerate(row))
            assert min(row, default=0) >= 0
    assert untouched.held == before


def test_a_chain_of_moves() -> None:
    # The first demand sits where the second must; the second where the third must.
    options = [frozenset({0, 1}), frozenset({0, 2}), frozenset({2})]
    assert transport((1, 1, 1), (1, 1, 1), options) == ((0, 1, 0), (1, 0, 0), (0, 0, 1))
    assert transport((1, 1, 1), (1, 2, 1), options) is None
