"""What both picture formats leave to an engine that knows only edges: rows, and what holds them.

The engines place a box below another only where an edge says so.  Rows are therefore joined by
invisible edges, from the lowest boxes of one row to the highest of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from compiler.graph import depths
from compiler.picture import Box, Edge, Picture

COLUMNS: Final = 6
"""Boxes side by side before a tier goes on in a new row."""
STACK: Final = 3
"""Boxes of one intent on top of each other where no edge orders them."""

Group = tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Groups side by side.

    Attributes:
        rank: index of its tier in the picture.
        heads: names of boxes that nothing in their group is above.
        tails: names of boxes that nothing in their group is below.
        stacked: pairs to join invisibly, the upper box first: boxes without edges of their own
            would otherwise all lie side by side.
    """

    rank: int
    groups: tuple[Group, ...]
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    stacked: tuple[tuple[str, str], ...]


def rows_of(picture: Picture) -> tuple[Row, ...]:
    """Return the rows of a picture from top to bottom; a tier has one or more."""
    out: list[Row] = []
    for index, rank in enumerate(picture.ranks):
        groups: list[Group] = []
        used = 0
        for _, boxes in groupby(rank.boxes, key=lambda box: box.group):
            group = tuple(boxes)
            width = _width(group, picture.edges)
            if groups and used + width > COLUMNS:
                out.append(_row(index, groups, picture.edges))
                groups, used = [], 0
            groups.append(group)
            used += width
        if groups:
            out.append(_row(index, groups, picture.edges))
    return tuple(out)


def _row(rank: int, groups: Sequence[Group], edges: Sequence[Edge]) -> Row:
    stacked = [
        (upper.name, lower.name)
        for group in groups
        for column in _columns(group, edges)
        for upper, lower in pairwise(column)
    ]
    pairs = [*stacked, *(pair for group in groups for pair in _linked(group, edges))]
    names = [box.name for group in groups for box in group]
    above, below = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    return Row(
        rank=rank,
        groups=tuple(groups),
        heads=tuple(name for name in names if name not in below),
        tails=tuple(name for name in names if name not in above),
        stacked=tuple(stacked),
    )


def _linked(group: Group, edges: Sequence[Edge]) -> list[tuple[str, str]]:
    """Return the edges inside a group, from the earlier box to the later one."""
    place = {box.name: i for i, box in enumerate(group)}
    return [
        (a, b) if place[a] < place[b] else (b, a)
        for a, b in ((edge.source, edge.target) for edge in edges)
        if a in place and b in place and a != b
    ]


def _columns(group: Group, edges: Sequence[Edge]) -> list[Group]:
    """Return the boxes of a group that no edge inside it touches, in stacks."""
    touched = {name for pair in _linked(group, edges) for name in pair}
    free = [box for box in group if box.name not in touched]
    return [tuple(free[i : i + STACK]) for i in range(0, len(free), STACK)]


def _width(group: Group, edges: Sequence[Edge]) -> int:
    """Return how many boxes lie side by side."""
    linked = _linked(group, edges)
    levels = list(depths({name for pair in linked for name in pair}, linked).values())
    widest = max((levels.count(level) for level in levels), default=0)
    return widest + len(_columns(group, edges))
