"""Cores held for several demands at once, by augmenting paths in a transport problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.place.bits import bits_of, ones
from compiler.place.cells import Counts, Free

Option = frozenset[int]
"""Cells a demand may take from."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Cells put together that are in the same options: a flow cannot tell them apart."""

    cells: tuple[tuple[int, ...], ...]
    """The cells of each group, ascending.  Cells in no option are in no group."""

    @classmethod
    def of(cls, cells: int, options: Iterable[Option]) -> Groups:
        """Group the cells 0, 1, ... of a machine by the options they are in."""
        member = [0] * cells
        for number, option in enumerate(dict.fromkeys(options)):
            for cell in option:
                member[cell] |= 1 << number
        found: dict[int, list[int]] = {}
        for cell, key in enumerate(member):
            if key:
                found.setdefault(key, []).append(cell)
        return cls(tuple(map(tuple, found.values())))

    def bits(self, option: Option) -> int:
        """Return an option as bits of groups."""
        return bits_of(number for number, group in enumerate(self.cells) if group[0] in option)

    def sum(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Sum up counts per cell by group."""
        return tuple(sum([counts[cell] for cell in group]) for group in self.cells)

    def spread(self, free: Free, held: Iterable[Sequence[int]]) -> tuple[Counts, ...]:
        """Return counts per group as counts per cell, within what is free."""
        left = list(free)
        rows: list[Counts] = []
        for counts in held:
            row = [0] * len(free)
            for group, count in zip(self.cells, counts, strict=True):
                missing = count
                for cell in group:
                    row[cell] = min(missing, left[cell])
                    left[cell] -= row[cell]
                    missing -= row[cell]
            rows.append(tuple(row))
        return tuple(rows)


class Reserve:
    """Cores held for demands whose options are pinned, moved aside as others take cores.

    The *cells* here may be groups of cells; options are bits of them.
    """

    __slots__ = ("_flow", "_free", "_holders", "_left", "_options")

    def __init__(
        self,
        left: list[int],
        flow: list[list[int]],
        options: list[int],
        holders: list[int],
        free: int,
    ) -> None:
        self._left, self._flow, self._options = left, flow, options
        self._holders = holders
        """Per cell, the demands that hold cores of it, as bits."""
        self._free = free
        """Cells with cores that nobody holds, as bits."""

    @classmethod
    def of(cls, free: Free, amounts: Sequence[int], options: Sequence[int]) -> Reserve | None:
        """Hold ``amounts[i]`` cores in the cells ``options[i]``; None where they do not fit."""
        reserve = cls(
            left=list(free),
            flow=[[0] * len(free) for _ in amounts],
            options=list(options),
            holders=[0] * len(free),
            free=bits_of(cell for cell, count in enumerate(free) if count),
        )
        fits = all(reserve.add(demand, amount) for demand, amount in enumerate(amounts))
        return reserve if fits else None

    @property
    def held(self) -> tuple[Counts, ...]:
        """The cores held, as counts per demand."""
        return tuple(map(tuple, self._flow))

    def copy(self) -> Reserve:
        """Return a reserve that can be changed without changing this one."""
        flow = [row[:] for row in self._flow]
        return Reserve(self._left[:], flow, self._options[:], self._holders[:], self._free)

    def take(self, cell: int, cores: int = 1) -> int:
        """Take up to so many cores of a cell away, as long as the demands still fit.

        Returns:
            How many were taken.
        """
        taken = min(cores, self._left[cell])
        if taken:
            self._left[cell] -= taken
            if not self._left[cell]:
                self._free &= ~(1 << cell)
        while taken < cores and self._holders[cell]:
            # Whoever gives up cores: a path may move all that are in the cell.
            demand = (self._holders[cell] & -self._holders[cell]).bit_length() - 1
            wanted = min(cores - taken, self._flow[demand][cell])
            self._move(demand, cell, -wanted)
            gained = self._gain(demand, wanted)
            taken += gained
            if gained < wanted:
                self._move(demand, cell, wanted - gained)
                break
        return taken

    def add(self, demand: int, cores: int) -> bool:
        """Hold more cores for a demand; where they do not all fit, return False.

        A single core is then not held; of several, some may be.
        """
        return self._gain(demand, cores) == cores

    def narrow(self, demand: int, option: int) -> bool:
        """Keep a demand to some cells; return whether it still fits (if not, this is of no use)."""
        lost = 0
        for cell in ones(self._options[demand] & ~option):
            if count := self._flow[demand][cell]:
                self._move(demand, cell, -count)
                self._left[cell] += count
                self._free |= 1 << cell
                lost += count
        self._options[demand] = option
        return self._gain(demand, lost) == lost

    def _move(self, demand: int, cell: int, cores: int) -> None:
        self._flow[demand][cell] += cores
        if self._flow[demand][cell]:
            self._holders[cell] |= 1 << demand
        else:
            self._holders[cell] &= ~(1 << demand)

    def _gain(self, demand: int, cores: int) -> int:
        """Hold up to so many cores more for a demand, moving others aside; return how many."""
        gained = 0
        while gained < cores:
            moved = self._augment(demand, cores - gained)
            if not moved:
                break
            gained += moved
        return gained

    def _augment(self, demand: int, cores: int) -> int:
        """Gain cores along a shortest path; return how many."""
        options, holders, free = self._options, self._holders, self._free
        if not free:
            return 0
        came: dict[int, tuple[int, int]] = {}  # demand -> whom it makes room for, and in which cell
        queue = [demand]
        reached = 1 << demand
        seen = 0
        for taker in queue:
            mine = options[taker]
            if ending := mine & free:
                return self._shift(came, taker, (ending & -ending).bit_length() - 1, cores)
            cells = mine & ~seen
            seen |= mine
            while cells:
                low = cells & -cells
                cells ^= low
                cell = low.bit_length() - 1
                others = holders[cell] & ~reached
                reached |= others
                while others:
                    one = others & -others
                    others ^= one
                    other = one.bit_length() - 1
                    came[other] = (taker, cell)
                    queue.append(other)
        return 0

    def _shift(self, came: dict[int, tuple[int, int]], taker: int, end: int, cores: int) -> int:
        """Move cores along a path that ends with ``taker`` in a free cell; return how many."""
        amount = min(cores, self._left[end])
        one = taker
        while one in came:
            before, cell = came[one]
            amount = min(amount, self._flow[one][cell])
            one = before
        self._left[end] -= amount
        if not self._left[end]:
            self._free &= ~(1 << end)
        self._move(taker, end, amount)
        while taker in came:
            before, cell = came[taker]
            self._move(taker, cell, -amount)
            self._move(before, cell, amount)
            taker = before
        return amount


def transport(
    free: Free, amounts: Sequence[int], options: Sequence[Option]
) -> tuple[Counts, ...] | None:
    """Return how to take ``amounts[i]`` cores from the cells ``options[i]`` for all i, or None."""
    reserve = Reserve.of(free, amounts, [bits_of(option) for option in options])
    return None if reserve is None else reserve.held
