"""What the kubelet's facts are where its files are wrong or do not agree."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.pods import driver_of, expected_root
from compiler.model.facts import Kubelet
from tests.kubelet_nodes import CGROUPS, UID, Node, kubeadm


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")


# --- what does not agree ------------------------------------------------------------------------


def test_of_two_roots_the_one_with_pods(node: Node) -> None:
    kubeadm(node, "systemd")
    node.files.directory(f"{CGROUPS}/kubepods/burstable")  # left from another driver
    node.files.directory(f"{CGROUPS}/kubepods/besteffort")
    assert node.quiet().pods_root == "kubepods.slice"


def test_of_two_live_roots_the_configured_one_and_it_is_said(node: Node) -> None:
    kubeadm(node, "cgroupfs")
    node.pods("kubepods.slice")
    found, warnings = node.read()
    assert found.pods_root == "kubepods"
    assert warnings == (
        "/sys/fs/cgroup: pods may be below kubepods.slice or kubepods; taken as kubepods",
    )


def test_pods_are_where_they_are_whatever_is_configured(node: Node) -> None:
    node.config("cgroupDriver: cgroupfs\n")
    node.pods("kubepods.slice")
    found, warnings = node.read()
    assert (found.pods_root, found.cgroup_driver) == ("kubepods.slice", "systemd")
    assert len(warnings) == 1
    assert "the kubelet is configured for cgroupfs" in warnings[0]


def test_before_the_first_pod_the_settings_tell_and_it_is_said(node: Node) -> None:
    node.config("cgroupDriver: systemd\ncgroupRoot: /kubelet\n")
    found, warnings = node.read()
    assert found.pods_root == "kubelet.slice/kubelet-kubepods.slice"
    assert len(warnings) == 1
    assert "no control group of pods is there" in warnings[0]
    node.config("cgroupDriver: systemd\ncgroupsPerQOS: false\n")
    assert node.quiet().pods_root is None
    node.config("cgroupRoot: /kubelet\n")  # the driver is the runtime's to say
    assert node.quiet().pods_root is None


def test_two_sockets_and_no_word_which(node: Node) -> None:
    node.files.directory("var/lib/kubelet")
    node.pods("kubepods.slice")
    node.files.file("run/containerd/containerd.sock")
    node.files.file("run/crio/crio.sock")
    found, warnings = node.read()
    assert found.cri_socket is None
    assert len(warnings) == 1
    assert "nothing says which the kubelet uses" in warnings[0]


def test_two_directories_and_no_word_which(node: Node) -> None:
    node.files.directory("var/lib/kubelet")
    node.files.directory("var/lib/k0s/kubelet")
    found, warnings = node.read()
    assert found.root == "/var/lib/kubelet"
    assert warnings == (
        "kubelets may work in /var/lib/kubelet or /var/lib/k0s/kubelet; /var/lib/kubelet is "
        "looked at",
    )
    node.state("var/lib/k0s/kubelet")
    assert node.quiet().root == "/var/lib/k0s/kubelet"


def test_the_policy_in_force_wins(node: Node) -> None:
    node.config('cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n')
    node.state()
    found, warnings = node.read()
    assert (found.policy, found.reserved, found.shared_pool) == ("none", None, None)
    assert len(warnings) == 1
    assert "works by the policy none; it is configured for static" in warnings[0]


# --- the reservation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "default", "entries", "reserved", "strict", "warns"),
    [
        ('reservedSystemCPUs: "0-1"\n', "0-1,4-7", "2-3", "0-1", False, ""),
        ("reservedSystemCPUs: 0\n", "1-7", "", "0", True, ""),  # seen in the pool
        ("reservedSystemCPUs: 0,4\n", "0-7", "", "0,4", False, ""),
        (None, "4-7", "2-3", "0-1", True, "gives CPUs 0-1 to no container"),
        (None, "0-1,4-7", "2-3", None, None, ""),
        (
            'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}\nreservedSystemCPUs: 0-1\n',
            "1-7",
            "",
            "0-1",
            False,
            "shares CPUs 1 of its reservation 0-1",
        ),
        (
            "cpuManagerPolicyOptions: {strict-cpu-reservation: false}\n",
            "2-7",  # CPUs 0 and 1 came online later
            "",
            None,
            False,
            "",
        ),
        ("reservedSystemCPUs: 3-1\n", "0-7", "", None, None, "reservedSystemCPUs of the kubelet"),
    ],
)
def test_reservation(
    node: Node,
    config: str | None,
    default: str,
    entries: str,
    reserved: str | None,
    strict: bool | None,
    warns: str,
) -> None:
    if config is not None:
        node.config(config)
    node.state(
        policyName="static",
        defaultCpuSet=default,
        entries={UID: {"c": entries}} if entries else {},
    )
    found, warnings = node.read()
    assert (found.reserved and str(found.reserved)) == reserved
    assert found.strict_reservation is strict
    assert found.shared_pool == CpuSet.parse(default)
    assert found.exclusive == CpuSet.parse(entries)
    assert len(warnings) == bool(warns)
    assert warns in "".join(warnings)


def test_without_the_static_policy_nothing_is_reserved(node: Node) -> None:
    node.config("cpuManagerPolicy: none\nreservedSystemCPUs: 0-1\n")
    found = node.quiet()
    assert (found.policy, found.reserved, found.strict_reservation) == ("none", None, None)


# --- wrong input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        ("cgroupDriver: [systemd\n", "not used"),
        ("- a\n- b\n", "not used"),
        ("kind: Pod\n", "its kind is 'Pod'"),
        ("kind: [1]\n", "not KubeletConfiguration"),
        ("a: &a [*a]\n", "not used"),
        ("kind: KubeletConfiguration\nkind: KubeletConfiguration\n", "not used"),
        ("{" * 5000, "not used"),
        ("a: " + "x" * 70_000, "larger than"),
        ("kind: Config\napiVersion: v1\n", ""),  # a kubeconfig
        ("", ""),
        ("cgroupDriver: {a: b}\ncpuManagerPolicy: 3\nreservedSystemCPUs: [0]\n", ""),
        ("cgroupDriver: none\ncpuManagerPolicy: $(id)\ncgroupRoot: /../..\n", ""),
        ("containerRuntimeEndpoint: npipe:////./pipe/x\n", ""),
        ("containerRuntimeEndpoint: unix:///run/../etc/x\n", ""),
        ("cgroupDriver: systemd\ncgroupRoot: '/a b'\n", ""),
        ("cgroupDriver: systemd\ncgroupRoot: /" + "a" * 79 + "/b/c\n", ""),  # too long a path
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_a_configuration_of_junk_is_unknown(node: Node, text: str, warns: str, live: bool) -> None:
    node.files.file("var/lib/kubelet/config.yaml", text)
    node.process(77, "kubelet", ["kubelet", "--config=/var/lib/kubelet/config.yaml"])
    found, warnings = node.read(live=live)
    assert (found.present, found.pods_root, found.cri_socket) == (True, None, None)
    assert (found.reserved, found.root) == (None, "/var/lib/kubelet")
    assert found.policy == ("none" if live and not warns and "kind: Config\n" not in text else None)
    assert len(warnings) == bool(warns)
    assert warns in "".join(warnings)


def test_a_configuration_that_cannot_be_read_leaves_no_defaults(node: Node) -> None:
    node.files.directory("var/lib/kubelet")
    node.process(77, "kubelet", ["kubelet", "--config", "/etc/missing.yaml", "--v=2"])
    found, warnings = node.read()
    assert (found.policy, found.topology_policy) == (None, None)
    assert warnings == ("/etc/missing.yaml: the kubelet's configuration cannot be read",)


def test_options_that_are_not_quoted_right(node: Node) -> None:
    node.files.directory("var/lib/kubelet")
    node.files.file("etc/default/kubelet", "KUBELET_EXTRA_ARGS='--cgroup-driver=systemd\n")
    found, warnings = node.read()
    assert found.cgroup_driver is None
    assert len(warnings) == 1
    assert "its options are not used" in warnings[0]


def test_later_options_win_over_kubeadms(node: Node) -> None:
    kubeadm(node, "cgroupfs")
    node.files.file(
        "etc/default/kubelet",
        '# comment\nOTHER=1\nexport KUBELET_EXTRA_ARGS="-cpu-manager-policy static '
        "--reserved-cpus=2 --root-dir=/data/kubelet --cpu-manager-policy-options "
        'strict-cpu-reservation=true,full-pcpus-only=true"\n',
    )
    found = node.quiet()
    assert (found.policy, found.reserved, found.strict_reservation) == (
        "static",
        CpuSet((2,)),
        True,
    )
    assert found.root == "/data/kubelet"


@pytest.mark.parametrize(
    "argv", [[], ["kubelet"], ["kubelet", "--config"], ["kubelet", "--=", "-"]]
)
def test_odd_command_lines(node: Node, argv: list[str]) -> None:
    node.files.directory("var/lib/kubelet")
    node.process(5, "kubelet", argv)
    assert node.quiet().present


def test_hostile_names_are_no_pods_root(node: Node) -> None:
    for name in ("a b", "a*", "$(id)", "x" * 200, "é", "-", "a.scope"):
        node.files.directory(f"{CGROUPS}/{name}/kubepods")
    node.files.directory(f"{CGROUPS}/a b.slice/a b-kubepods.slice")
    node.files.file(f"{CGROUPS}/kubepods", "a file")
    assert node.quiet() == Kubelet(present=False)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    root=st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,6}", fullmatch=True), max_size=3),
    systemd=st.booleans(),
)
def test_every_expected_root_is_its_drivers(root: list[str], systemd: bool) -> None:
    path = expected_root("systemd" if systemd else "cgroupfs", "/" + "/".join(root))
    assert path is not None
    assert (driver_of(path) == "systemd") is systemd
    parts = path.split("/")
    assert len(parts) == len(root) + 1
    if systemd:
        # A slice lies in the slice that is its name without the last part.
        assert all(
            b.startswith(a.removesuffix(".slice") + "-") for a, b in itertools.pairwise(parts)
        )
    else:
        assert parts == [*root, "kubepods"]
