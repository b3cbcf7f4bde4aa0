"""Forms that systemd and the kubelet give to cgroup paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

_SYSFS: Final = re.compile(r"sys/fs/cgroup(?:/(?:unified|systemd))?(?:/|$)")
_PROC: Final = re.compile(r"[0-9]+:[^/:]*:/?")
_UID_DASHED: Final = re.compile(r"(?<=-)pod([0-9a-f]{8})-")
_UID_UNDERSCORED: Final = re.compile(r"^pod([0-9a-f]{8})_")
_USER_MANAGER: Final = re.compile(r"^user@([0-9*?]+)\.service$")
_INSTANCE: Final = re.compile(r"^([^*?@]+)@.+\.service$")
_TEMPLATE: Final = re.compile(r"^([^*?@]+)@\.(service|slice|scope)$")
_QOS: Final = ("burstable", "besteffort")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a pattern matches nothing.

    Attributes:
        message: continues ``cgroup "..."``.
        certain: whether no configuration at all could make such a cgroup.
    """

    message: str
    help: str
    certain: bool = True


def fault_of(text: str) -> Fault | None:
    """Return what is wrong with the form of a cgroup pattern by itself, None where nothing is.

    A pattern below ``@pods`` is judged without its first component.
    """
    for pattern, what in (
        (_SYSFS, "is a path of the file system, and cgroups are named from the cgroup root on"),
        (_PROC, "is a line of /proc/PID/cgroup, and cgroups are named by what follows :: there"),
    ):
        if (found := pattern.match(text)) is not None:
            return Fault(what, f"write {text[found.end() :] or '**'}")
    parts = text.split("/")
    for i, part in enumerate(parts):
        before = parts[i - 1] if i else None
        fault = _uid(part) or _unit(part, before, text) or _nesting(parts, i)
        if fault is not None:
            return fault
    return None


def is_slice_root(root: str) -> bool:
    """Tell the systemd driver from cgroupfs by where all pods are."""
    return root.endswith(".slice")


def pods_below(first: str, *, slices: bool) -> bool:
    """Tell whether the cgroup of all pods may have a child that such a component matches."""
    if slices:
        return first not in _QOS and not (first.startswith("pod") and not first.endswith(".slice"))
    return not first.endswith((".slice", ".scope"))


def _uid(part: str) -> Fault | None:
    """Judge a pod's uid: systemd's names take dashes for nesting, so they become underscores."""
    if (
        part.startswith("kube")
        and part.endswith(".slice")
        and (found := _UID_DASHED.search(part)) is not None
    ):
        right = part[: found.start()] + part[found.start() :].replace("-", "_")
        return Fault(
            "has a pod's uid with dashes in a slice: the systemd driver writes underscores",
            f"write {right}",
        )
    if not part.endswith(".slice") and _UID_UNDERSCORED.match(part) is not None:
        return Fault(
            "has a pod's uid with underscores outside a slice: the cgroupfs driver writes dashes",
            f"write {part.replace('_', '-')}",
        )
    return None


def _unit(part: str, before: str | None, text: str) -> Fault | None:
    """Judge services by where systemd puts them."""
    if (template := _TEMPLATE.match(part)) is not None:
        return Fault(
            f"names the template {part}, which is no unit and has no cgroup",
            f"write {template[1]}@*.{template[2]} for all its instances",
        )
    if (manager := _USER_MANAGER.match(part)) is not None:
        if before is None or (_is_plain(before) and not before.startswith("user-")):
            return Fault(
                f"has {part} outside of its user's slice",
                f"write user.slice/user-{manager[1]}.slice/{part}",
            )
        return None
    if part.endswith(".service") and before is None:
        return Fault(
            "is a service at the cgroup root, and systemd puts services into a slice",
            f"write system.slice/{text}",
            certain=False,
        )
    if before == "system.slice" and (instance := _INSTANCE.match(part)) is not None:
        return Fault(
            f"has an instance of the template {instance[1]}@.service directly in system.slice, "
            "and systemd gives the instances of each template a slice of their own there",
            f"write system.slice/**/{part}, which is both",
            certain=False,
        )
    return None


def _nesting(parts: Sequence[str], i: int) -> Fault | None:
    """Judge a slice by its parents: ``a-b.slice`` is a child of ``a.slice``, always."""
    part, before = parts[i], parts[i - 1] if i else None
    if not part.endswith(".slice") or before == "@pods":
        return None
    fixed = re.split(r"[*?]", part)[0]
    stem = part.removesuffix(".slice") if fixed == part else fixed
    names = stem.split("-")
    if len(names) < 2 or not all(names[:-1]):
        return None
    above = "-".join(names[:-1])
    if before is not None:
        if not _is_plain(before):
            return None
        parent = before.removesuffix(".slice")
        # Behind a wildcard there may be more dashes: then the parent is at least this deep.
        fits = parent == above if fixed == part else f"{parent}-".startswith(f"{above}-")
        if before.endswith(".slice") and fits:
            return None
    outer = list(parts[:i])
    while outer and outer[-1].endswith(".slice"):
        outer.pop()
    chain = [f"{name}.slice" for name in accumulate(names[:-1], lambda a, b: f"{a}-{b}")]
    return Fault(
        f"has {part} {'at the root' if before is None else f'below {before}'}, and systemd puts "
        f"it below {chain[-1]}",
        f"write {'/'.join((*outer, *chain, *parts[i:]))}",
    )


def _is_plain(part: str) -> bool:
    return not set("*?") & set(part)
