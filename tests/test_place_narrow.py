"""Options that counting rules out, against trying every choice of options."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.place.demand import Demand
from compiler.place.narrow import have_room, loosened, narrowed, wasted
from compiler.place.reserve import transport


def fits(free: tuple[int, ...], demands: list[Demand]) -> bool:
    """Try every choice of options."""
    amounts = [demand.cores for demand in demands]
    choices = product(*(demand.options for demand in demands))
    return any(transport(free, amounts, choice) is not None for choice in choices)


def caches(*sizes: int) -> tuple[frozenset[int], ...]:
    """Return options that are so many cells each, one after the other."""
    first, found = 0, []
    for size in sizes:
        found.append(frozenset(range(first, first + size)))
        first += size
    return tuple(found)


def random_demands(rng: Random, free: tuple[int, ...]) -> list[Demand]:
    pieces = caches(1, 2, 1, 2)
    apart = (frozenset({0, 1, 2}), frozenset({3, 4, 5}))
    overlapping = (frozenset({0, 1}), frozenset({1, 3, 4}), frozenset({2, 5}))
    found: list[Demand] = []
    while len(found) < rng.randint(1, 5):
        kind = rng.randrange(5)
        if kind == 0:
            options = (frozenset(cell for cell in range(len(free)) if rng.random() < 0.6),)
        else:
            options = rng.choice([pieces, pieces, apart, overlapping])
            options = tuple(option for option in options if rng.random() < 0.8) or options
        found += [Demand(rng.randint(0, 4), options)] * rng.choice([1, 1, 2, 3])
    return found[:5]


@given(st.integers(0, 2**48))
@settings(max_examples=400)
def test_nothing_that_fits_is_ruled_out(seed: int) -> None:
    rng = Random(seed)
    free = tuple(rng.randint(0, 5) for _ in range(6))
    demands = random_demands(rng, free)
    fewer = narrowed(free, demands)
    if not fits(free, demands):
        assert fewer is None or not fits(free, list(fewer))
        return
    assert fewer is not None
    assert fits(free, list(fewer))
    assert [one.cores for one in fewer] == [demand.cores for demand in demands]
    for one, demand in zip(fewer, demands, strict=True):
        assert {*one.options} <= {*demand.options}
    for some in (demands, fewer):
        assert have_room(free, [*loosened(free, some), *wasted(free, some)])


@given(st.integers(0, 2**48))
@settings(max_examples=300)
def test_what_demands_loosened_leave_no_room_for_leaves_the_demands_none(seed: int) -> None:
    rng = Random(seed)
    free = tuple(rng.randint(0, 5) for _ in range(6))
    demands = random_demands(rng, free)
    left = tuple(rng.randint(0, count) for count in free)  # after some other lane took its cores
    if not have_room(left, loosened(free, demands)):
        assert not fits(left, demands)


def test_remainders_are_counted() -> None:
    # 3 + 3 + 3 cores, but no cache has room for two of the lanes.
    options = caches(1, 1, 1)
    assert narrowed((5, 5, 5), [Demand(3, options)] * 4) is None
    fewer = narrowed((5, 5, 5), [Demand(3, options)] * 3)
    assert fewer == tuple(Demand(3, (option,)) for option in options)
    # With one slot to spare only the cache that has two must be used.
    fewer = narrowed((6, 3, 3), [Demand(3, options)] * 3)
    assert fewer == (Demand(3, options[:1]), Demand(3, options), Demand(3, options))


def test_larger_demands_take_the_place_of_several() -> None:
    options = caches(1, 1)
    demands = [Demand(4, options), Demand(2, options), Demand(2, options)]
    assert narrowed((5, 3), demands) is None
    assert narrowed((5, 4), demands) is not None


def test_cores_that_others_must_have_are_no_room() -> None:
    one, other = caches(1, 1)
    demands = [Demand(2, (one,)), Demand(3, (one, other))]
    assert narrowed((4, 4), demands) == (demands[0], Demand(3, (other,)))


def test_what_a_demand_takes_of_scarce_cores_wherever_it_is() -> None:
    # Two caches of a plain and a split cell; the first lane needs plain cores, all of them.
    options = (frozenset({0, 1}), frozenset({2, 3}))
    plain = Demand(7, (frozenset({0, 2}),))
    assert loosened((4, 1, 4, 2), [plain, Demand(3, options)]) == [
        plain,
        Demand(1, (frozenset({0, 2}),)),
        Demand(2, (frozenset({0, 1, 2, 3}),)),
    ]
    assert not have_room((4, 1, 4, 2), loosened((4, 1, 4, 2), [plain, plain, Demand(3, options)]))


def test_sums_that_do_not_come_out_even_waste_cores() -> None:
    one, other = caches(1, 1)
    demands = [Demand(20, (one, other)), *[Demand(4, (one, other))] * 3]
    assert wasted((30, 9), demands) == [Demand(2, (one,)), Demand(1, (other,))]
    # A lane that may have any core of it can use what the others leave.
    assert wasted((30, 9), [*demands, Demand(1, (one | other,))]) == []
