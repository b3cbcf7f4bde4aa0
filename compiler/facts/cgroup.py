"""What the cgroups and the kubelet leave to us."""

from __future__ import annotations

import json
import re
from typing import Final

from compiler.cpuset import CpuListError, CpuSet, union
from compiler.facts.kernel import CGROUPS
from compiler.facts.tree import Tree, clean, numbered, shown
from compiler.model.facts import Kubelet

# Where all pods are: systemd driver, cgroupfs driver, and the two forms below the root cgroup
# that kind gives its nodes.
_PODS_ROOTS: Final = (
    "kubepods.slice",
    "kubepods",
    "kubelet.slice/kubelet-kubepods.slice",
    "kubelet/kubepods",
)
# The unified tree; on v1 and hybrid machines any controller shows the same names.
_HIERARCHIES: Final = (
    CGROUPS,
    f"{CGROUPS}/unified",
    f"{CGROUPS}/systemd",
    f"{CGROUPS}/cpuset",
)
_MICROK8S: Final = "/var/snap/microk8s"
_KUBELET_DIRS: Final = ("/var/lib/kubelet", f"{_MICROK8S}/common/var/lib/kubelet")
_CONTROL_PLANE_COMMS: Final = frozenset({"kubelite", "k3s-server"})
_MAX_PROCESSES: Final = 100_000
_STATE_BYTES: Final = 4 * 1024 * 1024


def read_allowed(tree: Tree, online: CpuSet) -> CpuSet | None:
    """Return the CPUs the collector may use, where they are fewer than those online.

    It cannot be told whether the limit is the machine's or only that of the place the collector
    was started in, so it is recorded and said.
    """
    allowed = online
    for line in (tree.text("/proc/self/status") or "").splitlines():
        key, _, value = line.partition(":")
        if key == "Cpus_allowed_list":
            allowed &= _parse(tree, "/proc/self/status", value) or online
    for line in (tree.text("/proc/self/cgroup") or "").splitlines():
        if line.startswith("0::/") and ".." not in line.split("/"):
            path = f"{CGROUPS}{line[3:].rstrip('/')}/cpuset.cpus.effective"
            allowed &= tree.cpus(path) or online
    if not allowed or allowed == online:
        return None
    tree.warn(
        f"the collector may run on CPUs {allowed} only, of {online} online; recorded as allowed: "
        "leave it out if the limit is the collector's own"
    )
    return allowed


def _parse(tree: Tree, path: str, text: str) -> CpuSet | None:
    try:
        return CpuSet.parse(text)
    except CpuListError as error:
        tree.warn(f"{path}: {clean(str(error))}")
        return None


def read_kubelet(tree: Tree, *, live: bool) -> Kubelet | None:
    """Return what the kubelet owns; None where the files tell nothing about it at all."""
    root = _pods_root(tree)
    directory = next((path for path in _KUBELET_DIRS if tree.is_dir(path)), None)
    if root is None and directory is None:
        return Kubelet(present=False) if live or tree.is_dir("/var/lib") else None
    policy, exclusive = _state(tree, directory) if directory else (None, None)
    configured, reserved = _config(tree, directory) if directory else (None, None)
    policy = policy or configured
    return Kubelet(
        present=True,
        policy=policy,
        reserved=reserved if policy == "static" else None,
        exclusive=exclusive,
        podsRoot=root,
        controlPlane=_control_plane(tree, live=live),
    )


def _pods_root(tree: Tree) -> str | None:
    found = [
        root
        for root in _PODS_ROOTS
        if any(tree.is_dir(f"{hierarchy}/{root}") for hierarchy in _HIERARCHIES)
    ]
    if len(found) > 1:
        tree.warn(f"{CGROUPS}: pods may be below {' or '.join(found)}; taken as {found[0]}")
    return found[0] if found else None


def _state(tree: Tree, directory: str) -> tuple[str | None, CpuSet | None]:
    """Read the CPU manager's checkpoint: its policy, and the CPUs given to containers alone."""
    path = f"{directory}/cpu_manager_state"
    text = tree.text(path, limit=_STATE_BYTES)
    if text is None:
        return None, None
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict) or not isinstance(state.get("policyName"), str):
        tree.warn(f"{path}: not a CPU manager state, not used")
        return None, None
    lists: list[CpuSet] = []
    entries = state.get("entries") or {}
    if not isinstance(entries, dict):
        tree.warn(f"{path}: entries is not a mapping; exclusive is unknown")
        return clean(state["policyName"], 40), None
    for containers in entries.values():
        for cpus in containers.values() if isinstance(containers, dict) else [containers]:
            parsed = _parse(tree, path, cpus) if isinstance(cpus, str) else None
            if parsed is None:
                tree.warn(f"{path}: {shown(str(cpus))} is not a CPU list; exclusive is unknown")
                return clean(state["policyName"], 40), None
            lists.append(parsed)
    return clean(state["policyName"], 40), union(lists)


def _config(tree: Tree, directory: str) -> tuple[str | None, CpuSet | None]:
    """Read two plain top-level settings of the kubelet's configuration file.

    Other ways to set them (flags, drop-ins) are not looked at; then they stay unknown.
    """
    path = f"{directory}/config.yaml"
    text = tree.text(path) or ""
    policy = re.search(r"^cpuManagerPolicy:\s*[\"']?([a-z]+)[\"']?\s*$", text, re.MULTILINE)
    reserved = re.search(r"^reservedSystemCPUs:\s*[\"']?([0-9,-]+)[\"']?\s*$", text, re.MULTILINE)
    return (
        policy[1] if policy else None,
        _parse(tree, path, reserved[1]) if reserved else None,
    )


def _control_plane(tree: Tree, *, live: bool) -> bool:
    """Tell an embedded control plane by its directories, or by its process where live.

    MicroK8s runs one on every node except those that joined as workers (``clustered.lock``); k3s
    agents have no ``server`` directory.
    """
    if tree.is_dir("/var/lib/rancher/k3s/server"):
        return True
    if tree.is_dir(f"{_MICROK8S}/current") and not tree.is_file(
        f"{_MICROK8S}/current/var/lock/clustered.lock"
    ):
        return True
    if not live:
        return False
    for pid in numbered(tree.names("/proc"), "")[:_MAX_PROCESSES]:
        if tree.line(f"/proc/{pid}/comm") in _CONTROL_PLANE_COMMS:
            return True
    return False
