"""Asking nvidia-smi, rocm-smi and NVML: programs and packages that behave in every way."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from compiler.facts.formats import nvml as nvml_format
from compiler.facts.formats.format import Text
from compiler.facts.gather import tools
from compiler.facts.gather.nvml import ask_nvml
from compiler.facts.gather.tools import ToolOutput, ask_tools, read_outputs, trusted_path
from compiler.facts.partial import DevicePart, Partial, ReadError

TOPO = "\\tGPU0\\tCPU Affinity\\tNUMA Affinity\\nGPU0\\t X \\t0-3\\t1\\n"


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory at the front of PATH."""
    where = tmp_path / "bin"
    where.mkdir(mode=0o755)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{where}:/usr/bin:/bin")
    return where


def program(where: Path, name: str, body: str) -> None:
    path = where / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def ask(timeout_s: float = 20, *argv: str) -> ToolOutput:
    (output,) = ask_tools(timeout_s=timeout_s, tools=(argv or ("rocm-smi", "--showtoponuma"),))
    return output


def test_nothing_installed_says_nothing(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bin_))
    assert ask_tools(timeout_s=1) == ()


def test_each_tool_is_asked_and_read(bin_: Path) -> None:
    program(
        bin_,
        "nvidia-smi",
        f"""case "$*" in
        "topo -m") printf '{TOPO}' ;;
        "-q -x") echo '<nvidia_smi_log><gpu id="00000000:01:00.0"/></nvidia_smi_log>' ;;
        *) exit 3 ;;
        esac""",
    )
    program(bin_, "rocm-smi", 'echo "GPU[0] : (Topology) Numa Node: 2 ($*)"')
    outputs = ask_tools(timeout_s=20)
    assert [(o.name, o.argv[0], o.error) for o in outputs] == [
        ("nvidia-smi -q -x", str(bin_ / "nvidia-smi"), None),
        ("nvidia-smi topo -m", str(bin_ / "nvidia-smi"), None),
        ("rocm-smi --showtoponuma", str(bin_ / "rocm-smi"), None),
    ]
    query, topo, rocm = read_outputs(outputs)
    assert [d.bdf for d in query.devices or ()] == ["0000:01:00.0"]
    assert [d.numa for d in topo.devices or ()] == [(1,)]
    assert [d.numa for d in rocm.devices or ()] == [(2,)]
    assert (topo.reader, topo.file) == ("nvidia-smi topo", "nvidia-smi topo -m")


def test_how_a_tool_is_run(bin_: Path) -> None:
    program(bin_, "rocm-smi", 'echo "$LC_ALL $PWD [$(cat)] $(cut -d" " -f5 /proc/$$/stat) $$"')
    words = (ask().text or "").split()
    assert words[:3] == ["C", "/", "[]"]
    assert words[3] == words[4]  # the leader of its own process group


def test_exit_status_and_the_first_line_of_its_complaint(bin_: Path) -> None:
    program(bin_, "rocm-smi", "echo out; printf 'no\\tdriver\\nmore\\n' >&2; exit 9")
    output = ask()
    assert (output.text, output.error) == (None, "exit status 9: no\\tdriver")
    (partial,) = read_outputs([output])
    assert partial.devices is None
    assert [note.message for note in partial.notes] == ["not used: exit status 9: no\\tdriver"]
    # nvidia-smi complains on standard output.
    program(bin_, "rocm-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    assert ask().error == "exit status 9: NVIDIA-SMI has failed"
    program(bin_, "rocm-smi", "kill -11 $$")
    assert ask().error == "killed by signal 11"


def gone(pid: int) -> bool:
    """Return whether a process has ended, within some seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_tool_that_hangs_is_killed_with_its_children(bin_: Path, tmp_path: Path) -> None:
    program(
        bin_,
        "rocm-smi",
        f"cd {tmp_path}; trap '' TERM INT; sleep 600 & echo $! > child; echo $$ > self; wait",
    )
    started = time.monotonic()
    output = ask(1.0)
    assert (output.text, output.error) == (None, "no answer within 1 s")
    assert time.monotonic() - started < 30
    assert gone(int((tmp_path / "child").read_text()))
    assert gone(int((tmp_path / "self").read_text()))


def test_a_tool_that_closes_its_output_and_stays(bin_: Path) -> None:
    program(bin_, "rocm-smi", "exec >&- 2>&-; exec sleep 600")
    assert ask(1.0).error == "did not end within 1 s"


def test_what_a_tool_leaves_behind_does_not_hold_us_up(bin_: Path, tmp_path: Path) -> None:
    program(bin_, "rocm-smi", f"sleep 600 & echo $! > {tmp_path}/child; echo done")
    started = time.monotonic()
    output = ask(300.0)
    assert (output.text, output.error) == ("done\n", None)
    assert time.monotonic() - started < 60
    assert gone(int((tmp_path / "child").read_text()))


def test_huge_output_is_not_kept(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bin_, "rocm-smi", "exec yes")
    monkeypatch.setattr(tools, "MAX_OUTPUT", 200_000)
    assert ask().error == "more than 200000 bytes of output"
    program(bin_, "rocm-smi", "head -c 300000 /dev/zero >&2; echo fine")
    assert ask().text == "fine\n"


def test_garbage_is_a_note(bin_: Path) -> None:
    program(bin_, "rocm-smi", "printf '\\377\\376 GPU \\000 x\\n'")
    output = ask()
    assert output.text == "\ufffd\ufffd GPU \0 x\n"
    (partial,) = read_outputs([output])
    assert [note.message for note in partial.notes] == ["not used: no NUMA node of a GPU in it"]


def test_a_program_that_cannot_be_run(bin_: Path) -> None:
    (bin_ / "rocm-smi").write_text("#!/nowhere/at/all\n")
    (bin_ / "rocm-smi").chmod(0o755)
    assert ask().error == "cannot be run: no such file or directory"


def test_only_trusted_places_count(tmp_path: Path) -> None:
    good, open_, repo = tmp_path / "good", tmp_path / "open", tmp_path / "repo"
    for place in (good, open_, repo, repo / "bin"):
        place.mkdir(mode=0o755)
    open_.chmod(0o777)
    (tmp_path / "link").symlink_to(repo / "bin")
    path = f":.:bin:{repo}:{repo}/bin:{tmp_path}/link:{open_}:{tmp_path}/none:{good}"
    assert trusted_path(path, str(repo)) == str(good)
    assert trusted_path(str(repo / "bin"), "/") == str(repo / "bin")


def test_a_program_that_others_can_change_is_not_run(bin_: Path) -> None:
    program(bin_, "rocm-smi", "echo x")
    (bin_ / "rocm-smi").chmod(0o777)
    assert ask_tools(timeout_s=5, tools=(("rocm-smi", "--showtoponuma"),)) == ()
    # A `which` that answers with a relative path is not believed either.
    assert ask_tools(timeout_s=5, which=lambda *_a, **_k: "rocm-smi") == ()


# --- NVML --------------------------------------------------------------------------------------


class NVMLError(Exception):
    pass


class FakeNvml(types.ModuleType):
    """nvidia-ml-py with one GPU of two MIG instances, and one that answers nothing."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.calls: list[str] = []
        self.words: dict[str, int] = {}

    def nvmlInit(self) -> None:
        self.calls.append("init")

    def nvmlShutdown(self) -> None:
        self.calls.append("shutdown")

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index == 2:
            raise NVMLError("lost")
        return index

    def nvmlDeviceGetPciInfo(self, gpu: int) -> Any:
        if gpu:
            raise NVMLError
        return types.SimpleNamespace(busId=b"00000009:01:00.0")

    def nvmlDeviceGetUUID(self, gpu: int) -> str:
        if gpu == 1:
            raise NVMLError
        return "GPU-abc" if gpu == 0 else f"MIG-{gpu}"

    def nvmlDeviceGetName(self, gpu: int) -> bytes:
        if gpu:
            raise NVMLError
        return b"NVIDIA GH200"

    def nvmlDeviceGetCpuAffinity(self, gpu: int, words: int) -> Any:
        if gpu:
            raise NVMLError
        self.words["cpu"] = words
        mask = (ctypes.c_ulonglong * words)()
        mask[0], mask[1], mask[20] = 0b1110, 1, 1 << 63
        return mask

    def nvmlDeviceGetMemoryAffinity(self, gpu: int, words: int, scope: int) -> Any:
        if gpu:
            raise NVMLError
        assert scope == 0
        mask = (ctypes.c_ulonglong * words)()
        mask[0] = 0b101
        return mask

    def nvmlDeviceGetNumaNodeId(self, gpu: int) -> int:
        if gpu:
            raise NVMLError
        return 1

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: int) -> int:
        if gpu:
            raise NVMLError
        return 4

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _gpu: int, slot: int) -> int:
        if slot in (0, 2):
            raise NVMLError
        return 100 + slot


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    module = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    return module


def read_nvml(text: str) -> Partial:
    assert nvml_format.FORMAT.sniff(text)
    (partial,) = nvml_format.FORMAT.read(Text("nvml", text))
    return partial


def test_what_nvml_says_is_written_down_and_read(fake: FakeNvml) -> None:
    text = ask_nvml()
    assert text is not None
    assert json.loads(text) == {
        "tiercNvml": 1,
        "limited": False,
        "gpus": [
            {
                "index": 0,
                "pciBusId": "00000009:01:00.0",
                "uuid": "GPU-abc",
                "name": "NVIDIA GH200",
                "cpus": "1-3,64,1343",
                "numa": "0,2",
                "memoryNode": 1,
                "mig": ["MIG-101", "MIG-103"],
            },
            {"index": 1},
        ],
    }
    assert fake.calls == ["init", "shutdown"]
    assert fake.words["cpu"] * 8 * ctypes.sizeof(ctypes.c_ulong) == 8192
    partial = read_nvml(text)
    assert partial.reader == "nvml"
    assert partial.devices is not None
    first, *instances, last = partial.devices
    assert (first.bdf, first.uuid, first.index) == ("0009:01:00.0", "GPU-abc", 0)
    assert (str(first.cpus), first.numa, first.memory_node) == ("1-3,64,1343", (0, 2), 1)
    assert (first.model, first.vendor, first.confidence) == ("NVIDIA GH200", "10de", "measured")
    assert [(d.uuid, d.parent_uuid, d.index) for d in instances] == [
        ("MIG-101", "GPU-abc", None),
        ("MIG-103", "GPU-abc", None),
    ]
    assert last == DevicePart("gpu", index=1, vendor="10de", confidence="unknown")
    assert read_outputs([ToolOutput("nvml", (), text)])[0].devices == partial.devices


def test_without_the_package_or_a_driver_there_is_nothing(
    fake: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "nvmlDeviceGetCount", lambda: 0)
    assert ask_nvml() is None

    def fail() -> None:
        raise NVMLError("driver not loaded")

    monkeypatch.setattr(fake, "nvmlInit", fail)
    assert ask_nvml() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert ask_nvml() is None


def test_a_driver_that_hangs_costs_its_time_only(
    fake: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(fake, "nvmlInit", release.wait)
    assert ask_nvml(timeout_s=0.2) is None
    release.set()


@pytest.mark.parametrize(
    ("gpu", "cpus", "numa", "confidence"),
    [
        ({"cpus": "0-3", "numa": "0"}, None, (0,), "measured"),
        ({"cpus": "0-3"}, "0-3", (), "suspect"),
    ],
)
def test_affinity_asked_from_a_cpuset_is_not_the_machines(
    gpu: dict[str, Any], cpus: str | None, numa: tuple[int, ...], confidence: str
) -> None:
    partial = read_nvml(json.dumps({"tiercNvml": 1, "limited": True, "gpus": [{"index": 0} | gpu]}))
    assert partial.devices is not None
    (device,) = partial.devices
    assert (device.cpus and str(device.cpus), device.numa, device.confidence) == (
        cpus,
        numa,
        confidence,
    )
    assert "may be cut" in partial.notes[0].message


def test_a_limited_process_says_so(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    assert json.loads(ask_nvml() or "")["limited"] is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: expecting property name enclosed in double quotes"),
        ("[]", "not JSON of NVML's answers"),
        ('{"a":' * 100_000, "not JSON"),
        ('{"tiercNvml": 2}', "tiercNvml is not 1"),
        ('{"tiercNvml": 1, "gpus": [1]}', "gpus is not a list of objects"),
    ],
)
def test_json_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        nvml_format.FORMAT.read(Text("t", text))
    assert caught.value.message.startswith(message)


def test_values_of_the_wrong_type_are_unknown() -> None:
    gpu = {"index": True, "uuid": 3, "cpus": "9-1", "numa": 4, "memoryNode": -1, "mig": "x"}
    partial = read_nvml(json.dumps({"tiercNvml": 1, "gpus": [gpu]}))
    assert partial.devices == (DevicePart("gpu", vendor="10de", confidence="unknown"),)
    assert partial.notes[0].message.startswith("GPU ?: cpus: range '9-1' runs backwards")
