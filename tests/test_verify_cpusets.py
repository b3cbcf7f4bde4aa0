"""Cpusets that ``tierc verify`` sees on kernels without ``/proc/PID/cpuset``, as Debian's are."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.verify.cgroups import Cpusets
from compiler.verify.sysroot import Sysroot
from tests.verify_host import Node


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("0::/small", ("/small", "0-2")),
        ("1:name=systemd:/else\n0::/small", ("/small", "0-2")),
        ("0::/small/a b/deep", ("/small", "0-2")),  # the nearest above that has a cpuset
        ("0::/small/own/deep", ("/small/own", "2")),
        ("0::/user.slice", ("/", "0-3")),
        ("0::/", ("/", "0-3")),
        ("0::/../small", None),  # of another namespace
        ("1:name=systemd:/small", None),  # no cgroup v2
        ("", None),
    ],
)
def test_the_group_says_it(tmp_path: Path, line: str, seen: tuple[str, str] | None) -> None:
    node = Node(tmp_path)
    node.cgroup("small", cpus="0-2")
    node.cgroup("small/own/deep")
    node.cgroup("small/own", cpus="2")
    node.cgroup("small/a b/deep")
    node.cgroup("user.slice")
    node.thread(10, "batch")
    (node.root / "proc/10/task/10/cpuset").unlink()
    (node.root / "proc/10/task/10/cgroup").write_text(f"{line}\n")
    cpusets = Cpusets(Sysroot(node.root), CpuSet.parse("0-3"))
    found = cpusets.of_thread(10, 10)
    assert (found and (found[0], str(found[1]))) == seen


def test_a_cpuset_that_is_said_and_not_seen_stays_unknown(tmp_path: Path) -> None:
    """Its file may be of another tree: one above would be another cpuset."""
    node = Node(tmp_path)
    node.cgroup("small", cpus="0-2")
    node.thread(10, "batch", cpuset="/small/hidden")
    (node.root / "proc/10/task/10/cgroup").write_text("0::/small/hidden\n")
    assert Cpusets(Sysroot(node.root), CpuSet.parse("0-3")).of_thread(10, 10) is None


def test_a_thread_that_has_ended_has_none(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert Cpusets(Sysroot(node.root), CpuSet.parse("0-3")).of_thread(10, 10) is None
