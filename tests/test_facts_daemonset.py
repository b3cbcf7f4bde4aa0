"""The script that collects a fleet: what it prints is the machine."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.cpuset import CpuSet
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.facts.collect import collect as collect_facts
from compiler.facts.daemonset.manifest import script
from compiler.facts.host import read_host
from compiler.facts.partial import Partial
from compiler.facts.tree import Tree
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.daemonset_log import SCRIPT, read, refused
from tests.sysfs_builder import SysfsBuilder, gb10


@dataclass(frozen=True)
class Shell:
    """A shell and the programs it finds."""

    argv: tuple[str, ...]
    path: str


@pytest.fixture(scope="module", params=["dash", "busybox"])
def shell(
    request: pytest.FixtureRequest,
    tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Shell:
    """Dash with the programs of this machine, and busybox with nothing but its own."""
    if request.param == "dash":
        return Shell((tool("dash"),), os.environ.get("PATH", os.defpath))
    applets = tmp_path_factory.mktemp("applets")
    subprocess.run([tool("busybox"), "--install", "-s", str(applets)], check=True)
    return Shell((tool("busybox"), "sh"), str(applets))


def collect(
    shell: Shell, root: Path, work: Path, node: str | None = "n1", **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": shell.path, "TIERC_ROOT": str(root), "TIERC_WORK": str(work)}
    if node is not None:
        variables["NODE_NAME"] = node
    done = subprocess.run(
        [*shell.argv, str(SCRIPT)],
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert list(work.iterdir()) == [], "something is left behind"
    return done


def uname() -> str:
    return os.uname().machine


def same(log: str, root: Path, node: str = "n1") -> Partial:
    """Check that the log says what the files say, read here as those of the running machine."""
    (found,) = read(log)
    wanted = read_host(Tree.of_disk(root), live=True)
    # The log has the node's name from the cluster, and the architecture from uname.
    assert found == replace(wanted, node=node, arch=uname(), file=f"fleet.log!{node}")
    return found


def server(root: Path) -> SysfsBuilder:
    """Two packages of two SMT cores, one CPU offline, a GPU, NICs, a virtual function, cgroups."""
    b = SysfsBuilder(root)
    b.masks(online="0-6", possible="0-15", present="0-7", isolated="2-3", nohz_full="  (null)")
    for package in (0, 1):
        for core in (0, 1):
            first = package * 4 + core * 2
            b.core(f"{first}-{first + 1}", package=package, core=core)
    for cpu in range(8):
        b.cache(0, str(cpu), level=1, size="48K", kind="Data")
        b.cache(1, str(cpu), level=1, size="32K", kind="Instruction")
        b.cache(2, str(cpu), level=2, size="2048K", id=cpu)
    b.cache(3, "0-3", level=3, size="30720K", id=0)
    b.cache(3, "4-7", level=3, size="30720K", id=1, form="shared_cpu_map")
    b.attribute("0-7", "topology/die_id", 0)
    b.attribute("0-7", "topology/cluster_id", -1)
    b.attribute("1-7", "online", 1)
    shutil.rmtree(root / "sys/devices/system/cpu/cpu7/topology")
    b.file("sys/devices/system/node/online", "0-1,4\n")
    b.node(0, "0-3", mem_kib=4194304, distance="10 21 31")
    b.node(1, "4-6", mem_kib=4194304, distance="21 10 31")
    b.node(4, "", mem_kib=0, distance="31 31 10")
    gpu = b.pci("0000:1b:00.0", code=0x030200, vendor=0x10DE, device=0x2330, numa=0, local="0-3")
    b.file(
        "proc/driver/nvidia/gpus/0000:1b:00.0/information",
        "Model: \t NVIDIA H100\nGPU UUID: \t GPU-0-1\nVideo BIOS: \t secret\n",
    )
    b.file("proc/driver/nvidia/gpus/0000:1b:00.0/numa_status", "Node: 4\nStatus: online\n")
    b.pci("0000:5e:00.0", code=0x120000, vendor=0x1002, device=0x74A1, numa=0, local="0-3")
    nic = b.pci("0000:9d:00.0", code=0x020000, vendor=0x15B3, device=0x1021, numa=1, mask="70")
    b.interface("ens9", nic)
    b.interface("mlx5_0", nic, "infiniband")
    vf = b.pci("0000:9d:00.2", code=0x020000, vendor=0x15B3, device=0x101E, numa=1)
    b.link(f"{vf}/physfn", nic)
    b.interface("ens9v0", vf)
    virtio = b.pci("0000:00:03.0", code=0x020000, vendor=0x1AF4, device=0x1000)
    b.file(f"{virtio}/virtio0/vendor", "0x1af4\n")
    b.interface("eth0", f"{virtio}/virtio0")
    b.pci("0000:03:00.0", code=0x030000, vendor=0x102B, device=0x0536, numa=0)  # the board's VGA
    b.pci("0000:00:1c.0", code=0x060400, vendor=0x8086, device=0x1234)
    b.virtual_interface("cni0")
    b.file("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu lm ht\n\n")
    b.file("proc/version", "Linux version 6.8.0-1 (x) #1 SMP PREEMPT_DYNAMIC\n")
    b.file("proc/sys/kernel/osrelease", "6.8.0-1\n")
    b.file("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n")
    b.file("proc/cmdline", 'root=/dev/sda password=hunter2 isolcpus=2-3 nosmt dyndbg="a b"\n')
    b.file("sys/kernel/btf/vmlinux", "x" * 5000)
    b.file("sys/kernel/sched_ext/state", "disabled\n")
    b.file("sys/class/dmi/id/sys_vendor", "Example Inc.\n")
    b.file("sys/class/dmi/id/product_serial", "serial-number\n")
    b.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
    b.directory("sys/fs/cgroup/system.slice/containerd.service")
    b.directory(
        "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/"
        "kubepods-burstable-pod0123abcd_4567.slice"
    )
    assert gpu
    return b


def kubelet(b: SysfsBuilder) -> None:
    """Add a kubelet under the static policy, with secrets beside what is asked for."""
    for pid, comm in ((1, "systemd"), (77, "kubelet"), (78, "containerd")):
        b.file(f"proc/{pid}/comm", f"{comm}\n")
        b.file(f"proc/{pid}/status", f"Name:\t{comm}\nNSpid:\t{pid}\n")
    b.file(
        "proc/77/cmdline",
        "/usr/bin/kubelet\0--bootstrap-kubeconfig=/etc/x\0--token\0hunter2\0"
        "--config=/var/lib/kubelet/config.yaml\0--root-dir\0/var/lib/kubelet\0--v=2\0",
    )
    b.file("proc/78/cmdline", "containerd\0--hunter2\0")
    b.file(
        "var/lib/kubelet/config.yaml",
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "staticPodURLHeader:\n  Authorization: [hunter2]\ncgroupDriver: systemd\n"
        "cpuManagerPolicy: static\ncpuManagerPolicyOptions:\n"
        '  strict-cpu-reservation: "true"\nreservedSystemCPUs: 0-1\nclusterDNS: [10.0.0.1]\n'
        "topologyManagerPolicy: restricted\n",
    )
    b.file(
        "var/lib/kubelet/cpu_manager_state",
        json.dumps(
            {
                "policyName": "static",
                "defaultCpuSet": "2-4",
                "entries": {"0123": {"c": "5-6"}},
                "checksum": 1,
            }
        ),
    )
    b.file("var/lib/kubelet/pki/kubelet.key", "hunter2\n")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    """A directory to work in; in memory where there is one, as in the pod."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=place) as name:
        yield Path(name)


def test_the_log_of_a_server_says_what_its_files_say(
    shell: Shell, tmp_path: Path, work: Path
) -> None:
    server(tmp_path / "host")
    done = collect(shell, tmp_path / "host", work)
    assert done.returncode == 0
    found = same(done.stdout, tmp_path / "host")
    assert found.online == CpuSet.parse("0-6")
    assert found.cores is not None
    assert [str(core) for core in found.cores] == ["0-1", "2-3", "4-5", "6"]
    assert found.devices is not None
    assert [(d.type, d.bdf, d.names) for d in found.devices] == [
        ("gpu", "0000:1b:00.0", ()),
        ("gpu", "0000:5e:00.0", ()),
        ("nic", "0000:00:03.0", ("eth0",)),
        ("nic", "0000:9d:00.0", ("ens9", "mlx5_0")),
    ]
    assert found.kubelet is not None
    assert found.kubelet.pods_root == "kubepods.slice"
    assert found.kernel is not None
    assert found.kernel.btf is True
    assert found.allowed is None


def test_a_hybrid_machine(shell: Shell, tmp_path: Path, work: Path) -> None:
    gb10(tmp_path / "host")
    done = collect(shell, tmp_path / "host", work)
    found = same(done.stdout, tmp_path / "host")
    assert found.kinds is not None
    assert [str(kind.cpus) for kind in found.kinds] == ["5-9,15-19", "0-4,10-14"]


@pytest.mark.parametrize(
    "figure",
    [
        "cpu_capacity",
        "acpi_cppc/highest_perf",
        "cpufreq/cpuinfo_max_freq",
        "cpufreq/base_frequency",
    ],
)
def test_figures_that_tell_kinds_of_cores(
    shell: Shell, tmp_path: Path, work: Path, figure: str
) -> None:
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online="0-3")
    b.cores(["0", "1", "2", "3"])
    b.attribute("0-1", figure, 900)
    b.attribute("2-3", figure, 400)
    found = same(collect(shell, tmp_path / "host", work).stdout, tmp_path / "host")
    assert found.kinds is not None
    assert [(str(kind.cpus), kind.figure) for kind in found.kinds] == [
        ("0-1", figure),
        ("2-3", figure),
    ]


def test_core_pmus_and_lists_of_older_kernels(shell: Shell, tmp_path: Path, work: Path) -> None:
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online="0-3")
    b.core("0-1", form="thread_siblings_list")
    b.core("2", core=1, form="thread_siblings")
    b.core("3", core=2, form="core_cpus")
    b.attribute("0-3", "topology/core_siblings_list", "0-3")
    b.attribute("0-3", "topology/die_cpus_list", "0-3")
    b.attribute("0-3", "topology/die_id", 1)
    b.attribute("2-3", "topology/cluster_cpus_list", "2-3")
    b.attribute("2-3", "topology/cluster_id", 8)
    b.file("sys/devices/cpu_core/cpus", "0-1\n")
    b.file("sys/devices/cpu_atom/cpus", "2-3\n")
    b.file("sys/hypervisor/type", "xen\n")
    b.file("sys/kernel/realtime", "1\n")
    found = same(collect(shell, tmp_path / "host", work).stdout, tmp_path / "host")
    assert found.kinds is not None
    assert [(k.name, str(k.cpus), k.evidence) for k in found.kinds] == [
        ("performance", "0-1", "pmu"),
        ("efficiency", "2-3", "pmu"),
    ]
    assert found.clusters == ((8, CpuSet.parse("2-3")),)
    assert found.dies == ((1, CpuSet.parse("0-3")),)
    assert found.virtualization is not None
    assert found.virtualization.hypervisor == "xen"


def test_mounts_are_those_of_the_node(shell: Shell, tmp_path: Path, work: Path) -> None:
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online="0")
    b.core("0")
    b.file(
        "proc/1/mounts",
        "server:/secret /mnt nfs rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n",
    )
    log = collect(shell, tmp_path / "host", work).stdout
    assert (
        contents(log)["root/proc/mounts"] == b"cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
    )
    (found,) = read(log)
    assert found.kernel is not None
    assert found.kernel.cgroup == "v1"


def contents(log: str) -> dict[str, bytes]:
    """Take the files out of a log, by other means than the reader's."""
    data = base64.b64decode("".join(line.split(" ")[5] for line in log.splitlines()))
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        members = {member.name: member for member in archive}
        return {
            name: (archive.extractfile(member) or io.BytesIO()).read() if member.isfile() else b""
            for name, member in members.items()
        }


def test_the_kubelets_state_is_read_where_it_is_mounted(
    shell: Shell, tmp_path: Path, work: Path
) -> None:
    kubelet(server(tmp_path / "host"))
    done = collect(shell, tmp_path / "host", work)
    found = same(done.stdout, tmp_path / "host")
    assert found.kubelet is not None
    assert (found.kubelet.policy, found.kubelet.topology_policy) == ("static", "restricted")
    assert found.kubelet.strict_reservation is True
    assert (str(found.kubelet.reserved), str(found.kubelet.exclusive)) == ("0-1", "5-6")


def test_a_kubelet_in_a_container_is_not_the_nodes(
    shell: Shell, tmp_path: Path, work: Path
) -> None:
    b = server(tmp_path / "host")
    b.file("proc/900/comm", "kubelet\n")
    b.file("proc/900/status", "Name:\tkubelet\nNSpid:\t900\t5\n")
    b.file("proc/900/cmdline", "kubelet\0--cgroup-driver=cgroupfs\0")
    found = same(collect(shell, tmp_path / "host", work).stdout, tmp_path / "host")
    assert found.kubelet is not None
    assert found.kubelet.cgroup_driver == "systemd"
    assert found.notes == ()


def test_a_kubelet_whose_options_tell_nothing(shell: Shell, tmp_path: Path, work: Path) -> None:
    b = server(tmp_path / "host")
    b.file("proc/77/comm", "kubelet\n")
    b.file("proc/77/cmdline", "kubelet\0--v=2\0--token=hunter2\0")
    log = collect(shell, tmp_path / "host", work).stdout
    found = same(log, tmp_path / "host")
    assert found.kubelet is not None
    assert found.kubelet.topology_policy == "none"  # all of its options are known: the default
    assert b"hunter2" not in b"".join(contents(log).values())


def test_nothing_leaves_the_node_that_is_no_fact(shell: Shell, tmp_path: Path, work: Path) -> None:
    kubelet(server(tmp_path / "host"))
    files = contents(collect(shell, tmp_path / "host", work).stdout)
    text = b"\n".join([*files.values(), *(name.encode() for name in files)])
    for secret in (b"hunter2", b"serial", b"secret", b"kubelet.key", b"containerd", b"dyndbg"):
        assert secret not in text, secret
    assert b"isolcpus=2-3 nosmt" in files["root/proc/cmdline"]
    assert next(iter(files)) == "tierc-bundle.json"


def test_another_root_of_the_kubelet(shell: Shell, tmp_path: Path, work: Path) -> None:
    b = server(tmp_path / "host")
    state = {"policyName": "none", "defaultCpuSet": "", "checksum": 1}
    b.file("data/kubelet/cpu_manager_state", json.dumps(state))
    done = collect(shell, tmp_path / "host", work, KUBELET_ROOT="/data/kubelet")
    assert "root/data/kubelet/cpu_manager_state" in contents(done.stdout)


@pytest.mark.parametrize(
    ("group", "root"),
    [
        ("kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0123abcd.slice", "kind"),
        ("kubelet/kubepods/pod01234567-89ab", "kind, cgroupfs"),
        ("kubepods/besteffort/pod01234567-89ab", "cgroupfs"),
        ("a.slice/a-kubepods.slice", "a root of its own"),
        ("a.slice/kubepods", "no pods root"),
    ],
)
def test_pods_roots(shell: Shell, tmp_path: Path, work: Path, group: str, root: str) -> None:
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online="0")
    b.core("0")
    b.file("sys/fs/cgroup/cgroup.controllers", "cpuset\n")
    b.directory(f"sys/fs/cgroup/{group}")
    found = same(collect(shell, tmp_path / "host", work).stdout, tmp_path / "host")
    assert found.kubelet is not None
    assert found.kubelet.present is (root != "no pods root")


def test_this_machine(shell: Shell, work: Path) -> None:
    (found,) = read(collect(shell, Path("/"), work).stdout)
    wanted = read_host(Tree.of_disk(Path("/")), live=True)
    for name in ("online", "cores", "packages", "llcs", "numa", "devices", "capacities", "kinds"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert found.kernel == wanted.kernel
    # Of itself, where it runs and what it may use, the collector says nothing.
    assert found.allowed is None
    assert found.virtualization is not None
    assert found.virtualization.container is None


def test_a_large_machine(shell: Shell, tmp_path: Path, work: Path) -> None:
    cpus = 128
    half = cpus // 2
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online=f"0-{cpus - 1}", present=f"0-{cpus - 1}")
    b.cores([f"{n},{n + half}" for n in range(half)])
    for n in range(half):
        b.cache(2, f"{n},{n + half}", level=2, size="1024K", id=n)
    for n in range(0, half, 8):
        b.cache(3, f"{n}-{n + 7},{n + half}-{n + half + 7}", level=3, size="32768K", id=n)
    b.node(0, f"0-{cpus - 1}", mem_kib=1 << 30, distance="10")
    done = collect(shell, tmp_path / "host", work)
    same(done.stdout, tmp_path / "host")
    assert len(done.stdout) < 100_000


def test_lines_fit_every_log(shell: Shell, tmp_path: Path, work: Path) -> None:
    server(tmp_path / "host")
    node = "n" + ".aaaaaaaaa" * 25
    lines = collect(shell, tmp_path / "host", work, node=node).stdout.splitlines()
    assert len(lines) > 1
    for number, line in enumerate(lines, 1):
        assert len(line) <= 4000
        assert re.fullmatch(
            rf"tierc-facts1 {re.escape(node)} [0-9a-f]{{64}} {number} {len(lines)} [A-Za-z0-9+/=]+",
            line,
        )


@pytest.mark.parametrize(
    ("node", "words"),
    [(None, "NODE_NAME is not set"), ("", "NODE_NAME is not set"), ("a b", "not the name of")],
)
def test_a_pod_without_a_node_name_says_so(
    shell: Shell, tmp_path: Path, work: Path, node: str | None, words: str
) -> None:
    done = collect(shell, tmp_path, work, node=node)
    assert done.returncode == 1
    assert words in done.stdout


def test_a_pod_without_the_host_says_so(shell: Shell, tmp_path: Path, work: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = collect(shell, tmp_path / "empty", work)
    assert done.returncode == 1
    error = refused(done.stdout)
    assert error.line == 1
    assert "node n1 could not collect: there is no sys/devices/system/cpu" in error.message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_the_pod_may_not_read_is_said(shell: Shell) -> None:
    with tempfile.TemporaryDirectory(prefix="tierc-test-") as name:
        where = Path(name)
        where.chmod(0o755)
        kubelet(server(where / "host"))
        (where / "host/var/lib/kubelet/cpu_manager_state").chmod(0o600)
        (where / "scratch").mkdir()
        (where / "scratch").chmod(0o777)
        script_copy = where / "collect.sh"
        script_copy.write_text(script())
        applets = where / "applets"
        path = shell.path
        if "busybox" in shell.argv[0]:
            applets.mkdir()
            subprocess.run([shell.argv[0], "--install", "-s", str(applets)], check=True)
            path = str(applets)
        done = subprocess.run(
            [*shell.argv, str(script_copy)],
            env={
                "PATH": path,
                "TIERC_ROOT": str(where / "host"),
                "TIERC_WORK": str(where / "scratch"),
                "NODE_NAME": "n1",
            },
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    (found,) = read(done.stdout)
    assert "/var/lib/kubelet/cpu_manager_state: cannot read: permission denied" in [
        note.message for note in found.notes
    ]
    assert found.kubelet is not None
    assert found.kubelet.exclusive is None


def test_the_script_holds_and_ends_at_once(shell: Shell, tmp_path: Path, work: Path) -> None:
    server(tmp_path / "host")
    process = subprocess.Popen(
        [*shell.argv, str(SCRIPT), "hold"],
        env={
            "PATH": shell.path,
            "TIERC_ROOT": str(tmp_path / "host"),
            "TIERC_WORK": str(work),
            "NODE_NAME": "n1",
        },
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        count = int(first.split(" ")[4])
        lines = [first, *(process.stdout.readline() for _ in range(count - 1))]
        same("".join(lines), tmp_path / "host")
        assert process.poll() is None, "the log would be gone with the pod"
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


def test_the_script_is_plain_sh(tool: Callable[[str], str]) -> None:
    subprocess.run([tool("dash"), "-n", str(SCRIPT)], check=True)
    subprocess.run([tool("shellcheck"), "--shell=sh", str(SCRIPT)], check=True)
    text = SCRIPT.read_text()
    assert text.isascii()
    assert "\t" not in text


def test_import_of_the_log_equals_collect_on_the_node(
    shell: Shell, tmp_path: Path, work: Path
) -> None:
    kubelet(server(tmp_path / "one"))
    gb10(tmp_path / "two")
    logs = [collect(shell, tmp_path / name, work, node=name).stdout for name in ("two", "one")]
    (tmp_path / "fleet.log").write_text("".join(logs))
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"rack": f"r-{name}"}},
        }
        for name in ("one", "two")
    ]
    (tmp_path / "nodes.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    )
    out = tmp_path / "nodes"
    sources = [str(tmp_path / name) for name in ("fleet.log", "nodes.json")]
    result = CliRunner().invoke(app, ["facts", "import", *sources, "-o", f"{out}/"])
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in out.iterdir()) == ["one.yaml", "two.yaml"]
    for name in ("one", "two"):
        facts = decoded(out / f"{name}.yaml")
        wanted = collect_facts(tmp_path / name, name=name, live=True)
        assert facts.metadata.name == name
        assert facts.metadata.labels == {"rack": f"r-{name}"}
        ours, theirs = facts.spec.model_dump(), wanted.spec.model_dump()
        for key in ("sources", "warnings"):  # they name the files
            del ours[key], theirs[key]
        assert ours == theirs


def decoded(path: Path) -> NodeFacts:
    sink = Sink()
    (document,) = parse_source(path.name, path.read_bytes(), sink).documents
    loaded = decode(document, sink)
    assert not sink.has_errors
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    return loaded.model
