"""Users who err and files that attack: every answer short, true and in time, nothing lost."""

from __future__ import annotations

import base64
import gzip
import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuListError, CpuSet
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.facts import daemonset
from compiler.facts.collect import collect
from compiler.facts.devices import read_devices
from compiler.facts.files.memory import MemoryFiles
from compiler.facts.files.opened import opened
from compiler.facts.formats import nodefacts
from compiler.facts.gather.tools import ask_tools
from compiler.facts.importing import Source, by_node
from compiler.facts.merge import merge
from compiler.facts.partial import Partial, ReadError
from compiler.facts.redact import redacted, redacted_output
from compiler.facts.secrets import without_secrets
from compiler.facts.siblings import read_packages
from compiler.facts.tree import Tree
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.sysfs_builder import SysfsBuilder

Call = Callable[..., tuple[int, str, str]]

LSCPU = "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n"
BASE = "/sys/devices/system/cpu"
SCRIPT = Path(daemonset.__file__).with_name("collect.sh")


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("lscpu.csv").write_text(LSCPU)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["facts", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def document(text: str) -> NodeFacts:
    sink = Sink()
    (one,) = parse_source("x.yaml", text.encode(), sink).documents
    found = decode(one, sink)
    assert list(sink) == []
    assert found is not None
    assert isinstance(found.model, NodeFacts)
    return found.model


def smi(count: int) -> str:
    """`nvidia-smi -q -x` of GPUs at 0000:00:00.0, 0001:00:00.0, ..."""
    gpus = "".join(
        f'<gpu id="{i:08X}:00:00.0"><product_name>X</product_name><uuid>GPU-{i}</uuid></gpu>\n'
        for i in range(count)
    )
    return (
        "<?xml version='1.0'?>\n<nvidia_smi_log>"
        f"<attached_gpus>{count}</attached_gpus>{gpus}</nvidia_smi_log>"
    )


# --- where facts are written -------------------------------------------------------------------


def test_a_dash_is_the_standard_output(call: Call) -> None:
    for arguments in (
        ("import", "lscpu.csv", "--name", "a", "-o", "-"),
        ("collect", "--name", "a", "--no-tools", "-o", "-"),
    ):
        code, out, _ = call(*arguments)
        assert code == 0
        assert document(out).metadata.name == "a"
    assert call("daemonset", "-o", "-")[1].startswith("#")
    assert os.listdir(".") == ["lscpu.csv"]


def test_an_empty_name_of_a_file_is_refused(call: Call) -> None:
    code, out, err = call("import", "lscpu.csv", "--name", "a", "-o", "")
    assert (code, out) == (2, "")
    assert "--out is empty" in err
    assert os.listdir(".") == ["lscpu.csv"]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_is_no_file_is_not_written_to(call: Call, force: tuple[str, ...]) -> None:
    Path("there").mkdir()
    code, _, err = call("collect", "--no-tools", "-o", "there", *force)
    assert code == 2
    assert "there is a directory; name a file in it" in err
    code, _, err = call("import", "lscpu.csv", "--name", "a", "-o", "/dev/null", *force)
    assert code == 2
    assert "/dev/null is no regular file" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "lscpu.csv", "--name", "a", "-o"),
        ("collect", "--no-tools", "-o"),
        ("collect", "--no-tools", "--bundle"),
        ("daemonset", "-o"),
    ],
)
def test_a_place_that_cannot_be_looked_at(
    call: Call, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, *_: object, **__: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    # Also for root, who may look anywhere: what stat says to others.
    where = "hidden/x.yaml"
    real = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda self, **k: denied(self) if "hidden" in str(self) else real(self, **k)
    )
    code, out, err = call(*arguments, where)
    assert (code, out) == (2, "")
    assert f"cannot write {where}: permission denied" in err


def test_a_failed_write_names_the_file_and_not_a_temporary_one(call: Call) -> None:
    Path("file").write_text("x")
    long = "a" * 250 + ".yaml"
    code, _, err = call("import", "lscpu.csv", "--name", "a", "-o", long)
    assert code == 2
    assert err == f"tierc: nothing written: cannot write {long}: file name too long\n"


def test_an_override_that_now_means_another_device_is_named(call: Call) -> None:
    Path("q.xml").write_text(smi(2))
    assert call("import", "lscpu.csv", "q.xml", "--name", "a", "-o", "a.yaml")[0] == 0
    with Path("a.yaml").open("a") as file:
        file.write("  overrides: {devices: [{id: gpu0, numa: 0}, {id: gpu1, numa: 0}]}\n")
    # The same GPUs: nothing to say.
    again = call("import", "lscpu.csv", "q.xml", "-o", "a.yaml", "--force", "--name", "a")
    assert again == (0, "", "a.yaml: facts of a\n")
    # The first one is gone, so the second one becomes gpu0.
    Path("q.xml").write_text(smi(1).replace("00000000:", "00000001:").replace("GPU-0", "GPU-1"))
    code, _, err = call("import", "lscpu.csv", "q.xml", "-o", "a.yaml", "--force", "--name", "a")
    assert code == 0
    assert "gpu0 was 0000:00:00.0 and is 0001:00:00.0 now" in err
    assert "there is no gpu1 any more" in err


# --- what is read ------------------------------------------------------------------------------


def test_a_file_called_dash_is_not_quoted_for_the_standard_input(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("-").write_text("of another file\n")
    with open("lscpu.csv", "rb") as raw:
        raw.read()  # at its end: an empty standard input
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": raw})())
        code, _, err = call("import", "-", "--name", "a")
    assert code == 1
    assert "is empty" in err
    assert "of another file" not in err


def test_a_pipe_nobody_writes_to_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(ReadError, match="is a pipe that nobody writes to"),
        opened(tmp_path / "pipe", wait_s=0.1),
    ):
        pass


def test_a_pipe_with_a_late_writer_is_read_whole(call: Call) -> None:
    os.mkfifo("pipe")

    def write() -> None:
        with open("pipe", "wb", buffering=0) as pipe:
            for line in LSCPU.splitlines(keepends=True):
                pipe.write(line.encode())

    writer = threading.Thread(target=write)
    writer.start()
    code, out, err = call("import", "pipe", "--name", "a")
    writer.join()
    assert (code, err) == (0, "")
    assert str(document(out).spec.cpus.online) == "0-1"


def test_files_in_a_directory_that_cannot_be_read_are_named(call: Call) -> None:
    Path("d").mkdir()
    Path("d/a.csv").write_text(LSCPU)
    Path("d/latin.txt").write_bytes(b"caf\xe9\n")
    Path("d/empty.txt").write_bytes(b"")
    Path("d/readme.txt").write_text("of no format\n")
    with Path("d/big.log").open("wb") as file:
        file.truncate((8 << 20) + 1)
    code, out, err = call("import", "d", "--name", "a")
    assert code == 0
    assert "/big.log is larger than 8 MiB; passed over" in err
    assert "/latin.txt: byte 0xe9 is not UTF-8; passed over" in err
    assert "empty" not in err
    assert "readme" not in err
    assert len(document(out).spec.warnings) == 2
    # The reason is said as well where nothing is left.
    Path("d/a.csv").unlink()
    code, _, err = call("import", "d", "--name", "a")
    assert code == 1
    assert "holds nothing that tells of a node; /big.log is larger than 8 MiB" in err


def test_with_a_name_nameless_files_of_a_directory_are_of_that_node() -> None:
    table = Partial("lscpu", "d!a.csv", online=CpuSet((0, 1)))
    mine, other = Partial("node", "d!n.json", node="a"), Partial("node", "d!n.json", node="b")
    (group,) = by_node([Source("d", (table, mine, other))], name="a").values()
    assert group[0].partials == (table, mine)
    with pytest.raises(ReadError, match="none of them is c"):
        by_node([Source("d", (table, mine, other))], name="c")


def test_facts_in_one_line_of_json_are_facts(call: Call) -> None:
    spec = {"cpus": {"online": "0-1"}, "cores": [{"cpus": "0-1", "smt": ["0", "1"]}]}
    text = json.dumps(
        {
            "apiVersion": "tierc.dev/v1alpha1",
            "kind": "NodeFacts",
            "metadata": {"name": "a"},
            "spec": spec,
        }
    )
    Path("a.json").write_text(text)
    assert nodefacts.FORMAT.sniff(text)
    code, out, err = call("import", "a.json")
    assert (code, err) == (0, "")
    assert document(out).metadata.name == "a"


def test_blank_lines_take_no_time() -> None:
    # Quadratic in the number of lines before: this would take many minutes.
    assert not any(one.sniff("\n" * 1_000_000 + "x") for one in (nodefacts.FORMAT,))


# --- floods ------------------------------------------------------------------------------------


def test_a_thousand_remarks_are_counted(call: Call) -> None:
    Path("q.xml").write_text(smi(1000))
    Path("lscpu.csv").write_text(LSCPU + "2,1,0,1,,1,1,1,1\n")  # a second node: nothing to infer
    code, out, err = call("import", "lscpu.csv", "q.xml", "--name", "a")
    assert code == 0
    assert len(err.splitlines()) < 200
    last = [line for line in err.splitlines() if line.startswith("warning")][-1]
    assert last.endswith(" more warnings; the facts keep up to 64 of each node in `warnings`")
    assert len(document(out).spec.devices) == 1000


def test_what_is_said_of_many_nodes_is_said_once(call: Call) -> None:
    assert call("import", "lscpu.csv", "--name", "n0", "-o", "n0.yaml")[0] == 0
    text = Path("n0.yaml").read_text() + '  warnings: ["the clock is odd"]\n'
    Path("all.yaml").write_text(
        "---\n".join(text.replace("name: n0", f"name: n{i}") for i in range(50))
    )
    code, _, err = call("import", "all.yaml", "-o", "nodes/")
    assert code == 0
    assert err.count("the clock is odd") == 1
    assert "and 45 more" in err
    assert len(os.listdir("nodes")) == 50


@pytest.mark.parametrize(
    "text", ["1," * 500_000 + "z", "9" * 1_000_000, "0" * 1_000_000, "5-" + "9" * 100_000]
)
def test_the_message_about_a_list_is_short(text: str) -> None:
    with pytest.raises(CpuListError) as caught:
        CpuSet.parse(text)
    assert len(str(caught.value)) < 300
    with pytest.raises(CpuListError) as caught:
        CpuSet.parse_hex_mask("g" * 1_000_000)
    assert len(str(caught.value)) < 300


# --- collecting --------------------------------------------------------------------------------


def test_collecting_in_a_directory_that_is_gone(call: Call, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    code, out, _ = call("collect", "--name", "a")
    assert code == 0
    assert document(out).metadata.name == "a"


def test_a_tool_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin_ = tmp_path / "bin"
    bin_.mkdir(mode=0o755)
    for name in ("nvidia-smi", "rocm-smi"):
        (bin_ / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (bin_ / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    assert [one.error for one in ask_tools(timeout_s=0.3)] == [
        "no answer within 0.3 s",
        "not asked: it hung before",
        "no answer within 0.3 s",
    ]


def test_an_error_below_another_root_names_it(call: Call) -> None:
    Path("root").mkdir()
    code, _, err = call("collect", "--sysroot", "root")
    assert code == 2
    assert err.startswith("tierc: below root: /sys/devices/system/cpu: no such directory")


def test_an_interface_behind_another_function_has_no_address(tmp_path: Path) -> None:
    b = SysfsBuilder(tmp_path)
    nic = b.pci("0000:01:00.0", code=0x020000, vendor=0x8086, device=1, numa=0)
    hca = b.pci("0000:02:00.0", code=0x0C0600, vendor=0x15B3, device=2, numa=0)
    host = b.pci("0000:03:00.0", code=0x088000, vendor=0x8086, device=3, numa=0)
    for name, parent in (("eth0", nic), ("ib0", hca)):
        b.interface(name, parent)
    # The device of this interface lies below the controller.
    b.interface("thunderbolt0", f"{host}/domain0/0-1/0-1.0")
    found = read_devices(Tree.of_disk(tmp_path), CpuSet((0,)), {})
    assert {one.names: one.bdf for one in found} == {
        ("eth0",): "0000:01:00.0",
        ("ib0",): "0000:02:00.0",
        ("thunderbolt0",): None,
    }


# --- packages that the kernel does not know ----------------------------------------------------


def test_packages_numbered_minus_one_are_not_those_of_lscpu(tmp_path: Path) -> None:
    b = SysfsBuilder(tmp_path)
    online = CpuSet.parse("0-3")
    for cpu in online:
        b.file(
            f"{BASE}/cpu{cpu}/topology/thread_siblings_list", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        )
    assert read_packages(Tree.of_disk(tmp_path), BASE, online) is None
    for cpu in online:
        b.file(f"{BASE}/cpu{cpu}/topology/physical_package_id", "-1\n")
    assert read_packages(Tree.of_disk(tmp_path), BASE, online) == ()
    pairs = (CpuSet.parse("0-1"), CpuSet.parse("2-3"))
    kernel = Partial("sysfs", "s", online=online, cores=pairs, packages=())
    table = Partial(
        "lscpu", "l", online=online, cores=pairs, packages=((0, pairs[0]), (1, pairs[1]))
    )
    packages = {g.package for g in merge([kernel, table], name="n").facts.spec.cores}
    assert packages == {None}
    # Without the kernel's word lscpu's counts.
    packages = {g.package for g in merge([table], name="n").facts.spec.cores}
    assert packages == {0, 1}


# --- secrets -----------------------------------------------------------------------------------


def test_users_and_passwords_of_urls_are_left_out() -> None:
    yaml = b"staticPodURL: https://u:hunter2@h/x\ncpuManagerPolicy: static\n"
    assert without_secrets(yaml) == b"staticPodURL: https://h/x\ncpuManagerPolicy: static\n"
    assert b"hunter2" not in without_secrets(b'{"staticPodURL": "https://u:hunter2@h/"}')
    files = MemoryFiles()
    files.add("/proc/7/comm", b"k3s-server\n")
    files.add("/proc/7/cmdline", b"k3s\0--datastore-endpoint=postgres://u:hunter2@h/db\0")
    files.add(
        "/proc/driver/nvidia/gpus/0000:01:00.0/information",
        b"Model: \t\t X\nGPU UUID: \t GPU-1\nVideo BIOS: \t 1.2\n",
    )
    kept = dict(redacted(files).nodes())
    assert kept["/proc/7/cmdline"] == b"k3s\0--datastore-endpoint=postgres://h/db\0"
    assert kept["/proc/driver/nvidia/gpus/0000:01:00.0/information"] == (
        b"Model: \t\t X\nGPU UUID: \t GPU-1\n"
    )


def test_serial_numbers_and_processes_of_nvidia_smi_are_left_out() -> None:
    text = (
        '<gpu id="0"><serial>1234</serial><uuid>GPU-1</uuid>\n<processes>\n<process_info>'
        "<process_name>secret-job</process_name></process_info>\n</processes></gpu>"
    )
    kept = redacted_output(text)
    assert kept == (
        '<gpu id="0"><serial></serial><uuid>GPU-1</uuid>\n<processes>\n\n</processes></gpu>'
    )
    assert redacted_output("<serial>" * 300_000) == "<serial>" * 300_000  # no end, and no ages


def test_a_machine_named_by_an_attacker_stays_in_its_directory(call: Call) -> None:
    b = SysfsBuilder(Path("snap"))
    b.masks(online="0-1")
    b.cores(["0-1"])
    b.file("proc/sys/kernel/hostname", "../../../etc/cron.d/\x1b[31mx\n")
    facts = collect(Path("snap"), name=None, live=False)
    assert facts.metadata.name == "etc-cron.d---31mx"  # no slash, no dots in a row, no escape
    code, _, err = call("import", "snap", "-o", "nodes/")
    assert code == 0
    assert os.listdir("nodes") == ["etc-cron.d---31mx.yaml"]
    assert "\x1b" not in err


@pytest.mark.parametrize("shell", [("dash",), ("busybox", "sh")])
def test_the_log_of_a_pod_has_no_secrets(
    tool: Callable[[str], str], shell: tuple[str, ...], tmp_path: Path
) -> None:
    b = SysfsBuilder(tmp_path / "host")
    b.masks(online="0-1")
    b.cores(["0-1"])
    b.directory("var/lib/kubelet")
    for path, text in (
        # A kubeconfig where some distributions have the kubelet's settings.
        ("etc/kubernetes/kubelet.conf", '{"kind":"Config","users":[{"token":"hunter2"}]}'),
        ("etc/kubernetes/kubelet.yaml", "kind: Config\nusers:\n- user: {token: hunter2}\n"),
        (
            "etc/kubernetes/kubelet/config.json",
            '{"kind": "KubeletConfiguration", "staticPodURLHeader": {"A": ["hunter2"]}}',
        ),
        (
            "etc/kubernetes/kubelet/kubelet-config.json",
            '{\n  "kind" : "KubeletConfiguration",\n  "topologyManagerPolicy": "restricted"\n}',
        ),
        (
            "var/lib/kubelet/config.yaml",
            "staticPodURLHeader:\n  A: [hunter2]\nstaticPodURL: https://u:hunter2@h/\n"
            "cpuManagerPolicy: static\n",
        ),
        (
            "var/lib/kubelet/kubeadm-flags.env",
            'KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd --node-labels=a=hunter2 '
            '--reserved-cpus 0 --v 2"\nTOKEN=hunter2\n',
        ),
        ("etc/rancher/k3s/config.yaml", "token: hunter2\n"),
        ("etc/rancher/rke2/config.yaml", "token: hunter2\n"),
        ("etc/machine-id", "hunter2\n"),
        ("proc/1/environ", "A=hunter2\0"),
    ):
        b.file(path, text)
    (tmp_path / "work").mkdir()
    done = subprocess.run(
        [tool(shell[0]), *shell[1:], str(SCRIPT)],
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "NODE_NAME": "n",
            "TIERC_ROOT": str(tmp_path / "host"),
            "TIERC_WORK": str(tmp_path / "work"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    data = base64.b64decode("".join(line.split(" ")[5] for line in done.stdout.splitlines()))
    tree = gzip.decompress(data)
    assert b"hunter2" not in tree
    # What tells of CPUs is there.
    assert b'KUBELET_KUBEADM_ARGS="--cgroup-driver=systemd --reserved-cpus 0"\n' in tree
    assert b'"topologyManagerPolicy": "restricted"' in tree
    assert b"cpuManagerPolicy: static\n" in tree


def test_a_restricted_export_says_what_its_facts_are_worth(call: Call) -> None:
    Path("h.xml").write_text(
        '<topology version="2.0"><object type="Machine" cpuset="0x3" complete_cpuset="0xf" '
        'nodeset="0x1"><info name="HostName" value="n"/><object type="Core" cpuset="0x3">'
        '<object type="PU" os_index="0" cpuset="0x1"/><object type="PU" os_index="1" '
        'cpuset="0x2"/></object></object></topology>'
    )
    code, _, err = call("import", "h.xml")
    assert code == 0
    assert "CPU 2-3 is not in the file" in err
    assert "the node will refuse plans made from this file alone" in err
