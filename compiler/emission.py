"""From compiled classes to files: of nodes, and of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from compiler.artifact import Artifact
from compiler.compiled import Compilation
from compiler.fleet import ClusterOptions, Fleet, FleetClass
from compiler.registry import CLUSTER_TARGETS, TARGETS, ClusterTarget, load_cluster


def cluster_targets(compilation: Compilation) -> Iterator[tuple[ClusterTarget, ClusterOptions]]:
    """Yield the targets for the cluster that the policy enables, with their options."""
    spec = compilation.policy.project.spec
    for name in spec.targets.enabled:
        if name in CLUSTER_TARGETS:
            yield load_cluster(name), ClusterOptions(getattr(spec.targets, name), spec.rollout)


def fleet_of(compilation: Compilation) -> Fleet:
    """Return what targets for the cluster see; of a shard, its own classes."""
    classes = [
        FleetClass(group.name, group.nodes, group.plan, group.files)
        for group in sorted(compilation.classes, key=lambda c: c.name)
        if group.plan is not None
    ]
    return Fleet(tuple(classes), compilation.unplanned)


def emit(
    compilation: Compilation,
    *,
    nodes: Collection[str] | None = None,
    targets: Collection[str] | None = None,
) -> list[Artifact]:
    """Return the artifacts of all planned nodes and of the cluster, sorted by path.

    Each target emits once a class, whatever number of nodes it has.

    Args:
        compilation: of a shard, its own files are returned.
        nodes: only files of these.  Objects of the cluster speak of all nodes, so there are none.
        targets: only files of these, and plans, if a target of nodes is among them.
    """
    out: list[Artifact] = []
    if targets is None or any(name in TARGETS for name in targets):
        for group in compilation.classes:
            files = [
                file
                for file in group.files
                if targets is None or file.path.split("/")[0] in ("plan.json", *targets)
            ]
            out += [
                replace(file, path=f"nodes/{node}/{file.path}")
                for node in group.nodes
                if nodes is None or node in nodes
                for file in files
            ]
    if nodes is None:
        for target, options in cluster_targets(compilation):
            if targets is None or target.name in targets:
                out += _own(compilation, target.emit(fleet_of(compilation), options))
    return sorted(out, key=lambda a: a.path)


def cluster_stream(compilation: Compilation, name: str) -> bytes:
    """Return what a target for the cluster streams; empty where it has no object.

    Raises:
        KeyError: the policy does not enable a target for the cluster of this name.
    """
    for target, options in cluster_targets(compilation):
        if target.name == name:
            return target.stream(target.emit(fleet_of(compilation), options))
    raise KeyError(name)


def _own(compilation: Compilation, files: Sequence[Artifact]) -> list[Artifact]:
    shard, shares = compilation.shard, compilation.shares
    if shard is None or shares is None:
        return list(files)
    return [file for file in files if shares.owner(file.path) == shard.index]
