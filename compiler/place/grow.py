"""How many cores each lane gets: its minimum, and what there is to grow.

Sizes are settled before any set is chosen, so that a lane's set is the best of its final size.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from compiler.place.aims import Aim
from compiler.place.cells import Cells, Counts, Free
from compiler.place.fit import Demand, Effort, Flow


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
    near: frozenset[int] = frozenset()
    """Members of a family at their minimum that have to lie where they could grow: a sibling
    that may lie there too would push them off."""


def grow(
    cells: Cells, free: Free, aims: Sequence[Aim], minima: Sequence[Counts], limit: int
) -> Sizes:
    """Return the sizes on what is ``free`` once housekeeping has its cores.

    The minima must fit; ``minima`` is one way in which they do.  Lanes with a maximum grow
    first, then those that take the rest; in both rounds a higher tier grows as far as it can
    before a lower one, and lanes of one tier take a core each in turn.  A step is taken when all
    lanes still fit and, if the minima leave one, a core is left over for work without a lane.  A
    member of a family that prefers ``gpu-local`` grows only as long as all of it can be near, and
    pushes no sibling off its GPUs that is at its minimum and could lie there.
    """
    least = [aim.request.min for aim in aims]
    sizes = list(least)
    demands = [aim.demand(size) for aim, size in zip(aims, sizes, strict=True)]
    spare = Demand(1, (cells.effective,))
    effort = Effort(limit)
    flow = Flow.of(cells, free, [*demands, spare], effort)
    stopped = flow is None and effort.spent
    extra = flow is not None
    if flow is None:
        effort = Effort(limit)
        flow = Flow.of(cells, free, demands, effort)
    if flow is None:  # the search that found the minima was luckier
        return Sizes(tuple(sizes), False, tuple(minima), True)

    more = [spare] if extra else []
    rivals = _rivals(aims)

    def one_more(i: int, flow: Flow, effort: Effort) -> Flow | None:
        beside = [j for j in rivals[i] if sizes[j] == least[j]]
        if beside:
            kept = _near(cells, free, aims, sizes, beside, more, limit)
            wanted = demands_of(aims, [size + (j == i) for j, size in enumerate(sizes)], kept)
            if Flow.of(cells, free, [*wanted, *more], effort) is None:
                return None
        if sizes[i] > least[i] or aims[i].grown == aims[i].options:
            return flow if flow.grow(i, effort) else None
        # beyond its minimum it may lie in fewer places
        wanted = demands_of(aims, [size + (j == i) for j, size in enumerate(sizes)])
        return Flow.of(cells, free, [*wanted, *more], effort)

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
                    effort = Effort(limit)
                    grown = one_more(i, flow, effort)
                    if grown is not None:
                        flow = grown
                        sizes[i] += 1
                        again.append(i)
                    stopped |= effort.spent and i not in again
                turn = again
    if sizes == least:
        extra, fitting = False, tuple(minima)
    else:
        fitting = flow.held
    more = [spare] if extra else []
    beside = [i for i, others in enumerate(rivals) if others and sizes[i] == least[i]]
    near = _near(cells, free, aims, sizes, beside, more, limit)
    if near:
        kept = Flow.of(cells, free, [*demands_of(aims, sizes, near), *more], Effort(limit))
        near, fitting = (near, kept.held) if kept is not None else (frozenset(), fitting)
    return Sizes(tuple(sizes), extra, fitting, stopped, near)


def demands_of(
    aims: Sequence[Aim], sizes: Sequence[int], near: Collection[int] = ()
) -> list[Demand]:
    """Return the lanes as demands; those of ``near`` where they could grow."""
    return [
        Demand(size, aim.grown) if i in near else aim.demand(size)
        for i, (aim, size) in enumerate(zip(aims, sizes, strict=True))
    ]


def _rivals(aims: Sequence[Aim]) -> list[tuple[int, ...]]:
    """Return, per lane, the members of its family that have cells near their GPUs in common."""
    near = [
        frozenset[int]().union(*(aim.grown if "gpu-local" in aim.words else ())) for aim in aims
    ]
    family = [aim.request.member_of for aim in aims]
    return [
        tuple(
            j
            for j in range(len(aims))
            if j != i and family[i] is not None and family[i] == family[j] and near[i] & near[j]
        )
        for i in range(len(aims))
    ]


def _near(
    cells: Cells,
    free: Free,
    aims: Sequence[Aim],
    sizes: Sequence[int],
    members: Sequence[int],
    more: Sequence[Demand],
    limit: int,
) -> frozenset[int]:
    """Return which members can lie where they could grow, with all sizes as they are.

    One after the other in the order of the lanes, beside those before it.
    """
    held: frozenset[int] = frozenset()
    for i in members:
        wanted = [*demands_of(aims, sizes, held | {i}), *more]
        if Flow.of(cells, free, wanted, Effort(limit)) is not None:
            held |= {i}
    return held
