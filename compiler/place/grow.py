"""How many cores each lane gets: its minimum, and what there is to grow.

Sizes are settled before any set is chosen, so that a lane's set is the best of its final size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from compiler.place.aims import Aim
from compiler.place.cells import Cells, Counts, Free
from compiler.place.fit import Demand, Effort, fit


@dataclass(frozen=True, slots=True)
class Sizes:
    """The number of cores of each lane, in the order of the lanes."""

    cores: tuple[int, ...]
    spare: bool
    """Whether some lane grew, which must leave a core that is neither lane nor housekeeping."""
    fitting: tuple[Counts, ...]
    """One way to meet the sizes, and the spare core where there is one."""
    stopped: bool
    """Whether a step of growth was given up because the search was cut short."""


def grow(
    cells: Cells, free: Free, aims: Sequence[Aim], minima: Sequence[Counts], limit: int
) -> Sizes:
    """Return the sizes on what is ``free`` once housekeeping has its cores.

    The minima must fit; ``minima`` is one way in which they do.  Lanes with a maximum grow
    first, then those that take the rest; in both rounds a higher tier grows as far as it can
    before a lower one, and lanes of one tier take a core each in turn.  A step is taken when all
    lanes still fit and, if the minima leave one, a core is left over for work without a lane.
    """
    sizes = [aim.request.min for aim in aims]
    spare = Demand(1, (cells.effective,))
    fitting = tuple(minima)
    stopped = False

    def fits(extra: Sequence[Demand]) -> tuple[Counts, ...] | None:
        nonlocal stopped
        effort = Effort(limit)
        demands = [aim.demand(size) for aim, size in zip(aims, sizes, strict=True)]
        found = fit(cells, free, [*demands, *extra], effort)
        stopped |= found is None and effort.spent
        return found

    extra = [] if fits([spare]) is None else [spare]
    for limited in (True, False):
        growing = [i for i, aim in enumerate(aims) if (aim.request.max is not None) is limited]
        for _, tier in groupby(growing, key=lambda i: aims[i].request.tier):
            turn = list(tier)
            while turn:
                again = []
                for i in turn:
                    most = aims[i].request.max
                    if most is not None and sizes[i] >= most:
                        continue
                    sizes[i] += 1
                    found = fits(extra)
                    if found is None:
                        sizes[i] -= 1
                    else:
                        fitting = found
                        again.append(i)
                turn = again
    grew = any(size > aim.request.min for aim, size in zip(aims, sizes, strict=True))
    return Sizes(tuple(sizes), bool(extra) and grew, fitting, stopped)
