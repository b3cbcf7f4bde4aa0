"""The ``kubernetes`` target: objects that bring every class's scripts to its nodes and run them.

What they do and need is in ``docs/kubernetes.md``.  One file a class, ``cluster/class-NAME.yaml``,
depends on nothing of other classes; ``cluster/common.yaml`` on none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.artifact import Artifact
from compiler.fleet import ClusterOptions, Fleet, Problem
from targets.kubernetes.files import emit, stream
from targets.kubernetes.limits import problems


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A backend that turns a fleet into objects.

    Attributes:
        name: as written in a project file.
        problems: why the fleet cannot be expressed, or only in part.
        emit: a pure function from a fleet to its artifacts below ``cluster/``.  It raises
            ValueError for a fleet of which ``problems`` reports an error.
        stream: all objects of the artifacts as one YAML stream, in the order to apply them.
    """

    name: str
    problems: Callable[[Fleet, ClusterOptions], list[Problem]]
    emit: Callable[[Fleet, ClusterOptions], list[Artifact]]
    stream: Callable[[Sequence[Artifact]], bytes]


TARGET: Final = ClusterTarget(name="kubernetes", problems=problems, emit=emit, stream=stream)
