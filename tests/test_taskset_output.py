"""What the taskset scripts say: dry runs, the kill switch, and news of ``--watch``."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compiler.plan import LeftOut
from tests.taskset_host import Host
from tests.taskset_live import until
from tests.taskset_plans import rule

pytest_plugins = ("tests.taskset_fixtures",)

W = rule(0, 0, comm="w*")


def lines(text: str) -> list[str]:
    return [line.removeprefix("tierc: ") for line in text.splitlines()]


def switch(host: Host, on: bool = True) -> None:
    host.shell.etc.mkdir(exist_ok=True)
    path = host.shell.etc / "disabled"
    path.touch() if on else path.unlink()


def run(host: Host, script: str, *options: str, **more: object) -> list[str]:
    """Run a script to its end; return what it says, warnings behind the rest."""
    done = host.shell.run(host.scripts([W], **more) / script, *options, shims=host.shims)
    return lines(done.stdout) + lines(done.stderr)


def test_a_dry_run_says_would(host: Host) -> None:
    host.proc.thread(10, "w")
    host.proc.thread(11, "w", allowed="0")
    assert run(host, "apply.sh", "--dry-run") == [
        "would move 10/10 w (unit-0): 0-3 -> 0",
        "unit-0: 2 matched, 1 to change, 1 already right, 0 skipped, 0 left alone",
        "dry run, nothing was touched: 2 matched, 1 would change, 1 already right, 0 skipped, "
        "0 left alone, 0 would be restored, 0 failed",
    ]
    assert run(host, "apply.sh")[-1] == (
        "2 matched, 1 changed, 1 already right, 0 skipped, 0 left alone, 0 restored, 0 failed"
    )
    assert run(host, "revert.sh", "--dry-run") == [
        "would restore 10/10 w: 0 -> 0-3",
        "dry run, nothing was touched: 1 would be restored, 0 left to who changed them since, "
        "0 failed",
    ]


def test_what_is_left_out_is_counted_in_english(one_host: Host) -> None:
    left = LeftOut(feature="tier", unit=None, rules=(), message="taskset leaves out weights")
    for count, text in ((1, "1 part of the policy is"), (2, "2 parts of the policy are")):
        said = run(one_host, "apply.sh", left_out=[left] * count)
        assert f"{text} not in this script, see its head" in said
    assert not any("not in this script" in line for line in run(one_host, "apply.sh"))


def test_the_kill_switch_says_what_it_does(host: Host) -> None:
    off = f"nothing is applied: {host.shell.etc}/disabled exists"
    host.proc.thread(10, "w")
    switch(host)
    assert run(host, "apply.sh")[-1] == off  # there is nothing to put back
    switch(host, False)
    run(host, "apply.sh")
    switch(host)
    dry = run(host, "apply.sh", "--dry-run")
    assert dry[0] == "would restore 10/10 w: 0 -> 0-3"
    assert dry[-2:] == [off, "what was changed would be put back"]
    assert host.proc.allowed(10) == "0"
    real = run(host, "apply.sh")
    assert real[0] == "restored 10/10 w: 0 -> 0-3"
    assert real[-2:] == [off, "what was changed is put back"]
    assert host.proc.allowed(10) == "0-3"


class Watch:
    """A script that runs with ``--watch 1``, and what it said."""

    def __init__(self, host: Host, where: Path, options: Sequence[str]) -> None:
        self.log = host.tmp / "log"
        shell = host.shell
        command = [*shell.argv, str(where / "apply.sh"), "--state", str(shell.state), *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--watch", "1"],
                env=shell.environ(host.shims),
                stdout=log,
                stderr=log,
            )

    @property
    def said(self) -> list[str]:
        return lines(self.log.read_text())

    def says(self, start: str) -> bool:
        """Wait for a line."""
        return until(lambda: any(line.startswith(start) for line in self.said))


@contextmanager
def watch(host: Host, *options: str, **more: object) -> Iterator[Watch]:
    one = Watch(host, host.scripts([W], **more), options)
    try:
        yield one
    finally:
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(60) == 0


def forget(host: Host, pid: int) -> None:
    """End a pretended process."""
    for path in sorted((host.proc.root / f"proc/{pid}").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def test_watch_says_the_first_cycle_and_then_news_only(host: Host) -> None:
    host.proc.thread(10, "w10")
    with watch(host) as one:
        assert one.says("1 matched, 1 changed")
        host.proc.thread(11, "w11", allowed="0")  # matched and right: no news
        forget(host, 10)  # nor is an end
        assert until(lambda: not host.shell.record.exists())
        host.proc.thread(12, "w12")
        assert one.says("2 matched, 1 changed, 1 already right")
    assert one.said == [
        "moved 10/10 w10 (unit-0): 0-3 -> 0",
        "unit-0: 1 matched, 1 to change, 0 already right, 0 skipped, 0 left alone",
        "1 matched, 1 changed, 0 already right, 0 skipped, 0 left alone, 0 restored, 0 failed",
        "moved 12/12 w12 (unit-0): 0-3 -> 0",
        "2 matched, 1 changed, 1 already right, 0 skipped, 0 left alone, 0 restored, 0 failed",
    ]


def test_a_dry_watch_says_nothing_twice(host: Host) -> None:
    host.proc.thread(10, "w10")
    with watch(host, "--dry-run") as one:
        assert one.says("dry run")
        host.proc.thread(11, "w11")
        assert one.says("would move 11/11")
        assert until(lambda: one.said[-1].startswith("dry run"))
        switch(host)
        assert one.says("nothing is applied")
        assert one.says("dry run, nothing was touched: 0 matched")
    assert [line.split(",")[0].split(":")[0] for line in one.said] == [
        "would move 10/10 w10 (unit-0)",
        "unit-0",
        "dry run",
        "would move 11/11 w11 (unit-0)",
        "dry run",
        "nothing is applied",
        "dry run",
    ]
    assert host.proc.allowed(10) == host.proc.allowed(11) == "0-3"


def test_the_kill_switch_acts_under_observe_too(host: Host) -> None:
    """What an earlier plan changed is put back within a cycle; only then is there a lock."""
    host.proc.thread(10, "w10")
    run(host, "apply.sh")
    with watch(host, mode="observe") as one:
        assert one.says("some threads still have what an earlier plan gave them")
        assert host.proc.allowed(10) == "0"
        assert not (host.shell.state / "lock").exists()
        switch(host)
        assert until(lambda: host.proc.allowed(10) == "0-3")
        assert one.says("what was changed is put back")
        assert until(lambda: not (host.shell.state / "lock").exists())
        assert one.process.poll() is None


def test_under_observe_the_owner_of_the_state_puts_back(one_host: Host) -> None:
    host = one_host
    host.proc.thread(10, "w10")
    run(host, "apply.sh")
    # this test is the owner, as far as anyone can tell
    stat = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    (host.shell.state / "lock").write_text(f"{os.getpid()} {stat[19]} -\n")
    switch(host)
    said = run(host, "apply.sh", mode="observe")
    assert any(f"locked by process {os.getpid()}" in line for line in said)
    assert host.proc.allowed(10) == "0"
    (host.shell.state / "lock").unlink()
    run(host, "apply.sh", mode="observe")
    assert host.proc.allowed(10) == "0-3"
