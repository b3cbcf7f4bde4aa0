"""bpf/load.sh --ensure when the scheduler has gone; unload.sh, and the kill switch."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bpf_classify import expected
from tests.bpf_live import Bpftool, active
from tests.bpf_node import OTHER, SHELLS, THREADS, Node, emit, make_node
from tests.bpf_plans import RICH_RULES, plan


@pytest.fixture
def node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    with make_node(tool, tmp_path) as one:
        yield one


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


def make_affinity(bpf_dir: Path, apply: str = "", revert: str = "") -> Path:
    """Put stand-ins for taskset's scripts beside a seed; return where they say that they ran."""
    log = bpf_dir.parent / "affinity"
    other = bpf_dir.parent / "taskset"
    other.mkdir(exist_ok=True)
    for name, more in (("apply.sh", apply), ("revert.sh", revert)):
        (other / name).write_text(f"#!/bin/sh\necho {name} >>'{log}'\n{more}\n")
        (other / name).chmod(0o755)
    return log


def test_killed_while_affinity_is_set(node: Node, tmp_path: Path) -> None:
    """It is set again, and taken back in the end, wherever the loader was killed."""
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    script = bpf_dir / "load.sh"
    loader = f"$(cut -d ' ' -f 1 '{tmp_path}/state/lock')"
    log = make_affinity(bpf_dir, apply=f"kill -9 {loader}")
    node.run(script)
    node.set_state("disabled")
    node.run(script, "--ensure", code=-9)
    make_affinity(bpf_dir)
    assert "attached again in 300 s" in node.run(script, "--ensure", code=1)
    assert log.read_text() == "apply.sh\n" * 2
    make_affinity(bpf_dir, revert=f"kill -9 {loader}")
    node.run(script, "--ensure", "--pause=0", code=-9)
    make_affinity(bpf_dir)
    assert "nothing was changed" in node.run(script, "--ensure")
    assert log.read_text() == "apply.sh\n" * 2 + "revert.sh\n" * 2
    node.run(script, "--ensure")
    assert log.read_text() == "apply.sh\n" * 2 + "revert.sh\n" * 2


def test_affinity_that_cannot_be_taken_back(node: Node, tmp_path: Path) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    script = bpf_dir / "load.sh"
    log = make_affinity(bpf_dir, apply="exit 1", revert="exit 4")
    node.run(script)
    node.set_state("disabled")
    said = node.run(script, "--ensure", code=1)
    assert "taskset/apply.sh came to nothing, or not to all" in said
    said = node.run(script, "--ensure", "--pause=0", code=1)
    assert "is in force" in said
    assert "taskset/revert.sh has not taken back all CPU affinity" in said
    make_affinity(bpf_dir)
    node.run(script, "--ensure")
    assert log.read_text() == "apply.sh\nrevert.sh\nrevert.sh\n"

    node.set_state("disabled")
    node.run(script, "--ensure", code=1)
    (bpf_dir.parent / "taskset" / "revert.sh").unlink()
    said = node.run(script, "--ensure", "--pause=0", code=1)
    assert "there is no taskset/revert.sh beside this directory any more" in said
    node.run(script, "--ensure")


def test_ejected_while_the_seed_is_loaded(node: Node, tmp_path: Path) -> None:
    """That begins a pause, too: else a timer attaches it every minute, to be ejected again."""
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    script = bpf_dir / "load.sh"
    log = make_affinity(bpf_dir)
    node.hook(f'[ "$n" != 4 ] || echo disabled >"{node.sys}/kernel/sched_ext/state"')
    for done in (1, 2):
        said = node.run(script, "--ensure", "--pause=0", code=10)
        assert "has detached the scheduler again" in said
        node.hook("")
        said = node.run(script, "--ensure", code=1)
        assert "attached again in 300 s" in said
        assert log.read_text() == "apply.sh\n" * done
        node.hook(f'[ "$n" != 2 ] || echo disabled >"{node.sys}/kernel/sched_ext/state"')
    node.hook("")
    node.run(script, "--ensure", "--pause=0")
    assert log.read_text() == "apply.sh\n" * 2 + "revert.sh\n"


def test_a_scheduler_that_cannot_be_attached(node: Node, tmp_path: Path) -> None:
    """The lanes hold all the same, and it is tried again after the pause."""
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    script = bpf_dir / "load.sh"
    log = make_affinity(bpf_dir)
    (tmp_path / "broken").touch()
    node.command("sleep", "exit 0")
    node.run(script, code=10)
    assert not log.exists()
    assert "could not be attached" in node.run(script, "--ensure", code=10)
    assert "the scheduler is attached again in" in node.run(script, "--ensure", code=1)
    assert log.read_text() == "apply.sh\n"
    (tmp_path / "broken").unlink()
    node.run(script)
    assert log.read_text() == "apply.sh\nrevert.sh\n"


DAMAGED = {
    "nothing": "",
    "no number": "abc BOOT\n",
    "octal": "08x BOOT\n",
    "too large": "99999999999999999999999 BOOT\n",
    "in the future": "999999999 BOOT\n",
    "another boot": "1 00000000-0000-0000-0000-000000000000\n",
    "no boot": "1\n",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_notes_that_are_damaged(node: Node, tmp_path: Path, shell: str) -> None:
    """By a power cut, a full disk, or the memory of a virtual machine that was put back."""
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    script = bpf_dir / "load.sh"
    make_affinity(bpf_dir)
    node.run(script)
    boot = (node.note("loaded") or "").strip()
    node.set_state("disabled")
    for name, text in DAMAGED.items():
        (tmp_path / "state" / "ejected").write_text(text.replace("BOOT", boot))
        said = node.run(script, "--ensure", code=1, shell=shell)
        assert "attached again in 300 s" in said, name
        since, since_boot = (node.note("ejected") or "").split()
        assert since.isdigit(), name
        assert since_boot == boot, name
    (tmp_path / "state" / "fallen_back").write_text("../../etc\n")
    node.run(script, "--ensure", "--pause=0", shell=shell)
    assert node.note("fallen_back") is None


@pytest.mark.parametrize("shell", SHELLS)
def test_a_timer_leaves_a_rollback_alone(node: Node, tmp_path: Path, shell: str) -> None:
    old, new = emit(OTHER, tmp_path / "old"), emit(plan(RICH_RULES), tmp_path / "new")
    node.run(old / "load.sh")
    node.run(new / "load.sh")
    node.run(new / "load.sh", "--rollback", shell=shell)
    before = active(node.bpftool)
    assert node.answers() == expected(OTHER, THREADS)
    said = node.run(new / "load.sh", "--ensure", shell=shell)
    assert "was rolled back; load.sh without --ensure puts it in force again" in said
    assert active(node.bpftool) == before
    # Also when it is attached again, and by whichever seed it is that was rolled back last.
    node.set_state("disabled")
    node.run(new / "load.sh", "--ensure", "--pause=0", shell=shell)
    assert active(node.bpftool) == before
    node.run(old / "load.sh", "--rollback", shell=shell)
    assert "was rolled back" in node.run(old / "load.sh", "--ensure", shell=shell)
    assert node.answers() == expected(plan(RICH_RULES), THREADS)
    assert "nothing was changed" in node.run(new / "load.sh", "--ensure", shell=shell)

    node.run(old / "load.sh", shell=shell)
    assert node.answers() == expected(OTHER, THREADS)
    assert node.note("rolled_back") is None
    node.run(old / "load.sh", "--rollback", shell=shell)
    (tmp_path / "state" / "rolled_back").write_text(
        f"{(node.note('rolled_back') or '').split()[0]} other\n"
    )
    node.run(old / "load.sh", "--ensure", shell=shell)  # the machine was started again
    assert node.answers() == expected(OTHER, THREADS)


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


def test_unload_takes_affinity_back(node: Node, tmp_path: Path) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    log = make_affinity(bpf_dir)
    node.run(bpf_dir / "load.sh")
    node.set_state("disabled")
    node.run(bpf_dir / "load.sh", "--ensure", code=1)
    node.run(bpf_dir / "unload.sh")
    assert log.read_text() == "apply.sh\nrevert.sh\n"
    node.run(bpf_dir / "unload.sh")
    assert log.read_text() == "apply.sh\nrevert.sh\n"


@pytest.mark.parametrize("name", ["tierc", ""])
def test_unload_waits_until_it_is_gone(node: Node, tmp_path: Path, name: str) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    state = node.sys / "kernel/sched_ext/state"
    (tmp_path / "etc").mkdir()
    for switch, script in ((False, "unload.sh"), (True, "load.sh")):
        node.set_state("disabling", name)
        node.command("sleep", f"echo disabled >'{state}'")
        if switch:
            (tmp_path / "etc" / "disabled").touch()
        node.run(bpf_dir / script)
        assert state.read_text() == "disabled\n"
        node.set_state("disabling", name)
        node.command("sleep", "exit 0")
        said = node.run(bpf_dir / script, code=10)
        assert "could not be detached (sched_ext is disabling)" in said
        node.set_state("enabled", "other")
        node.run(bpf_dir / script)


def test_pins_that_cannot_be_removed(
    node: Node, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    bpf_dir = emit(plan(RICH_RULES), tmp_path / "one")
    node.run(bpf_dir / "load.sh")
    mount = [tool("mount"), "-o"]
    subprocess.run([*mount, "remount,ro", str(node.bpftool.bpffs)], check=True)
    try:
        node.set_state("disabled")
        assert "cannot be removed" in node.run(bpf_dir / "unload.sh", code=7)
        assert "read-only" in node.run(bpf_dir / "load.sh", code=7)
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc" / "disabled").touch()
        assert "cannot be removed" in node.run(bpf_dir / "load.sh", code=7)
    finally:
        subprocess.run([*mount, "remount,rw", str(node.bpftool.bpffs)], check=True)
    node.run(bpf_dir / "unload.sh")
    assert not list(node.bpftool.bpffs.glob("tierc*"))
