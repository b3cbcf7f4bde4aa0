"""The taskset scripts with real control groups and cpusets of this machine."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from tests.taskset_live import Shell, allowed, until, worker
from tests.taskset_machine import ONE, TWO, UNTOUCHED, Scripts, total
from tests.taskset_plans import FIRST, SECOND, plan, rule

pytest_plugins = ("tests.taskset_fixtures",)


def is_removed(group: Path) -> bool:
    """Remove a control group; tell whether that was possible: not while it has processes."""
    try:
        group.rmdir()
    except OSError:
        return not group.exists()
    return True


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
        assert until(lambda: is_removed(tree / f"{tag}.slice" / "a b"), 10)
        assert until(lambda: is_removed(tree / f"{tag}.slice"), 10)


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
            assert until(functools.partial(is_removed, path), 10)
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
