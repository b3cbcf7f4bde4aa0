"""What the cgroups and the kubelet leave to us."""

from __future__ import annotations

from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.formats.kubelet_state import State, parse_state
from compiler.facts.kernel import CGROUPS
from compiler.facts.kubelet_process import KubeletProcess, find_kubelet
from compiler.facts.kubelet_settings import K0S, MICROK8S, RANCHER, Settings, read_settings
from compiler.facts.partial import ReadError
from compiler.facts.pods import driver_of, read_pods_root
from compiler.facts.tree import Tree, clean
from compiler.model.facts import Kubelet

_STANDARD: Final = "/var/lib/kubelet"
_KUBELET_DIRS: Final = (
    _STANDARD,
    f"{MICROK8S}/common/var/lib/kubelet",
    f"{K0S}/kubelet",
)
# What a kubelet makes in its directory at once; others (storage drivers) make only the directory.
_OWN: Final = ("cpu_manager_state", "config.yaml", "pods")
_K3S_SOCKET: Final = "/run/k3s/containerd/containerd.sock"
_SOCKETS: Final = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    _K3S_SOCKET,
    f"{MICROK8S}/common/run/containerd.sock",
    "/run/k0s/containerd.sock",
)
_ONLINE: Final = "/sys/devices/system/cpu/online"
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
    """Return what the kubelet is and owns; None where the files tell nothing about it at all.

    What runs is believed before what was asked for: the tree of control groups before the
    configured driver, the CPU manager's state before the configured policy.
    """
    process = find_kubelet(tree) if live else KubeletProcess()
    settings = read_settings(tree, process)
    directory = settings.root_dir or _directory(tree)
    root = read_pods_root(tree, settings.pods_root)
    running = process.arguments is not None or process.embedded is not None
    if root is None and directory is None and not running:
        return Kubelet(present=False) if live or tree.is_dir("/var/lib") else None
    driver = driver_of(root) if root else settings.driver
    if root and settings.driver not in (None, driver):
        tree.warn(
            f"{CGROUPS}: pods are below {root}, which the {driver} driver makes; the kubelet is "
            f"configured for {settings.driver}"
        )
    state = _state(tree, f"{directory}/cpu_manager_state") if directory else None
    policy = _policy(tree, state, settings)
    reserved, strict = _reservation(tree, state, settings) if policy == "static" else (None, None)
    return Kubelet(
        present=True,
        policy=policy,
        reserved=reserved,
        exclusive=state.exclusive if state else None,
        sharedPool=state.shared_pool if state and policy == "static" else None,
        strictReservation=strict,
        topologyPolicy=settings.word("topologyManagerPolicy")
        or ("none" if settings.complete else None),
        root=directory,
        cgroupDriver=driver,
        criSocket=settings.cri_socket or _socket(tree, directory),
        podsRoot=root,
        controlPlane=process.control_plane or _control_plane(tree),
    )


def _directory(tree: Tree) -> str | None:
    """Return the kubelet's directory: of several the one in which a kubelet works."""
    found = [path for path in _KUBELET_DIRS if tree.is_dir(path)]
    used = [path for path in found if any(tree.resolve(f"{path}/{name}") for name in _OWN)]
    if len(found) > 1 and len(used) != 1:
        tree.warn(f"kubelets may work in {' or '.join(found)}; {(used or found)[0]} is looked at")
    return next(iter(used or found), None)


def _policy(tree: Tree, state: State | None, settings: Settings) -> str | None:
    asked = settings.word("cpuManagerPolicy")
    if state is None:
        return asked or ("none" if settings.complete else None)
    if asked not in (None, state.policy):
        tree.warn(
            f"the kubelet's CPU manager works by the policy {state.policy}; it is configured for "
            f"{asked}"
        )
    return state.policy


def _reservation(
    tree: Tree, state: State | None, settings: Settings
) -> tuple[CpuSet | None, bool | None]:
    """Return the reserved CPUs of the static policy, and whether pods are kept off them.

    Without ``strict-cpu-reservation`` they are in the shared pool, with it they are in no pool.
    So CPUs that are in no pool are reserved, also where the configuration does not name them.
    """
    reserved, strict = settings.reserved(tree), settings.strict_reservation
    pool = state.shared_pool if state else None
    if reserved is None:
        online = tree.cpus(_ONLINE)
        if online is None or pool is None or state is None or strict is False:
            return None, strict
        missing = online - pool - state.exclusive
        if not missing:
            return None, strict
        tree.warn(
            f"the kubelet gives CPUs {missing} to no container; taken as its strict reservation"
        )
        return missing, True
    if strict is None and pool is not None:
        strict = reserved.isdisjoint(pool)
    elif strict and pool is not None and (shared := reserved & pool):
        tree.warn(
            f"the kubelet is configured for strict-cpu-reservation, but shares CPUs {shared} of "
            f"its reservation {reserved}; restart it to have its state made anew"
        )
        strict = False
    return reserved, strict


def _state(tree: Tree, path: str) -> State | None:
    """Read the CPU manager's checkpoint; None where there is none that can be used."""
    text = tree.text(path, limit=_STATE_BYTES)
    if text is None:
        return None
    try:
        state = parse_state(text)
    except ReadError as error:
        tree.warn(f"{path}: {error.message}; not used, so exclusive is unknown")
        return None
    for note in state.notes:
        tree.warn(f"{path}: {note.message}")
    return state


def _socket(tree: Tree, directory: str | None) -> str | None:
    """Return the runtime's socket by what is there, for want of settings."""
    found = [path for path in _SOCKETS if tree.resolve(path) is not None]
    if any(tree.is_dir(place) for place in RANCHER) and _K3S_SOCKET in found:
        return _K3S_SOCKET
    own = {
        f"{MICROK8S}/common/var/lib/kubelet": f"{MICROK8S}/common/run/containerd.sock",
        f"{K0S}/kubelet": "/run/k0s/containerd.sock",
    }.get(directory or "")
    if own in found:
        return own
    if len(found) > 1:
        tree.warn(
            f"{', '.join(found)} are there, and nothing says which the kubelet uses; its "
            "container runtime is unknown"
        )
    return found[0] if len(found) == 1 else None


def _control_plane(tree: Tree) -> bool:
    """Tell an embedded control plane by its directories.

    MicroK8s runs one on every node except those that joined as workers (``clustered.lock``); k3s
    agents have no ``server`` directory.
    """
    if tree.is_dir(f"{RANCHER[0]}/server"):
        return True
    return tree.is_dir(f"{MICROK8S}/current") and not tree.is_file(
        f"{MICROK8S}/current/var/lock/clustered.lock"
    )
