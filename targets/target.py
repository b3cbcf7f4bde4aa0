"""What every target offers to the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.artifact import Artifact
from compiler.plan import LeftOut, Mode, NodePlan


def _nothing(_: NodePlan) -> tuple[LeftOut, ...]:
    return ()


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
        concerns: features that are its business at all; None: every one.  Of others it leaves out
            nothing, and it does not count as enforcing them: it places no threads.
        partial: whether it only adds to other targets: it bounds groups of threads where others
            place each thread.  It is handed the whole plan, because what it must not stand in the
            way of are also rules it cannot express.  What it leaves out is listed in the plan, and
            is a finding only where the node has no target that places threads.
        lacks: what it leaves out of a plan although it supports the words.
    """

    name: str
    modes: frozenset[Mode]
    supports: frozenset[str]
    emit: Callable[[NodePlan], list[Artifact]]
    concerns: frozenset[str] | None = None
    partial: bool = False
    lacks: Callable[[NodePlan], tuple[LeftOut, ...]] = _nothing
