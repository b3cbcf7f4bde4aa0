"""The kubelet and its control groups on the trees that distributions make.

The trees are retyped from the distributions' own sources and documentation, shortened; what each
says of driver, root, socket and directory is what that distribution documents.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.kernel import read_kernel
from compiler.facts.tree import Tree
from compiler.model.facts import Kubelet
from compiler.patterns import Glob
from tests.kubelet_nodes import CGROUPS, CONTAINERD, UID, Node, facts_of, kubeadm


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


@pytest.mark.parametrize(
    ("driver", "hierarchy", "cgroup_root", "root"),
    [
        ("systemd", "", "/", "kubepods.slice"),
        ("cgroupfs", "", "/", "kubepods"),
        ("systemd", "unified", "/", "kubepods.slice"),  # hybrid
        ("cgroupfs", "cpuset", "/", "kubepods"),  # v1
        ("systemd", "systemd", "/", "kubepods.slice"),  # v1
        ("systemd", "", "/kubelet", "kubelet.slice/kubelet-kubepods.slice"),  # kind
        ("cgroupfs", "", "/kubelet", "kubelet/kubepods"),  # kind, before 0.20
        ("systemd", "", "/a-b/c", "a_b.slice/a_b-c.slice/a_b-c-kubepods.slice"),
        ("cgroupfs", "", "/a-b/c", "a-b/c/kubepods"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_kubeadm_and_kind(
    node: Node, driver: str, hierarchy: str, cgroup_root: str, root: str, live: bool
) -> None:
    kubeadm(node, driver, hierarchy, cgroup_root)
    assert facts_of(node.quiet(live=live)) == (root, driver, CONTAINERD, "/var/lib/kubelet")


@pytest.mark.parametrize(
    ("paths", "version"),
    [
        (["cgroup.controllers", "kubepods/cgroup.procs"], "v2"),
        (["unified/cgroup.controllers", "cpuset/cgroup.procs"], "hybrid"),
        (["cpuset/cgroup.procs", "systemd/cgroup.procs"], "v1"),
        (["memory/cgroup.procs"], "v1"),
        ([], None),
    ],
)
def test_the_version_without_the_mounts(node: Node, paths: list[str], version: str | None) -> None:
    """As in a snapshot of /sys alone."""
    for path in paths:
        node.files.file(f"{CGROUPS}/{path}")
    assert read_kernel(Tree.of_disk(node.root), live=False).cgroup == version


def test_the_pattern_at_pods_meets_the_pods_and_nothing_else(node: Node) -> None:
    kubeadm(node, "systemd", "", "/kubelet")
    below = Glob.cgroup(f"{node.quiet().pods_root}/**")
    slice_ = f"kubelet-kubepods-burstable-pod{UID.replace('-', '_')}.slice"
    pod = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/{slice_}"
    assert below.matches(f"{pod}/cri-containerd-0123.scope")
    assert not below.matches("kubelet.slice/kubelet.service")
    assert not below.matches(f"system.slice/docker-0123.scope/{pod}")


def test_kubeadm_from_1_32(node: Node) -> None:
    """What is this node's own is in a file beside the configuration."""
    node.config("cgroupDriver: systemd\n")
    node.config(
        "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n",
        "var/lib/kubelet/instance-config.yaml",
    )
    node.pods("kubepods.slice")
    assert node.quiet().cri_socket == "/run/crio/crio.sock"


def test_microk8s(node: Node) -> None:
    node.files.file(
        "var/snap/microk8s/9072/args/kubelet",
        "--kubeconfig=${SNAP_DATA}/credentials/kubelet.config\n"
        "# --cpu-manager-policy=none\n"
        "--root-dir=${SNAP_COMMON}/var/lib/kubelet\n"
        '--eviction-hard="memory.available<100Mi,nodefs.available<1Gi"\n'
        "--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock\n"
        "--cpu-manager-policy=static\n--reserved-cpus=0-1\n",
    )
    node.files.link("var/snap/microk8s/current", "var/snap/microk8s/9072")
    node.files.directory("var/snap/microk8s/common/var/lib/kubelet")
    node.files.directory("var/lib/kubelet/plugins")  # a storage driver's
    node.pods("kubepods")
    node.process(700, "kubelite", ["/snap/microk8s/9072/kubelite", "--kubelet-args-file=x"])
    home = "/var/snap/microk8s/common"
    found = node.quiet()
    assert facts_of(found) == (
        "kubepods",
        "cgroupfs",
        f"{home}/run/containerd.sock",
        f"{home}/var/lib/kubelet",
    )
    assert (found.policy, found.reserved, found.control_plane) == ("static", CpuSet((0, 1)), True)


@pytest.mark.parametrize(("comm", "control_plane"), [("k3s-server", True), ("k3s-agent", False)])
def test_k3s(node: Node, comm: str, control_plane: bool) -> None:
    node.files.directory("var/lib/kubelet")
    node.config(
        "cgroupDriver: systemd\ntopologyManagerPolicy: best-effort\n"
        "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n",
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf",
    )
    node.config(
        "topologyManagerPolicy: restricted\n",
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/50-mine.conf",
    )
    node.config(
        "topologyManagerPolicy: none\n",
        "var/lib/rancher/k3s/agent/etc/kubelet.conf.d/60-mine.conf.bak",
    )
    node.pods("kubepods.slice")
    node.files.file("run/containerd/containerd.sock")  # of a Docker beside it
    node.process(812, comm, [f"/usr/local/bin/{comm.replace('-', ' ')}"])
    found = node.quiet()
    socket = "/run/k3s/containerd/containerd.sock"
    assert facts_of(found) == ("kubepods.slice", "systemd", socket, "/var/lib/kubelet")
    assert (found.topology_policy, found.control_plane) == ("restricted", control_plane)


def test_k3s_without_settings_to_read(node: Node) -> None:
    """Before 1.32, or without privilege: the runtime by what is there."""
    node.files.directory("var/lib/rancher/k3s/agent")
    node.files.file("run/k3s/containerd/containerd.sock")
    node.files.file("run/containerd/containerd.sock")
    node.files.file("etc/rancher/k3s/config.yaml", "token: K10secret\n")
    node.pods("kubepods")
    assert facts_of(node.quiet()) == (
        "kubepods",
        "cgroupfs",
        "/run/k3s/containerd/containerd.sock",
        None,
    )


def test_rke2(node: Node) -> None:
    node.files.directory("var/lib/kubelet")
    conf = "var/lib/rancher/rke2/agent/etc/kubelet.conf.d"
    node.config("cgroupDriver: systemd\ncpuManagerPolicy: none\n", f"{conf}/00-rke2-defaults.conf")
    node.pods("kubepods.slice")
    socket = "/run/k3s/containerd/containerd.sock"
    argv = ["kubelet", f"--config-dir=/{conf}", "--container-runtime-endpoint", f"unix://{socket}"]
    node.process(900, "rke2", ["/usr/local/bin/rke2 agent"])
    node.process(950, "kubelet", [*argv, "--cpu-manager-policy=static", "--reserved-cpus=0,4"])
    found = node.quiet()
    assert facts_of(found) == ("kubepods.slice", "systemd", socket, "/var/lib/kubelet")
    assert (found.policy, found.topology_policy) == ("static", "none")  # an option wins; a default
    assert (found.reserved, found.strict_reservation) == (CpuSet((0, 4)), False)


@pytest.mark.parametrize("live", [False, True])
def test_k0s(node: Node, live: bool) -> None:
    node.config(
        "cgroupsPerQOS: true\ncontainerRuntimeEndpoint: unix:///run/k0s/containerd.sock\n",
        "var/lib/k0s/kubelet-config.yaml",
    )
    node.files.directory("var/lib/k0s/kubelet/pods")
    node.pods("kubepods")
    argv = ["--root-dir=/var/lib/k0s/kubelet", "--config=/var/lib/k0s/kubelet-config.yaml"]
    node.process(640, "kubelet", ["/var/lib/k0s/bin/kubelet", *argv])
    want = ("kubepods", "cgroupfs", "/run/k0s/containerd.sock", "/var/lib/k0s/kubelet")
    assert facts_of(node.quiet(live=live)) == want


@pytest.mark.parametrize("live", [False, True])
def test_openshift(node: Node, live: bool) -> None:
    """JSON without a name that says so; of kubeadm a file of that name holds other things."""
    content = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "cgroupDriver": "systemd",
        "cgroupRoot": "/",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "topologyManagerPolicy": "single-numa-node",
        "reservedSystemCPUs": "0-1",
    }
    node.files.file("etc/kubernetes/kubelet.conf", json.dumps(content, indent=2))
    node.config(
        'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}\n',
        "etc/openshift/kubelet.conf.d/10-mine.conf",
    )
    node.state(policyName="static", defaultCpuSet="4-7", entries={UID: {"engine": "2-3"}})
    node.files.file("run/crio/crio.sock")
    node.pods("kubepods.slice")
    argv = ["--config=/etc/kubernetes/kubelet.conf", "--config-dir=/etc/openshift/kubelet.conf.d"]
    socket = "--container-runtime-endpoint=/var/run/crio/crio.sock"
    node.process(2458, "kubelet", ["/usr/bin/kubelet", *argv, socket])
    found = node.quiet(live=live)
    assert facts_of(found) == (
        "kubepods.slice",
        "systemd",
        "/run/crio/crio.sock",
        "/var/lib/kubelet",
    )
    assert (found.policy, found.topology_policy) == ("static", "single-numa-node")
    assert (found.reserved, found.strict_reservation) == (CpuSet((0, 1)), True)
    assert (found.exclusive, found.shared_pool) == (CpuSet((2, 3)), CpuSet(range(4, 8)))


@pytest.mark.parametrize(
    ("path", "driver", "root"),
    [
        ("etc/kubernetes/kubelet/config.json", "systemd", "kubepods.slice"),  # EKS, AL2023
        ("etc/kubernetes/kubelet/config", "systemd", "kubepods.slice"),  # Bottlerocket
        ("home/kubernetes/kubelet-config.yaml", "systemd", "kubepods.slice"),  # GKE
        ("etc/default/kubeletconfig.json", "systemd", "kubepods.slice"),  # AKS
        ("etc/kubernetes/kubelet.yaml", "cgroupfs", "kubepods"),  # Talos, which has no systemd
    ],
)
def test_where_other_distributions_keep_the_configuration(
    node: Node, path: str, driver: str, root: str
) -> None:
    content = {"kind": "KubeletConfiguration", "cgroupDriver": driver, "cpuManagerPolicy": "none"}
    node.files.file(path, json.dumps(content, indent=4))
    node.files.directory("var/lib/kubelet")
    node.files.file("run/containerd/containerd.sock")
    node.pods(root)
    found = node.quiet()
    assert facts_of(found) == (root, driver, CONTAINERD, "/var/lib/kubelet")
    assert found.policy == "none"


def test_minikube_with_docker(node: Node) -> None:
    kubeadm(node, "cgroupfs")
    flags = "--container-runtime-endpoint=unix:///var/run/cri-dockerd.sock"
    node.files.file("var/lib/kubelet/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="{flags}"\n')
    node.files.file("run/containerd/containerd.sock")
    node.files.file("run/cri-dockerd.sock")
    assert node.quiet().cri_socket == "/run/cri-dockerd.sock"


def test_no_kubelet(node: Node) -> None:
    node.files.directory("var/lib")
    node.files.file("run/containerd/containerd.sock")  # Docker's
    node.files.directory(f"{CGROUPS}/system.slice/docker.service")
    node.process(1, "systemd", ["/sbin/init"])
    assert node.quiet() == Kubelet(present=False)


def test_nodes_in_containers_are_not_this_machine(node: Node) -> None:
    """kind and k3d, seen from the host: neither their pods, nor their kubelet, nor its files."""
    node.files.directory("var/lib")
    inside = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice"
    node.files.directory(f"{CGROUPS}/system.slice/docker-0a1b.scope/{inside}")
    node.files.directory(f"{CGROUPS}/docker/0a1b/kubelet/kubepods/burstable")
    node.files.directory(f"{CGROUPS}/machine.slice/libpod-0a1b.scope/container/kubepods.slice")
    argv = ["kubelet", "--config=/var/lib/kubelet/config.yaml", "--root-dir=/elsewhere"]
    node.process(4242, "kubelet", argv, nspid="4242\t211")
    node.process(4343, "k3s-server", ["k3s server"], nspid="4343\t1")
    assert node.quiet() == Kubelet(present=False)
    node.pods("kubepods")
    found = node.quiet()
    assert facts_of(found) == ("kubepods", "cgroupfs", None, None)
    assert found.control_plane is False
