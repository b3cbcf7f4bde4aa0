"""The cheapest cores that leave room for later demands.

The sets that leave room are the independent sets of a matroid, so the cheapest is found by taking
the cheapest core that still leaves it, again and again.  Of equally cheap sets it is the one with
the lowest ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler.place.bits import ones, top
from compiler.place.cells import Free
from compiler.place.demand import Demand
from compiler.place.ground import Ground
from compiler.place.reserve import Groups, Option, Reserve


@dataclass(frozen=True, slots=True)
class Rest:
    """Later demands, which must find room."""

    reserve: Reserve
    options: tuple[Option, ...]
    """Where they may be, each once."""
    groups: tuple[int, ...]
    """The cores of each group of the reserve, as bits.  The other cores nobody else can use."""
    scarce: tuple[tuple[int, int], ...]
    """Cores of which not all can be taken, as bits, and a number that none can exceed."""

    @classmethod
    def of(cls, free: Free, demands: Sequence[Demand], ground: Ground) -> Rest | None:
        """Hold cores for later demands of one option each; None where they do not fit."""
        # Demands for the same cores are as one.
        wanted: dict[Option, int] = {}
        for demand in demands:
            wanted[demand.wide] = wanted.get(demand.wide, 0) + demand.cores
        options = sorted(wanted, key=len)  # those with least choice first: few have to move
        amounts = [wanted[option] for option in options]
        groups = Groups.of(len(free), options)
        bits = [groups.bits(option) for option in options]
        reserve = Reserve.of(groups.sum(free), amounts, bits)
        if reserve is None:
            return None
        held = tuple([ground.within(group) for group in groups.cells])
        return cls(reserve, tuple(options), held, _scarce(amounts, bits, held))

    def after(self, cores: int) -> Reserve | None:
        """Return what is held once some cores are taken, or None where they leave no room."""
        reserve = self.reserve.copy()
        return reserve if _taken(cores, self.groups, reserve) else None

    def useless(self) -> int:
        """Return the cores of which none can be taken."""
        found = 0
        for cores, most in self.scarce:
            found |= 0 if most else cores
        return found

    def group_of(self, core: int) -> int | None:
        """Return the group of a core (as a bit)."""
        for number, mine in enumerate(self.groups):
            if mine & core:
                return number
        return None


def _scarce(
    wanted: Sequence[int], options: Sequence[int], held: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return, for the cores of each option and for all, what later demands leave of them."""
    found: dict[int, int] = {}
    for option in (*options, (1 << len(held)) - 1):
        cores = 0
        for group in ones(option):
            cores |= held[group]
        inside = zip(options, wanted, strict=True)
        needed = sum([amount for other, amount in inside if not other & ~option])
        found[cores] = cores.bit_count() - needed
    return tuple((cores, most) for cores, most in found.items() if most < cores.bit_count())


def _taken(cores: int, groups: Sequence[int], reserve: Reserve) -> bool:
    """Take cores away from what is held; False: the demands do not fit (then it is of no use)."""
    for group, mine in enumerate(groups):
        wanted = (cores & mine).bit_count()
        if wanted and reserve.take(group, wanted) < wanted:
            return False
    return True


class Cheapest(NamedTuple):
    """A cheapest set."""

    cores: int
    amounts: list[int]
    """Cores of each class."""
    dearest: int
    """The last class that cores were chosen from; -1 where all were given."""
    wholly: int
    """Classes before this one were taken wholly."""


def cheapest(
    ground: Ground, size: int, rest: Rest | None, cores: int, first: int
) -> Cheapest | None:
    """Return the cheapest set of a size that has ``first`` and leaves room, or None."""
    need = size - first.bit_count()
    if need < 0:
        return None
    reserve = None
    if rest is not None:
        reserve = rest.after(first)
        if reserve is None:
            return None
    taken, others = first, cores & ~first
    amounts: list[int] = []
    dearest, wholly = -1, 0
    whole = True
    for number, one in enumerate(ground.classes):
        mine = one.cores & others if need else 0
        if not mine:
            now = 0
        elif rest is None or reserve is None:
            now = mine if mine.bit_count() <= need else top(mine, need)
        else:
            now, reserve = _lowest(mine, need, rest, reserve)
        if now:
            dearest = number
            taken |= now
            need -= now.bit_count()
        amounts.append((one.cores & taken).bit_count())
        whole = whole and now == one.cores & others
        if whole:
            wholly = number + 1
    return None if need else Cheapest(taken, amounts, dearest, wholly)


def _lowest(cores: int, most: int, rest: Rest, reserve: Reserve) -> tuple[int, Reserve]:
    """Take cores with the lowest ids that leave room; return also what is then held."""
    wanted = cores if cores.bit_count() <= most else top(cores, most)
    trial = reserve.copy()
    if _taken(wanted, rest.groups, trial):
        return wanted, trial
    taken = 0
    while cores and most:
        group_or_none = rest.group_of(1 << cores.bit_length() - 1)
        mine = ~0
        if group_or_none is not None:
            mine = rest.groups[group_or_none]
        else:
            for other in rest.groups:
                mine &= ~other
        # Cores of one group that follow each other.
        end = (cores & ~mine).bit_length()
        run = cores >> end << end
        if run.bit_count() > most:
            run = top(run, most)
        cores &= ~run
        if group_or_none is not None:
            wanted = run.bit_count()
            got = reserve.take(group_or_none, wanted)
            if got < wanted:
                run = top(run, got)
                cores &= ~mine
        taken |= run
        most -= run.bit_count()
    return taken, reserve
