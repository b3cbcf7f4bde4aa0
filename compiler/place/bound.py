"""What no set of a branch of the search can do better: fewest places, most devices reached.

A *place* is a cache or a NUMA node, numbered from 0; sets of places are bits.  Every set of a
branch uses the places it ``have``; which others it uses is open.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.place.bits import ones


def fewest(rooms: Sequence[int], have: int, cores: int) -> int | None:
    """Return the fewest places that include those it has and hold ``cores``; None: none do.

    Args:
        rooms: cores of each place.
        have: the places that every set uses.
        cores: size of a set, or of the part of it that the places must hold.
    """
    number, missing = have.bit_count(), cores
    others = list(rooms)
    for place in ones(have):
        missing -= others[place]
        others[place] = 0
    others.sort(reverse=True)
    for room in others:
        if missing <= 0:
            return number
        missing -= room
        number += 1
    return number if missing <= 0 else None


def fewest_in_groups(
    rooms: Sequence[int],
    limits: Sequence[int],
    group_of: Sequence[int | None],
    have: int,
    cores: int,
) -> int | None:
    """Return the fewest places that include those it has and hold ``cores``; None: none do.

    Args:
        rooms: cores of each place.
        limits: per group of places, how many cores they hold together.
        group_of: per place, its group; None: no single one.
        have: the places that every set uses.
        cores: size of a set, or of the part of it that the places must hold.
    """
    number, missing = have.bit_count(), cores
    rows: dict[int, list[int]] = {}
    held: dict[int, int] = {}
    gains: list[int] = []
    for place, room in enumerate(rooms):
        group = group_of[place]
        used = have >> place & 1
        if group is None:
            missing -= room if used else 0
            gains.append(0 if used else room)
        elif used:
            held[group] = held.get(group, 0) + room
        else:
            rows.setdefault(group, []).append(room)
    for group, limit in enumerate(limits):
        now = min(limit, held.get(group, 0))
        missing -= now
        # The first of a group adds the most, the next what is left.
        for room in sorted(rows.get(group, ()), reverse=True):
            gains.append(min(room, limit - now))
            now += gains[-1]
    gains.sort(reverse=True)
    for gain in gains:
        if missing <= 0:
            return number
        missing -= gain
        number += 1
    return number if missing <= 0 else None


def able(rooms: Sequence[int], have: int, cores: int, number: int) -> int:
    """Return the places that can be among so many that hold ``cores``, as bits."""
    more = number - have.bit_count()
    if not more:
        return have
    missing = cores
    others = list(rooms)
    for place in ones(have):
        missing -= others[place]
        others[place] = 0
    others.sort(reverse=True)
    missing -= sum(others[: more - 1])
    if missing <= 0:
        return (1 << len(rooms)) - 1
    found = have
    for place, room in enumerate(rooms):
        if room >= missing:
            found |= 1 << place
    return found


def most_held(rooms: Sequence[int], have: int, number: int) -> int:
    """Return the most cores that so many places, with those every set uses, can hold."""
    held, others = 0, []
    for place, room in enumerate(rooms):
        if have >> place & 1:
            held += room
        else:
            others.append(room)
    others.sort(reverse=True)
    return held + sum(others[: number - have.bit_count()])


def places_to_reach(gains: Sequence[int], have: int, devices: int) -> int:
    """Return a number of places that include those it has, and no fewer reach so many devices.

    Args:
        gains: per place, the devices its cores are near, as bits.
        have: the places that every set uses.
        devices: how many must be reached.
    """
    near = 0
    for place in ones(have):
        near |= gains[place]
    number = have.bit_count()
    missed = devices - near.bit_count()
    for gain in sorted(((bits & ~near).bit_count() for bits in gains), reverse=True):
        if missed <= 0:
            break
        missed -= gain
        number += 1
    return number


def essential(gains: Sequence[int], devices: int) -> int:
    """Return the places without which not all ``devices`` can be reached, as bits."""
    once, twice = 0, 0
    for bits in gains:
        twice |= once & bits
        once |= bits
    only = devices & once & ~twice
    return sum(1 << place for place, bits in enumerate(gains) if bits & only)


def most_reached(gains: Sequence[int], have: int, number: int) -> int:
    """Return a number of devices that no set in ``number`` places exceeds.

    What several places reach together is bounded by the sum of what each adds to those that every
    set uses (``have``).
    """
    near, together = 0, 0
    for place in ones(have):
        near |= gains[place]
    added: list[int] = []
    for bits in gains:
        added.append((bits & ~near).bit_count())
        together |= bits & ~near
    added.sort(reverse=True)
    best = sum(added[: number - have.bit_count()])
    return near.bit_count() + min(together.bit_count(), best)
