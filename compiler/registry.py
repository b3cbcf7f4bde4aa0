"""Targets by name, imported when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from compiler.artifact import Artifact
from compiler.plan import NodePlan

TARGETS: Final = {
    "bpf": "targets.bpf:TARGET",
    "taskset": "targets.taskset:TARGET",
}
"""Name -> module:attribute.  A new target is a module, a row here, options in the project
model and a golden tree."""


class Target(Protocol):
    """What a backend offers."""

    @property
    def name(self) -> str:
        """Its name, as in the project file; also its directory in the output."""
        ...

    @property
    def modes(self) -> frozenset[str]:
        """Modes of a plan for which it emits anything."""
        ...

    @property
    def supports(self) -> frozenset[str]:
        """Words of :mod:`compiler.features` that it can express."""
        ...

    def emit(self, plan: NodePlan) -> Sequence[Artifact]:
        """Return the artifacts of a plan, paths relative to the node's directory; pure."""
        ...


def load(name: str) -> Target:
    """Import and return a target.

    Raises:
        KeyError: no target has this name.
    """
    module, _, attribute = TARGETS[name].partition(":")
    return cast(Target, getattr(import_module(module), attribute))
