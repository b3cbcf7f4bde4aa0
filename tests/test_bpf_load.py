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


def make_tools(busybox: str, root: Path) -> None:
    """Make what comes first in PATH: with busybox all its applets, with dash Debian's awk."""
    for shell in SHELLS:
        (root / shell).mkdir()
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        (root / "busybox" / name).symlink_to(busybox)
    if (mawk := shutil.which("mawk")) is not None:
        (root / "dash" / "awk").symlink_to(mawk)


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
esac
echo "$*" >>'{root}/bpftool-calls'
if [ -e '{root}/die' ] && [ "$1 $2" = "-j batch" ] && cat >'{root}/batch' &&
  grep -q 'value pinned' '{root}/batch'; then
  head -n 4 '{root}/batch' | '{bpftool}' "$@"
  kill -9 "$(cut -d ' ' -f 1 '{root}/state/lock')"
elif [ -e '{root}/die' ]; then
  '{bpftool}' "$@" <'{root}/batch'
elif [ -e '{root}/damage' ]; then
  '{sed}' -f '{root}/damage' | '{bpftool}' "$@"
else
  exec '{bpftool}' "$@"
fi
"""


@dataclass
class Node:
    """A machine to load on."""

    root: Path
    bpftool: Bpftool

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def run(
        self, script: Path, *options: str, shell: str = "dash", code: int = 0, proc: str = "/proc"
    ) -> str:
        """Run a script; return all it said."""
        environment = os.environ | {
            "TIERC_SYS": str(self.sys),
            "TIERC_PROC": proc,
            "TIERC_ETC": str(self.root / "etc"),
            "TIERC_BPFFS": str(self.bpftool.bpffs),
            "TIERC_ARCH": "x86_64",
            "TIERC_OBJECT": str(self.root / "object"),
            "PATH": f"{self.root / 'bin'}:{self.root / shell}:{os.environ['PATH']}",
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

    def calls(self) -> int:
        """Return how often bpftool was started since this was last asked."""
        log = self.root / "bpftool-calls"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

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
        make_tools(tool("busybox"), tmp_path)
        wrapper = tmp_path / "bin" / "bpftool"
        wrapper.write_text(
            WRAPPER.format(
                root=tmp_path, sys=one.sys, bpftool=shutil.which(bpftool.program), sed=tool("sed")
            )
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

    after = active(node.bpftool)
    for there, policy in ((before, rich), (after, OTHER), (before, rich)):
        # It needs nothing of the seed that is put in force.
        node.run(new / "load.sh", "--rollback", shell=shell)
        assert active(node.bpftool) == there
        assert node.answers() == expected(policy, THREADS)
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


@pytest.mark.parametrize("shell", SHELLS)
def test_bpftool_is_not_started_often(node: Node, tmp_path: Path, shell: str) -> None:
    """On small machines starting it is what takes the time."""
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script, shell=shell)
    assert node.calls() == 4  # what is there; stage; publish; flip
    node.run(script, shell=shell)
    assert node.calls() == 2  # what is there; its entries


DAMAGE = {
    "a bit": (r"s/value hex 01 /value hex 03 /", "has another entry than was written"),
    "a lost entry": (r"0,/stage.comm key/{{//d}}", "comm lacks an entry"),
    "one too many": (
        r"/^map freeze .*.rules/i map update pinned {stage}/rules key hex ff 0 0 0"
        " value hex 9 0 0 0",
        "rules has an entry that was not written",
    ),
    "a name too many": (
        r"/^map freeze .*.comm/i map update pinned {stage}/comm key hex 8 0 0 0 7a"
        + " 0" * 15
        + " value hex"
        + " 0" * 32,
        "comm has an entry that was not written",
    ),
    "one too many for the node": (
        r"/^map show .*.group$/i map update pinned {stage}/group key hex 8 0 0 0 0 0 0 0"
        " value hex 1 0 0 0",
        "group has an entry that was not written",
    ),
    "an open map": (r"/^map freeze .*.bands/d", "bands is not frozen"),
    "no map": (
        r"s/^\(map create .*.level .*\) entries .* name/\1 entries 0 name/",
        "cannot be read",
    ),
    "a map in the wrong place": (
        r"s#\(tierc_comm key.* value pinned .*\)/comm$#\1/leader#",
        "slot {slot} did not take the new maps",
    ),
    "a map that is refused": (
        r"s#\(tierc_bands key.* value pinned .*\)/bands$#\1/level#",
        "update failed: Invalid argument",
    ),
    "no flip": (r"/tierc_active key/d", "did not come into force"),
    "another generation": (
        r"s/\(tierc_active key .* value hex 0{slot} 00 00 00\) ../\1 00/",
        "did not come into force",
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_damage_on_the_way_is_seen(node: Node, tmp_path: Path, shell: str) -> None:
    """Something comes out wrong: the load fails, and what was in force before stays so."""
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    damage = tmp_path / "damage"
    for name, (how, said) in DAMAGE.items():
        node.run(old / "load.sh")
        before = active(node.bpftool)
        into = 1 - before[0]
        stage = node.bpftool.bpffs / "tierc_stage"
        damage.write_text(how.format(stage=stage, slot=into) + "\n")
        assert said.format(slot=into) in node.run(new / "load.sh", code=12, shell=shell), name
        damage.unlink()
        assert not stage.exists()
        if name != "another generation":
            assert active(node.bpftool) == before, name
            assert node.answers() == expected(OTHER, THREADS), name
        if "slot" in said or "refused" in name:
            # Half a seed was published, and that is nothing to roll back to.
            damage.write_text("")
            assert "holds no seed" in node.run(new / "load.sh", "--rollback", code=13), name
            damage.unlink()
    node.run(new / "load.sh", shell=shell)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_seed_that_was_tampered_with_is_not_in_force(
    node: Node, tmp_path: Path, shell: str
) -> None:
    """The same number in tierc_active, but another map in the slot: it is loaded anew."""
    one = emit(plan(RICH_RULES), tmp_path / "one")
    node.run(one / "load.sh", shell=shell)
    before = active(node.bpftool)
    create = (
        f"map create {node.bpftool.bpffs}/own type lpm_trie key 20 value 32 entries 256 name own"
    )
    node.bpftool.json(*create.split(), "flags", "1")
    node.bpftool.json(*f"map freeze pinned {node.bpftool.bpffs}/own".split())
    update = f"map update pinned {node.bpftool.bpffs}/tierc_comm key hex 0 0 0 0 value pinned"
    node.bpftool.json(*update.split(), f"{node.bpftool.bpffs}/own")
    assert node.answers() != expected(plan(RICH_RULES), THREADS)
    said = node.run(one / "load.sh", "--dry-run", shell=shell)
    assert "would be put in force" in said
    node.run(one / "load.sh", shell=shell)
    assert active(node.bpftool) != before
    assert node.answers() == expected(plan(RICH_RULES), THREADS)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_nothing_to_roll_back_to(node: Node, tmp_path: Path, shell: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script, shell=shell)
    before = active(node.bpftool)
    assert "slot 1 holds no seed" in node.run(script, "--rollback", code=13, shell=shell)
    assert active(node.bpftool) == before


def stat(name: str, *, policy: int, flags: int = 0x400000) -> str:
    """Return /proc/PID/stat as in proc(5): the flags are field 9, the policy is field 41."""
    fields = ["0"] * 52
    fields[0], fields[1], fields[2] = "7", f"({name})", "S"
    fields[8], fields[40] = str(flags), str(policy)
    return " ".join(fields) + "\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_real_time_threads_are_listed(node: Node, tmp_path: Path, shell: str) -> None:
    kernel = 0x200000
    threads = {
        "1/task/1": stat("init", policy=0),
        "7/task/7": stat("of many words) S 1", policy=1),
        "7/task/8": stat("spin", policy=2),
        "7/task/9": stat("spin", policy=2),
        "8/task/8": stat("migration/0", policy=1, flags=0x400000 | kernel),
        "9/task/9": stat("batch", policy=3),
        "10/task/10": stat("deadline", policy=6),
        "11/task/11": "",
    }
    proc = tmp_path / "proc"
    for name, text in threads.items():
        (proc / name).mkdir(parents=True)
        (proc / name / "stat").write_text(text)
    (proc / "cmdline").write_text("quiet\n")
    said = node.run(
        emit(plan(RICH_RULES), tmp_path / "one") / "load.sh",
        "--dry-run",
        shell=shell,
        proc=str(proc),
    )
    listed = [line for line in said.splitlines() if line.startswith("tierc:   ")]
    assert listed == ["tierc:   1 of of many words) S 1", "tierc:   2 of spin"]


def test_a_load_that_was_killed_is_no_obstacle(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    stage = node.bpftool.bpffs / "tierc_stage"
    create = f"map create {stage}/comm type array key 4 value 4 entries 1 name left"
    for said in ("is in force, in slot 0", "nothing was changed"):
        stage.mkdir()
        node.bpftool.json(*create.split())
        assert said in node.run(script)
        assert not stage.exists()
        assert node.answers() == expected(plan(RICH_RULES), THREADS)


def test_nobody_rolls_back_to_half_a_seed(node: Node, tmp_path: Path) -> None:
    """A loader and its bpftool are killed while a slot that held a seed is filled anew."""
    first, second = emit(OTHER, tmp_path / "first"), emit(plan(RICH_RULES), tmp_path / "second")
    third = emit(plan([rule(0, 2, comm="bash")]), tmp_path / "third")
    node.run(first / "load.sh")
    node.run(second / "load.sh")
    before = active(node.bpftool)
    (tmp_path / "die").touch()
    node.run(third / "load.sh", code=-9)
    (tmp_path / "die").unlink()
    assert active(node.bpftool) == before
    assert node.answers() == expected(plan(RICH_RULES), THREADS)
    assert "slot 0 holds no seed" in node.run(second / "load.sh", "--rollback", code=13)
    node.run(third / "load.sh")
    assert node.answers() == expected(plan([rule(0, 2, comm="bash")]), THREADS)
    node.run(third / "load.sh", "--rollback")
    assert active(node.bpftool) == before


def tell_end(bpftool: Bpftool, reason: str, message: str) -> None:
    """Leave a struct tierc_exit (bpf/tierc_state.h), as the scheduler does at its end."""
    record = (1026).to_bytes(8, "little") + bytes(8)
    record += reason.encode().ljust(64, b"\0") + message.encode().ljust(128, b"\0")
    path = bpftool.bpffs / "tierc_exit"
    bpftool.json(*f"map create {path} type array key 4 value 208 entries 1 name end".split())
    update = f"map update pinned {path} key hex 0 0 0 0 value hex {record.hex(' ')}"
    bpftool.json(*update.split())


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

    tell_end(node.bpftool, "runnable task stall", "hog[7] failed to run for 30.1s")
    node.set_state("disabled")  # the kernel has ejected it
    said = node.run(script, "--ensure", code=1)
    why = "runnable task stall: hog[7] failed to run for 30.1s"
    assert f"the kernel has detached the scheduler ({why})" in said
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
