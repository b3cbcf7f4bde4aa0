"""All planned classes of a policy at once: what a target for the whole cluster reads.

Frozen, like the plan; the only place where a plan meets names of nodes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from compiler.artifact import Artifact
from compiler.codes import targets as codes
from compiler.diagnostics import Diagnostic, Severity, Span
from compiler.model.base import Model
from compiler.model.cluster import Rollout
from compiler.plan import NodePlan


@dataclass(frozen=True, slots=True)
class FleetClass:
    """Nodes with one plan, and the files that the targets of nodes made of it.

    Attributes:
        name: identifies the class among those of the fleet: a few lower-case letters and digits,
            fit for a part of a DNS label.  It stays the same while lanes, tiers and matches
            change; see :func:`compiler.classes.class_names`.
        nodes: names, sorted.
        plan: the whole plan, not a target's view of it.
        files: ``plan.json`` and the files of every target of nodes, paths relative to a node's
            directory, sorted by path.
    """

    name: str
    nodes: tuple[str, ...]
    plan: NodePlan
    files: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is known of the cluster.

    Attributes:
        classes: by name.
        unplanned: nodes of the policy that have no plan, sorted: no object may select them.
    """

    classes: tuple[FleetClass, ...]
    unplanned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a project file says to one target for the cluster.

    Attributes:
        options: the target's own, as decoded: ``targets.NAME`` of the project file.
        rollout: the pace at which nodes get new plans; it is of the project, not of a target.
    """

    options: Model
    rollout: Rollout


def part(node: str) -> int:
    """Return where among a hundred parts a node's name falls, from 0.

    It depends on nothing else, so no node moves when others come or go.
    """
    return int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "big") % 100


def steps_of(rollout: Rollout) -> int:
    """Return how many steps there are: those written, and one more for what none of them takes."""
    return len(rollout.steps) + ("all" not in rollout.steps)


def step_of(rollout: Rollout, node: str) -> int:
    """Return the number of a node's step, from 1: the first that takes it, else the last."""
    for number, step in enumerate(rollout.steps, 1):
        if (
            step == "all"
            or (step.names is not None and node in step.names)
            or (step.percent is not None and part(node) < step.percent)
        ):
            return number
    return steps_of(rollout)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a target for the cluster cannot express a fleet, or can do so only in part.

    Attributes:
        route: the place in the project file to change, such as
            ``("spec", "targets", "kubernetes", "maxNames")``; where it is not written, the place
            above it is what a finding shows.
        message: what is wrong.
        help: what to do.
        severity: of an error nothing is emitted.
    """

    route: tuple[str | int, ...]
    message: str
    help: str
    severity: Severity = Severity.ERROR

    def at(self, span: Span) -> Diagnostic:
        """Return the finding, at the place that ``route`` leads to."""
        code = codes.CLUSTER_LIMIT if self.severity is Severity.ERROR else codes.CLUSTER_IDLE
        return code.at(span, self.message, help=self.help)
