"""A compiled policy: what the passes hand to targets, rules and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from compiler.artifact import Artifact, canonical_json
from compiler.decode import Loaded
from compiler.model.facts import NodeFacts
from compiler.modes import Decision
from compiler.plan import NodePlan
from compiler.policy import Policy
from compiler.registry import load
from compiler.resolve.types import Expansion, Resolution
from compiler.shard import Shard, Shares
from compiler.topology import Topology


@dataclass(frozen=True)
class CompiledClass:
    """Nodes with equal placement facts, intents and options, and their one plan.

    Attributes:
        name: of the class; see :func:`compiler.classes.class_names`.
        nodes: names, sorted.
        sample: facts of the first of them.
        plan: None where the class cannot be planned, or is another shard's.
        views: per target of nodes that emits, the plan as it sees it.
        skipped: targets asked for that emit nothing in this mode, and why.
        mine: whether this process plans it; only without a shard, it plans all.
    """

    name: str
    nodes: tuple[str, ...]
    sample: Loaded[NodeFacts]
    expansions: tuple[Expansion, ...]
    decision: Decision
    resolution: Resolution
    topology: Topology
    plan: NodePlan | None
    views: Mapping[str, NodePlan]
    skipped: Mapping[str, str]
    mine: bool = True

    @cached_property
    def files(self) -> tuple[Artifact, ...]:
        """What all targets of nodes make of the plan, and the plan; sorted, emitted once."""
        if self.plan is None:
            return ()
        out = [Artifact("plan.json", canonical_json(self.plan.data()))]
        for name, view in self.views.items():
            out += load(name).emit(view)
        return tuple(sorted(out, key=lambda a: a.path))


@dataclass(frozen=True)
class Compilation:
    """A compiled policy.

    Attributes:
        classes: in order of their first nodes.
        shard: of several, which this process is; None: it does everything.
        shares: who has which class, where the work is divided.
    """

    policy: Policy
    expansions: tuple[Expansion, ...]
    classes: tuple[CompiledClass, ...]
    shard: Shard | None = None
    shares: Shares | None = None

    @property
    def unplanned(self) -> tuple[str, ...]:
        """Nodes that should have a plan and have none, sorted."""
        without = (c.nodes for c in self.classes if c.mine and c.plan is None)
        return tuple(sorted(node for nodes in without for node in nodes))

    def of_node(self, name: str) -> CompiledClass | None:
        """Return the class of a node, None where there is no such node."""
        return next((c for c in self.classes if name in c.nodes), None)
