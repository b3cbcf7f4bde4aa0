"""How the ways to meet later demands are cut in two, where a set of cores leaves no room for them.

Later demands with several options are first widened to the union of them, less what counting
rules out (:mod:`compiler.place.narrow`): then the sets that leave room are those of a matroid.  A
set that leaves room for the widened demands but not for the real ones is ruled out by cutting the
ways to meet these, again and again: one of some equal demands takes this option, or none of them
does; until the set leaves no room for any part even if widened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.place.cells import Free, less, total
from compiler.place.cheapest import Rest
from compiler.place.demand import Demand
from compiler.place.fit import Effort
from compiler.place.ground import Ground
from compiler.place.narrow import loosened, narrowed


def held(free: Free, rest: Sequence[Demand], ground: Ground) -> Rest | None:
    """Hold cores for later demands if widened; None where they do not fit."""
    return Rest.of(free, loosened(free, rest), ground)


def without(
    free: Free, cores: int, rest: Sequence[Demand], ground: Ground, effort: Effort
) -> Iterator[tuple[tuple[Demand, ...], Rest]]:
    """Yield demands with fewer options, for which a set leaves no room even if widened.

    The set (``cores``, as bits) leaves no room for the demands as they are, so these are all there
    is: each way to meet the demands is, up to an exchange of equal ones, a way to meet one of
    those yielded.
    """
    left = less(free, ground.counts(cores))
    waiting = [tuple(rest)]
    while waiting:
        for half in _halves(waiting.pop(), free, left):
            if not effort.step():
                return
            fewer = narrowed(free, half)
            room = None if fewer is None else held(free, fewer, ground)
            if fewer is None or room is None:
                continue
            if room.after(cores) is None:
                yield fewer, room
            else:
                waiting.append(fewer)


def _halves(rest: tuple[Demand, ...], free: Free, left: Free) -> tuple[tuple[Demand, ...], ...]:
    """Cut the ways to meet demands in two: one of equal demands takes an option, or none does.

    It is one that has room for fewer of the demands when only ``left`` is free.
    """
    best, most = None, (-1, 0, 0)
    for number, demand in enumerate(rest):
        if len(demand.options) < 2 or not demand.cores or demand in rest[:number]:
            continue
        for option in demand.options:
            before, after = total(free, option), total(left, option)
            lost = before // demand.cores - after // demand.cores
            gain = (lost, demand.cores, before - after)
            if gain > most:
                best, most = (number, option), gain
    if best is None:
        return ()
    number, option = best
    demand = rest[number]
    others = Demand(demand.cores, tuple([one for one in demand.options if one != option]))
    return (
        (*rest[:number], Demand(demand.cores, (option,)), *rest[number + 1 :]),
        tuple([others if one == demand else one for one in rest]),
    )
