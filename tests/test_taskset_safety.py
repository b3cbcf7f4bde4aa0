"""The taskset scripts when things go wrong: refusals, locks, kills, damage, wrong usage."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.taskset_live import Shell, allowed, shim, until, worker
from tests.taskset_machine import ONE, TWO, UNTOUCHED, Scripts, total
from tests.taskset_plans import FIRST, machine, plan, rule

pytest_plugins = ("tests.taskset_fixtures",)


def test_another_machine_is_refused_and_everything_put_back(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    rules = [rule(0, FIRST, comm=f"{tag}*")]
    with worker(tag) as one:
        shell.run(scripts(plan(rules)) / "apply.sh")
        assert allowed(one.pid) == ONE
        other = machine(range(4), [{0, 1}, {2, 3}], [{0, 1, 2, 3}])
        where = scripts(plan(rules, on=other, bands=[("0", 1), ("1", 1), ("0-3", 1)]))
        done = shell.run(where / "apply.sh")
        assert done.returncode == 3
        assert "planned: core 0-1" in done.stderr
        assert "live:    online" in done.stderr
        assert allowed(one.pid) == UNTOUCHED
        assert not shell.record.exists()


def test_one_owner_of_the_state(shell: Shell, scripts: Scripts, tag: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one, shell.watch(where / "apply.sh") as watch:
        assert until(lambda: allowed(one.pid) == ONE)
        for script in ("apply.sh", "revert.sh"):
            done = shell.run(where / script)
            assert done.returncode == 4
            assert f"locked by process {watch.pid}" in done.stderr
        assert shell.run(where / "apply.sh", "--dry-run").returncode == 0
        assert allowed(one.pid) == ONE
        watch.kill()
        watch.wait()
        assert (shell.state / "lock").exists()
        assert "1 restored" in total(shell.run(where / "revert.sh").stdout)
        assert list(shell.state.iterdir()) == []


@pytest.mark.parametrize("owner", ["", "\n", "junk", "1 0 -\n", "99999999 5 x", "-1", "*"])
def test_a_lock_nobody_holds_is_taken(sh: Shell, scripts: Scripts, tag: str, owner: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    sh.state.mkdir()
    (sh.state / "lock").write_text(owner)
    assert sh.run(where / "apply.sh").returncode == 0
    assert list(sh.state.iterdir()) == []


def test_many_at_once_after_a_crash(shell: Shell, scripts: Scripts, tag: str) -> None:
    """The dead owner's lock is taken over by one at a time; the others say who has it."""
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    shell.state.mkdir()
    (shell.state / "lock").write_text("99999999 5 x\n")
    command = [*shell.argv, str(where / "apply.sh"), "--state", str(shell.state), "--quiet"]
    with worker(tag) as one:
        runs = [
            subprocess.Popen(command, env=shell.environ(), stderr=subprocess.PIPE) for _ in range(6)
        ]
        codes = []
        for run in runs:
            _, complaint = run.communicate()
            codes.append(run.returncode)
            assert (complaint == b"") == (run.returncode == 0), complaint
        assert set(codes) <= {0, 4}
        assert 0 in codes
        assert allowed(one.pid) == ONE
        assert [p.name for p in shell.state.iterdir()] == ["state"]
        assert shell.run(where / "revert.sh").returncode == 0
        assert allowed(one.pid) == UNTOUCHED


def test_a_takeover_by_somebody_alive_is_not_disturbed(sh: Shell, scripts: Scripts) -> None:
    where = scripts(plan([]))
    sh.state.mkdir()
    (sh.state / "lock").write_text("junk\n")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    start = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    (sh.state / "lock.steal").write_text(f"{os.getpid()} {start} {boot}\n")
    done = sh.run(where / "apply.sh")
    assert done.returncode == 4
    assert "locked by others" in done.stderr
    assert sorted(p.name for p in sh.state.iterdir()) == ["lock", "lock.steal"]


@pytest.mark.parametrize("left", ["99999999 5 x\n", ""])
def test_a_takeover_that_was_killed_blocks_nobody(
    left: str, shell: Shell, scripts: Scripts
) -> None:
    """The taker was killed between its two steps, or the power was cut there."""
    where = scripts(plan([]))
    shell.state.mkdir()
    (shell.state / "lock").write_text("99999998 5 x\n")
    (shell.state / "lock.steal").write_text(left)
    done = shell.run(where / "apply.sh")
    assert (done.returncode, done.stderr) == (0, "")
    assert not [p.name for p in shell.state.iterdir() if p.name.startswith("lock")]


@pytest.mark.parametrize("after", [0, 1, 2])
def test_killed_in_the_middle_nothing_is_lost(
    shell: Shell, scripts: Scripts, tag: str, tmp_path: Path, after: int
) -> None:
    """SIGKILL just before or just after the change of a thread: its original is on disk."""
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    real = subprocess.run(
        [*shell.argv, "-c", "command -v taskset"],
        env=shell.environ(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    shims = shim(
        tmp_path / "shims",
        "taskset",
        f'n=$(cat "{tmp_path}/n" 2>/dev/null || echo 0); echo $((n + 1)) >"{tmp_path}/n"\n'
        f'if [ "$n" = {after} ]; then [ {after} != 1 ] || {real} "$@"; kill -9 $PPID; exit; fi\n'
        f'exec {real} "$@"',
    )
    with worker(tag, f"{tag}2", f"{tag}3") as one:
        os.sched_setaffinity(one.tids()[1], {int(TWO)})
        before = one.masks()
        killed = shell.run(where / "apply.sh", shims=shims)
        assert killed.returncode == -signal.SIGKILL
        assert len(shell.record.read_text().splitlines()) == 4
        assert list(one.masks().values()).count(ONE) == (after if after != 1 else 2)
        back = shell.run(where / "revert.sh")
        assert (back.returncode, back.stderr) == (0, "")
        assert one.masks() == before
        assert list(shell.state.iterdir()) == []


def test_damaged_state(shell: Shell, scripts: Scripts, tag: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        shell.run(where / "apply.sh")
        good = shell.record.read_text()
        bad = "1 2 3 $(touch x) 0 -\n5 5\n7 7 7 0-1 0 - extra\n8 8 8 0; 1 -\n\n"
        shell.record.write_text(good + bad)
        done = shell.run(where / "revert.sh")
        assert done.returncode == 1
        assert "5 damaged lines" in done.stderr
        assert allowed(one.pid) == UNTOUCHED
        assert not shell.record.exists()
        assert (shell.state / "state.damaged").read_text() == good + bad

        for foreign in ("something else\n", "tierc-taskset-state-2 x\n", "\0\n"):
            shell.record.write_text(foreign)
            for script in ("apply.sh", "revert.sh"):
                done = shell.run(where / script)
                assert done.returncode == 6
                assert "not a state of this version" in done.stderr
            assert shell.record.read_text() == foreign
        assert allowed(one.pid) == UNTOUCHED

        shell.record.write_text("")
        assert shell.run(where / "apply.sh").returncode == 0
        assert allowed(one.pid) == ONE
        shell.run(where / "revert.sh")


def test_state_of_an_earlier_boot_is_void(shell: Shell, scripts: Scripts, tag: str) -> None:
    """Process ids and start times repeat from boot to boot."""
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        shell.run(where / "apply.sh")
        text = shell.record.read_text()
        header, rest = text.split("\n", 1)
        shell.record.write_text(f"{header.split()[0]} 00000000-0000\n{rest}")
        done = shell.run(where / "revert.sh")
        assert done.returncode == 0
        assert "earlier boot" in done.stdout
        assert allowed(one.pid) == ONE
        assert not shell.record.exists()


def test_a_reused_thread_id_is_not_touched(sh: Shell, scripts: Scripts, tag: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        sh.run(where / "apply.sh")
        header, line = sh.record.read_text().splitlines()
        tid, start, *rest = line.split()
        sh.record.write_text(f"{header}\n{' '.join([tid, str(int(start) - 1), *rest])}\n")
        done = sh.run(where / "revert.sh")
        assert "0 restored" in total(done.stdout)
        assert allowed(one.pid) == ONE


def test_a_thread_that_cannot_be_set_is_reported(
    shell: Shell, scripts: Scripts, tag: str, tmp_path: Path
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    shims = shim(tmp_path / "shims", "taskset", "echo 'no way' >&2; exit 1")
    with worker(tag) as one:
        done = shell.run(where / "apply.sh", shims=shims)
        assert done.returncode == 1
        assert f"could not set {one.pid}/{one.pid} {tag}" in done.stderr
        assert "no way" in done.stderr
        assert "1 failed" in total(done.stdout)
        assert not shell.record.exists()
        shell.run(where / "apply.sh")
        failed = shell.run(where / "revert.sh", shims=shims)
        assert failed.returncode == 1
        assert shell.record.exists()
        assert shell.run(where / "revert.sh").returncode == 0
        assert allowed(one.pid) == UNTOUCHED


def test_signal_between_two_threads_leaves_a_true_state(
    sh: Shell, scripts: Scripts, tag: str, tmp_path: Path
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    real = f'PATH={sh.path} taskset "$@"'
    shims = shim(tmp_path / "shims", "taskset", f"{real}\nkill -TERM $PPID")
    with worker(tag, f"{tag}2", f"{tag}3") as one:
        sh.run(where / "apply.sh", shims=shims)
        assert sorted(one.masks().values()) == sorted([ONE, UNTOUCHED, UNTOUCHED])
        assert len(sh.record.read_text().splitlines()) == 2
        assert not (sh.state / "lock").exists()
        sh.run(where / "revert.sh")
        assert set(one.masks().values()) == {UNTOUCHED}


@pytest.mark.parametrize("script", ["apply.sh", "revert.sh"])
def test_usage(shell: Shell, scripts: Scripts, script: str, tmp_path: Path) -> None:
    where = scripts(plan([]))
    for bad in (["--nope"], ["x"], ["-h"], ["--state"], ["--state", "relative"], ["--state="]):
        done = shell.run(where / script, *bad)
        assert done.returncode == 2, bad
        assert done.stdout == ""
    help_ = shell.run(where / script, "--help")
    assert help_.returncode == 0
    assert "exit codes" in help_.stdout
    shims = shim(tmp_path / "shims", "id", "echo 1000")
    done = shell.run(where / script, shims=shims)
    assert done.returncode == 5
    assert "CAP_SYS_NICE" in done.stderr
    assert shell.run(where / script, "--dry-run", shims=shims).returncode == 0
    assert not shell.state.exists()
    shell.state.write_text("a file")
    assert shell.run(where / script).returncode == 7


@pytest.mark.parametrize("seconds", ["0", "-1", "1.5", "x", "100000", "", "1 2"])
def test_watch_takes_seconds(sh: Shell, scripts: Scripts, seconds: str) -> None:
    done = sh.run(scripts(plan([])) / "apply.sh", "--watch", seconds)
    assert done.returncode == 2


def test_a_missing_tool_is_named(sh: Shell, scripts: Scripts, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    sh.path = str(tmp_path / "empty")
    done = sh.run(scripts(plan([])) / "revert.sh")
    assert done.returncode == 7
    assert "is not installed" in done.stderr


def test_quiet(sh: Shell, scripts: Scripts, tag: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        for script, mask in (("apply.sh", ONE), ("revert.sh", UNTOUCHED)):
            done = sh.run(where / script, "--quiet")
            assert (done.stdout, done.stderr) == ("", "")
            assert allowed(one.pid) == mask
