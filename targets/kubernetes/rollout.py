"""Which nodes each step of a rollout is for."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.fleet import step_of
from compiler.model.cluster import Rollout


def steps(rollout: Rollout, nodes: Iterable[str]) -> dict[int, list[str]]:
    """Return the nodes of each step that has any, steps and nodes in order."""
    found: dict[int, list[str]] = {}
    for node in sorted(nodes):
        found.setdefault(step_of(rollout, node), []).append(node)
    return dict(sorted(found.items()))
