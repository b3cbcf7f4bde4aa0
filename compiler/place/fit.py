"""Whether several demands for cores can be met at once, exactly.

A demand is a number of cores from any *one* of its options, each a set of cells.  Most have one
option; ``require: [same-llc]`` has one per cache, ``prefer: [isolated]`` has two.  With the
options chosen the question is a transport problem, answered by augmenting paths; the choice of
options is a depth-first search that gives up a branch as soon as the transport problem fails with
undecided demands widened to the union of their options.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from compiler.place.cells import Cells, Counts, Free

Option = frozenset[int]
"""Cells a demand may take from."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A number of cores, from one of the options."""

    cores: int
    options: tuple[Option, ...]


@dataclass(slots=True)
class Effort:
    """Counts the steps of one search, so that it ends on any machine.

    A search that was cut short says so: :attr:`spent` is then true, and what was not proved is
    taken as not so.
    """

    limit: int
    steps: int = 0
    spent: bool = field(default=False, init=False)

    def step(self) -> bool:
        """Count one step; return whether the search may go on."""
        if self.steps >= self.limit:
            self.spent = True
            return False
        self.steps += 1
        return True


def fit(
    cells: Cells, free: Free, demands: Sequence[Demand], effort: Effort
) -> tuple[Counts, ...] | None:
    """Return one way to meet all demands, as counts per demand, or None where there is none."""
    for pinned in pinnings(cells, free, demands, effort, mirror=True):
        return transport(free, [d.cores for d in demands], pinned)
    return None


def pinnings(
    cells: Cells, free: Free, demands: Sequence[Demand], effort: Effort, *, mirror: bool
) -> Iterator[tuple[Option, ...]]:
    """Yield every choice of options with which all demands can be met.

    With ``mirror``, only one of those that are mirror images of each other: caches that hold
    equal numbers of equal free cores and are pinned by the same demands so far.  That keeps the
    answer to "is there one?", but not which core ids are left for others.
    """
    amounts = [demand.cores for demand in demands]
    nothing: Option = frozenset()
    wide = [nothing.union(*demand.options) for demand in demands]

    def descend(done: tuple[Option, ...]) -> Iterator[tuple[Option, ...]]:
        if transport(free, amounts, [*done, *wide[len(done) :]]) is None:
            return
        if len(done) == len(demands):
            yield done
            return
        seen: set[Hashable] = set()
        for option in demands[len(done)].options:
            image = _image(cells, free, option, done) if mirror else option
            if image in seen:
                continue
            # Only real choices cost effort: without them the answer is always exact.
            if len(demands[len(done)].options) > 1 and not effort.step():
                return
            seen.add(image)
            yield from descend((*done, option))

    return descend(())


def transport(
    free: Free, amounts: Sequence[int], options: Sequence[Option]
) -> tuple[Counts, ...] | None:
    """Return how to take ``amounts[i]`` cores from the cells ``options[i]`` for all i, or None."""
    reserve = Reserve.of(free, amounts, options)
    return None if reserve is None else reserve.held


class Reserve:
    """Cores held for demands whose options are pinned, moved aside as others take cores."""

    def __init__(
        self, left: list[int], flow: list[list[int]], options: Sequence[Sequence[int]]
    ) -> None:
        self._left, self._flow, self._options = left, flow, options

    @classmethod
    def of(cls, free: Free, amounts: Sequence[int], options: Sequence[Option]) -> Reserve | None:
        """Hold ``amounts[i]`` cores in the cells ``options[i]``; None where they do not fit."""
        left = list(free)
        flow = [[0] * len(free) for _ in amounts]
        cells = [sorted(option) for option in options]
        for demand, amount in enumerate(amounts):
            missing = amount
            for cell in cells[demand]:
                now = min(missing, left[cell])
                flow[demand][cell] += now
                left[cell] -= now
                missing -= now
            while missing:
                moved = _augment(demand, missing, left, flow, cells)
                if not moved:
                    return None
                missing -= moved
        return cls(left, flow, cells)

    @property
    def held(self) -> tuple[Counts, ...]:
        """The cores held, as counts per demand."""
        return tuple(tuple(row) for row in self._flow)

    def copy(self) -> Reserve:
        """Return a reserve that can be taken from without changing this one."""
        return Reserve(list(self._left), [list(row) for row in self._flow], self._options)

    def take(self, cell: int) -> bool:
        """Take a core of a cell away; return whether the demands still fit, else change nothing."""
        if self._left[cell]:
            self._left[cell] -= 1
            return True
        for demand, row in enumerate(self._flow):
            if row[cell]:
                # Whoever gives up the core: a path may move all that are in the cell.
                row[cell] -= 1
                if _augment(demand, 1, self._left, self._flow, self._options):
                    return True
                row[cell] += 1
                return False
        return False


def _augment(
    demand: int,
    missing: int,
    left: list[int],
    flow: list[list[int]],
    options: Sequence[Sequence[int]],
) -> int:
    """Move other demands aside along a shortest path; return how many cores were gained."""
    came_from: dict[int, tuple[int, int | None]] = {}  # cell -> (demand, cell it gave up)
    gave_up: dict[int, int | None] = {demand: None}  # demand -> cell by which it was reached
    queue = deque([demand])
    while queue:
        taker = queue.popleft()
        for cell in options[taker]:
            if cell in came_from:
                continue
            came_from[cell] = (taker, gave_up[taker])
            if left[cell]:
                return _shift(cell, missing, left, flow, came_from)
            for other, row in enumerate(flow):
                if row[cell] and other not in gave_up:
                    gave_up[other] = cell
                    queue.append(other)
    return 0


def _shift(
    end: int,
    missing: int,
    left: list[int],
    flow: list[list[int]],
    came_from: dict[int, tuple[int, int | None]],
) -> int:
    path: list[tuple[int, int, int | None]] = []
    cell: int | None = end
    while cell is not None:
        taker, given = came_from[cell]
        path.append((taker, cell, given))
        cell = given
    amount = min([missing, left[end], *(flow[t][g] for t, _, g in path if g is not None)])
    left[end] -= amount
    for taker, gained, given in path:
        flow[taker][gained] += amount
        if given is not None:
            flow[taker][given] -= amount
    return amount


def _image(cells: Cells, free: Free, option: Option, done: Sequence[Option]) -> Hashable:
    """Return what two options must share to be mirror images of each other."""
    caches = {cells.cells[cell].traits.llc for cell in option}
    cache = next(iter(caches), None)
    if len(caches) != 1 or cache is None:
        return option
    rows: list[tuple[str, int, bool, tuple[bool, ...]]] = []
    for cell, content in enumerate(cells.cells):
        if content.traits.llc == cache and free[cell]:
            alike = repr(replace(content.traits, llc=None))
            rows.append((alike, free[cell], cell in option, tuple(cell in o for o in done)))
    return tuple(sorted(rows))
