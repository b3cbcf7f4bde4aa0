"""What of a fleet does not fit into objects, with the options it has."""

from __future__ import annotations

from compiler.diagnostics import Severity
from compiler.fleet import ClusterOptions, Fleet, FleetClass, Problem
from compiler.model.cluster import KubernetesOptions
from compiler.yamlout import dump
from targets.kubernetes.content import MAX_OBJECT, Content
from targets.kubernetes.features import MAX_LABEL
from targets.kubernetes.files import options_of
from targets.kubernetes.pods import Daemon, daemon_set, scripts_of
from targets.kubernetes.rollout import steps

_ROUTE = ("spec", "targets", "kubernetes")
_MAX_CLASS = 40
"""Longest name of a class: the names that are made of it, and a DaemonSet's pods, fit into a
label's 63 characters."""


def problems(fleet: Fleet, options: ClusterOptions) -> list[Problem]:
    """Return what does not fit, in the order of classes."""
    own = options_of(options)
    found: list[Problem] = []
    for group in fleet.classes:
        found += _of_class(group, own, options)
    return found


def _of_class(group: FleetClass, own: KubernetesOptions, options: ClusterOptions) -> list[Problem]:
    found = []
    if len(group.name) > _MAX_CLASS:
        raise ValueError(f"class name {group.name!r} is longer than {_MAX_CLASS} characters")
    if not scripts_of(group):
        found.append(
            Problem(
                _ROUTE,
                f"class {group.name} ({_nodes(group.nodes)}) has no script that a pod could run",
                "add taskset: {} to targets, or drop kubernetes",
                Severity.WARNING,
            )
        )
    if own.select == "labels":
        return found + [_long_name(node) for node in group.nodes if len(node) > MAX_LABEL]
    for step, nodes in steps(options.rollout, group.nodes).items():
        if len(nodes) > own.max_names:
            found.append(_too_many(group, nodes, own))
        elif _size(Daemon(group, Content("0" * 64, ()), step, tuple(nodes)), own) > MAX_OBJECT:
            found.append(_too_large(group, nodes))
    return found


def _too_many(group: FleetClass, nodes: list[str], own: KubernetesOptions) -> Problem:
    return Problem(
        (*_ROUTE, "maxNames"),
        f"class {group.name} ({_nodes(nodes)}) has {len(nodes)} nodes in one object, and maxNames "
        f"is {own.max_names}",
        "write select: labels, which needs Node Feature Discovery in the cluster; or raise "
        "maxNames: every change of the list then replaces all pods of the class",
    )


def _too_large(group: FleetClass, nodes: list[str]) -> Problem:
    return Problem(
        _ROUTE,
        f"the names of the {len(nodes)} nodes of class {group.name} ({_nodes(nodes)}) do not fit "
        f"into one object of {MAX_OBJECT // 1024} KiB",
        "write select: labels, which needs Node Feature Discovery in the cluster",
    )


def _long_name(node: str) -> Problem:
    return Problem(
        (*_ROUTE, "select"),
        f"the name of node {node} has {len(node)} characters, and the value of a label at most "
        f"{MAX_LABEL}, so that Node Feature Discovery cannot be told of it",
        "write select: names",
    )


def _size(daemon: Daemon, options: KubernetesOptions) -> int:
    """Return the bytes of a DaemonSet, and of the list of files that is not in it here."""
    return len(dump(daemon_set(daemon, options))) + 200 * (len(daemon.group.files) + 2)


def _nodes(nodes: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{nodes[0]}{more}"
