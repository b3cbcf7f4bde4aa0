"""bpf/load.sh and unload.sh on real maps; only attaching is played by a stand-in.

The kernel of this machine need not have sched_ext: a wrapper around bpftool answers ``struct_ops
register`` by writing what sysfs would say.  Attaching for real is the lab's (tests/lab).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler.plan import NodePlan
from targets.bpf import TARGET
from targets.bpf.layout import pack_abi
from tests.bpf_classify import NO_POLICY, classify, expected, load
from tests.bpf_eval import Thread
from tests.bpf_live import Bpftool, active, check_slot, private_bpffs
from tests.bpf_plans import EFFECTIVE, RICH_RULES, plan, rule

SHELLS = ("dash", "busybox")
OTHER = plan([rule(0, 3, comm="other*"), rule(1, 2, cgroup="z/**")])
THREADS = (Thread(b"VLLM::EngineCor"), Thread(b"other"), Thread(b"bash"))


def emit(a_plan: NodePlan, directory: Path) -> Path:
    for artifact in TARGET.emit(a_plan):
        path = directory / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
    return directory / "bpf"


def make_sysfs(root: Path) -> None:
    """Write the CPUs of the plans of tests.bpf_plans, and a kernel that takes schedulers."""
    files = {
        "devices/system/cpu/online": f"{EFFECTIVE}\n",
        "kernel/sched_ext/state": "disabled\n",
        "kernel/btf/vmlinux": "x",
    }
    for cpu in EFFECTIVE:
        base = f"devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/core_cpus_list"] = f"{cpu}\n"
        files[f"{base}/cache/index0/level"] = "3\n"
        files[f"{base}/cache/index0/type"] = "Unified\n"
        files[f"{base}/cache/index0/shared_cpu_list"] = f"{EFFECTIVE}\n"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


WRAPPER = """\
#!/bin/sh
case "$1 $2" in
"struct_ops register")
  echo register >>'{root}/calls'
  [ -e '{root}/broken' ] && exit 0
  mkdir -p '{sys}/kernel/sched_ext/root'
  echo tierc >'{sys}/kernel/sched_ext/root/ops'
  echo enabled >'{sys}/kernel/sched_ext/state'
  exit 0
  ;;
"batch file") [ ! -e '{root}/damage' ] || sed -i 's/value hex 01 /value hex 03 /' "$3" ;;
esac
exec '{bpftool}' "$@"
"""


@dataclass
class Node:
    """A machine to load on."""

    root: Path
    bpftool: Bpftool

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def run(self, script: Path, *options: str, shell: str = "dash", code: int = 0) -> str:
        """Run a script; return all it said."""
        environment = os.environ | {
            "TIERC_SYS": str(self.sys),
            "TIERC_ETC": str(self.root / "etc"),
            "TIERC_BPFFS": str(self.bpftool.bpffs),
            "TIERC_ARCH": "x86_64",
            "TIERC_OBJECT": str(self.root / "object"),
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
        }
        command = {"dash": ["dash"], "busybox": ["busybox", "sh"]}[shell]
        done = subprocess.run(
            [*command, str(script), "--state", str(self.root / "state"), *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def answers(self) -> list[int]:
        return classify(self.bpftool, THREADS, self.root / "packets")

    def set_state(self, state: str, ops: str = "tierc") -> None:
        (self.sys / "kernel/sched_ext/state").write_text(f"{state}\n")
        (self.sys / "kernel/sched_ext/root").mkdir(exist_ok=True)
        (self.sys / "kernel/sched_ext/root/ops").write_text(f"{ops}\n")


@pytest.fixture
def node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    for name in SHELLS:
        tool(name)
    with private_bpffs(tool, tmp_path / "bpffs") as mount:
        bpftool = Bpftool(mount, tool("bpftool"))
        load(bpftool, tool("clang"), tmp_path)
        one = Node(tmp_path, bpftool)
        make_sysfs(one.sys)
        (tmp_path / "bin").mkdir()
        wrapper = tmp_path / "bin" / "bpftool"
        wrapper.write_text(
            WRAPPER.format(root=tmp_path, sys=one.sys, bpftool=shutil.which(bpftool.program))
        )
        wrapper.chmod(0o755)
        (tmp_path / "object").write_text("an object")
        abi = pack_abi().hex(" ").split()
        update = f"map update pinned {mount}/tierc_abi key hex 00 00 00 00 value hex"
        bpftool.json(*update.split(), *abi)
        yield one


@pytest.mark.parametrize("shell", SHELLS)
def test_load_again_and_another(node: Node, tmp_path: Path, shell: str) -> None:
    rich = plan(RICH_RULES)
    old, new = emit(rich, tmp_path / "old"), emit(OTHER, tmp_path / "new")
    assert node.answers() == [NO_POLICY] * 3
    said = node.run(old / "load.sh", shell=shell)
    assert "the scheduler is attached" in said
    assert "is in force, in slot 0" in said
    assert node.answers() == expected(rich, THREADS)
    check_slot(node.bpftool, json.loads((old / "seed.json").read_text()), 0)
    assert not (node.bpftool.bpffs / "tierc_stage").exists()

    before = active(node.bpftool)
    said = node.run(old / "load.sh", shell=shell)
    assert "nothing was changed" in said
    assert active(node.bpftool) == before

    said = node.run(new / "load.sh", shell=shell)
    assert "is in force, in slot 1" in said
    assert node.answers() == expected(OTHER, THREADS)
    assert (tmp_path / "calls").read_text() == "register\n"

    node.run(new / "load.sh", "--rollback", shell=shell)
    assert active(node.bpftool) == before
    assert node.answers() == expected(rich, THREADS)
    assert not list((tmp_path / "state").glob("lock*"))


def test_dry_run_changes_nothing(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    said = node.run(script, "--dry-run")
    assert "would be attached" in said
    assert "would be put in force" in said
    assert active(node.bpftool) == bytes(8)
    assert not (tmp_path / "calls").exists()
    assert not (tmp_path / "state").exists()


def test_what_is_refused(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.set_state("enabled", "scx_other")
    assert "scx_other" in node.run(script, code=9)
    node.set_state("disabled")
    (node.sys / "kernel/btf/vmlinux").unlink()
    assert "BTF" in node.run(script, code=8)
    (node.sys / "kernel/btf/vmlinux").write_text("x")
    shutil.move(node.sys / "kernel/sched_ext", tmp_path / "kept")
    assert "no sched_ext" in node.run(script, code=8)
    shutil.move(tmp_path / "kept", node.sys / "kernel/sched_ext")
    for cpu in (3, 4):
        (node.sys / f"devices/system/cpu/cpu{cpu}/topology/core_cpus_list").write_text("3-4\n")
    assert "not those of the plan" in node.run(script, code=3)
    make_sysfs(node.sys)
    assert "no such option" in node.run(script, "--fast", code=2)
    assert "exclude each other" in node.run(script, "--ensure", "--rollback", code=2)
    node.run(script, "--rollback", code=13)
    assert active(node.bpftool) == bytes(8)
    assert not (tmp_path / "calls").exists()


def test_a_scheduler_that_does_not_come_up(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    (tmp_path / "broken").touch()
    assert "could not be attached" in node.run(script, code=10)
    assert not (node.bpftool.bpffs / "tierc_link").exists()
    (tmp_path / "object").unlink()
    assert "no scheduler in" in node.run(script, code=7)


def test_another_layout(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    update = f"map update pinned {node.bpftool.bpffs}/tierc_abi key hex 00 00 00 00 value hex"
    node.bpftool.json(*update.split(), *["07"] * 64)
    assert "another layout" in node.run(script, code=11)
    assert active(node.bpftool) == bytes(8)


def test_damage_on_the_way_is_seen(node: Node, tmp_path: Path) -> None:
    """One bit of the maps comes out wrong: the seed before stays in force."""
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    node.run(old / "load.sh")
    before = active(node.bpftool)
    (tmp_path / "damage").touch()
    assert "other entries than were written" in node.run(new / "load.sh", code=12)
    assert active(node.bpftool) == before
    assert node.answers() == expected(OTHER, THREADS)
    (tmp_path / "damage").unlink()
    node.run(new / "load.sh")
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


def test_a_load_that_was_killed_is_no_obstacle(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    (node.bpftool.bpffs / "tierc_stage").mkdir()
    create = "map create {}/tierc_stage/comm type array key 4 value 4 entries 1 name left"
    node.bpftool.json(*create.format(node.bpftool.bpffs).split())
    node.run(script)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


def test_ensure_falls_back_and_comes_back(node: Node, tmp_path: Path) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    other = bpf_dir.parent / "taskset"
    other.mkdir()
    for name in ("apply.sh", "revert.sh"):
        (other / name).write_text(f"#!/bin/sh\necho {name} >>'{tmp_path}/affinity'\n")
        (other / name).chmod(0o755)
    script = bpf_dir / "load.sh"
    node.run(script, "--ensure")
    assert not (tmp_path / "affinity").exists()

    node.set_state("disabled")  # the kernel has ejected it
    said = node.run(script, "--ensure", code=1)
    assert "the kernel has detached the scheduler" in said
    assert "attached again in 300 s" in said
    said = node.run(script, "--ensure", code=1)
    assert "the kernel has detached" not in said
    assert (tmp_path / "affinity").read_text() == "apply.sh\n"

    said = node.run(script, "--ensure", "--pause", "0")
    assert "the scheduler is attached" in said
    assert "is in force already" in said
    assert (tmp_path / "affinity").read_text() == "apply.sh\nrevert.sh\n"
    assert (tmp_path / "calls").read_text() == "register\n" * 2


def test_unload(node: Node, tmp_path: Path) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    node.run(bpf_dir / "load.sh")
    node.set_state("disabled")
    node.run(bpf_dir / "unload.sh", "--keep")
    assert (node.bpftool.bpffs / "tierc_active").exists()
    said = node.run(bpf_dir / "unload.sh", "--dry-run")
    assert "would be removed" in said
    assert (node.bpftool.bpffs / "tierc_active").exists()
    node.run(bpf_dir / "unload.sh")
    assert (node.bpftool.bpffs / "programs").exists()  # not ours: it stays
    assert not list(node.bpftool.bpffs.glob("tierc*"))


def test_the_kill_switch(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script)
    node.set_state("disabled")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "disabled").touch()
    assert "disabled exists" in node.run(script)
    assert not (node.bpftool.bpffs / "tierc_active").exists()


@pytest.mark.parametrize("name", ["load.sh", "unload.sh"])
def test_the_scripts_are_clean(tool: Callable[[str], str], tmp_path: Path, name: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path) / name
    for command in (["sh", "-n"], [tool("dash"), "-n"], [tool("busybox"), "sh", "-n"]):
        subprocess.run([*command, script], check=True)
    done = subprocess.run(
        [tool("shellcheck"), "-s", "sh", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
