"""The cpuset scripts on this machine's own kernel, in a control group made for the test."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.plan import NodePlan
from tests.cpuset_host import BACKGROUND, emit_to, plan, rule
from tests.taskset_live import Shell, allowed, make_shell
from tests.taskset_plans import this_machine

ROOT = Path("/sys/fs/cgroup")
V2 = (ROOT / "cgroup.controllers").exists()
TREE = ROOT if V2 else ROOT / "cpuset"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of our own, with nothing in it."""
    here = TREE / f"tierc-{uuid.uuid4().hex[:8]}"
    if V2 and "cpuset" not in (ROOT / "cgroup.controllers").read_text().split():
        pytest.skip("the kernel offers no cpuset controller here")
    try:
        here.mkdir()
        if not V2:
            for name in ("cpuset.cpus", "cpuset.mems"):
                (here / name).write_text((TREE / name).read_text())
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield here
    here.rmdir()


@pytest.fixture
def sleeper(group: Path) -> Iterator[int]:
    """A process in it."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            (group / "cgroup.procs").write_text(f"{process.pid}\n")
            yield process.pid
        finally:
            process.kill()
            process.wait()


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


def bounded(group: Path) -> tuple[NodePlan, str]:
    """Return a plan that gives the group all of this machine's CPUs but the lowest."""
    machine = this_machine()
    everything = machine.online
    if len(everything) < 2:
        pytest.skip("needs two CPUs")
    few = everything - type(everything)([everything.lowest])
    one = plan(
        [rule(str(few), BACKGROUND, cgroup=f"{group.name}/**")],
        shared=str(everything),
        machine=machine,
    )
    return one, str(few)


def test_a_process_is_bound_and_let_go(
    shell: Shell, group: Path, sleeper: int, tmp_path: Path
) -> None:
    one, few = bounded(group)
    before = allowed(sleeper)
    where = emit_to(one, tmp_path / "node")
    options = [] if V2 else ["--v1"]
    done = shell.run(where / "apply.sh", *options, "--cgroup-root", str(ROOT))
    assert done.returncode == 0, done.stderr
    assert allowed(sleeper) == few
    again = shell.run(where / "apply.sh", *options, "--cgroup-root", str(ROOT))
    assert "tierc: 0 changed" in again.stdout
    done = shell.run(where / "revert.sh", "--cgroup-root", str(ROOT))
    assert done.returncode == 0, done.stderr
    assert allowed(sleeper) == before
    assert not shell.record.exists()


def test_a_dry_run_of_no_privilege_touches_nothing(
    shell: Shell, group: Path, sleeper: int, tmp_path: Path
) -> None:
    one, _ = bounded(group)
    before = {p.name: p.read_text() for p in group.iterdir() if os.access(p, os.R_OK)}
    options = ["--dry-run"] if V2 else ["--dry-run", "--v1"]
    done = shell.run(emit_to(one, tmp_path / "node") / "apply.sh", *options)
    assert done.returncode == 0, done.stderr
    assert f"would set {group.name}: cpuset.cpus" in done.stdout
    assert {p.name: p.read_text() for p in group.iterdir() if p.name in before} == before
    assert allowed(sleeper) == allowed(os.getpid())


def test_this_machine_is_refused_where_it_has_no_cgroup_v2(
    shell: Shell, group: Path, tmp_path: Path
) -> None:
    if V2:
        pytest.skip("this machine has cgroup v2")
    one, _ = bounded(group)
    done = shell.run(emit_to(one, tmp_path / "node") / "apply.sh")
    assert done.returncode == 3
    assert "use taskset, or --v1" in done.stderr
