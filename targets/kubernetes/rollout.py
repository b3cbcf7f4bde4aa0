"""Which step of a rollout a node belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from compiler.model.cluster import Rollout


def part(node: str) -> int:
    """Return where among a hundred parts a node's name falls, from 0.

    It depends on nothing else, so no node moves when others come or go.
    """
    return int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "big") % 100


def step_of(rollout: Rollout, node: str) -> int:
    """Return the number of a node's step, from 1: the first that takes it.

    What no step takes is in one more, the last.  Without steps all nodes are in step 1.
    """
    for number, step in enumerate(rollout.steps, 1):
        if (
            step == "all"
            or (step.names is not None and node in step.names)
            or (step.percent is not None and part(node) < step.percent)
        ):
            return number
    return len(rollout.steps) + 1


def steps(rollout: Rollout, nodes: Iterable[str]) -> dict[int, list[str]]:
    """Return the nodes of each step that has any, steps and nodes in order."""
    found: dict[int, list[str]] = {}
    for node in sorted(nodes):
        found.setdefault(step_of(rollout, node), []).append(node)
    return dict(sorted(found.items()))
