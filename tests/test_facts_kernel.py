"""Collecting kernel abilities, virtualization, cgroups and the kubelet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from compiler.facts.kernel import cmdline_words
from compiler.model.facts import FactsSpec
from tests.sysfs_builder import SysfsBuilder

CGROUPS = "sys/fs/cgroup"


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """Four CPUs and nothing else."""
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-3")
    b.cores(["0", "1", "2", "3"])
    b.cache(3, "0-3", level=3, size="1M", id=0)
    return b


def spec_of(b: SysfsBuilder, *, live: bool = False) -> FactsSpec:
    return collect(b.root, name="n", live=live).spec


# --- kernel ------------------------------------------------------------------------------------


def test_a_snapshot_that_lacks_a_file_proves_nothing(b: SysfsBuilder) -> None:
    spec = spec_of(b)
    kernel = spec.kernel
    assert kernel.release is None
    assert (kernel.preempt_rt, kernel.btf, kernel.sched_ext) == (None, None, None)
    assert (kernel.cgroup, kernel.cmdline, spec.kubelet, spec.arch) == (None, None, None, None)
    assert spec.virtualization.vm is None
    assert spec.virtualization.container is None


def test_a_running_machine_that_lacks_a_file_lacks_the_ability(b: SysfsBuilder) -> None:
    spec = spec_of(b, live=True)
    assert spec.kernel.btf is False
    assert spec.kernel.sched_ext is not None
    assert spec.kernel.sched_ext.supported is False
    assert spec.kernel.cgroup == "none"
    assert spec.kubelet is not None
    assert spec.kubelet.present is False


def test_sched_ext_that_is_loaded(b: SysfsBuilder) -> None:
    b.file("sys/kernel/sched_ext/state", "enabled\n")
    b.file("sys/kernel/sched_ext/root/ops", "lavd_1.0.20_x86_64\n")
    b.file("sys/kernel/btf/vmlinux", "")
    kernel = spec_of(b).kernel
    assert kernel.sched_ext is not None
    assert kernel.sched_ext.supported
    assert (kernel.sched_ext.state, kernel.sched_ext.ops) == ("enabled", "lavd_1.0.20_x86_64")
    assert kernel.btf is True


@pytest.mark.parametrize(
    ("path", "text", "rt"),
    [
        ("sys/kernel/realtime", "1\n", True),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.12.1 (2026-01-01)\n", True),
        ("proc/sys/kernel/version", "#9 SMP PREEMPT RT Mon\n", True),  # before 5.x
        ("proc/sys/kernel/version", "#14-Ubuntu SMP PREEMPT_DYNAMIC Thu\n", False),
        ("proc/version", "Linux version 6.1.0-rt8 (x@y) (gcc 12) #1 SMP PREEMPT_RT Mon\n", True),
        ("proc/version", "Linux version 6.1.0 (x@y) (gcc 12) #1 SMP Mon\n", False),
    ],
)
def test_preempt_rt(b: SysfsBuilder, path: str, text: str, rt: bool) -> None:
    b.file(path, text)
    assert spec_of(b).kernel.preempt_rt is rt


def test_the_release_from_either_file(b: SysfsBuilder) -> None:
    b.file("proc/version", "Linux version 6.8.0-45-generic (buildd@x) (gcc) #45 SMP\n")
    assert spec_of(b).kernel.release == "6.8.0-45-generic"
    b.file("proc/sys/kernel/osrelease", "6.17.0-1014-nvidia\n")
    assert spec_of(b).kernel.release == "6.17.0-1014-nvidia"


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "v2"),
        ("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n", "v1"),
        ("none /dev/cpuset cpuset rw 0 0\n", "v1"),
        ("a /x cgroup rw 0 0\nb /x/unified cgroup2 rw 0 0\n", "hybrid"),
        ("proc /proc proc rw 0 0\nshort\n", None),
    ],
)
def test_cgroup_version_from_mounts(b: SysfsBuilder, mounts: str, kind: str | None) -> None:
    b.file("proc/self/mounts", mounts)
    assert spec_of(b).kernel.cgroup == kind


def test_only_options_about_cpus_leave_the_machine(b: SysfsBuilder) -> None:
    b.file(
        "proc/cmdline",
        "root=/dev/sda1 isolcpus=managed_irq,domain,2-3 luks.key=SECRET nohz_full=2-3 "
        'rcu_nocbs=2-3 threadirqs dyndbg="file x +p; isolcpus=1" nosmt=force isolcpusx=1\n',
    )
    assert spec_of(b).kernel.cmdline == (
        "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 threadirqs nosmt=force"
    )


@pytest.mark.parametrize(
    ("cmdline", "isolated", "nohz_full"),
    [
        ("quiet", "", ""),
        ("isolcpus=2-3 nohz_full=3", "2-3", "3"),
        ("isolcpus=managed_irq,domain,1,3", "1,3", ""),
        ("isolcpus=managed_irq,1-3", "", ""),
        ("isolcpus=1 isolcpus=2", "2", ""),
        ("isolcpus=1-N nohz_full=all", None, None),
    ],
)
def test_isolated_cpus_of_a_kernel_that_has_no_file_for_them(
    b: SysfsBuilder, cmdline: str, isolated: str | None, nohz_full: str | None
) -> None:
    b.file("proc/cmdline", cmdline + "\n")
    spec = spec_of(b)
    for found, wanted in ((spec.cpus.isolated, isolated), (spec.cpus.nohz_full, nohz_full)):
        assert found == (None if wanted is None else CpuSet.parse(wanted))
    assert len(spec.warnings) == (2 if isolated is None else 0)
    b.masks(isolated="0", nohz_full="0")  # what the kernel says wins
    spec = spec_of(b)
    assert (spec.cpus.isolated, spec.cpus.nohz_full) == (CpuSet((0,)), CpuSet((0,)))


def test_command_lines_are_split_at_spaces_outside_quotes() -> None:
    assert cmdline_words('a  b="c d" "e f"=g h="i') == ("a", 'b="c d"', '"e f"=g', 'h="i')


# --- virtualization ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "vm", "name"),
    [
        ({"sys_vendor": "QEMU"}, True, "qemu"),
        ({"sys_vendor": "VMware, Inc.", "product_name": "VMware7,1"}, True, "vmware"),
        ({"sys_vendor": "innotek GmbH", "product_name": "VirtualBox"}, True, "virtualbox"),
        (
            {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
            True,
            "hyperv",
        ),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Surface"}, False, None),
        ({"sys_vendor": "Amazon EC2", "product_name": "m7i.large"}, True, "amazon"),
        ({"sys_vendor": "Amazon EC2", "product_name": "m7i.metal-24xl"}, False, None),
        ({"sys_vendor": "NVIDIA", "product_name": "NVIDIA_DGX_Spark"}, False, None),
        ({}, None, None),
    ],
)
def test_dmi(b: SysfsBuilder, files: dict[str, str], vm: bool | None, name: str | None) -> None:
    for file, text in files.items():
        b.file(f"sys/class/dmi/id/{file}", text + "\n")
    found = spec_of(b).virtualization
    assert (found.vm, found.hypervisor) == (vm, name)


def test_the_hypervisor_flag_proves_a_vm_and_its_absence_nothing(b: SysfsBuilder) -> None:
    b.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu lm\n")
    spec = spec_of(b)
    assert spec.virtualization.vm is None
    assert spec.arch == "x86_64"
    b.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: X\nflags\t\t: fpu lm hypervisor\n")
    assert spec_of(b).virtualization.vm is True


def test_xen(b: SysfsBuilder) -> None:
    b.file("sys/hypervisor/type", "xen\n")
    assert spec_of(b).virtualization.hypervisor == "xen"
    b.file("proc/xen/capabilities", "control_d\n")
    b.file("proc/cpuinfo", "processor: 0\nvendor_id: X\nflags: lm hypervisor\n")
    found = spec_of(b).virtualization
    assert (found.vm, found.hypervisor) == (None, None)  # dom0


@pytest.mark.parametrize("marker", ["run/.containerenv", ".dockerenv", "run/systemd/container"])
def test_container_markers(b: SysfsBuilder, marker: str) -> None:
    b.file(marker, "")
    assert spec_of(b).virtualization.container is True


@pytest.mark.parametrize(
    ("cgroup", "pid", "container"),
    [(4026531835, 4026531836, False), (4026532456, 4026531836, True), (4026531835, 1, True)],
)
def test_namespaces(b: SysfsBuilder, cgroup: int, pid: int, container: bool) -> None:
    b.directory("proc/self/ns")
    (b.root / "proc/self/ns/cgroup").symlink_to(f"cgroup:[{cgroup}]")
    (b.root / "proc/self/ns/pid").symlink_to(f"pid:[{pid}]")
    assert spec_of(b, live=True).virtualization.container is container


# --- what the collector may use ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "effective", "allowed"),
    [
        ("0-3", None, None),
        ("0-1023", "0-3", None),
        ("1-2", None, "1-2"),
        ("0-2", "1-3", "1-2"),
        ("8-9", None, None),
        ("junk", None, None),
    ],
)
def test_allowed_only_where_it_is_narrower(
    b: SysfsBuilder, status: str, effective: str | None, allowed: str | None
) -> None:
    b.file("proc/self/status", f"Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t{status}\n")
    b.file("proc/self/cgroup", "12:cpuset:/x\n0::/a.slice/b\n")
    if effective is not None:
        b.file(f"{CGROUPS}/a.slice/b/cpuset.cpus.effective", effective + "\n")
    spec = spec_of(b, live=True)
    found = spec.cpus.allowed
    assert (None if found is None else str(found)) == allowed
    assert any("recorded as allowed" in warning for warning in spec.warnings) == (
        allowed is not None
    )
    assert spec_of(b).cpus.allowed is None


# --- kubelet -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "root",
    ["kubepods.slice", "kubepods", "kubelet.slice/kubelet-kubepods.slice", "kubelet/kubepods"],
)
@pytest.mark.parametrize("hierarchy", [CGROUPS, f"{CGROUPS}/unified", f"{CGROUPS}/cpuset"])
def test_where_pods_are(b: SysfsBuilder, root: str, hierarchy: str) -> None:
    b.directory(f"{hierarchy}/{root}")
    kubelet = spec_of(b).kubelet
    assert kubelet is not None
    assert (kubelet.present, kubelet.pods_root) == (True, root)


def test_two_pods_roots_are_said(b: SysfsBuilder) -> None:
    b.directory(f"{CGROUPS}/kubepods")
    b.directory(f"{CGROUPS}/kubepods.slice")
    spec = spec_of(b)
    assert spec.kubelet is not None
    assert spec.kubelet.pods_root == "kubepods.slice"
    assert any("kubepods.slice or kubepods" in warning for warning in spec.warnings)


def state(**changes: object) -> str:
    return json.dumps(
        {
            "policyName": "static",
            "defaultCpuSet": "0-1",
            "entries": {"uid-1": {"engine": "2", "side": "3"}},
            "checksum": 1,
            **changes,
        }
    )


@pytest.mark.parametrize(
    "directory", ["var/lib/kubelet", "var/snap/microk8s/common/var/lib/kubelet"]
)
def test_static_policy(b: SysfsBuilder, directory: str) -> None:
    b.file(f"{directory}/cpu_manager_state", state())
    b.file(
        f"{directory}/config.yaml",
        'kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: "0"\n',
    )
    kubelet = spec_of(b).kubelet
    assert kubelet is not None
    assert kubelet.policy == "static"
    assert kubelet.exclusive == CpuSet((2, 3))
    assert kubelet.reserved == CpuSet((0,))


def test_reserved_counts_under_the_static_policy_only(b: SysfsBuilder) -> None:
    b.file("var/lib/kubelet/cpu_manager_state", state(policyName="none", entries=None))
    b.file("var/lib/kubelet/config.yaml", "reservedSystemCPUs: 0-1\ncpuManagerPolicy: none\n")
    kubelet = spec_of(b).kubelet
    assert kubelet is not None
    assert (kubelet.policy, kubelet.reserved, kubelet.exclusive) == ("none", None, CpuSet())


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"policyName": 1}'])
def test_a_state_of_junk_is_a_warning(b: SysfsBuilder, text: str) -> None:
    b.file("var/lib/kubelet/cpu_manager_state", text)
    spec = spec_of(b)
    assert spec.kubelet is not None
    assert (spec.kubelet.present, spec.kubelet.policy, spec.kubelet.exclusive) == (
        True,
        None,
        None,
    )
    assert len(spec.warnings) == 1


@pytest.mark.parametrize("entries", [{"a": {"b": "x"}}, {"a": {"b": 3}}, {"a": None}, "3", [1]])
def test_one_junk_entry_makes_exclusive_unknown(b: SysfsBuilder, entries: object) -> None:
    b.file("var/lib/kubelet/cpu_manager_state", state(entries=entries))
    spec = spec_of(b)
    assert spec.kubelet is not None
    assert (spec.kubelet.policy, spec.kubelet.exclusive) == (None, None)
    assert any("exclusive is unknown" in warning for warning in spec.warnings)


def test_the_old_form_of_the_state(b: SysfsBuilder) -> None:
    """Before Kubernetes 1.18: container id -> CPUs."""
    b.file("var/lib/kubelet/cpu_manager_state", state(entries={"4a1f": "2-3"}))
    kubelet = spec_of(b).kubelet
    assert kubelet is not None
    assert kubelet.exclusive == CpuSet((2, 3))


@pytest.mark.parametrize(
    ("directories", "files", "control_plane"),
    [
        (["var/lib/rancher/k3s/server"], [], True),
        (["var/lib/rancher/k3s/agent"], [], False),
        (["var/snap/microk8s/current"], [], True),
        (
            ["var/snap/microk8s/current"],
            ["var/snap/microk8s/current/var/lock/clustered.lock"],
            False,
        ),
        ([], [], False),
    ],
)
def test_an_embedded_control_plane(
    b: SysfsBuilder, directories: list[str], files: list[str], control_plane: bool
) -> None:
    b.directory("var/lib/kubelet")
    for directory in directories:
        b.directory(directory)
    for file in files:
        b.file(file)
    kubelet = spec_of(b).kubelet
    assert kubelet is not None
    assert kubelet.control_plane is control_plane


def test_a_control_plane_by_its_process_on_a_running_machine(b: SysfsBuilder) -> None:
    b.directory("var/lib/kubelet")
    b.file("proc/812/comm", "k3s-server\n")
    b.file("proc/99/comm", "bash\n")
    live, snapshot = spec_of(b, live=True).kubelet, spec_of(b).kubelet
    assert live is not None
    assert snapshot is not None
    assert (live.control_plane, snapshot.control_plane) == (True, False)


def test_collecting_says_where_the_machine_is_not_itself(
    b: SysfsBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["facts", "collect", "--sysroot", str(b.root), "--name", "n"]) == 0
    assert "note:" not in capsys.readouterr().err
    b.file("sys/hypervisor/type", "xen\n")
    b.file("run/.containerenv", "")
    assert main(["facts", "collect", "--sysroot", str(b.root), "--name", "n"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "note:" in line]
    assert [("virtual machine (xen)" in line, "inside a container" in line) for line in told] == [
        (True, False),
        (False, True),
    ]
