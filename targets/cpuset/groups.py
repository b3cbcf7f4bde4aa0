"""Which control groups a policy names, and what may be set on them.

A path of whole names stands for one group and all below it.  What systemd made bears the name of
a unit; the others are taken as they are.  Some groups are not ours to set, however they are
named: those of pods, of container runtimes, and those that a unit makes inside itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from compiler.artifact import MAX_COMPONENT, check_path
from compiler.patterns import Glob, PatternError, intersects

Kind = Literal["service", "slice", "scope", "group"]

DROP_IN: Final = "50-tierc.conf"

_UNIT: Final = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(service|slice|scope)", re.ASCII)
_PLAIN: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_WILD: Final = frozenset("*?")
_KINDS: Final[Mapping[str, Kind]] = {"service": "service", "slice": "slice", "scope": "scope"}
_PODS: Final = "kubepods"
_KUBELETS: Final = ("kubelet", "kubelet.slice")
_RUNTIMES: Final = re.compile(
    r"(containerd|crio|cri-o|docker|dockerd|buildkit|cri-dockerd?|podman|kubelet"
    r"|k3s(-[a-z]+)?|rke2(-[a-z]+)?|k0s[a-z]*|snap\.(microk8s|docker|k8s)\.[a-z0-9.-]+)\.service"
)


@dataclass(frozen=True, slots=True)
class Group:
    """A control group, by its path from the root of the cgroup v2 tree.

    Attributes:
        path: components joined by ``/``.
        kind: kind of systemd unit, ``group`` for what is none.
        unit: name of the unit, None for what is none.
    """

    path: str
    kind: Kind
    unit: str | None

    @property
    def subtree(self) -> Glob:
        """The group and all below it."""
        return Glob.cgroup(f"{self.path}/**")

    @property
    def section(self) -> str:
        """Section of a drop-in for the unit."""
        return self.kind.capitalize()

    @property
    def drop_in(self) -> str | None:
        """Place of its drop-in below ``/etc/systemd/system``.

        None for what is no unit, and for units whose name may not name a file of ours: those
        with a ``\\`` or a ``:`` in it.
        """
        if self.unit is None:
            return None
        path = f"{self.unit}.d/{DROP_IN}"
        try:
            return check_path(path)
        except ValueError:
            return None

    def is_in(self, other: Group) -> bool:
        """Tell whether the group is below another."""
        return self.path.startswith(f"{other.path}/")


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Why nothing is set on what a rule names."""

    reason: str


def named(text: str, pods_root: str | None) -> Group | NotOurs:
    """Return the group that a cgroup glob names with all below it, or why there is none.

    Args:
        text: the glob of a rule.
        pods_root: cgroup of all pods, None where it is not known.
    """
    parts = text.split("/")
    if parts[-1] == "**":
        parts.pop()
    if not parts or any(_WILD & set(part) for part in parts):
        return NotOurs("it is no path of whole names")
    path = "/".join(parts)
    if not _PLAIN.fullmatch(path):
        return NotOurs("its name has characters other than printable ASCII, or ends in a space")
    try:
        subtree = Glob.cgroup(f"{path}/**")
    except PatternError:
        return NotOurs("its path is too long")
    if _is_of_pods(parts, subtree, pods_root):
        return NotOurs("the kubelet manages the groups of pods")
    for part in parts[:-1]:
        if part.endswith((".service", ".scope")):
            return NotOurs(f"the groups inside {part} are made and managed by that unit")
    unit = parts[-1].removeprefix("_")  # systemd's escape of names that the kernel could take
    if unit == "init.scope":
        return NotOurs("it is that of systemd itself")
    if not _is_unit(unit, parts[:-1]):
        return Group(path, "group", None)
    if _RUNTIMES.fullmatch(unit):
        return NotOurs(f"{unit} starts containers and delegates groups to them")
    return Group(path, _KINDS[unit.rpartition(".")[2]], unit)


def _is_of_pods(parts: list[str], subtree: Glob, pods_root: str | None) -> bool:
    """Tell whether pods are at, below or above the group."""
    if any(_PODS in part for part in parts) or parts[0] in _KUBELETS:
        return True
    return pods_root is not None and intersects(subtree, Glob.cgroup(f"{pods_root}/**"))


def _is_unit(name: str, above: list[str]) -> bool:
    """Tell whether systemd would put a unit of this name below these groups.

    ``a-b.slice`` is in ``a.slice``; services and scopes are in slices.
    """
    if not _UNIT.fullmatch(name) or len(name) > MAX_COMPONENT - len(".d") or name == "-.slice":
        return False
    chain = [*above, name] if name.endswith(".slice") else above
    return all(
        slice.endswith(".slice")
        and slice.removesuffix(".slice").rpartition("-")[0]
        == (chain[place - 1].removesuffix(".slice") if place else "")
        for place, slice in enumerate(chain)
    )
