"""What no set of a branch of the search can do better: fewest places, most devices reached.

A *place* is a cache or a NUMA node.  Every set of a branch uses the places it ``has``; which
others it uses is open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Room:
    """What a place offers."""

    cores: int = 0
    near: int = 0
    """Devices that its cores are near, as bits."""


def rooms(rows: Iterable[tuple[int, int]]) -> dict[int, Room]:
    """Sum up cores, each a place and the devices it is near, by place."""
    found: dict[int, Room] = {}
    for place, near in rows:
        room = found.setdefault(place, Room())
        room.cores += 1
        room.near |= near
    return found


def fewest(places: Mapping[int, Room], have: Collection[int], cores: int) -> int:
    """Return the fewest places that include those it has and hold ``cores``."""
    missing = cores - sum(places[place].cores for place in have)
    number = len(have)
    for amount in sorted((r.cores for p, r in places.items() if p not in have), reverse=True):
        if missing <= 0:
            break
        missing -= amount
        number += 1
    return number


def most_reached(places: Mapping[int, Room], have: Collection[int], cores: int, number: int) -> int:
    """Return a number of devices that no set of ``cores`` in ``number`` places exceeds.

    A place counts only when it can be one of ``number`` places that hold the set.  What several
    such places reach together is bounded by the sum of what each adds.
    """
    held, near = 0, 0
    for place in have:
        room = places.get(place, Room())
        held, near = held + room.cores, near | room.near
    more = number - len(have)
    others = [room for place, room in places.items() if place not in have]
    largest = sorted((room.cores for room in others), reverse=True)[:more]
    able = [
        room.near & ~near
        for room in others
        if held + min(sum(largest), sum(largest[: more - 1]) + room.cores) >= cores
    ]
    together = 0
    for bits in able:
        together |= bits
    gains = sorted((bits.bit_count() for bits in able), reverse=True)[:more]
    return near.bit_count() + min(together.bit_count(), sum(gains))
