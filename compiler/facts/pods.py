"""Where the cgroups of all pods are, from the tree of control groups and the kubelet's settings.

The kubelet puts pods below ``kubepods`` in its cgroup root.  The cgroupfs driver names groups as
they are (``kubepods``, ``kubelet/kubepods``); the systemd driver makes slices of them
(``kubepods.slice``, ``kubelet.slice/kubelet-kubepods.slice``), ``-`` in a name becoming ``_``
(kubernetes, pkg/kubelet/cm/cgroup_manager_linux.go).  A root other than ``/`` is what kind gives
its nodes; others come from ``cgroupRoot``.

A node that runs in a container of this machine (kind, k3d, minikube's docker driver) has its pods
below that container's scope, at least two levels down: those pods are not this machine's, and
nothing here looks so deep unless the kubelet's own settings say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from compiler.facts.kernel import CGROUPS
from compiler.facts.tree import Tree
from compiler.model.base import MAX_CGROUP_PATH

Driver = Literal["systemd", "cgroupfs"]

# Where there are several and nothing tells them apart, the first of these is taken.
_USUAL: Final = (
    "kubepods.slice",
    "kubepods",
    "kubelet.slice/kubelet-kubepods.slice",
    "kubelet/kubepods",
)
# Of v1 and hybrid machines; pods have the same names in every hierarchy.
_HIERARCHIES: Final = (f"{CGROUPS}/unified", f"{CGROUPS}/systemd", f"{CGROUPS}/cpuset")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_:@-]{0,80}")
_SLICE: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_:\\@]{0,80})\.slice")
_POD: Final = re.compile(r"(?:[A-Za-z0-9_-]+-)?pod[0-9a-f][0-9a-f_-]{7,63}(?:\.slice)?")
_QOS: Final = re.compile(r"(?:[A-Za-z0-9_-]+-)?(?:burstable|besteffort)(?:\.slice)?")
_NAME: Final = re.compile(r"[A-Za-z0-9_:@-]{1,80}")


def read_pods_root(tree: Tree, expected: str | None) -> str | None:
    """Return the cgroup path of all pods; None where none is found or expected.

    Of several the one with pods in it is taken; where that does not decide, the one the kubelet's
    settings lead to, and it is said.

    Args:
        tree: the machine's files.
        expected: the path that the kubelet's settings lead to; None: they are not known.
    """
    hierarchies = _hierarchies(tree)
    found = _candidates(tree, hierarchies, expected)
    if not found:
        if expected is not None:
            tree.warn(
                f"{CGROUPS}: no control group of pods is there; by the kubelet's settings it is "
                f"{expected}"
            )
        return expected
    left = [root for root in found if _has_pods(tree, hierarchies, root)] or found
    chosen = expected if expected in left else left[0]
    if len(left) > 1:
        tree.warn(f"{CGROUPS}: pods may be below {' or '.join(left)}; taken as {chosen}")
    return chosen


def driver_of(root: str) -> Driver:
    """Return the cgroup driver that gives the pods root such a path."""
    return "systemd" if root.endswith(".slice") else "cgroupfs"


def expected_root(driver: Driver, cgroup_root: str) -> str | None:
    """Return the pods root that the kubelet makes with these settings.

    Args:
        driver: ``cgroupDriver``.
        cgroup_root: ``cgroupRoot``, such as ``/`` or ``/kubelet``.

    Returns:
        The path, or None where ``cgroup_root`` has names that the driver cannot have.
    """
    parts = [part for part in cgroup_root.split("/") if part]
    if not all(_NAME.fullmatch(part) for part in parts):
        return None
    parts.append("kubepods")
    if driver == "systemd":
        plain = [part.replace("-", "_") for part in parts]
        parts = [f"{'-'.join(plain[: n + 1])}.slice" for n in range(len(plain))]
    path = "/".join(parts)
    return path if len(path) <= MAX_CGROUP_PATH else None


def _hierarchies(tree: Tree) -> Sequence[str]:
    """Return the roots of the trees: the one of v2, or those of v1, which are below it."""
    if tree.is_file(f"{CGROUPS}/cgroup.controllers"):
        return (CGROUPS,)
    return [path for path in _HIERARCHIES if tree.is_dir(path)] or (CGROUPS,)


def _candidates(tree: Tree, hierarchies: Sequence[str], expected: str | None) -> list[str]:
    found: set[str] = set()
    for hierarchy in hierarchies:
        for name in tree.names(hierarchy):
            if root := _root_at(tree, hierarchy, name):
                found.add(root)
        if expected is not None and tree.is_dir(f"{hierarchy}/{expected}"):
            found.add(expected)
    return [root for root in _USUAL if root in found] + sorted(found.difference(_USUAL))


def _root_at(tree: Tree, hierarchy: str, name: str) -> str | None:
    """Return the pods root that is ``name`` or directly below it; None if there is none."""
    if name in ("kubepods", "kubepods.slice"):
        root = name
    elif match := _SLICE.fullmatch(name):
        root = f"{name}/{match[1]}-kubepods.slice"
    elif _PLAIN_NAME.fullmatch(name):
        root = f"{name}/kubepods"
    else:
        return None
    return root if tree.is_dir(f"{hierarchy}/{root}") else None


def _has_pods(tree: Tree, hierarchies: Sequence[str], root: str) -> bool:
    for hierarchy in hierarchies:
        for name in tree.names(f"{hierarchy}/{root}"):
            if _POD.fullmatch(name):
                return True
            if _QOS.fullmatch(name) and any(
                _POD.fullmatch(pod) for pod in tree.names(f"{hierarchy}/{root}/{name}")
            ):
                return True
    return False
