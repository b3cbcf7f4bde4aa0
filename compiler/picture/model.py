"""What a picture consists of.  All texts are one line each and may hold any character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["protect", "demote", "keep", "needed", "place", "default"]
"""The effect that gives a box its tier; ``default`` is the box of what no rule matches."""

EdgeKind = Literal["need", "raise", "above"]


@dataclass(frozen=True, slots=True)
class Box:
    """A unit."""

    name: str
    """Unique in the picture."""
    group: str
    """Boxes of one group in one rank belong together: an intent, or the node."""
    kind: Kind
    lane: str | None
    lines: tuple[str, ...]
    """What stands below the name."""
    why: tuple[str, ...] = ()
    """Where its tier is written; more than a box has room for."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A tier that has boxes."""

    tier: str
    boxes: tuple[Box, ...]
    """Groups in drawing order; inside a group, in the order in which edges should run."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two boxes, from the upper to the lower one where there is such."""

    source: str
    target: str
    kind: EdgeKind
    """``need``: the source needs the target; ``raise``: and gives it its tier; ``above``: the
    source goes first inside the tier."""
    mutual: bool = False
    """Whether the target needs the source as well."""
    cycle: bool = False
    """Whether it is part of a cycle, which is an error."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """A lane, for the legend."""

    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A tier graph.

    Attributes:
        ranks: highest tier first.
        edges: sorted; both ends are boxes of ``ranks``.
        lanes: sorted by name; every lane that a box names is there.
        notes: what the reader must know, for example that a node has no plan.
    """

    title: str
    ranks: tuple[Rank, ...]
    edges: tuple[Edge, ...]
    lanes: tuple[Key, ...]
    notes: tuple[str, ...] = ()
