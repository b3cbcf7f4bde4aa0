"""What bounds the search for a lane's set, against trying every set of places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.place.bits import ones, top
from compiler.place.bound import (
    able,
    essential,
    fewest,
    fewest_in_groups,
    most_held,
    most_reached,
    places_to_reach,
)

PLACES = 5
ROOMS = st.lists(st.integers(0, 4), min_size=1, max_size=PLACES)
GAINS = st.lists(st.integers(0, 63), min_size=1, max_size=PLACES)
SETS = st.integers(0, (1 << PLACES) - 1)


def with_all(have: int, places: int) -> Iterator[int]:
    """Yield the sets of places that have all of some."""
    return (one for one in range(1 << places) if (one & have) == have)


def held(rooms: Sequence[int], one: int) -> int:
    return sum(rooms[place] for place in ones(one))


def reached(gains: Sequence[int], one: int) -> int:
    return sum(any(gains[place] >> device & 1 for place in ones(one)) for device in range(6))


def apart(owners: Sequence[int], places: int) -> list[int]:
    """Give each device to one place, so that nothing is near two."""
    return [sum(1 << d for d, owner in enumerate(owners) if owner == p) for p in range(places)]


@settings(max_examples=150)
@given(ROOMS, SETS, st.integers(0, 16))
def test_the_fewest_places_that_hold_so_many(rooms: list[int], have: int, cores: int) -> None:
    have &= (1 << len(rooms)) - 1
    numbers = [one.bit_count() for one in with_all(have, len(rooms)) if held(rooms, one) >= cores]
    assert fewest(rooms, have, cores) == min(numbers, default=None)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0, 0, 1, None])), min_size=1, max_size=6
    ),
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
    st.integers(0, 63),
    st.integers(0, 16),
)
def test_the_fewest_places_of_groups_that_hold_only_so_many_together(
    places: list[tuple[int, int | None]], limits: tuple[int, int], have: int, cores: int
) -> None:
    have &= (1 << len(places)) - 1
    rooms, groups = [room for room, _ in places], [group for _, group in places]

    def held_by(one: int) -> int:
        free = sum(rooms[place] for place in ones(one) if groups[place] is None)
        inside = [
            sum(rooms[place] for place in ones(one) if groups[place] == group) for group in (0, 1)
        ]
        return free + sum(map(min, inside, limits))

    numbers = [one.bit_count() for one in with_all(have, len(places)) if held_by(one) >= cores]
    found = fewest_in_groups(rooms, limits, groups, have, cores)
    assert found == min(numbers, default=None)


@settings(max_examples=150)
@given(ROOMS, SETS, st.data())
def test_what_so_many_places_hold_and_which_can_be_among_them(
    rooms: list[int], have: int, data: st.DataObject
) -> None:
    have &= (1 << len(rooms)) - 1
    number = data.draw(st.integers(have.bit_count(), len(rooms)))
    sets = [one for one in with_all(have, len(rooms)) if one.bit_count() == number]
    most = max(held(rooms, one) for one in sets)
    assert most_held(rooms, have, number) == most
    cores = data.draw(st.integers(0, most))
    among = 0
    for one in sets:
        if held(rooms, one) >= cores:
            among |= one
    assert able(rooms, have, cores, number) == among


@settings(max_examples=150)
@given(GAINS, SETS, st.data())
def test_what_places_reach_is_never_put_too_low(
    gains: list[int], have: int, data: st.DataObject
) -> None:
    have &= (1 << len(gains)) - 1
    number = data.draw(st.integers(have.bit_count(), len(gains)))
    sets = list(with_all(have, len(gains)))
    most = max(reached(gains, one) for one in sets if one.bit_count() == number)
    assert most <= most_reached(gains, have, number) <= reached(gains, (1 << len(gains)) - 1)
    devices = data.draw(st.integers(0, max(reached(gains, one) for one in sets)))
    least = min(one.bit_count() for one in sets if reached(gains, one) >= devices)
    assert have.bit_count() <= places_to_reach(gains, have, devices) <= least


@settings(max_examples=150)
@given(st.lists(st.integers(0, PLACES - 1), min_size=6, max_size=6), SETS, st.data())
def test_where_nothing_is_near_two_places_the_bounds_are_reached(
    owners: list[int], have: int, data: st.DataObject
) -> None:
    gains = apart(owners, PLACES)
    number = data.draw(st.integers(have.bit_count(), PLACES))
    sets = list(with_all(have, PLACES))
    most = max(reached(gains, one) for one in sets if one.bit_count() == number)
    assert most_reached(gains, have, number) == most
    devices = data.draw(st.integers(0, 6))
    least = min(one.bit_count() for one in sets if reached(gains, one) >= devices)
    assert places_to_reach(gains, have, devices) == least


@settings(max_examples=100)
@given(GAINS, st.integers(0, 63))
def test_a_place_is_essential_where_no_other_reaches_a_device(
    gains: list[int], devices: int
) -> None:
    all_near = 0
    for bits in gains:
        all_near |= bits
    assume(devices & ~all_near == 0)
    wanted = 0
    for place in range(len(gains)):
        others = 0
        for other, bits in enumerate(gains):
            if other != place:
                others |= bits
        if devices & ~others:
            wanted |= 1 << place
    assert essential(gains, devices) == wanted


@settings(max_examples=100)
@given(st.integers(0, 1 << 70), st.data())
def test_the_highest_bits_of_a_set(mask: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, mask.bit_count()))
    found = top(mask, count)
    assert found & ~mask == 0
    assert [*ones(found)] == [*ones(mask)][mask.bit_count() - count :]
