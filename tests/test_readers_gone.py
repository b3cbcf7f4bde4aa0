"""Commands whose reader goes away before they are done: what they write is whole all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Final

import pytest

from compiler.__main__ import BROKEN_PIPE, WRONG_USAGE, main
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import BOX, intent, write

LATER = intent("slow", 'workload: {engine: vllm, version: "0.99.0"}\ndemote: idle')
"""A version nobody knows: it compiles with a warning, which a build tells before it writes."""

SMALL: Final = {"LC_ALL": "C.UTF-8", "PYTHONSAFEPATH": "1", "PYTHONPATH": str(ROOT)}


def run(*args: object, out: int | IO[bytes], err: int | IO[bytes]) -> tuple[int, bytes, bytes]:
    command = [sys.executable, "-m", "compiler", *map(str, args)]
    env = {**os.environ, **SMALL}
    done = subprocess.run(command, stdout=out, stderr=err, env=env, check=False, timeout=60)
    return done.returncode, done.stdout or b"", done.stderr or b""


def gone() -> int:
    """Return the writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write(tmp_path / "p", {"intents/slow.yaml": LATER, "nodes/box.yaml": BOX})


@pytest.fixture
def whole(policy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, bytes]:
    """The tree as a build writes it whose messages are read; there are some on both streams."""
    assert main(["build", str(policy), "-o", str(tmp_path / "read")]) == 0
    out, err = capfd.readouterr()
    assert "warning[TRC307]" in err
    assert out.endswith(" removed\n")
    return read_tree(tmp_path / "read")


@pytest.mark.parametrize("lost", ["out", "err", "both"])
def test_a_build_writes_the_whole_tree(
    policy: Path, tmp_path: Path, whole: dict[str, bytes], lost: str
) -> None:
    pipe = gone()
    try:
        code, out, err = run(
            "build",
            policy,
            "-o",
            tmp_path / "out",
            out=subprocess.PIPE if lost == "err" else pipe,
            err=subprocess.PIPE if lost == "out" else pipe,
        )
    finally:
        os.close(pipe)
    assert code == BROKEN_PIPE
    assert read_tree(tmp_path / "out") == whole
    assert b"internal error" not in err
    # who still reads gets everything
    assert out.endswith(b" removed\n") == (lost == "err")
    assert (b"TRC" in err) == (lost == "out")


def test_a_build_writes_the_whole_tree_though_its_log_is_full(
    policy: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    with open("/dev/full", "wb") as full:
        code, out, _ = run("build", policy, "-o", tmp_path / "out", out=subprocess.PIPE, err=full)
    assert code == WRONG_USAGE
    assert out.endswith(b" removed\n")
    assert read_tree(tmp_path / "out") == whole


def test_objects_are_printed_though_nobody_reads_the_warnings(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    project = """\
apiVersion: tierc.dev/v1alpha1
kind: Project
metadata: {name: p}
spec: {targets: {taskset: {}, kubernetes: {namespace: tierc-system}}}
"""
    root = write(
        tmp_path, {"tierc.yaml": project, "intents/slow.yaml": LATER, "nodes/box.yaml": BOX}
    )
    args = ("build", str(root), "--stdout", "kubernetes")
    assert main([*args]) == 0
    objects, err = capfdbinary.readouterr()
    assert b"warning[TRC307]" in err
    assert b"DaemonSet" in objects
    pipe = gone()
    try:
        code, out, _ = run(*args, out=subprocess.PIPE, err=pipe)
    finally:
        os.close(pipe)
    assert code == BROKEN_PIPE
    assert out == objects


def test_collected_facts_are_written(tmp_path: Path) -> None:
    machine = tmp_path / "root"
    cpu = machine / "sys/devices/system/cpu"
    (cpu / "cpu0/topology").mkdir(parents=True)
    (cpu / "online").write_text("0\n")
    (machine / "proc").mkdir()
    pipe, read = gone(), subprocess.PIPE
    args = ("facts", "collect", "--name", "n", "--sysroot", machine)
    code, text, err = run(*args, out=read, err=read)
    assert (code, b"warning: " in err) == (0, True)
    try:
        code, _, _ = run(*args, "-o", tmp_path / "n.yaml", out=pipe, err=pipe)
    finally:
        os.close(pipe)
    assert code == BROKEN_PIPE
    assert (tmp_path / "n.yaml").read_bytes() == text
