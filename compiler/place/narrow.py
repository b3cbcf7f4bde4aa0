"""Options of demands that nothing can come of, found by counting.

Of cores that are in pieces, such as the free ones of many caches, a demand that must lie in one
piece leaves the remainder of a division unused.  A transport problem over the union of the options
does not see this; counting how many demands each piece has room for does.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.place.cells import Free, total
from compiler.place.demand import Demand
from compiler.place.reserve import Groups, Option, Reserve


def narrowed(free: Free, demands: Sequence[Demand]) -> tuple[Demand, ...] | None:
    """Return demands, in their order, without options that nothing can come of.

    Whatever choice of options there was for the demands, there is one for what is returned, up to
    an exchange of equal demands.  None: there was none.
    """
    now = list(demands)
    while True:
        before = list(now)
        fixed: dict[Option, int] = {}
        copies: dict[Demand, list[int]] = {}
        for i, demand in enumerate(now):
            if len(demand.options) > 1 and demand.cores:
                copies.setdefault(demand, []).append(i)
            elif demand.cores:
                option = demand.wide
                fixed[option] = fixed.get(option, 0) + demand.cores
        for demand, places in copies.items():
            number = len(places)
            slots: list[int] = []
            for option in demand.options:
                held = sum([cores for other, cores in fixed.items() if other <= option])
                slots.append(max(0, total(free, option) - held) // demand.cores)
            forced = [0] * len(slots)
            if sum(map(len, demand.options)) == len(demand.wide):  # no two have a cell in common
                others = _slots_of_others(demand, copies)
                if sum(slots) < number + others:
                    return None
                if not others:
                    most = [min(one, number) for one in slots]
                    forced = [max(0, number - sum(most) + one) for one in most]
            kept = Demand(
                demand.cores,
                tuple([o for o, one in zip(demand.options, slots, strict=True) if one]),
            )
            if not kept.options:
                return None
            pins = [o for o, n in zip(demand.options, forced, strict=True) for _ in range(n)]
            for place, i in enumerate(places):
                if place < len(pins):
                    now[i] = Demand(demand.cores, (pins[place],))
                else:
                    now[i] = kept
        if now == before:
            return tuple(now)


def _slots_of_others(demand: Demand, copies: dict[Demand, list[int]]) -> int:
    """Return how many demands like this one the others, inside its options, take the place of."""
    found = 0
    for other, places in copies.items():
        slots = other.cores // demand.cores
        if (
            slots
            and other is not demand
            and all(any(one <= option for option in demand.options) for one in other.options)
        ):
            found += slots * len(places)
    return found


def loosened(free: Free, demands: Sequence[Demand]) -> list[Demand]:
    """Return demands of one option each that fit wherever those given do.

    A demand may be in all of its options at once.  But of what another demand can be in it takes
    as many cores as it must in any of its options.
    """
    wides = list(dict.fromkeys(demand.wide for demand in demands))
    known: dict[Demand, list[Demand]] = {}
    found: list[Demand] = []
    for demand in demands:
        if len(demand.options) < 2:
            found.append(Demand(demand.cores, (demand.wide,)))
            continue
        if demand not in known:
            known[demand] = _parts(free, demand, wides)
        found += known[demand]
    return found


def _parts(free: Free, demand: Demand, wides: Sequence[Option]) -> list[Demand]:
    wide = demand.wide
    musts: list[tuple[int, Option]] = []
    for other in wides:
        inside = other & wide
        if not inside or inside == wide:
            continue
        must = min(max(0, demand.cores - total(free, option - inside)) for option in demand.options)
        if must:
            musts.append((must, inside))
    musts.sort(key=lambda one: (len(one[1]), one[0]))
    parts: list[Demand] = []
    taken, last = 0, frozenset[int]()
    for must, inside in musts:
        if must > taken and last <= inside:
            parts.append(Demand(must - taken, (inside,)))
            taken, last = must, inside
    if demand.cores > taken or not parts:
        parts.append(Demand(demand.cores - taken, (wide,)))
    return parts


def wasted(free: Free, demands: Sequence[Demand]) -> list[Demand]:
    """Return demands for what the others must leave unused of options that they share.

    Where demands take all of their cores from a set of cells or none, the sums that they come to
    leave some of it, and nobody else can be there.
    """
    found: list[Demand] = []
    for option in dict.fromkeys(o for demand in demands for o in demand.options):
        touching = [demand for demand in demands if demand.cores and option & demand.wide]
        if len(touching) > 1 and all(
            one == option for demand in touching for one in demand.options if one & option
        ):
            room, sums = total(free, option), 1  # sums that are possible, as bits
            for demand in touching:
                sums |= sums << demand.cores
            most = (sums & (2 << room) - 1).bit_length() - 1
            if most < room:
                found.append(Demand(room - most, (option,)))
    return found


def have_room(free: Free, demands: Sequence[Demand]) -> bool:
    """Tell whether demands of one option each fit."""
    ordered = sorted([(len(demand.wide), i) for i, demand in enumerate(demands)])
    wides = [demands[i].wide for _, i in ordered]
    groups = Groups.of(len(free), wides)
    wide = [groups.bits(option) for option in wides]
    amounts = [demands[i].cores for _, i in ordered]
    return Reserve.of(groups.sum(free), amounts, wide) is not None
