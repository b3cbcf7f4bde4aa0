"""From this machine's facts to threads that moved, and golden seeds in this machine's kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from tests.bpf_live import private_bpffs, stage_publish_flip_and_compare
from tests.conftest import GOLDEN
from tests.policies import intent, write
from tests.taskset_live import Shell, make_shell, until, worker

INTENTS = "---\n".join(
    (
        intent("fast", "workload: {match: [{comm: e2e-fast}]}\nprotect: all\nlane: {cores: 1}"),
        intent("slow", 'workload: {match: [{comm: "e2e-slow*"}]}\ndemote: background'),
    )
)


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The directory of this machine in a tree built from its own facts."""
    policy = write(tmp_path / "policy", {"intents/all.yaml": INTENTS})
    (policy / "nodes/box.yaml").unlink()
    assert main(["facts", "collect", "--name", "here", "-o", str(policy / "nodes/here.yaml")]) == 0
    assert main(["build", str(policy), "-o", str(tmp_path / "out")]) == 0
    return tmp_path / "out/nodes/here"


def test_processes_move_stay_and_come_back(shell: Shell, node: Path) -> None:
    online = CpuSet.parse(Path("/sys/devices/system/cpu/online").read_text())
    if len(online) < 2:
        pytest.skip("one CPU leaves nothing to choose")
    apply, revert = node / "taskset/apply.sh", node / "taskset/revert.sh"
    with worker("e2e-fast", "e2e-helper", "e2e-slow-1") as one:
        before = one.masks()
        dry = shell.run(apply, "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert one.masks() == before
        done = shell.run(apply)
        assert done.returncode == 0, done.stdout + done.stderr
        moved = one.masks()
        fast, slow = (CpuSet.parse(moved[name]) for name in ("e2e-fast", "e2e-slow-1"))
        assert fast != CpuSet.parse(before["e2e-fast"])
        assert fast.isdisjoint(slow)
        assert fast | slow <= online
        assert moved["e2e-helper"] == before["e2e-helper"]
        again = shell.run(apply)
        assert "0 changed" in again.stdout
        assert one.masks() == moved
    with shell.watch(apply), worker("e2e-fast") as second:
        assert until(lambda: CpuSet.parse(second.masks()["e2e-fast"]) == fast)
        end = shell.run(revert)
        del end  # the watcher may hold the lock; what counts is the revert below
    with worker("e2e-fast", "e2e-slow-2") as third:
        before = third.masks()
        assert shell.run(apply).returncode == 0
        assert third.masks() != before
        assert shell.run(revert).returncode == 0
        assert third.masks() == before


def test_a_plan_for_another_machine_is_refused_and_undoes_ours(
    shell: Shell, node: Path, tmp_path: Path
) -> None:
    # the same intents for a machine of 511 CPUs and an architecture that no test machine has: an
    # architecture alone refuses, while online CPUs that are fewer than planned do not
    cpus = "0-510"
    facts = (
        "apiVersion: tierc.dev/v1alpha1\nkind: NodeFacts\nmetadata: {name: other}\n"
        f"spec: {{arch: alpha, cpus: {{online: {cpus}}}, cores: [{{cpus: {cpus}}}]}}\n"
    )
    policy = write(tmp_path / "other", {"intents/all.yaml": INTENTS, "nodes/box.yaml": facts})
    assert main(["build", str(policy), "-o", str(tmp_path / "wrong")]) == 0
    wrong = tmp_path / "wrong/nodes/other/taskset/apply.sh"
    with worker("e2e-fast") as one:
        before = one.masks()
        assert shell.run(node / "taskset/apply.sh").returncode == 0
        assert one.masks() != before
        done = shell.run(wrong)
        assert done.returncode == 3
        assert one.masks() == before


GOLDEN_SEEDS = sorted(GOLDEN.glob("*/tree/nodes/*/bpf"))


def test_there_are_golden_seeds() -> None:
    assert GOLDEN_SEEDS


@pytest.mark.parametrize("seed", GOLDEN_SEEDS, ids=lambda p: f"{p.parts[-5]}-{p.parts[-2]}")
def test_every_golden_seed_goes_into_the_kernel_and_reads_back_equal(
    seed: Path, tmp_path: Path, tool: Callable[[str], str]
) -> None:
    with private_bpffs(tool, tmp_path / "bpffs") as bpffs:
        stage_publish_flip_and_compare(seed, bpffs)
