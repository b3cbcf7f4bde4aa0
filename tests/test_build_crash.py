"""The whole command under kill -9, two at once, and a disk that is full."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from compiler.__main__ import main
from compiler.tree import filesystem
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import BOX, PROJECT, intent, write

SLOW = intent("slow", 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background')
NODES = 16

# The command in a child of a process that has loaded everything, so that there is time for many
# kills.  A line is the policy, then what becomes of the build: nothing, "count" (the answer is the
# number of calls into C that writing made), "call N" (killed as it makes the Nth of them), or
# "after S" and "writing S" (killed S seconds after it began, or began to write).
_FORKS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from compiler.__main__ import main
from compiler.commands import build
main(["build", sys.argv[2], "-o", sys.argv[3] + "-warm"])
real = os.dup(1)
devnull = os.open(os.devnull, os.O_WRONLY)
os.dup2(devnull, 1); os.dup2(devnull, 2)
os.write(real, b"ready\\n")
write_tree = build.write_tree
for line in sys.stdin:
    policy, _, kill = line.strip().partition("\\t")
    how, _, when = kill.partition(" ")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        calls = 0
        def count(frame, event, function):
            global calls
            calls += event == "c_call"
            if how == "call" and calls == int(when):
                os.kill(os.getpid(), 9)
        def tell(*args, **kwargs):
            os.write(write_end, b"writing\\n")
            if how in ("call", "count"):
                sys.setprofile(count)
            try:
                return write_tree(*args, **kwargs)
            finally:
                sys.setprofile(None)
                os.write(write_end, b"%d\\n" % calls)
        build.write_tree = tell
        os._exit(main(["build", policy, "-o", sys.argv[3]]))
    os.close(write_end)
    if how in ("after", "writing"):
        if how == "writing":
            os.read(read_end, 8)
        time.sleep(float(when))
        os.kill(child, 9)  # not waited for yet, so the number is still its own
    _, status = os.waitpid(child, 0)
    answer = os.read(read_end, 100).split()[-1] if how == "count" else b"%d" % status
    os.close(read_end)
    os.write(real, answer + b"\\n")
"""


def policies(base: Path) -> tuple[Path, Path]:
    """Two versions of a policy: every node's files change, a node goes and another comes."""
    roots = []
    for version, text in (("a", SLOW), ("b", SLOW.replace("background", "idle"))):
        files = {"tierc.yaml": PROJECT, "intents/slow.yaml": text}
        for number in range(NODES):
            name = f"n{number}" if number else f"only-{version}"
            files[f"nodes/{name}.yaml"] = BOX.replace("name: box", f"name: {name}")
        root = write(base / version, files)
        (root / "nodes/box.yaml").unlink()
        roots.append(root)
    return roots[0], roots[1]


class Builder:
    """Builds in children that can be killed."""

    def __init__(self, policy: Path, out: Path) -> None:
        command = [sys.executable, "-c", _FORKS, str(ROOT), str(policy), str(out)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )
        self.out = out
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        while not (line := self.process.stdout.readline().strip()).isdigit() and line != "ready":
            assert line or self.process.poll() is None, "the builder has died"
        return line

    def _ask(self, policy: Path, kill: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{policy}\t{kill}\n")
        self.process.stdin.flush()
        return int(self._line())

    def build(self, policy: Path) -> None:
        assert self._ask(policy, "") == 0

    def calls(self, policy: Path) -> int:
        """Build, and return how many calls into C writing the tree took."""
        return self._ask(policy, "count")

    def kill(self, policy: Path, how: str) -> bool:
        """Build and kill it; return whether it had ended before."""
        status = self._ask(policy, how)
        assert status in (0, signal.SIGKILL)
        return status == 0

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Tried(NamedTuple):
    cut_short: int
    """Builds that had not ended when they were killed."""
    seen: dict[bytes, int]
    """By the manifest of each version, how often it was there after a kill."""


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    """Builds into dir/out, where the second of two versions is."""
    a, b = policies(tmp_path)
    (tmp_path / "dir").mkdir()
    builder = Builder(a, tmp_path / "dir/out")
    shutil.rmtree(tmp_path / "dir/out-warm")
    try:
        builder.build(a)
        builder.build(b)
        yield builder
    finally:
        builder.stop()


def _kill(builder: Builder, tmp_path: Path, moments: Sequence[str]) -> Tried:
    """Kill a build at each of the moments, the two versions in turns."""
    a, b = tmp_path / "a", tmp_path / "b"
    whole: dict[bytes, dict[str, bytes]] = {}
    for name, root in (("ta", a), ("tb", b)):
        assert main(["build", str(root), "-o", str(tmp_path / name)]) == 0
        tree = read_tree(tmp_path / name)
        whole[tree["manifest.json"]] = tree
    out = builder.out
    seen: dict[bytes, int] = dict.fromkeys(whole, 0)
    cut_short = 0
    for number, moment in enumerate(moments):
        (out / "mine").write_text("foreign")
        cut_short += not builder.kill((a, b)[number % 2], moment)
        tree = read_tree(out)
        assert tree.pop("mine") == b"foreign"
        version = tree["manifest.json"]
        assert tree == whole[version], f"a mix, killed at {moment}"
        listed = json.loads(version)["files"]
        assert listed.keys() == tree.keys() - {"manifest.json", "provenance.json"}
        seen[version] += 1
    # What the killed ones left is gone after the next build, which nothing blocks.
    builder.build(b)
    (out / "mine").unlink()
    builder.build(a)
    assert [p.name for p in out.parent.iterdir()] == ["out"]
    assert read_tree(out) == read_tree(tmp_path / "ta")
    return Tried(cut_short, seen)


def test_kill_9_at_random_moments_leaves_the_old_or_the_new_tree(
    builder: Builder, tmp_path: Path
) -> None:
    # What part of a build is over when it is killed depends on what else the machine does, so
    # nothing is said here about how often which tree is there.
    started = time.monotonic()
    builder.build(tmp_path / "a")
    usual = time.monotonic() - started
    rng = random.Random(6)
    # Writing is a small part of a build, and the interesting one.
    moments = [f"writing {rng.uniform(0, usual / 3)}" for _ in range(15)]
    moments += [f"after {rng.uniform(0, usual)}" for _ in range(5)]
    _kill(builder, tmp_path, moments)


@pytest.mark.slow
def test_kill_9_at_two_hundred_calls_of_writing(builder: Builder, tmp_path: Path) -> None:
    (builder.out / "mine").write_text("foreign")
    calls = builder.calls(tmp_path / "a")
    builder.build(tmp_path / "b")
    assert calls > 1000
    # From the first call to the last, in an order that mixes early with late ones.
    moments = [f"call {1 + number * (calls - 1) // 199}" for number in range(200)]
    random.Random(6).shuffle(moments)
    tried = _kill(builder, tmp_path, moments)
    # A build after one that was cut short finds what that has left, and one with nothing to change
    # makes fewer calls; hence not all.
    assert tried.cut_short >= 100
    assert min(tried.seen.values()) > 0, "only one tree was ever seen"


# --- two at once -------------------------------------------------------------------------------


def test_two_builds_at_once_take_turns(tmp_path: Path) -> None:
    a, b = policies(tmp_path)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "compiler", "build"]
    running = [
        subprocess.Popen([*command, str(root), "-o", str(out)], cwd=ROOT, stdout=subprocess.DEVNULL)
        for root in (a, b)
    ]
    assert [process.wait() for process in running] == [0, 0]
    codes = sorted(main(["build", str(root), "-o", str(out), "--check"]) for root in (a, b))
    assert codes == [0, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "out"]


def test_a_build_that_waits_too_long_is_refused_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = policies(tmp_path)
    out = tmp_path / "out"
    assert main(["build", str(a), "-o", str(out)]) == 0
    before = read_tree(out)
    monkeypatch.setattr("compiler.commands.build.LOCK_TIMEOUT", 0.1)
    capsys.readouterr()
    with filesystem.locked(tmp_path / ".out.tierc-lock", out, 0):
        assert main(["build", str(b), "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert "error[TRC703]: another build is writing this output directory (waited 0.1 s)" in err
    assert "wait for the process that holds .out.tierc-lock, then build again" in err
    assert read_tree(out) == before


# --- the disk ----------------------------------------------------------------------------------


def _refused(capsys: pytest.CaptureFixture[str], policy: Path, out: Path, why: str) -> None:
    before = read_tree(out)
    assert before
    beside = sorted(p.name for p in out.parent.iterdir())
    capsys.readouterr()
    assert main(["build", str(policy), "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert f"error[TRC704]: cannot write the output: {why}" in err
    assert str(out) in err
    assert "help: the tree that was there is as it was" in err
    assert read_tree(out) == before
    assert sorted(p.name for p in out.parent.iterdir()) == beside


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a filesystem of some KiB; only root can, and CI is root."""
    made = []

    def make(kib: int) -> Path:
        where = tmp_path / "disk"
        where.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(where)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            reason = f"cannot mount a small filesystem: {done.stderr.strip()}"
            if os.geteuid() == 0 and os.environ.get("CI"):
                pytest.fail(f"{reason}; CI must not skip this")
            pytest.skip(reason)
        made.append(where)
        return where

    yield make
    for where in made:
        subprocess.run(["umount", str(where)], check=True)


def test_a_full_disk_leaves_the_old_tree(
    small_disk: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = policies(tmp_path)
    assert main(["build", str(a), "-o", str(tmp_path / "whole")]) == 0
    pages = sum(-(-len(data) // 4096) for data in read_tree(tmp_path / "whole").values())
    out = small_disk(4 * pages * 3 // 2) / "out"  # room for one tree and a half
    assert main(["build", str(a), "-o", str(out)]) == 0
    _refused(capsys, b, out, "no space left on device")
    # With less to change there is room.
    assert main(["build", str(b), "-o", str(out), "--node", "n1"]) == 0


def test_a_file_that_cannot_be_written_in_full_leaves_the_old_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What a quota does, without rights: no file may grow beyond 8 KiB, which the scripts do.
    a, b = policies(tmp_path)
    out = tmp_path / "out"
    assert main(["build", str(a), "-o", str(out)]) == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        _refused(capsys, b, out, "file too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert main(["build", str(b), "-o", str(out)]) == 0
