"""What a build with ``--node``, ``--target``, ``--shard`` or ``--stdout`` is about."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.commands.session import Session, UsageError, require_known, require_node
from compiler.compiled import Compilation
from compiler.registry import CLUSTER_TARGETS, TARGETS
from compiler.tree import PROVENANCE

CLUSTER = "cluster/"


def owned(
    compilation: Compilation, nodes: Sequence[str], targets: Sequence[str], path: str
) -> bool:
    """Return whether a build owns a path of the tree: it writes it, or removes it.

    Plans belong to every target of nodes, and the provenance to every build.  ``cluster/``
    belongs to the targets for the cluster, and never to a build of some nodes.
    """
    if path == PROVENANCE:
        return True
    shard, shares = compilation.shard, compilation.shares
    if shard is not None and shares is not None and shares.owner(path) != shard.index:
        return False
    if not nodes and not targets:
        return True
    if path.startswith(CLUSTER):
        return not nodes and any(name in CLUSTER_TARGETS for name in targets)
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != "nodes" or (nodes and parts[1] not in nodes):
        return False
    if not targets:
        return True
    return any(name in TARGETS for name in targets) and parts[2] in (*targets, "plan.json")


def left_alone(compilation: Compilation, nodes: Sequence[str], targets: Sequence[str]) -> str:
    """Return what to say of objects of the cluster that a partial build leaves as they were."""
    for_cluster = [
        n for n in compilation.policy.project.spec.targets.enabled if n in CLUSTER_TARGETS
    ]
    if not for_cluster or not (nodes or targets):
        return ""
    if nodes:
        return (
            f"{CLUSTER} is left as it was: its objects speak of all nodes; build without --node "
            "to renew it"
        )
    if set(targets) & set(for_cluster):
        return ""
    return (
        f"{CLUSTER} is left as it was and holds files of all targets; build with --target "
        f"{for_cluster[0]} to renew it"
    )


def require(
    session: Session, nodes: Sequence[str], targets: Sequence[str], stdout: str | None
) -> None:
    """Check that what the options name is there.

    Raises:
        UsageError: it is not, or the options contradict each other.
    """
    policy = session.compilation.policy
    enabled = policy.project.spec.targets.enabled
    for node in nodes:
        require_node(node, [n.name for n in policy.nodes], session.judged.findings)
    for target in (*targets, *((stdout,) if stdout is not None else ())):
        if target in (*TARGETS, *CLUSTER_TARGETS) and target not in enabled:
            raise UsageError(
                f"the policy has no target {target!r}; the project does not enable it "
                "(spec.targets)"
            )
        require_known(target, enabled, "target")
    if nodes and targets and not any(name in TARGETS for name in targets):
        raise UsageError(
            f"--node and --target {targets[0]} exclude each other: its objects speak of all nodes"
        )
    if stdout is not None and stdout not in CLUSTER_TARGETS:
        raise UsageError(
            f"--stdout {stdout}: {stdout} writes files for each node, which do not fit into one "
            "stream; write a tree with -o DIR"
        )
