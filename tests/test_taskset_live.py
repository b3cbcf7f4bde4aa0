"""The taskset scripts on real processes, under dash and under busybox with its applets only."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.plan import NodePlan
from tests.taskset_live import Shell, Worker, allowed, comm, make_shell, shim, until, worker
from tests.taskset_plans import ALL, FIRST, SECOND, machine, plan, rule, two_cpus, write_scripts

if len(os.sched_getaffinity(0)) < 2:
    pytest.skip("needs two CPUs to move threads between", allow_module_level=True)

ONE, TWO = map(str, two_cpus())
UNTOUCHED = allowed(os.getpid())


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


@pytest.fixture
def sh(tool: Callable[[str], str], tmp_path: Path) -> Shell:
    """One shell, where the two cannot differ."""
    return make_shell("dash", tool, tmp_path)


@pytest.fixture
def tag() -> str:
    """A start of names that no other process has."""
    return "t" + uuid.uuid4().hex[:6]


@pytest.fixture
def scripts(tmp_path: Path) -> Callable[[NodePlan], Path]:
    return lambda one: write_scripts(one, tmp_path / "node")


Scripts = Callable[[NodePlan], Path]


def total(output: str) -> str:
    """Return the last line of a script's output."""
    return output.strip().splitlines()[-1]


def test_moves_every_named_thread_and_puts_all_back(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}e*"), rule(1, SECOND, comm=f"{tag}b?")]))
    with worker(f"{tag}e", f"{tag}e2", "other", f"{tag}e3") as engine, worker(f"{tag}b1") as batch:
        first = shell.run(where / "apply.sh")
        assert (first.returncode, first.stderr) == (0, "")
        assert "4 matched, 4 changed" in total(first.stdout)
        placed = {f"{tag}e": ONE, f"{tag}e2": ONE, f"{tag}e3": ONE, "other": UNTOUCHED}
        assert engine.masks() == placed
        assert batch.masks() == {f"{tag}b1": TWO}

        recorded = shell.record.read_bytes()
        again = shell.run(where / "apply.sh")
        assert "4 matched, 0 changed, 4 already right" in total(again.stdout)
        assert shell.record.read_bytes() == recorded
        assert len(recorded.splitlines()) == 5  # a header and a line a thread

        batch.stop()
        with worker(f"{tag}b2", f"{tag}b3") as restarted:
            third = shell.run(where / "apply.sh")
            assert "5 matched, 2 changed, 3 already right" in total(third.stdout)
            assert set(restarted.masks().values()) == {TWO}

            back = shell.run(where / "revert.sh")
            assert (back.returncode, back.stderr) == (0, "")
            assert "5 restored" in total(back.stdout)
            assert set(engine.masks().values()) == {UNTOUCHED}
            assert set(restarted.masks().values()) == {UNTOUCHED}
        assert list(shell.state.iterdir()) == []
        assert "0 restored" in total(shell.run(where / "revert.sh").stdout)


def test_revert_gives_each_thread_its_own_original(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag, f"{tag}2") as one:
        os.sched_setaffinity(one.tids()[1], {int(TWO)})
        shell.run(where / "apply.sh")
        assert one.masks() == {tag: ONE, f"{tag}2": ONE}
        shell.run(where / "revert.sh")
        assert one.masks() == {tag: UNTOUCHED, f"{tag}2": TWO}


def test_watch_picks_up_a_restart_and_ends_cleanly(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with shell.watch(where / "apply.sh") as watch:
        with worker(tag) as one:
            assert until(lambda: allowed(one.pid) == ONE)
        with worker(f"{tag}2") as two:
            assert until(lambda: allowed(two.pid) == ONE)
            watch.send_signal(signal.SIGTERM)
            assert watch.wait(60) == 0
            assert allowed(two.pid) == ONE
            assert [p.name for p in shell.state.iterdir()] == ["state"]
            assert shell.run(where / "revert.sh").returncode == 0
            assert allowed(two.pid) == UNTOUCHED


def test_kill_switch_reverts_within_a_cycle(shell: Shell, scripts: Scripts, tag: str) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    switch = shell.etc / "disabled"
    with worker(tag) as one, shell.watch(where / "apply.sh"):
        assert until(lambda: allowed(one.pid) == ONE)
        shell.etc.mkdir()
        switch.touch()
        assert until(lambda: allowed(one.pid) == UNTOUCHED)
        switch.unlink()
        assert until(lambda: allowed(one.pid) == ONE)
        switch.touch()
        assert until(lambda: allowed(one.pid) == UNTOUCHED)
    with worker(tag) as one:
        done = shell.run(where / "apply.sh")
        assert done.returncode == 0
        assert "disabled exists" in done.stderr
        assert allowed(one.pid) == UNTOUCHED


def test_a_thread_that_stops_matching_gets_its_original(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        shell.run(where / "apply.sh")
        one.ask("name", "renamed")
        done = shell.run(where / "apply.sh")
        assert "1 restored" in total(done.stdout)
        assert allowed(one.pid) == UNTOUCHED
        assert not shell.record.exists()


def test_inherited_affinity_is_not_left_on_what_no_rule_moves(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    rules = [rule(0, ALL, comm=f"{tag}k"), rule(1, FIRST, comm=f"{tag}*")]
    where = scripts(plan(rules))
    with worker(tag) as one:
        shell.run(where / "apply.sh")
        kept = int(one.ask("child", f"{tag}k"))
        stray = int(one.ask("child", "stray"))
        one.ask("thread", "helper")
        assert allowed(kept) == allowed(stray) == ONE
        done = shell.run(where / "apply.sh")
        assert "3 restored" in total(done.stdout)
        assert allowed(kept) == allowed(stray) == UNTOUCHED
        assert one.masks() == {tag: ONE, "helper": UNTOUCHED}


def test_what_was_born_inside_is_recorded_with_the_true_original(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, SECOND, comm=f"{tag}b"), rule(1, FIRST, comm=f"{tag}*")]))
    with worker(tag) as one:
        shell.run(where / "apply.sh")
        same = int(one.ask("child", f"{tag}c"))
        other = int(one.ask("child", f"{tag}b"))
        late = one.ask("thread", f"{tag}d")
        assert late == "ready"
        done = shell.run(where / "apply.sh")
        assert "4 matched, 1 changed, 3 already right" in total(done.stdout)
        assert allowed(other) == TWO
        orphan = int(one.ask("child", "unknown to apply"))
        back = shell.run(where / "revert.sh")
        assert back.returncode == 0
        assert set(one.masks().values()) == {UNTOUCHED}
        assert allowed(same) == allowed(other) == allowed(orphan) == UNTOUCHED


def test_revert_leaves_what_someone_else_changed(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    with worker(tag, f"{tag}2") as one:
        shell.run(where / "apply.sh")
        os.sched_setaffinity(one.pid, {int(TWO)})
        done = shell.run(where / "revert.sh")
        assert done.returncode == 0
        assert f"left, changed by someone else since: {one.pid}/{one.pid} {tag}" in done.stderr
        assert "1 restored, 1 left" in total(done.stdout)
        assert one.masks() == {tag: TWO, f"{tag}2": UNTOUCHED}


def test_first_match_wins_and_spawners_are_left_alone(
    shell: Shell, scripts: Scripts, tag: str
) -> None:
    rules = [
        rule(0, ALL, "infra", comm=f"{tag}keep"),
        rule(1, SECOND, "runtime", spawns=True, comm=f"{tag}shim"),
        rule(2, FIRST, "lead", comm=f"{tag}*", leader_comm=f"{tag}lead"),
        rule(3, SECOND, "batch", comm=f"{tag}*"),
    ]
    where = scripts(plan(rules))
    with worker(f"{tag}lead", f"{tag}keep", f"{tag}shim", f"{tag}x") as one, worker(f"{tag}y") as two:
        done = shell.run(where / "apply.sh")
        assert one.masks() == {
            f"{tag}lead": ONE,
            f"{tag}keep": UNTOUCHED,
            f"{tag}shim": UNTOUCHED,
            f"{tag}x": ONE,
        }
        assert allowed(two.pid) == TWO
        assert "5 matched, 3 changed, 0 already right, 0 skipped, 2 left alone" in total(done.stdout)
        assert "runtime: 1 matched, 0 to change" in done.stdout
        shell.run(where / "revert.sh")


def test_command_lines(shell: Shell, scripts: Scripts, tag: str, tmp_path: Path) -> None:
    home = tmp_path / tag  # a path that keeps the rules off other people's sleeps
    home.mkdir()
    (home / "sleep").symlink_to("/bin/sleep")
    rules = [
        rule(0, FIRST, cmdline=f"^{home}/sleep 1000( 0)?$"),
        rule(1, SECOND, comm="sleep", cmdline=f"{tag}/sleep .*(inf)+inity"),
    ]
    where = scripts(plan(rules))
    lines = [["1000"], ["1000", "0"], ["1000", "1"], ["infinity"]]
    started = [subprocess.Popen([str(home / "sleep"), *line]) for line in lines]
    try:
        assert until(lambda: all(comm(p.pid) == "sleep" for p in started))
        done = shell.run(where / "apply.sh")
        assert [allowed(p.pid) for p in started] == [ONE, ONE, UNTOUCHED, TWO], done.stdout
    finally:
        for process in started:
            process.kill()
            process.wait()


HOSTILE = [
    "$(touch x)",
    "`touch x`",
    "*",
    "-p",
    "--help",
    "a'b\"c",
    "back\\slash",
    "x) S 1 1",
    "two\nlines",
    "\n",
    "tab\there",
    "; touch x",
    "é\udcff\udc81\udc88",
    "${HOME}",
    "",
]


def test_hostile_names_are_only_names(shell: Shell, scripts: Scripts, tmp_path: Path) -> None:
    """Names a program can give itself: each is matched as itself, and nothing is run."""
    leader = "h" + uuid.uuid4().hex[:8]
    where = scripts(
        plan(
            [
                rule(0, SECOND, comm="two", leader_comm=leader),
                rule(1, SECOND, comm="x", leader_comm=leader),
                rule(2, SECOND, comm="-p", leader_comm=leader),
                rule(3, SECOND, comm="a'b\"?", leader_comm=leader),
                rule(4, SECOND, comm="$(touch x)", leader_comm=leader),
                rule(5, FIRST, leader_comm=leader),
            ]
        )
    )
    cwd = os.getcwd()
    os.chdir(tmp_path)
    try:
        with worker(leader, *HOSTILE) as one:
            done = shell.run(where / "apply.sh")
            assert done.returncode == 0, done.stderr
            moved = {"-p", "a'b\"c", "$(touch x)"}
            assert one.masks() == {
                name: TWO if name in moved else ONE for name in [leader, *HOSTILE]
            }
            assert "touch x" not in done.stderr
            assert shell.run(where / "revert.sh").returncode == 0
            assert set(one.masks().values()) == {UNTOUCHED}
        assert not (tmp_path / "x").exists()
    finally:
        os.chdir(cwd)


def test_dry_run_and_observe_change_nothing(shell: Shell, scripts: Scripts, tag: str) -> None:
    rules = [rule(0, FIRST, comm=f"{tag}*")]
    with worker(tag, f"{tag}2") as one:
        where = scripts(plan(rules))
        dry = shell.run(where / "apply.sh", "--dry-run")
        assert dry.returncode == 0
        for tid in one.tids():
            line = f"would move {one.pid}/{tid} {comm(tid)} (unit-0): {UNTOUCHED} -> {ONE}"
            assert line in dry.stdout
        assert set(one.masks().values()) == {UNTOUCHED}
        assert not shell.state.exists()

        shell.run(where / "apply.sh")
        recorded = shell.record.read_bytes()
        back = shell.run(where / "revert.sh", "--dry-run")
        assert f"would restore {one.pid}/{one.pid} {tag}: {ONE} -> {UNTOUCHED}" in back.stdout
        assert shell.record.read_bytes() == recorded
        assert set(one.masks().values()) == {ONE}
        shell.run(where / "revert.sh")

        where = scripts(plan(rules, mode="observe"))
        observe = shell.run(where / "apply.sh")
        assert observe.returncode == 0
        assert "mode is observe" in observe.stdout
        assert "would move" in observe.stdout
        assert set(one.masks().values()) == {UNTOUCHED}
        assert list(shell.state.iterdir()) == []


def test_observe_tells_of_what_an_earlier_plan_left(sh: Shell, scripts: Scripts, tag: str) -> None:
    rules = [rule(0, FIRST, comm=f"{tag}*")]
    with worker(tag) as one:
        sh.run(scripts(plan(rules)) / "apply.sh")
        where = scripts(plan(rules, mode="observe"))
        assert "revert.sh puts it back" in sh.run(where / "apply.sh").stderr
        assert allowed(one.pid) == ONE
        sh.etc.mkdir()
        (sh.etc / "disabled").touch()
        sh.run(where / "apply.sh")
        assert allowed(one.pid) == UNTOUCHED


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


@pytest.mark.parametrize("owner", ["", "junk", "1 0 -", "99999999 5 x", "-1", "*"])
def test_a_lock_nobody_holds_is_taken(
    sh: Shell, scripts: Scripts, tag: str, owner: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    sh.state.mkdir()
    (sh.state / "lock").write_text(owner + "\n")
    assert sh.run(where / "apply.sh").returncode == 0
    assert list(sh.state.iterdir()) == []


def test_an_unfinished_takeover_is_refused(sh: Shell, scripts: Scripts) -> None:
    where = scripts(plan([]))
    sh.state.mkdir()
    (sh.state / "lock").write_text("junk\n")
    (sh.state / "lock.steal").mkdir()
    done = sh.run(where / "apply.sh")
    assert done.returncode == 4
    assert "lock.steal" in done.stderr


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


def test_a_changed_plan_keeps_the_first_original(sh: Shell, scripts: Scripts, tag: str) -> None:
    with worker(tag) as one:
        sh.run(scripts(plan([rule(0, FIRST, comm=f"{tag}*")])) / "apply.sh")
        where = scripts(plan([rule(0, SECOND, comm=f"{tag}*")]))
        assert "1 changed" in total(sh.run(where / "apply.sh").stdout)
        assert allowed(one.pid) == TWO
        sh.run(where / "revert.sh")
        assert allowed(one.pid) == UNTOUCHED


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


# --- control groups of this machine -------------------------------------------------------------


@pytest.fixture
def group(tag: str) -> Iterator[tuple[Path, str]]:
    """A control group of this machine with one level below it, where one can be made."""
    root = Path("/sys/fs/cgroup")
    trees = [root, root / "unified", root / "systemd"]
    tree = next((t for t in trees if (t / "cgroup.procs").is_file()), None)
    try:
        if tree is None:
            raise OSError
        (tree / f"{tag}.slice" / "a b").mkdir(parents=True)
    except OSError:
        pytest.skip("no control group can be made here")
    try:
        yield tree / f"{tag}.slice" / "a b", f"{tag}.slice/*"
    finally:
        def empty(path: Path) -> bool:
            try:
                path.rmdir()
            except OSError:
                return False
            return True

        for path in (tree / f"{tag}.slice" / "a b", tree / f"{tag}.slice"):
            until(lambda: empty(path), 10)  # noqa: B023 - called at once


def test_real_control_groups(
    shell: Shell, scripts: Scripts, tag: str, group: tuple[Path, str]
) -> None:
    path, glob = group
    rules = [rule(0, FIRST, cgroup=glob), rule(1, SECOND, comm=f"{tag}*")]
    where = scripts(plan(rules))
    with worker(tag) as inside, worker(tag) as outside:
        (path / "cgroup.procs").write_text(f"{inside.pid}\n")
        shell.run(where / "apply.sh")
        assert (allowed(inside.pid), allowed(outside.pid)) == (ONE, TWO)
        (path.parent / "cgroup.procs").write_text(f"{inside.pid}\n")
        shell.run(where / "apply.sh")
        assert (allowed(inside.pid), allowed(outside.pid)) == (TWO, TWO)
        shell.run(where / "revert.sh")
        assert (allowed(inside.pid), allowed(outside.pid)) == (UNTOUCHED, UNTOUCHED)


@pytest.fixture
def cpuset(tag: str) -> Iterator[Path]:
    """A cpuset of this machine, where one can be made."""
    for root in (Path("/sys/fs/cgroup/cpuset"), Path("/sys/fs/cgroup")):
        path = root / f"{tag}.cpuset"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / "cpuset.mems").write_text("0")
            (path / "cpuset.cpus").write_text(TWO)
        except OSError:
            path.rmdir()
            continue
        try:
            yield path
        finally:
            until(lambda: not path.exists() or path.rmdir() is None, 10)
        return
    pytest.skip("no cpuset can be made here")


def test_real_cpusets(shell: Shell, scripts: Scripts, tag: str, cpuset: Path) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}o")]))
    both = str(CpuSet((int(ONE), int(TWO))))
    with worker(f"{tag}o") as out:
        (cpuset / "cgroup.procs").write_text(f"{out.pid}\n")
        assert allowed(out.pid) == TWO
        done = shell.run(where / "apply.sh")
        assert done.returncode == 0
        assert f"needs 1 of CPUs {ONE}, but has none" in done.stderr
        assert f"cpuset /{tag}.cpuset has {TWO}" in done.stderr
        assert "1 skipped" in total(done.stdout)
        assert allowed(out.pid) == TWO
        # A wider cpuset lets it in, a narrow one takes the lane away, and nothing is left over.
        (cpuset / "cpuset.cpus").write_text(both)
        shell.run(where / "apply.sh")
        assert allowed(out.pid) == ONE
        (cpuset / "cpuset.cpus").write_text(TWO)
        assert allowed(out.pid) == TWO
        shell.run(where / "apply.sh")
        assert allowed(out.pid) == TWO
        (cpuset / "cpuset.cpus").write_text(both)
        assert until(lambda: allowed(out.pid) == both, 5)
        assert not shell.record.exists()


def test_scripts_cope_with_threads_that_come_and_go(
    sh: Shell, scripts: Scripts, tag: str
) -> None:
    where = scripts(plan([rule(0, FIRST, comm=f"{tag}*")]))
    churn = subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"])
    workers: list[Worker] = []
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            workers.append(Worker(tag, *[f"{tag}{n}" for n in range(4)]))
            if len(workers) > 1:
                workers.pop(0).stop()
            done = sh.run(where / "apply.sh")
            assert (done.returncode, done.stderr) == (0, "")
    finally:
        churn.kill()
        churn.wait()
        for one in workers:
            one.stop()
