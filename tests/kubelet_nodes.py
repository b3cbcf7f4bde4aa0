"""Nodes as Kubernetes distributions leave them, in files for the tests of the kubelet's facts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from compiler.facts.cgroup import read_kubelet
from compiler.facts.pods import driver_of, expected_root
from compiler.facts.tree import Tree
from compiler.model.facts import Kubelet
from tests.sysfs_builder import SysfsBuilder

CGROUPS = "sys/fs/cgroup"
UID = "3f1c0a52-7d0e-4a1b-9c55-0d8f6a2b7e11"
KIND = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
CONTAINERD = "/run/containerd/containerd.sock"


class Node:
    """A node's files; every method writes what the software on it would."""

    def __init__(self, root: Path) -> None:
        self.files = SysfsBuilder(root)
        self.files.masks(online="0-7")
        self.root = root

    def pods(self, root: str, *, hierarchy: str = "", uid: str = UID) -> None:
        """Make the pods root with one burstable pod in it."""
        driver = driver_of(root)
        plain = root.rpartition("/")[2].removesuffix(".slice")
        if driver == "systemd":
            pod = f"{plain}-burstable.slice/{plain}-burstable-pod{uid.replace('-', '_')}.slice"
        else:
            pod = f"burstable/pod{uid}"
        self.files.directory(f"{CGROUPS}/{hierarchy}/{root}/{pod}")

    def config(self, text: str, path: str = "var/lib/kubelet/config.yaml") -> None:
        self.files.file(path, KIND + text)

    def state(self, directory: str = "var/lib/kubelet", **changes: object) -> None:
        content = {"policyName": "none", "defaultCpuSet": "", "checksum": 1, **changes}
        self.files.file(f"{directory}/cpu_manager_state", json.dumps(content))

    def process(self, pid: int, comm: str, argv: Sequence[str] = (), nspid: str = "") -> None:
        self.files.file(f"proc/{pid}/comm", f"{comm}\n")
        self.files.file(f"proc/{pid}/cmdline", "\0".join((*argv, "")))
        self.files.file(f"proc/{pid}/status", f"Name:\t{comm}\nNSpid:\t{nspid or pid}\n")

    def read(self, *, live: bool = True) -> tuple[Kubelet, tuple[str, ...]]:
        tree = Tree.of_disk(self.root)
        found = read_kubelet(tree, live=live)
        assert found is not None
        return found, tree.warnings

    def quiet(self, *, live: bool = True) -> Kubelet:
        """Read what no warning is due about."""
        found, warnings = self.read(live=live)
        assert warnings == ()
        return found


def facts_of(kubelet: Kubelet) -> tuple[str | None, ...]:
    return kubelet.pods_root, kubelet.cgroup_driver, kubelet.cri_socket, kubelet.root


def kubeadm(node: Node, driver: str, hierarchy: str = "", cgroup_root: str = "/") -> None:
    node.config(
        f"cgroupDriver: {driver}\ncgroupRoot: {cgroup_root}\ncpuManagerReconcilePeriod: 0s\n"
    )
    node.files.file(
        "var/lib/kubelet/kubeadm-flags.env",
        'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/containerd/'
        'containerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.10"\n',
    )
    root = expected_root("systemd" if driver == "systemd" else "cgroupfs", cgroup_root)
    assert root is not None
    node.pods(root, hierarchy=hierarchy)
