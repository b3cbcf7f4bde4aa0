"""What bpf/load.sh looks at before it changes anything, and what it says when it stops there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bpf_live import active
from tests.bpf_node import SHELLS, Node, emit, make_node, make_sysfs
from tests.bpf_plans import RICH_RULES, plan


@pytest.fixture
def node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    with make_node(tool, tmp_path) as one:
        yield one


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


GARBAGE = {
    "nothing": "cat >/dev/null; exit 0",
    "no JSON": "cat >/dev/null; echo 'Error: bpftool has been replaced'; exit 0",
    "half of it": "'{bpftool}' \"$@\" | head -c 300; exit 0",
    "an error": "cat >/dev/null; echo 'bpftool: unknown option' >&2; exit 255",
    "killed": "kill -9 $$",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_bpftool_that_makes_no_sense(node: Node, tmp_path: Path, shell: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script)
    before = active(node.bpftool)
    for name, what in GARBAGE.items():
        node.hook(what.format(bpftool=node.program))
        said = node.run(script, shell=shell, code=7)
        assert "cannot be read with bpftool" in said, name
        assert "layout" not in said, name
        said = node.run(script, "--rollback", shell=shell, code=7)
        assert "cannot be read with bpftool" in said, name
        assert "cannot be read with bpftool" in node.run(script, "--dry-run", code=7), name
    node.hook("")
    assert active(node.bpftool) == before
    assert "nothing was changed" in node.run(script, shell=shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_slot_that_cannot_be(node: Node, tmp_path: Path, shell: str) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    node.run(script)
    for first in ("0a", "02", "a1"):
        update = f"map update pinned {node.bpftool.bpffs}/tierc_active key hex 0 0 0 0 value hex"
        node.bpftool.json(*update.split(), first, *["0"] * 7)
        for option in ("--quiet", "--rollback", "--dry-run", "--ensure"):
            said = node.run(script, option, shell=shell, code=11)
            assert f"tierc_active holds {first}00000000000000, which is no slot" in said
            assert "unload.sh" in said


def test_isolated_cpus(node: Node, tmp_path: Path) -> None:
    """Only isolcpus= that takes CPUs out of the scheduling domains keeps schedulers away."""
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    proc = tmp_path / "proc"
    proc.mkdir()
    isolated = node.sys / "devices/system/cpu/isolated"
    (proc / "cmdline").write_text("quiet isolcpus=2-3 * nohz_full=2-3\n")
    isolated.write_text("2-3\n")
    said = node.run(script, "--dry-run", code=8, proc=str(proc))
    assert "isolcpus= for 2-3" in said
    (proc / "cmdline").write_text("quiet isolcpus=managed_irq,2-3\n")
    isolated.write_text("\n")
    assert "would be attached" in node.run(script, "--dry-run", proc=str(proc))


def test_a_scheduler_that_comes_or_goes_is_awaited(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    state = node.sys / "kernel/sched_ext/state"
    for before, after in (("enabling", "enabled"), ("disabling", "disabled")):
        node.set_state(before)
        node.command("sleep", f"echo {after} >'{state}'")
        said = node.run(script)
        assert ("the scheduler is attached" in said) is (after == "disabled")
        assert "in force" in said
    node.command("sleep", "exit 0")
    node.set_state("disabling")
    said = node.run(script, code=10)
    assert "still disabling" in said
    node.set_state("enabling", "scx_other")
    assert "scx_other" in node.run(script, code=9)


def test_no_bpftool(node: Node, tmp_path: Path) -> None:
    """It is looked for where cron's PATH does not reach, and without it nothing is done."""
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    node.run(bpf_dir / "load.sh")
    # Only what unload.sh and the kill switch need; no directory of the system.
    for name in ("load.sh", "unload.sh"):
        script = bpf_dir / name
        script.write_text(script.read_text().replace(":/usr/sbin:/sbin", f":{tmp_path}/sbin"))
    (tmp_path / "sbin").mkdir()
    (tmp_path / "bin" / "bpftool").rename(tmp_path / "sbin" / "bpftool")
    path = f"{tmp_path}/busybox"
    (tmp_path / "busybox" / "bpftool").unlink(missing_ok=True)
    assert "nothing was changed" in node.run(bpf_dir / "load.sh", path=path)
    (tmp_path / "sbin" / "bpftool").unlink()
    assert "bpftool is not installed" in node.run(bpf_dir / "load.sh", path=path, code=7)
    node.set_state("disabled")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "disabled").touch()
    assert "disabled exists" in node.run(bpf_dir / "load.sh", path=path)
    assert not list(node.bpftool.bpffs.glob("tierc*"))
    (node.bpftool.bpffs / "tierc_stage").mkdir()
    node.run(bpf_dir / "unload.sh", path=path)
    assert not list(node.bpftool.bpffs.glob("tierc*"))


def test_numbers_of_seconds(node: Node, tmp_path: Path) -> None:
    script = emit(plan(RICH_RULES), tmp_path / "one") / "load.sh"
    for pause in ("", "08", "-1", "1.5", "100000", "x"):
        assert "--pause takes" in node.run(script, "--ensure", f"--pause={pause}", code=2)
    node.run(script, "--ensure", "--pause=0")
