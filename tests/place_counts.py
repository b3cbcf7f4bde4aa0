"""The best set for one lane by trying all counts per cell: exhaustive, and fit for more cores.

Cores of one cell differ in nothing but their ids, so a best set takes the lowest of each cell.
Whether later demands fit is told by Hall's condition, for every choice of their options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product

from compiler.place.aims import Column, Reach
from compiler.place.cells import Cells, Counts, Free
from compiler.place.fit import Demand


def fits(free: Free, demands: Sequence[Demand]) -> bool:
    """Tell whether all demands can be met at once."""
    return any(
        all(
            sum(demands[d].cores for d in group)
            <= sum(free[cell] for cell in frozenset[int]().union(*(options[d] for d in group)))
            for group in _groups(len(demands))
        )
        for options in product(*(demand.options for demand in demands))
    )


def cost_of(cells: Cells, counts: Counts, columns: Sequence[Column]) -> tuple[int, ...]:
    """Return what a set costs, column by column."""
    used = [cell for cell, count in enumerate(counts) if count]
    traits = [cells.cells[cell].traits for cell in used]
    cost: list[int] = []
    for column in columns:
        if column == "llc":
            cost.append(len({one.llc for one in traits}) - 1)
        elif column == "numa":
            cost.append(len({one.numa for one in traits}) - 1)
        elif isinstance(column, Reach):
            bits = range(column.devices.bit_length())
            far = [b for b in bits if not any(column.near[cell] >> b & 1 for cell in used)]
            cost.append(len(far))
        else:
            cost.append(sum(column[cell] * counts[cell] for cell in used))
    return tuple(cost)


def best(
    cells: Cells, free: Free, demand: Demand, columns: Sequence[Column], rest: Sequence[Demand]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the cost and the cores of the best set; None: there is none."""
    found = None
    for counts in all_counts(free, demand):
        key = (cost_of(cells, counts, columns), cells.ids(free, counts))
        if (found is None or key < found) and fits(
            tuple(f - n for f, n in zip(free, counts, strict=True)), rest
        ):
            found = key
    return found


def all_counts(free: Free, demand: Demand) -> Iterator[Counts]:
    """Yield all sets of a size within an option, as counts per cell."""
    for option in demand.options:
        ranges = [range(free[c] + 1 if c in option else 1) for c in range(len(free))]
        yield from (counts for counts in product(*ranges) if sum(counts) == demand.cores)


def _groups(number: int) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(number), n) for n in range(1, number + 1))
