"""The cpuset scripts on a pretended machine: its kernel and its systemd are in cpuset_kernel.py."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.plan import NodePlan
from tests.cpuset_host import BACKGROUND, EIGHT, IDLE, LATENCY, Host, plan, rule
from tests.taskset_live import shim, until

CI = rule("4-7", BACKGROUND, cgroup="ci.slice/**")
JOBS = rule("6-7", IDLE, cgroup="system.slice/jobs.service/**")
ENGINE = rule("2-3", LATENCY, cgroup="serving.slice/**")
BOTH = plan([JOBS, CI])
LANE = plan([ENGINE, CI], shared="0-1,4-7", lanes={"chat": ("2-3", "exclusive")})


@pytest.fixture(params=["dash", "busybox"])
def host(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Host:
    return Host(request.param, tool, tmp_path)


@pytest.fixture
def one_host(tool: Callable[[str], str], tmp_path: Path) -> Host:
    """One shell, where the two cannot differ."""
    return Host("dash", tool, tmp_path)


def total(output: str) -> str:
    """Return the line that counts everything."""
    return [line for line in output.splitlines() if line.endswith(" failed")][-1]


# --- Files of cgroup v2 --------------------------------------------------------------------------


def test_a_dry_run_an_apply_a_second_one_and_a_revert(host: Host) -> None:
    host.group("ci.slice", 10)
    host.group("system.slice/jobs.service", 11)
    before = host.snapshot()
    out = host.apply(BOTH, "--dry-run")
    assert "would set ci.slice: cpuset.cpus: - -> 4-7" in out
    assert out.count("would set the root of the tree: controller cpuset: off -> on") == 1
    assert "8 would change" in total(out)
    assert host.snapshot() == before
    assert not host.shell.state.exists()

    assert "8 changed" in total(host.apply(BOTH))
    assert host.read("ci.slice/cpuset.cpus.effective") == "4-7"
    assert host.read("ci.slice/cpu.weight") == "25"
    assert host.read("system.slice/jobs.service/cpuset.cpus") == "6-7"
    assert host.read("system.slice/jobs.service/cpu.idle") == "1"
    assert host.read("system.slice/cpuset.cpus") == ""
    applied = host.snapshot()

    assert total(host.apply(BOTH)).startswith("tierc: 0 changed, 4 already right, 0 skipped")
    assert host.snapshot() == applied

    assert "8 would be restored" in host.revert("--dry-run")
    assert host.snapshot() == applied
    out = host.revert()
    assert total(out) == "tierc: 8 restored, 0 left to who changed them since, 0 failed"
    after = {path: text.strip() for path, text in host.snapshot().items()}
    assert after == {path: text.strip() for path, text in before.items()}
    assert list(host.shell.state.iterdir()) == []
    assert total(host.revert()).startswith("tierc: 0 restored")


def test_the_kernel_empties_no_cpuset_that_has_processes(one_host: Host) -> None:
    """Where the controller stays, because others use it, the group gets every CPU."""
    one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    (one_host.group("other", 11) / "cpuset.cpus").write_text("0\n")
    out = one_host.revert()
    assert "cpuset.cpus: 4-7 -> - (every CPU: the kernel empties no cpuset" in out
    assert "left as it is: the root of the tree: controller cpuset, which others use" in out
    assert one_host.read("ci.slice/cpuset.cpus") == "0-7"
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "0-7"
    assert one_host.read("other/cpuset.cpus") == "0"
    assert one_host.read("cgroup.subtree_control") == "cpuset"


def test_a_controller_stays_where_another_group_has_memory_nodes(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    (one_host.group("other", 11) / "cpuset.mems").write_text("0\n")
    assert "controller cpuset, which others use" in one_host.revert()
    assert one_host.read("cgroup.subtree_control") == "cpuset"


def test_a_kernel_that_does_gets_it_empty(one_host: Host) -> None:
    one_host.kernel(empties=True)
    one_host.group("ci.slice", 10)
    (one_host.group("other", 11) / "cpuset.cpus").write_text("0\n")
    one_host.apply(plan([CI]))
    (one_host.cgroup / "other/cpuset.cpus").write_text("0\n")
    one_host.revert()
    assert one_host.read("ci.slice/cpuset.cpus") == ""


def test_what_somebody_changed_since_is_left(one_host: Host) -> None:
    group = one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    (group / "cpuset.cpus").write_text("5\n")
    out = one_host.revert()
    assert "left as it is: ci.slice: cpuset.cpus is now 5, not what was written (4-7)" in out
    assert "1 left to who changed them since" in total(out)
    assert one_host.read("ci.slice/cpuset.cpus") == "5"
    assert one_host.read("cgroup.subtree_control") == "cpuset"  # it is in use
    assert "controller cpuset, which others use" in out
    assert not one_host.shell.record.exists()


def test_what_was_set_before_comes_back(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    for controller in ("cpuset", "cpu"):
        path = one_host.cgroup / "cgroup.subtree_control"
        path.write_text(f"{path.read_text().strip()} {controller}\n")
    group = one_host.group("ci.slice", 10)
    (group / "cpuset.cpus").write_text("0-5\n")
    (group / "cpu.weight").write_text("70\n")
    one_host.group("ci.slice", 10)
    assert "2 changed" in total(one_host.apply(plan([CI])))
    one_host.apply(plan([rule("5-7", BACKGROUND, cgroup="ci.slice/**")]))
    assert one_host.read("ci.slice/cpuset.cpus") == "5-7"
    assert "2 restored" in total(one_host.revert())
    assert one_host.read("ci.slice/cpuset.cpus") == "0-5"
    assert one_host.read("ci.slice/cpu.weight") == "70"
    assert one_host.read("cgroup.subtree_control") == "cpuset cpu"


def test_a_group_that_is_no_longer_named_is_reset(host: Host) -> None:
    host.group("ci.slice", 10)
    host.group("system.slice/jobs.service", 11)
    host.apply(BOTH)
    out = host.apply(plan([JOBS]))
    assert "restored ci.slice: cpuset.cpus: 4-7 -> -" in out
    assert "restored ci.slice: cpu.weight: 25 -> 100" in out
    assert host.read("ci.slice/cpuset.cpus.effective") == "0-7"
    assert host.read("system.slice/jobs.service/cpuset.cpus.effective") == "6-7"
    assert host.read("cgroup.subtree_control") == "cpu cpuset"
    assert "0 changed, 2 already right" in host.apply(plan([JOBS]))


def test_too_few_cpus_above_are_a_report(one_host: Host) -> None:
    one_host.group("system.slice/jobs.service", 11)
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpuset\n")
    system = one_host.group("system.slice")
    (system / "cpuset.cpus").write_text("0-6\n")
    one_host.group("system.slice/jobs.service", 11)
    out = one_host.apply(plan([JOBS]))
    assert one_host.read("system.slice/jobs.service/cpuset.cpus") == "6"
    needy = rule("6-7", BACKGROUND, least=2, cgroup="system.slice/jobs.service/**")
    out = one_host.apply(plan([needy]))
    assert (
        "skipped, system.slice/jobs.service: needs 2 of CPUs 6-7, but the group above has 0-6"
        in out
    )
    # what was set is put back, down to the controller
    assert not (one_host.cgroup / "system.slice/jobs.service/cpuset.cpus").exists()


def test_no_controller_where_a_group_on_the_way_has_processes(one_host: Host) -> None:
    one_host.group("mine", 10)
    one_host.group("mine/jobs", 11)
    out = one_host.apply(plan([rule("4-7", BACKGROUND, cgroup="mine/jobs/**")]))
    assert "mine has processes of its own, so that the groups in it get no controller cpuset" in out
    assert one_host.read("mine/cgroup.subtree_control") == ""
    one_host.revert()


def test_a_group_that_is_not_there_is_not_made(one_host: Host) -> None:
    out = one_host.apply(BOTH)
    assert total(out).startswith("tierc: 0 changed, 0 already right, 0 skipped, 2 groups not there")
    assert not (one_host.cgroup / "ci.slice").exists()
    assert not one_host.shell.record.exists()


def test_a_group_that_is_gone_is_forgotten(one_host: Host) -> None:
    group = one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    for path in group.iterdir():
        path.unlink()
    group.rmdir()
    assert "0 left to who changed" in total(one_host.revert())
    assert one_host.read("cgroup.subtree_control") == ""


def test_without_cpu_idle_the_least_weight_is_set(one_host: Host) -> None:
    one_host.kernel(idle=False)
    one_host.group("system.slice/jobs.service", 11)
    one_host.apply(plan([JOBS]))
    assert one_host.read("system.slice/jobs.service/cpu.weight") == "1"


def test_from_a_weight_to_idle_and_back(one_host: Host) -> None:
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpu cpuset\n")
    group = one_host.group("ci.slice", 10)
    (group / "cpu.weight").write_text("70\n")
    idle = plan([rule("4-7", IDLE, cgroup="ci.slice/**")])
    one_host.apply(plan([CI]))
    assert "0 left to who changed" in total(one_host.apply(idle))
    assert one_host.read("ci.slice/cpu.idle") == "1"
    assert "0 left to who changed" in total(one_host.apply(plan([CI])))
    assert (one_host.read("ci.slice/cpu.idle"), one_host.read("ci.slice/cpu.weight")) == ("0", "25")
    assert "0 failed" in total(one_host.revert())
    assert one_host.read("ci.slice/cpu.idle") == "0"


def test_a_group_that_was_idle_gets_a_weight_and_is_idle_again(one_host: Host) -> None:
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpu\n")
    group = one_host.group("ci.slice", 10)
    (group / "cpu.idle").write_text("1\n")
    (group / "cpu.weight").write_text("0\n")
    one_host.apply(plan([CI]))
    assert (one_host.read("ci.slice/cpu.idle"), one_host.read("ci.slice/cpu.weight")) == ("0", "25")
    one_host.revert()
    assert one_host.read("ci.slice/cpu.idle") == "1"


def test_hostile_names_are_names(host: Host) -> None:
    name = "mine $(touch x)`id`/'\"; -rf \\"
    host.group(name, 10)
    host.apply(plan([rule("4-7", BACKGROUND, cgroup=f"{name}/**")]))
    assert host.read(f"{name}/cpuset.cpus.effective") == "4-7"
    assert "already right" in host.apply(plan([rule("4-7", BACKGROUND, cgroup=f"{name}/**")]))
    out = host.revert()
    assert "0 failed" in total(out)
    assert host.read("cgroup.subtree_control") == ""
    assert not list(host.tmp.rglob("x"))


# --- Partitions ----------------------------------------------------------------------------------


def test_an_exclusive_lane_becomes_a_partition_and_stays_one(host: Host) -> None:
    host.group("serving.slice", 10)
    host.group("ci.slice", 11)
    host.group("user.slice", 12)
    out = host.apply(LANE)
    assert "set serving.slice: cpuset.cpus.partition: member -> root" in out
    assert host.read("cpuset.cpus.effective") == "0-1,4-7"
    assert host.read("user.slice/cpuset.cpus.effective") == "0-1,4-7"
    assert host.read("serving.slice/cpuset.cpus.effective") == "2-3"
    again = host.apply(LANE)
    assert total(again).startswith("tierc: 0 changed, 5 already right, 0 skipped")
    host.revert()
    assert host.read("cpuset.cpus.effective") == "0-7"
    assert host.read("cgroup.subtree_control") == ""


def test_a_partition_that_the_kernel_calls_invalid_goes_back_to_member(host: Host) -> None:
    (host.cgroup / "cgroup.subtree_control").write_text("cpuset\n")
    host.group("serving.slice", 10)
    other = host.group("other", 11)
    (other / "cpuset.cpus").write_text("3-4\n")
    out = host.apply(LANE)
    assert (
        "skipped, serving.slice: others are not kept out: the kernel takes no partition: invalid "
        "(Cpu list in cpuset.cpus not exclusive)" in out
    )
    assert host.read("serving.slice/cpuset.cpus.partition") == "member"
    assert host.read("serving.slice/cpuset.cpus.effective") == "2-3"
    assert "partition" not in host.shell.record.read_text()
    assert "0 changed" in total(host.apply(LANE))


def test_without_partitions_it_is_said(one_host: Host) -> None:
    one_host.kernel(partition=False)
    one_host.group("serving.slice", 10)
    assert "the kernel has no partition for it" in one_host.apply(LANE)


def test_somebody_elses_partition_is_left(one_host: Host) -> None:
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpuset\n")
    group = one_host.group("serving.slice", 10)
    (group / "cpuset.cpus.partition").write_text("isolated\n")
    assert "a partition of somebody else's: isolated" in one_host.apply(LANE)
    assert one_host.read("serving.slice/cpuset.cpus.partition") == "isolated"


DEEP = plan(
    [rule("2-3", LATENCY, cgroup="system.slice/engine.service/**")],
    shared="0-1,4-7",
    lanes={"chat": ("2-3", "exclusive")},
)


def test_a_partition_below_the_top_needs_the_cpus_handed_down(one_host: Host) -> None:
    one_host.group("system.slice/engine.service", 10)
    one_host.group("user.slice", 11)
    one_host.apply(DEEP)
    assert one_host.read("system.slice/cpuset.cpus.exclusive") == "2-3"
    assert one_host.read("system.slice/engine.service/cpuset.cpus.partition") == "root"
    assert one_host.read("user.slice/cpuset.cpus.effective") == "0-1,4-7"
    assert "0 changed" in total(one_host.apply(DEEP))
    one_host.revert()
    assert one_host.read("cpuset.cpus.effective") == "0-7"
    assert one_host.read("cgroup.subtree_control") == ""


@pytest.mark.parametrize("cpus", ["4-5", "3-4", "2", "2-4"])
def test_a_lane_below_the_top_moves_with_its_partition(one_host: Host, cpus: str) -> None:
    """Its list of exclusive CPUs goes along, and nothing of the old one stays reserved."""
    host = one_host

    def lane(where: str) -> NodePlan:
        engine = rule(where, LATENCY, cgroup="ml.slice/engine.service/**")
        other = rule("6", LATENCY, cgroup="ml.slice/other.service/**")
        lanes = {"chat": (where, "exclusive"), "other": ("6", "exclusive")}
        return plan([engine, other], shared="0-1,7", lanes=lanes)

    host.group("ml.slice/engine.service", 10)
    host.group("ml.slice/other.service", 11)
    before = {path: text.strip() for path, text in host.snapshot().items()}
    host.apply(lane("2-3"))
    assert "0 failed" in host.apply(lane(cpus))
    engine = "ml.slice/engine.service"
    assert host.read(f"{engine}/cpuset.cpus.partition") == "root"
    assert host.read(f"{engine}/cpuset.cpus.effective") == cpus
    assert host.read("ml.slice/other.service/cpuset.cpus.partition") == "root"
    handed = CpuSet.parse(host.read("ml.slice/cpuset.cpus.exclusive"))
    assert handed == CpuSet.parse(cpus) | CpuSet.parse("6")
    assert total(host.apply(lane(cpus))).startswith("tierc: 0 changed")
    host.revert()
    assert {path: text.strip() for path, text in host.snapshot().items()} == before


def test_a_slice_around_a_partition_keeps_its_cpus(one_host: Host) -> None:
    """The partition takes them from the groups above it; a second run must not mind."""
    one_host.group("system.slice/engine.service", 10)
    one_host.group("system.slice/other.service", 11)
    one = plan(
        [
            rule("2-3", LATENCY, cgroup="system.slice/engine.service/**"),
            rule("6-7", BACKGROUND, cgroup="system.slice/**"),
        ],
        shared="0-1,4-7",
        lanes={"chat": ("2-3", "exclusive")},
    )
    one_host.apply(one)
    assert one_host.read("system.slice/cpuset.cpus") == "2-3,6-7"
    assert one_host.read("system.slice/cpuset.cpus.effective") == "6-7"
    assert one_host.read("system.slice/engine.service/cpuset.cpus.effective") == "2-3"
    before = one_host.snapshot()
    assert "0 changed" in total(one_host.apply(one))
    assert one_host.snapshot() == before
    assert "0 failed" in total(one_host.revert())
    assert one_host.read("cgroup.subtree_control") == ""


def test_before_linux_6_7_there_is_none_below_the_top(one_host: Host) -> None:
    one_host.kernel(exclusive=False)
    one_host.group("system.slice/engine.service", 10)
    out = one_host.apply(DEEP)
    assert "a partition below system.slice needs cpuset.cpus.exclusive (Linux 6.7)" in out
    assert one_host.read("system.slice/engine.service/cpuset.cpus.effective") == "2-3"


def test_a_group_that_is_reset_ends_no_partition_beside_it(host: Host) -> None:
    """The kernel empties no populated cpuset, and every CPU would include those of the lane."""
    host.group("ci.slice", 10)
    host.group("serving.slice", 11)
    host.group("system.slice/jobs.service", 12)
    before = {path: text.strip() for path, text in host.snapshot().items()}
    alone = plan([ENGINE], shared="0-1,4-7", lanes={"chat": ("2-3", "exclusive")})
    host.apply(LANE)
    assert "(every CPU outside the partitions beside it: " in host.apply(alone)
    assert host.read("serving.slice/cpuset.cpus.partition") == "root"
    assert host.read("ci.slice/cpuset.cpus") == "0-1,4-7"
    assert host.read("ci.slice/cpuset.cpus.effective") == "0-1,4-7"
    assert total(host.apply(alone)).startswith("tierc: 0 changed")
    # it gets the rest when the lane is gone
    host.apply(plan([JOBS]))
    assert host.read("ci.slice/cpuset.cpus") == "0-7"
    assert host.read("ci.slice/cpuset.cpus.effective") == "0-7"
    host.revert()
    assert {path: text.strip() for path, text in host.snapshot().items()} == before


def test_a_cpuset_of_others_that_is_put_back_ends_no_partition_beside_it(one_host: Host) -> None:
    host = one_host
    (host.cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    for name, cpus in (("a.slice", "2"), ("ci.slice", "0-2")):
        (host.group(name, 10) / "cpuset.cpus").write_text(f"{cpus}\n")
        host.group(name, 10)
    host.group("serving.slice", 11)
    with_a = plan(
        [ENGINE, CI, rule("5", BACKGROUND, cgroup="a.slice/**")],
        shared="0-1,4-7",
        lanes={"chat": ("2-3", "exclusive")},
    )
    host.apply(with_a)
    alone = plan([ENGINE], shared="0-1,4-7", lanes={"chat": ("2-3", "exclusive")})
    out = host.apply(alone, code=1)
    assert "cpuset.cpus: 4-7 -> 0-2 (those outside the partitions beside it)" in out
    assert "could not restore a.slice: cpuset.cpus to 2: they are those of a partition" in out
    assert host.read("serving.slice/cpuset.cpus.partition") == "root"
    assert (host.read("ci.slice/cpuset.cpus"), host.read("a.slice/cpuset.cpus")) == ("0-1", "5")
    host.revert()
    assert (host.read("ci.slice/cpuset.cpus"), host.read("a.slice/cpuset.cpus")) == ("0-2", "2")


def test_a_revert_puts_back_partitions_first(one_host: Host) -> None:
    """Also those that were made before a group beside them was bound."""
    one_host.group("serving.slice", 11)
    one_host.apply(plan([ENGINE], shared="0-1,4-7", lanes={"chat": ("2-3", "exclusive")}))
    one_host.group("ci.slice", 10)
    one_host.group("user.slice", 12)
    (one_host.cgroup / "user.slice/cpuset.cpus").write_text("0\n")  # the controller stays
    one_host.apply(LANE)
    one_host.revert()
    assert one_host.read("ci.slice/cpuset.cpus") == "0-7"
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "0-7"


def test_somebody_elses_partition_outlives_a_revert(one_host: Host) -> None:
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    one_host.group("ci.slice", 10)
    other = one_host.group("other", 11)
    one_host.apply(plan([CI]))
    (other / "cpuset.cpus").write_text("2\n")
    (other / "cpuset.cpus.partition").write_text("root\n")
    assert "(every CPU outside the partitions beside it: " in one_host.revert()
    assert one_host.read("other/cpuset.cpus.partition") == "root"
    assert one_host.read("ci.slice/cpuset.cpus") == "0-1,3-7"
    assert not one_host.shell.record.exists()


def test_the_cpus_of_a_lane_that_is_gone_or_moved_are_others_at_once(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.group("serving.slice", 11)
    one_host.group("user.slice", 12)
    one_host.apply(LANE)
    ci = rule("2-3", BACKGROUND, cgroup="ci.slice/**")
    moved = rule("6-7", LATENCY, cgroup="serving.slice/**")
    swapped = plan([moved, ci], shared="0-5", lanes={"chat": ("6-7", "exclusive")})
    assert "0 skipped" in total(one_host.apply(swapped))
    assert one_host.read("serving.slice/cpuset.cpus.partition") == "root"
    assert one_host.read("serving.slice/cpuset.cpus.effective") == "6-7"
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "2-3"
    assert one_host.read("user.slice/cpuset.cpus.effective") == "0-5"
    assert total(one_host.apply(swapped)).startswith("tierc: 0 changed")
    wide = plan([rule("5-7", BACKGROUND, cgroup="ci.slice/**")])
    one_host.apply(wide)
    assert one_host.read("ci.slice/cpuset.cpus") == "5-7"
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "5-7"
    one_host.revert()
    assert one_host.read("cpuset.cpus.effective") == "0-7"


# --- systemd -------------------------------------------------------------------------------------


def test_units_are_set_by_systemd_and_reset(host: Host) -> None:
    host.group("ci.slice", 10)
    host.group("system.slice/jobs.service", 11)
    host.systemd(
        ci__slice={"group": "ci.slice"}, jobs__service={"group": "system.slice/jobs.service"}
    )
    host.apply(BOTH)
    assert host.calls == [
        "set-property --runtime -- ci.slice AllowedCPUs=4-7",
        "set-property --runtime -- ci.slice CPUWeight=25",
        "set-property --runtime -- jobs.service AllowedCPUs=6-7",
        "set-property --runtime -- jobs.service CPUWeight=idle",
    ]
    assert host.read("ci.slice/cpuset.cpus.effective") == "4-7"
    assert "0 changed, 4 already right" in host.apply(BOTH)
    assert len(host.calls) == 4
    # jobs is no longer named
    out = host.apply(plan([CI]))
    assert "restored system.slice/jobs.service: AllowedCPUs: 6-7 -> -" in out
    # to say "none" would leave the running unit where it is: it gets every CPU first
    assert host.calls[4:] == [
        "set-property --runtime -- jobs.service CPUWeight=",
        "set-property --runtime -- jobs.service AllowedCPUs=0-7",
        "set-property --runtime -- jobs.service AllowedCPUs=",
    ]
    assert host.read("system.slice/jobs.service/cpuset.cpus.effective") == "0-7"
    assert not (host.root / "run/systemd/system.control/jobs.service.d").exists()
    assert (host.root / "run/systemd/system.control/ci.slice.d").exists()
    host.revert()
    assert (host.unit("ci.slice")["AllowedCPUs"], host.unit("ci.slice")["CPUWeight"]) == ("", "")
    assert host.read("ci.slice/cpuset.cpus.effective") == "0-7"
    assert not (host.root / "run/systemd/system.control/ci.slice.d").exists()


def test_a_unit_of_systemd_can_be_a_partition(one_host: Host) -> None:
    one_host.group("serving.slice", 10)
    one_host.group("user.slice", 11)
    one_host.systemd(serving__slice={"group": "serving.slice"}, ci__slice={})
    one_host.apply(LANE)
    assert "set-property --runtime -- serving.slice AllowedCPUs=2-3" in one_host.calls
    assert one_host.read("serving.slice/cpuset.cpus.partition") == "root"
    assert one_host.read("cpuset.cpus.effective") == "0-1,4-7"
    assert "0 changed, 5 already right" in one_host.apply(LANE)
    one_host.revert()
    assert one_host.read("serving.slice/cpuset.cpus.partition") == "member"
    assert one_host.read("serving.slice/cpuset.cpus.effective") == "0-7"


def test_a_unit_that_does_not_run_is_set_and_one_that_is_unknown_is_not_there(
    one_host: Host,
) -> None:
    one_host.systemd(ci__slice={})
    out = one_host.apply(BOTH)
    assert "1 groups not there" in total(out)
    assert one_host.unit("ci.slice")["AllowedCPUs"] == "4-7"


def test_a_unit_in_another_place_is_left(one_host: Host) -> None:
    one_host.group("x.slice/jobs.service", 10)
    one_host.systemd(jobs__service={"group": "x.slice/jobs.service"})
    out = one_host.apply(plan([JOBS]))
    assert (
        "skipped, system.slice/jobs.service: the unit jobs.service is in /x.slice/jobs.service"
        in out
    )
    assert one_host.calls == []


def test_what_an_administrator_set_at_run_time_stays_in_its_file(one_host: Host) -> None:
    one_host.systemd(ci__slice={"AllowedCPUs": "0-3 5", "CPUWeight": "300"})
    held = one_host.root / "run/systemd/system.control/ci.slice.d/50-AllowedCPUs.conf"
    held.parent.mkdir(parents=True)
    held.write_text("[Slice]\nAllowedCPUs=0-3,5\n")
    one_host.apply(plan([CI]))
    one_host.apply(plan([CI]))
    one_host.revert()
    assert one_host.unit("ci.slice")["AllowedCPUs"] == "0-3 5"
    assert one_host.unit("ci.slice")["CPUWeight"] == "300"
    assert held.exists()
    assert [p.name for p in held.parent.iterdir()] == [held.name]


def test_systemd_before_252_knows_no_idle(one_host: Host) -> None:
    one_host.systemd(jobs__service={"old": "yes"})
    one_host.apply(plan([JOBS]))
    assert one_host.unit("jobs.service")["CPUWeight"] == "1"
    assert "0 changed" in total(one_host.apply(plan([JOBS])))


def test_a_refusal_of_systemd_is_reported(host: Host) -> None:
    host.systemd(ci__slice={"broken": "yes"})
    out = host.apply(plan([CI]), code=1)
    assert (
        "could not set ci.slice: AllowedCPUs to 4-7: Failed to set unit properties: Access" in out
    )
    assert not host.shell.record.exists()


def test_a_unit_that_something_else_cuts_is_reported(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.systemd(ci__slice={"group": "ci.slice", "AllowedCPUs": "4-7"})
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    (one_host.group("ci.slice", 10) / "cpuset.cpus").write_text("0-1\n")
    one_host.group("ci.slice", 10)
    out = one_host.apply(plan([CI]), code=1)
    assert "ci.slice has CPUs 0-1 instead of 4-7: something else sets it, or cuts it" in out


def test_a_copied_drop_in_is_recorded_so_that_its_removal_can_reset(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.systemd(ci__slice={"group": "ci.slice", "AllowedCPUs": "4-7", "CPUWeight": "25"})
    (one_host.cgroup / "cgroup.subtree_control").write_text("cpuset cpu\n")
    (one_host.group("ci.slice", 10) / "cpuset.cpus").write_text("4-7\n")
    one_host.group("ci.slice", 10)
    assert "2 already right" in one_host.apply(plan([CI]))
    assert not one_host.shell.record.exists()  # somebody else's
    copied = one_host.root / "etc/ci.slice.d/50-tierc.conf"
    copied.parent.mkdir(parents=True)
    copied.write_text("[Slice]\nAllowedCPUs=4-7\n")
    assert "2 already right" in one_host.apply(plan([CI]))
    assert "would set it again: remove it too" in one_host.apply(plan([JOBS]))
    assert one_host.unit("ci.slice")["AllowedCPUs"] == ""
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "0-7"


def test_without_systemd_at_hand_the_record_of_units_is_kept(one_host: Host) -> None:
    one_host.systemd(ci__slice={})
    one_host.apply(plan([CI]))
    shim(one_host.shims, "systemctl", "exit 1")
    out = one_host.revert(code=1)
    assert "could not restore ci.slice: CPUWeight: systemctl does not answer" in out
    assert len(one_host.shell.record.read_text().splitlines()) == 3


def test_in_a_pod_what_the_host_set_on_units_waits_for_the_host(host: Host) -> None:
    """There is no systemd in a pod: groups are set by their files, and units are the host's."""
    host.group("ci.slice", 10)
    host.group("system.slice/jobs.service", 11)
    units = {"ci__slice": {"group": "ci.slice"}}
    host.systemd(**units, jobs__service={"group": "system.slice/jobs.service"})
    host.apply(BOTH)
    before = host.shell.record.read_text().splitlines()
    assert [line.split("\t")[1] for line in before[1:]].count("unit") == 4

    (host.root / "run").rename(host.root / "run-of-the-host")
    (host.shims / "systemctl").rename(host.shims / "systemctl-of-the-host")
    other = plan([rule("4-5", BACKGROUND, cgroup="ci.slice/**")])
    out = host.apply(other, code=8)
    assert "made through systemd: 4;" in out
    assert "run revert.sh on the host" in out
    assert total(out).endswith("0 failed")
    assert host.read("ci.slice/cpuset.cpus.effective") == "4-5", "the plan is in place all the same"
    after = host.shell.record.read_text().splitlines()
    assert set(before) < set(after)
    assert "would be restored, 0 left" in host.apply(other, "--dry-run", code=8)

    # What the pod did it can take back itself; for the rest, revert.sh fails and says why.
    out = host.revert(code=1)
    assert "made through systemd: 4;" in out
    assert host.read("ci.slice/cpuset.cpus") == "4-7"
    assert sorted(host.shell.record.read_text().splitlines()) == sorted(before)

    host.apply(other, code=8)
    (host.root / "run-of-the-host").rename(host.root / "run")
    (host.shims / "systemctl-of-the-host").rename(host.shims / "systemctl")
    host.revert()
    assert not host.shell.record.exists()
    for unit in ("ci.slice", "jobs.service"):
        assert (host.unit(unit)["AllowedCPUs"], host.unit(unit)["CPUWeight"]) == ("", "")
    assert host.read("ci.slice/cpuset.cpus.effective") == "0-7"
    assert host.read("system.slice/jobs.service/cpuset.cpus.effective") == "0-7"


def test_the_kill_switch_in_a_pod_leaves_units_to_the_host(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.systemd(ci__slice={"group": "ci.slice"})
    one_host.apply(plan([CI]))
    (one_host.root / "run").rename(one_host.root / "run-of-the-host")
    (one_host.shims / "systemctl").unlink()
    one_host.shell.etc.mkdir()
    (one_host.shell.etc / "disabled").touch()
    out = one_host.apply(plan([CI]), code=8)
    assert "made through systemd: 2;" in out
    assert len(one_host.shell.record.read_text().splitlines()) == 3


def test_with_another_root_systemd_is_not_asked(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.systemd(ci__slice={"group": "ci.slice"})
    root = one_host.shell.env.pop("TIERC_CGROUP")
    one_host.apply(plan([CI]), "--cgroup-root", root)
    assert one_host.calls == []
    assert one_host.read("ci.slice/cpuset.cpus.effective") == "4-7"
    one_host.revert(f"--cgroup-root={root}")
    assert one_host.read("cgroup.subtree_control") == ""


# --- cgroup v1 -----------------------------------------------------------------------------------


def v1(host: Host, *, mems: str = "0") -> Path:
    """Make it a hybrid machine."""
    (host.cgroup / "cgroup.controllers").unlink()
    shim(host.shims, "tee", 'cat >"$2"')
    base = host.cgroup / "cpuset"
    for path in (base, base / "ci.slice"):
        path.mkdir()
        (path / "cpuset.cpus").write_text("0-7\n")
        (path / "cpuset.mems").write_text(f"{mems}\n" if path != base else "0\n")
    return base / "ci.slice"


def test_cgroup_v1_is_refused_unless_asked(host: Host) -> None:
    group = v1(host)
    out = host.apply(BOTH, code=3)
    assert "is no cgroup v2 tree (v1 or hybrid); use taskset, or --v1 for groups of the v1" in out
    assert (group / "cpuset.cpus").read_text() == "0-7\n"
    out = host.apply(BOTH, "--v1")
    assert "set ci.slice: cpuset.cpus: 0-7 -> 4-7" in out
    assert "1 groups not there" in total(out)
    assert (group / "cpuset.cpus").read_text() == "4-7\n"
    assert "0 changed, 1 already right" in host.apply(BOTH, "--v1")
    # not asked again: what was set is put back
    assert "restored ci.slice: cpuset.cpus: 4-7 -> 0-7" in host.apply(BOTH, code=3)
    assert (group / "cpuset.cpus").read_text() == "0-7\n"


def test_a_v1_group_without_memory_is_left(one_host: Host) -> None:
    group = v1(one_host, mems="")
    assert "cpuset.mems is empty" in one_host.apply(BOTH, "--v1")
    assert (group / "cpuset.cpus").read_text() == "0-7\n"


def test_no_tree_and_no_controller(one_host: Host) -> None:
    (one_host.cgroup / "cgroup.controllers").write_text("cpu memory\n")
    assert "offers no cpuset controller" in one_host.apply(BOTH, code=3)
    (one_host.cgroup / "cgroup.controllers").unlink()
    assert "there is no cpuset of cgroup v1" in one_host.apply(BOTH, "--v1", code=3)


# --- Like every script ---------------------------------------------------------------------------


def test_the_kill_switch_puts_everything_back(host: Host) -> None:
    host.group("ci.slice", 10)
    host.apply(plan([CI]))
    host.shell.etc.mkdir()
    (host.shell.etc / "disabled").touch()
    out = host.apply(plan([CI]))
    assert "disabled exists" in out
    assert "what was changed is put back" in out
    assert "4 restored" in total(out)
    assert host.read("cgroup.subtree_control") == ""


def test_another_machine_is_refused_and_everything_put_back(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    other = EIGHT.model_copy(update={"arch": "aarch64"})
    out = one_host.apply(plan([CI], machine=other), code=3)
    assert "the CPUs of this machine are not those of the plan" in out
    assert one_host.read("cgroup.subtree_control") == ""


def test_fewer_cpus_than_planned_are_used(one_host: Host) -> None:
    (one_host.root / "sys/devices/system/cpu/online").write_text("0-6\n")
    (one_host.cgroup / "online").write_text("0-6\n")
    one_host.group("ci.slice", 10)
    one_host.apply(plan([CI]))
    assert one_host.read("ci.slice/cpuset.cpus") == "4-6"


def test_observe_only_reports(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    before = one_host.snapshot()
    out = one_host.apply(plan([CI], mode="observe"))
    assert "would set ci.slice: cpuset.cpus: - -> 4-7" in out
    assert one_host.snapshot() == before
    one_host.apply(plan([CI]))
    assert "an earlier plan gave them" in one_host.apply(plan([CI], mode="observe"))
    assert one_host.read("ci.slice/cpuset.cpus") == "4-7"


def test_watch_tells_news_only_and_sets_what_comes(one_host: Host) -> None:
    script = one_host.emit(plan([CI])) / "apply.sh"
    log = one_host.tmp / "log"
    with log.open("w") as out:
        watch = subprocess.Popen(
            [*one_host.shell.argv, script, "--state", one_host.shell.state, "--watch", "1"],
            env=one_host.shell.environ(one_host.shims),
            stdout=out,
            stderr=out,
        )
        try:
            assert until(lambda: "1 groups not there" in log.read_text())
            one_host.group("ci.slice", 10)
            assert until(lambda: "4 changed" in log.read_text())
            locked = one_host.run(plan([CI]))
            assert locked.returncode == 4
            (one_host.cgroup / "ci.slice/cpu.weight").write_text("99\n")
            assert until(lambda: "ci.slice: cpu.weight: 99 -> 25" in log.read_text())
        finally:
            watch.terminate()
            assert watch.wait(60) == 0
    assert len([line for line in log.read_text().splitlines() if "already right" in line]) == 3
    assert one_host.read("ci.slice/cpu.weight") == "25"


def test_a_killed_run_is_taken_up(one_host: Host) -> None:
    """The record is there before the change: a kill between them costs nothing."""
    one_host.group("ci.slice", 10)
    before = {path: text.strip() for path, text in one_host.snapshot().items()}
    calls = Path(one_host.shims / "tee").read_text().split("\n", 1)[1]
    for writes in range(1, 5):
        count = one_host.tmp / f"count{writes}"
        shim(
            one_host.shims,
            "tee",
            f'echo >>"{count}"\nif [ "$(grep -c "" "{count}")" = {writes} ]; then\n'
            f'  kill -9 "$(cat "{one_host.tmp}/pid")"\n  sleep 0.2\n  exit 1\nfi\n{calls}',
        )
        script = one_host.emit(plan([CI])) / "apply.sh"
        process = subprocess.Popen(
            [
                *("sh", "-c", 'echo $$ >"$0"; exec "$@"', one_host.tmp / "pid"),
                *(*one_host.shell.argv, script, "--state", one_host.shell.state),
            ],
            env=one_host.shell.environ(one_host.shims),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert process.wait(60) == -9, writes
        shim(one_host.shims, "tee", calls)
        one_host.revert()
        after = {path: text.strip() for path, text in one_host.snapshot().items()}
        assert after == before, writes


@pytest.mark.parametrize("then", ["revert", "apply and revert"])
def test_a_killed_change_of_what_was_set_costs_no_original(one_host: Host, then: str) -> None:
    """Killed between the record and the write of another plan, what is there is the first plan's:
    it is still tierc's, and the original is that from before the first plan."""
    ci = one_host.group("ci.slice", 10)
    one_host.group("other", 11)
    one_host.apply(plan([CI]))
    (ci / "cpuset.cpus").write_text("0-5\n")  # somebody's, so that there is an original
    one_host.apply(plan([CI]))
    assert one_host.read("ci.slice/cpuset.cpus") == "4-7"
    calls = Path(one_host.shims / "tee").read_text().split("\n", 1)[1]
    other = plan([rule("6-7", BACKGROUND, cgroup="ci.slice/**")])
    shim(one_host.shims, "tee", f'kill -9 "$(cat "{one_host.tmp}/pid")"\nsleep 0.2\nexit 1')
    process = subprocess.Popen(
        [
            *("sh", "-c", 'echo $$ >"$0"; exec "$@"', one_host.tmp / "pid"),
            *(*one_host.shell.argv, one_host.emit(other) / "apply.sh"),
            *("--state", one_host.shell.state),
        ],
        env=one_host.shell.environ(one_host.shims),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.wait(60) == -9
    shim(one_host.shims, "tee", calls)
    assert one_host.read("ci.slice/cpuset.cpus") == "4-7"
    if then != "revert":
        one_host.apply(other)
        assert one_host.read("ci.slice/cpuset.cpus") == "6-7"
    one_host.revert()
    assert one_host.read("ci.slice/cpuset.cpus") == "0-5"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--frobnicate"], "no such option"),
        (["--cgroup-root"], "--cgroup-root needs a value"),
        (["--cgroup-root="], "takes an absolute path"),
        (["--cgroup-root", "relative"], "takes an absolute path"),
        (["--watch", "0"], "takes a number of seconds"),
        (["--state", "x"], "takes an absolute path"),
    ],
)
def test_wrong_usage(one_host: Host, options: list[str], said: str) -> None:
    done = one_host.run(BOTH, *options)
    assert done.returncode == 2
    assert said in done.stderr


def test_the_value_of_an_option_is_no_option(one_host: Host) -> None:
    done = one_host.run(BOTH, "--state", "--v1")
    assert done.returncode == 2
    assert "--state takes an absolute path" in done.stderr


def test_help_and_what_is_wrong_with_the_state(host: Host) -> None:
    out = host.apply(BOTH, "--help")
    assert out.startswith("usage: apply.sh [--dry-run]")
    assert host.revert("--help").startswith("usage: revert.sh [--dry-run]")
    host.group("ci.slice", 10)
    host.shell.state.mkdir()
    host.shell.record.write_text("something else\n")
    assert "not a state of this version" in host.apply(plan([CI]), code=6)
    bad = [
        "1\tfile\t../../etc\tcpuset.cpus\t-\t4\tnone",
        "2\tfile\t/etc\tcpuset.cpus\t-\t4\tnone",
        "3\tfile\tci.slice\tcgroup.kill\t0\t1\tnone",
        "4\tfile\tci.slice\tcpuset.cpus\t$(id)\t1\tnone",
        "x\tfile\tci.slice\tcpuset.cpus\t-\t1\tnone",
        "5\tfile\tci.slice\tcpuset.cpus\t-",
    ]
    host.shell.record.write_text("\n".join(["tierc-cpuset-state-1 -", *bad]) + "\n")
    out = host.revert(code=1)
    assert "6 damaged lines" in out
    assert len((host.shell.state / "state.damaged").read_text().splitlines()) == 7


def test_state_of_an_earlier_boot_is_dropped(one_host: Host) -> None:
    one_host.group("ci.slice", 10)
    one_host.shell.state.mkdir()
    one_host.shell.record.write_text(
        "tierc-cpuset-state-1 other\n1\tfile\tci.slice\tcpu.idle\t0\t1\tnone\n"
    )
    assert "of an earlier boot" in one_host.revert()
    assert not one_host.shell.record.exists()


def test_not_root(one_host: Host) -> None:
    shim(one_host.shims, "id", "echo 1000")
    assert "not root: control groups of the system belong to root" in one_host.apply(BOTH, code=5)
    one_host.apply(BOTH, "--dry-run")
