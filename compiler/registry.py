"""Targets by name, imported when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from compiler.artifact import Artifact
from compiler.plan import LeftOut, NodePlan

if TYPE_CHECKING:
    from compiler.fleet import ClusterOptions, Fleet, Problem

TARGETS: Final = {
    "bpf": "targets.bpf:TARGET",
    "cpuset": "targets.cpuset:TARGET",
    "irq": "targets.irq:TARGET",
    "taskset": "targets.taskset:TARGET",
}
"""Name -> module:attribute.  A new target is a module, a row here, options in the project
model and a golden tree."""


CLUSTER_TARGETS: Final[dict[str, str]] = {
    "kubernetes": "targets.kubernetes:TARGET",
}
"""The same for targets that speak of the whole cluster and write below ``cluster/``."""


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

    @property
    def concerns(self) -> frozenset[str] | None:
        """Words that are its business at all; None: every one."""
        ...

    @property
    def partial(self) -> bool:
        """Whether it only adds to targets that place threads, and wants the whole plan."""
        ...

    def lacks(self, plan: NodePlan) -> tuple[LeftOut, ...]:
        """Return what it leaves out of a plan although it supports the words."""
        ...

    def emit(self, plan: NodePlan) -> Sequence[Artifact]:
        """Return the artifacts of a plan, paths relative to the node's directory; pure."""
        ...


class ClusterTarget(Protocol):
    """What a backend for the whole cluster offers."""

    @property
    def name(self) -> str:
        """Its name, as in the project file."""
        ...

    def problems(self, fleet: Fleet, options: ClusterOptions) -> Sequence[Problem]:
        """Return why the fleet cannot be expressed with these options; nothing is emitted then."""
        ...

    def emit(self, fleet: Fleet, options: ClusterOptions) -> Sequence[Artifact]:
        """Return the artifacts, paths ``cluster/...``; pure.

        A file that depends on one class has the class's name in its own (``class-NAME.yaml``), and
        depends on nothing else of the fleet: see :func:`compiler.shard.owner`.
        """
        ...

    def stream(self, artifacts: Sequence[Artifact]) -> bytes:
        """Return what ``--stdout`` prints of all it emitted; empty where there is no object."""
        ...


def load(name: str) -> Target:
    """Import and return a target of nodes.

    Raises:
        KeyError: no such target has this name.
    """
    return cast(Target, _import(TARGETS[name]))


def load_cluster(name: str) -> ClusterTarget:
    """Import and return a target for the cluster.

    Raises:
        KeyError: no such target has this name.
    """
    return cast(ClusterTarget, _import(CLUSTER_TARGETS[name]))


def _import(where: str) -> object:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
