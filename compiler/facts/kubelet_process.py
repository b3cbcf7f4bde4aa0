"""The kubelet among the running processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from compiler.facts.tree import Tree, numbered

Embedded = Literal["microk8s", "k3s"]

_MAX_PROCESSES: Final = 100_000
# Process name -> the distribution whose one process holds the kubelet too.
_EMBEDDED: Final[dict[str, Embedded]] = {
    "kubelite": "microk8s",
    "k3s-server": "k3s",
    "k3s-agent": "k3s",
}
_CONTROL_PLANES: Final = frozenset({"kubelite", "k3s-server"})


@dataclass(frozen=True, slots=True)
class KubeletProcess:
    """What the processes of the machine say.

    Attributes:
        arguments: of the kubelet's own process, without its name; None: it has none.
        embedded: the distribution with the kubelet inside another process.
        control_plane: whether that process is a control plane as well.
    """

    arguments: tuple[str, ...] | None = None
    embedded: Embedded | None = None
    control_plane: bool = False


def find_kubelet(tree: Tree) -> KubeletProcess:
    """Return the kubelet of this machine, by process names and command lines.

    A kubelet in a pid namespace of its own belongs to a node in a container (kind, k3d), and is
    not this machine's.
    """
    arguments: tuple[str, ...] | None = None
    embedded: Embedded | None = None
    control_plane = False
    for pid in numbered(tree.names("/proc"), "")[:_MAX_PROCESSES]:
        comm = tree.line(f"/proc/{pid}/comm")
        if comm not in _EMBEDDED and comm not in ("kubelet", "hyperkube"):
            continue
        if _is_nested(tree, pid):
            continue
        if comm in _EMBEDDED:
            embedded = embedded or _EMBEDDED[comm]
            control_plane = control_plane or comm in _CONTROL_PLANES
            continue
        words = (tree.text(f"/proc/{pid}/cmdline") or "").rstrip("\0").split("\0")
        if comm == "hyperkube":  # one binary for all parts, the part its first argument
            if words[1:2] != ["kubelet"]:
                continue
            words = words[1:]
        if len(words) < 2:
            continue  # gone meanwhile, or hidden
        if arguments is None:
            arguments = tuple(words[1:])
        elif arguments != tuple(words[1:]):
            tree.warn(f"/proc/{pid}: a second kubelet with other options; the first is looked at")
    return KubeletProcess(arguments, embedded, control_plane)


def _is_nested(tree: Tree, pid: int) -> bool:
    for line in (tree.text(f"/proc/{pid}/status") or "").splitlines():
        key, _, value = line.partition(":")
        if key == "NSpid":
            return len(value.split()) > 1
    return False
