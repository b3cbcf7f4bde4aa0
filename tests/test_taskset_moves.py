"""What the taskset scripts move on this machine, under dash and under busybox alone."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

from tests.taskset_live import Shell, Worker, allowed, comm, until, worker
from tests.taskset_machine import ONE, TWO, UNTOUCHED, Scripts, total
from tests.taskset_plans import ALL, FIRST, SECOND, plan, rule

pytest_plugins = ("tests.taskset_fixtures",)


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


def test_revert_leaves_what_someone_else_changed(shell: Shell, scripts: Scripts, tag: str) -> None:
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
    with (
        worker(f"{tag}lead", f"{tag}keep", f"{tag}shim", f"{tag}x") as one,
        worker(f"{tag}y") as two,
    ):
        done = shell.run(where / "apply.sh")
        assert one.masks() == {
            f"{tag}lead": ONE,
            f"{tag}keep": UNTOUCHED,
            f"{tag}shim": UNTOUCHED,
            f"{tag}x": ONE,
        }
        assert allowed(two.pid) == TWO
        assert "5 matched, 3 changed, 0 already right, 0 skipped, 2 left alone" in total(
            done.stdout
        )
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


def test_a_changed_plan_keeps_the_first_original(sh: Shell, scripts: Scripts, tag: str) -> None:
    with worker(tag) as one:
        sh.run(scripts(plan([rule(0, FIRST, comm=f"{tag}*")])) / "apply.sh")
        where = scripts(plan([rule(0, SECOND, comm=f"{tag}*")]))
        assert "1 changed" in total(sh.run(where / "apply.sh").stdout)
        assert allowed(one.pid) == TWO
        sh.run(where / "revert.sh")
        assert allowed(one.pid) == UNTOUCHED


def test_scripts_cope_with_threads_that_come_and_go(sh: Shell, scripts: Scripts, tag: str) -> None:
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
