"""What every target offers to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.artifact import Artifact
from compiler.plan import Mode, NodePlan


@dataclass(frozen=True, slots=True)
class Target:
    """A backend that turns plans into files.

    Attributes:
        name: as written in a project file.
        modes: the modes of a plan in which the target emits anything.
        supports: features (the words of ``NodePlan.features``) the target can express.  The
            compiler hands it no rule that needs another one.
        emit: a pure function from a plan to its artifacts, with paths relative to the node's
            directory.  It raises ValueError for a plan that the above should have kept away.
    """

    name: str
    modes: frozenset[Mode]
    supports: frozenset[str]
    emit: Callable[[NodePlan], list[Artifact]]
