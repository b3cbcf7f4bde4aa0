"""Threads of a pretended node beside its plan; what is expected is reasoned from the files."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler.cpuset import CpuSet
from compiler.diagnostics import Severity
from compiler.plan import MemberBand
from compiler.report.verify_json import render_verify_json
from compiler.report.verify_text import render_verify_text
from compiler.verify import load_node_dir, verify
from compiler.verify import process as process_module
from compiler.verify.affinity import AffinityJudge
from compiler.verify.census import Counter
from compiler.verify.cgroups import Cpusets, walk
from compiler.verify.process import ProcReader
from compiler.verify.sysroot import Sysroot
from compiler.verify.thread_findings import of_threads
from tests.taskset_live import make_shell
from tests.taskset_plans import rule
from tests.verify_host import (
    BOUND,
    EVERY,
    KERNEL,
    LANE,
    OTHERS,
    Node,
    codes,
    found,
    irqs,
    kinds,
    only,
    row,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_threads_where_the_plan_puts_them_match(node: Node) -> None:
    node.thread(10, "engine", allowed="0")
    node.thread(20, "batch", allowed="2-3")
    node.thread(20, "batch", tid=21, allowed="2-3")
    result = node.verify(rule(0, LANE, comm="engine"), rule(1, OTHERS, comm="batch"))
    assert result.findings == ()
    assert [(u.name, u.threads, u.right) for u in result.units] == [
        ("unit-0", 1, 1),
        ("unit-1", 2, 2),
    ]
    assert (result.threads.processes, result.threads.threads, result.threads.matched) == (2, 3, 3)
    assert (result.enforcer, result.machine.cpus) == ("affinity", "planned")


@pytest.mark.parametrize(
    ("allowed", "cpuset", "kind", "planned"),
    [
        ("0-3", "/", "outside", "2-3"),
        ("1", "/", "outside", "2-3"),
        ("2-3", "/", None, ""),
        ("2", "/", "below", "2-3"),  # its rule wants two
        ("2", "/small", "cpuset", "2"),
        ("0-2", "/small", "cpuset", "2"),
        ("0", "/none", "cpuset", ""),
        ("0,2-3", "/wide", "outside", "2-3"),
        ("2-3", "/wide", None, ""),
        ("2", "/wide", "below", "2-3"),
        ("2-3", "/unseen", None, ""),
        ("0-3", "/unseen", "outside", "2-3"),
        ("2", "/../above", "below", "2-3"),
    ],
)
def test_how_an_affinity_differs(
    node: Node, allowed: str, cpuset: str, kind: str | None, planned: str
) -> None:
    node.write("sys/fs/above/cpuset.cpus.effective", "2\n")  # not this thread's
    node.cgroup("small", cpus="0-2")
    node.cgroup("none", cpus="0-1")
    node.cgroup("wide", cpus="0,2-3")
    node.thread(10, "batch", allowed=allowed, cpuset=cpuset)
    result = node.verify(rule(0, OTHERS, comm="batch"))
    assert kinds(result) == ({} if kind is None else {10: kind})
    assert [one.severity for one in found(result, "TRC727")] == (
        [Severity.WARNING] if kind == "cpuset" else []
    )
    if kind is not None:
        assert str(row(result, 10).planned) == planned
        assert str(row(result, 10).allowed) == allowed


def test_fewer_cpus_than_the_rule_gives_and_enough_for_its_minimum(node: Node) -> None:
    node.thread(10, "a", allowed="2")
    node.cgroup("hidden")
    node.thread(20, "b", allowed="2", cpuset="/hidden")  # its cpuset may be why: not known
    bands = [("0", 1), ("2-3", 1), ("0-3", 1)]
    result = node.verify(rule(0, OTHERS, comm="a"), rule(1, OTHERS, comm="b"), bands=bands)
    assert kinds(result) == {10: "narrower"}
    assert only(result, "TRC726").severity is Severity.WARNING
    assert "10/10 a: allowed 2, planned 2-3" in only(result, "TRC726").rows


def test_the_worst_is_told_by_unit_with_numbers_and_names(node: Node) -> None:
    for tid in range(10, 22):
        node.thread(10, "engine", tid=tid, allowed="0-3")
    node.thread(30, "batch", allowed="1")
    result = node.verify(rule(0, LANE, comm="engine"), rule(1, OTHERS, comm="batch"))
    first, second = found(result, "TRC725")
    assert first.message == "12 threads of unit-0 may run outside the CPUs of their rule"
    assert first.rows[0] == "10/10 engine: allowed 0-3, planned 0"
    assert (len(first.rows), first.more) == (8, 4)
    assert second.message == "1 thread of unit-1 may run outside the CPUs of their rule"
    assert result.worst() is Severity.ERROR
    assert result.findings[0].code.id == "TRC725"
    text = render_verify_text(result, color=False)
    assert text.splitlines()[0] == f"{result.directory}: the node differs from its plan: 2 errors"
    assert "  and 4 more\n" in text


def test_first_match_over_the_ordered_rules(node: Node) -> None:
    node.thread(10, "worker-1", allowed="0")
    node.thread(20, "worker-2", allowed="2-3")
    result = node.verify(rule(3, LANE, comm="worker-1"), rule(7, OTHERS, comm="worker-*"))
    assert not result.rows
    assert {u.name: u.threads for u in result.units} == {"unit-3": 1, "unit-7": 1}


def test_all_ways_to_match(node: Node) -> None:
    node.thread(10, "main", allowed="0")
    node.thread(10, "pool-7", tid=11, allowed="2-3")
    node.thread(20, "irq/44-nvidia", flags=KERNEL, allowed="0")
    node.thread(30, "irq/44-nvidia", allowed="0-3")  # a user's thread can take that name
    node.thread(40, "python", cmdline=b"python\0-m\0vllm\0", allowed="0-3")
    node.thread(50, "python", cmdline=b"python\0-m\0other\0", allowed="0-3")
    node.thread(60, "x", allowed="0-3")
    node.cgroup("system.slice/docker-1f.scope", 60)
    node.thread(70, "x", allowed="0-3")
    node.cgroup("user.slice", 70)
    result = node.verify(
        rule(0, LANE, comm="main"),
        rule(1, OTHERS, leaderComm="main", comm="pool-*"),
        rule(2, LANE, kthread="irq/*-nvidia"),
        rule(3, LANE, cmdline="-m vllm$"),
        rule(4, LANE, cgroup="system.slice/docker-*.scope"),
    )
    assert {u.name: u.threads for u in result.units} == {
        "unit-0": 1,
        "unit-1": 1,
        "unit-2": 1,
        "unit-3": 1,
        "unit-4": 1,
    }
    assert kinds(result) == {40: "outside", 60: "outside"}
    assert result.threads.unmatched == 3
    assert result.threads.kernel_unmatched == 0


def test_kernel_threads_have_the_names_a_scheduler_sees(node: Node) -> None:
    node.thread(10, "kworker/u8:1-events_unbound", flags=KERNEL, allowed="0-3")
    node.thread(20, "a-kernel-thread-with-a-long-name", flags=KERNEL, allowed="0-3")
    result = node.verify(
        rule(0, OTHERS, kthread="kworker/u8:1"), rule(1, OTHERS, kthread="a-kernel-thread")
    )
    assert kinds(result) == {10: "outside", 20: "outside"}


def test_what_is_left_alone(node: Node) -> None:
    node.thread(10, "kept", allowed="0-1")
    node.thread(20, "sshd", allowed="0-3")
    node.thread(30, "bound", flags=KERNEL | BOUND, allowed="0-3")
    node.thread(40, "percpu", flags=KERNEL, allowed="1")
    node.thread(50, "deadline", allowed="0-3", policy=6)
    rules = [
        rule(0, EVERY, comm="kept"),
        rule(1, LANE, comm="sshd", spawns=True),
        rule(2, OTHERS, kthread="bound"),
        rule(3, OTHERS, kthread="percpu"),
        rule(4, OTHERS, comm="deadline"),
    ]
    result = node.verify(*rules)
    assert not result.rows
    assert [(u.threads, u.alone) for u in result.units] == [(1, 1)] * 5


def test_a_process_may_be_bound_to_a_member_of_a_family(node: Node) -> None:
    family = rule(0, 2, comm="engine").model_copy(
        update={"members": (MemberBand(lane="a@0", band=0), MemberBand(lane="a@1", band=1))}
    )
    bands = [("0", 1), ("1", 1), ("0-1", 1), ("0-3", 1)]
    for pid, allowed in ((10, "0-1"), (20, "0"), (30, "1"), (40, "2"), (50, "0-2")):
        node.thread(pid, "engine", allowed=allowed)
    assert kinds(node.verify(family, bands=bands)) == {40: "outside", 50: "outside"}


def test_offline_cpus_are_not_expected(node: Node) -> None:
    bands = [("0", 1), ("2-3", 1), ("2-3", 2), ("0-3", 1)]
    rules = [rule(n, n, comm=name) for n, name in ((1, "a"), (2, "b"))]
    directory = node.build(node.plan(*rules, bands=bands))
    node.write("sys/devices/system/cpu/online", "0-2\n")
    for cpu in range(3):
        path = f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list"
        node.write(path, "0-2\n")
    node.thread(10, "a", allowed="2")
    node.thread(20, "a", allowed="0-1")
    node.thread(30, "b", allowed="0-1")
    result = verify(load_node_dir(directory), node.root)
    assert result.machine.cpus == "fewer"
    assert kinds(result) == {20: "outside", 30: "cpuset"}
    assert [str(row(result, tid).planned) for tid in (20, 30)] == ["2", "2"]
    told = only(result, "TRC721")
    assert told.message.startswith("planned CPUs 3 are offline")
    assert (told.severity, told.rows) == (Severity.WARNING, ())


@pytest.mark.parametrize(
    ("lane", "usable", "severity"), [("2-3", "2", Severity.WARNING), ("3", "none", Severity.ERROR)]
)
def test_a_lane_without_any_online_cpu_is_an_error(
    node: Node, lane: str, usable: str, severity: Severity
) -> None:
    directory = node.build(node.plan(rule(0, 0, comm="engine"), bands=[(lane, 1), ("0-3", 1)]))
    node.write("sys/devices/system/cpu/online", "0-2\n")
    for cpu in range(3):
        path = f"sys/devices/system/cpu/cpu{cpu}/cache/index0/shared_cpu_list"
        node.write(path, "0-2\n")
    told = only(verify(load_node_dir(directory), node.root), "TRC721")
    (row_text,) = told.rows
    assert row_text.endswith(f": of its CPUs {lane}, {usable} can be used")
    assert told.severity == severity


def test_without_enforcement_differences_are_notes(node: Node) -> None:
    node.thread(10, "engine", allowed="1")
    observed = node.verify(rule(0, LANE, comm="engine"), mode="observe")
    assert observed.enforcer == "nothing"
    assert kinds(observed) == {10: "outside"}
    assert observed.worst() is Severity.INFO
    node.disable()
    disabled = node.verify(rule(0, LANE, comm="engine"))
    assert only(disabled, "TRC725").severity is Severity.INFO
    assert disabled.worst() is Severity.WARNING


# --- what cannot be read ------------------------------------------------------------------------


def test_without_a_tree_of_groups_nobody_guesses(node: Node) -> None:
    (node.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    node.thread(10, "a", allowed="1")
    node.thread(20, "b", allowed="1")
    result = node.verify(
        rule(0, LANE, cgroup="x/**", comm="a"), rule(1, OTHERS, comm="a"), rule(2, OTHERS, comm="b")
    )
    assert kinds(result) == {20: "outside"}
    assert result.threads.undecided == 1
    messages = [one.message for one in found(result, "TRC736")]
    assert "rules ask for control groups, and no tree of them is in /sys/fs/cgroup" in messages
    (told,) = [one for one in found(result, "TRC736") if "could not be judged" in one.message]
    assert told.rows == ("10/10 a may have rule 0 of unit-0",)


@pytest.mark.parametrize("tree", ["unified", "systemd"])
def test_the_tree_of_a_hybrid_machine(node: Node, tree: str) -> None:
    (node.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    node.cgroup(f"{tree}")
    node.cgroup(f"{tree}/a.slice/b.service", 10)
    node.cgroup("cpuset/box")
    node.write("sys/fs/cgroup/cpuset/box/cpuset.effective_cpus", "0-2\n")
    node.thread(10, "x", allowed="1", cpuset="/box")
    result = node.verify(rule(0, OTHERS, cgroup="a.slice/*"))
    assert kinds(result) == {10: "cpuset"}
    assert row(result, 10).cpuset == "/box"


def test_a_process_that_started_after_the_tree_was_walked(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.thread(10, "a", allowed="1")
    node.cgroup("x")
    directory = node.build(node.plan(rule(0, LANE, cgroup="x")))
    node.write("sys/fs/cgroup/cgroup.procs", "")
    real = ProcReader.processes

    def late(reader: ProcReader, *more: Any) -> Any:
        node.cgroup("x", 10)
        return real(reader, *more)

    monkeypatch.setattr(ProcReader, "processes", late)
    assert kinds(verify(load_node_dir(directory), node.root)) == {10: "outside"}


def test_threads_and_files_that_vanish_or_are_damaged_are_passed_over(node: Node) -> None:
    node.thread(10, "engine", allowed="0")
    node.thread(20, "engine", allowed="1")
    (node.root / "proc/20/task/20/status").unlink()
    node.thread(30, "engine", allowed="1")
    (node.root / "proc/30/task/30/stat").write_text("30 (engine")
    node.thread(40, "engine", allowed="junk")
    node.thread(50, "engine", allowed="1", state="Z")
    node.thread(60, "engine", allowed="0")
    (node.root / "proc/60/task/60/stat").write_text("60 (engine) S " + "x " * 50)
    (node.root / "proc/70/task").mkdir(parents=True)
    (node.root / "proc/80").mkdir()
    (node.root / "proc/irq").mkdir()
    result = node.verify(rule(0, LANE, comm="engine"))
    assert (result.threads.processes, result.threads.threads) == (1, 1)
    assert not result.rows
    assert result.findings == ()


def test_a_leader_that_ended_leaves_its_name_to_the_others(node: Node) -> None:
    node.thread(10, "main", allowed="0-3", state="Z")
    node.thread(10, "pool", tid=11, allowed="0-3")
    result = node.verify(rule(0, OTHERS, leaderComm="main"))
    assert kinds(result) == {11: "outside"}


def test_what_may_not_be_read_is_said(node: Node) -> None:
    node.thread(10, "engine", allowed="1")
    status = node.root / "proc/10/task/10/status"
    status.unlink()
    status.mkdir()
    result = node.verify(rule(0, LANE, comm="engine"))
    assert result.threads.unreadable == 1
    assert only(result, "TRC736").message == "1 thread could not be read: is a directory"


@pytest.mark.parametrize("seen", [True, False])
def test_hidden_processes_are_said(node: Node, seen: bool) -> None:
    """A container's /proc, and one mounted with hidepid, show no kernel thread."""
    node.thread(10, "engine")
    if seen:
        node.thread(2, "kthreadd", flags=KERNEL)
    one = node.plan(rule(0, EVERY, comm="engine"))
    files = Sysroot(node.root)
    judge = AffinityJudge(
        one, node.machine().online, Cpusets(files, node.machine().online), scheduler=False
    )
    node.build(one)
    census = Counter(one, "taskset", files, walk(files), judge, keep=False).count(
        ProcReader(files), None
    )
    told = [f.code.id for f in of_threads(census, one, "affinity", live=True)]
    assert told == ([] if seen else ["TRC736"])
    assert not list(of_threads(census, one, "affinity", live=False))


def test_a_thread_costs_three_files_at_most(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(100, 300):
        node.thread(pid, f"w{pid % 7}", allowed="1")
    directory = node.build(node.plan(rule(0, LANE, comm="w*"), rule(1, LANE, cmdline="z")))
    plan_dir, files = load_node_dir(directory), 0
    real = os.open

    def count(path: Any, *more: Any) -> int:
        nonlocal files
        files += b"/task/" in os.fsencode(path)
        return real(path, *more)

    monkeypatch.setattr(os, "open", count)
    assert len(verify(plan_dir, node.root).rows) == 200
    assert files == 3 * 200


def test_more_threads_than_are_looked_at(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "MAX_THREADS", 5)
    for pid in range(10, 20):
        node.thread(pid, "engine", allowed="0")
    result = node.verify(rule(0, LANE, comm="engine"))
    assert result.threads.threads == 5
    assert only(result, "TRC736").message == "only the first 5 threads are read"


def test_a_huge_command_line_is_not_read(node: Node) -> None:
    node.thread(10, "java", cmdline=b"x" * (1 << 17) + b"needle", allowed="0-3")
    result = node.verify(rule(0, LANE, cmdline="needle"))
    assert result.threads.undecided == 1
    assert not result.rows


# --- hostile names --------------------------------------------------------------------------------

NASTY = [
    b"a\nb",
    b"\x1b[2J\x1b[31m",
    b") S 1 (",
    b"\xff\xfe",
    b"\xe2\x80\xaex",
    b"",
    b"$(id)`x`",
    b"%s",
]


@pytest.mark.parametrize("name", NASTY)
def test_hostile_names_are_counted_and_shown_harmlessly(node: Node, name: bytes) -> None:
    node.thread(10, name, allowed="1", ticks=5)
    node.cgroup("evil\n\x1b[31m", 10)
    result = node.verify(rule(0, LANE, comm="*"))
    assert kinds(result) == {10: "outside"}
    assert row(result, 10).comm.encode("utf-8", "surrogateescape") == name
    text = render_verify_text(result, color=False)
    assert not re.search(r"[^\n\x20-\x7e]", text)
    assert len([line for line in text.splitlines() if "10/10" in line]) == 1
    assert render_verify_json(result).isascii()


def test_a_name_cannot_pretend_another_affinity(node: Node) -> None:
    node.thread(10, b"x\nCpus_allowed_list:\t0", allowed="1")
    assert kinds(node.verify(rule(0, LANE, comm="*"))) == {10: "outside"}


JUNK = [
    b"",
    b"\0" * 9,
    b"9" * 5000,
    b"-1 -1 -1",
    b"0-99999999",
    b"\xff\n\n",
    b"(" * 400,
    b"8191,1-",
]


@pytest.mark.parametrize("seed", range(6))
def test_no_content_of_any_file_breaks_it(node: Node, seed: int) -> None:
    dice = random.Random(seed)
    for pid in range(10, 40):
        node.thread(pid, "engine", allowed="1", cpuset="/a", state="R", cpu=0)
    node.cgroup("a", *range(10, 30), cpus="0-3")
    node.irq(30, "0000:01:00.0", "0")
    node.state("irq", "30 x")
    node.state("taskset", "1 2 3 4 5 6")
    change = {"irqs": (irqs("0000:01:00.0", "2"),)}
    rules = (rule(0, LANE, cgroup="a"), rule(1, LANE, cmdline="x"))
    directory = node.build(node.plan(*rules, change=change), ("taskset", "irq"))
    node.write("sys/kernel/sched_ext/state", "enabled")
    files = [
        path
        for part in ("proc", "sys/fs", "sys/bus", "sys/kernel", "var")
        for path in sorted((node.root / part).rglob("*"))
        if path.is_file() and not path.is_symlink()
    ]
    for path in dice.sample(files, len(files) // 2):
        data = path.read_bytes()
        cut = dice.randrange(len(data) + 1)
        path.write_bytes(
            dice.choice([data[:cut], data[:cut] + dice.choice(JUNK), dice.choice(JUNK)])
        )
    result = verify(load_node_dir(directory), node.root)
    assert result.threads.threads <= 30
    assert render_verify_text(result, color=False).isascii()
    assert render_verify_json(result).isascii()


# --- the same as the scripts --------------------------------------------------------------------


GROUPS = (("a", "0-3"), ("a/b", "0-2"), ("c", "3"), ("d", None), ("", None))
"""Control groups and the CPUs of their cpusets."""


def in_cpuset(wish: str, most: str | None) -> str:
    """Return the affinity that the kernel would show: within the cpuset, all of it if disjoint."""
    limit = CpuSet.parse(most or "0-3")
    return str(CpuSet.parse(wish) & limit or limit)


@pytest.mark.parametrize("seed", range(3))
def test_what_differs_is_what_the_scripts_would_move_or_skip(
    node: Node, tool: Callable[[str], str], tmp_path: Path, seed: int
) -> None:
    """The scripts share no code with this: run them dry on the same files."""
    dice = random.Random(seed)
    for group, cpus in GROUPS:
        node.cgroup(group, cpus=cpus)
    members: dict[str, list[int]] = {}
    for pid in range(100, 160):
        kernel = dice.random() < 0.2
        name = dice.choice(["eng", "engine", "batch-1", "batch-2", "kworker/0:1-x", "zz", "py"])
        group, most = dice.choice(GROUPS)
        for tid in range(pid * 10, pid * 10 + dice.randint(1, 3)):
            node.thread(
                pid * 10,
                name if tid == pid * 10 else dice.choice(["pool", "engine", "x"]),
                tid=tid,
                flags=KERNEL if kernel else 0x400000,
                allowed=in_cpuset(dice.choice(["0", "1", "0-3", "2-3", "2", "3", "0-2"]), most),
                cpuset=f"/{group}",
                policy=dice.choice([0, 0, 0, 6]),
                cmdline=dice.choice([b"py\0-m\0serve\0", b"x\0"]),
            )
        if not kernel:
            members.setdefault(group, []).append(pid * 10)
    for group, pids in members.items():
        node.cgroup(group, *pids)
    rules = [
        rule(0, LANE, comm="engine"),
        rule(1, OTHERS, comm="batch-*", cgroup="a/**"),
        rule(2, OTHERS, leaderComm="batch-2"),
        rule(3, LANE, kthread="kworker/*"),
        rule(4, EVERY, comm="zz"),
        rule(5, OTHERS, cmdline="-m serve"),
        rule(6, LANE, comm="pool", spawns=True),
    ]
    result = node.verify(*rules)
    shell = make_shell("dash", tool, tmp_path)
    shell.env.update(
        TIERC_PROC=str(node.root / "proc"),
        TIERC_SYS=str(node.root / "sys"),
        TIERC_CGROUP=str(node.root / "sys/fs/cgroup"),
        TIERC_ARCH="x86_64",
    )
    done = shell.run(node.tmp / "node/taskset/apply.sh", "--dry-run")
    assert done.returncode == 0, done.stderr
    moved = {int(t) for t in re.findall(r"(?m)^tierc: would move \d+/(\d+) ", done.stdout)}
    skipped = sum(
        int(number or 1)
        for number in re.findall(
            r"(?m)^tierc: skipped, .*?: needs .*?(?: \((\d+) threads\))?$", done.stderr
        )
    )
    assert len(moved) > 5
    assert skipped > 2
    mine = kinds(result)
    differ = {tid for tid, kind in mine.items() if kind != "cpuset"}
    assert differ == moved
    assert sum(kind == "cpuset" for kind in mine.values()) == skipped


def test_codes_of_a_quiet_node(node: Node) -> None:
    assert codes(node.verify()) == set()
    assert str(CpuSet.parse("0-3")) == str(node.verify().machine.online)
    assert os.path.isdir(node.root / "proc")
