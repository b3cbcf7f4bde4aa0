"""The taskset scripts on pretended machines: what this one does not have."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import find_tool
from tests.taskset_host import BOUND, FOUR, KERNEL, Host
from tests.taskset_live import shim
from tests.taskset_plans import machine, rule

pytest_plugins = ("tests.taskset_fixtures",)


def test_kernel_threads_match_kthread_rules_and_no_others(host: Host) -> None:
    thread = host.proc.thread
    thread(2, "kswapd0", flags=KERNEL)
    thread(3, "ksoftirqd/0", flags=KERNEL | BOUND, allowed="1")
    thread(4, "kswapd0")  # a program that took the name
    thread(5, "kswapd1", flags=KERNEL, allowed="1")
    thread(6, "kworker/u8:1-events_unbound", flags=KERNEL)
    thread(7, "kworker/R-a_very_long_name", flags=KERNEL)
    thread(8, "irq/45-nvidia-and-more-of-it", flags=KERNEL)
    out = host.apply(
        rule(0, 1, comm="*", leader_comm="k*"),
        rule(1, 0, kthread="ks*"),
        rule(2, 0, kthread="kworker/u8:1"),
        rule(3, 0, kthread="kworker/R-a_ver"),
        rule(4, 0, kthread="irq/*-nvidia-a"),
        rule(5, 1, kthread="*"),
    )
    got = [host.proc.allowed(pid) for pid in range(2, 9)]
    # 3 may not be set, and 5 is a kernel thread of one CPU: both are left without a word.
    assert got == ["0", "1", "2-3", "1", "0", "0", "0"]
    assert "tierc: skipped, " not in out
    host.revert()
    assert [host.proc.allowed(pid) for pid in range(2, 9)] == ["0-3", "1", "0-3", "1", *["0-3"] * 3]


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("kworker/u8:1-events_unbound", "kworker/u8:1"),  # what it worked on last
        ("kworker/u8:1+events_unbound", "kworker/u8:1"),  # what it works on
        ("kworker/0:1H-kblockd", "kworker/0:1H"),
        ("kworker/u256:10-x", "kworker/u256:10"),
        ("kworker/R-nvme-reset-wq", "kworker/R-nvme-"),  # a rescuer: a name that is cut
        ("kworker/R-nvme", "kworker/R-nvme"),
        ("irq/123-nvidia-0000:01:00.0", "irq/123-nvidia-"),
        ("UVM global queue", "UVM global queu"),
        ("exactly-15-byte", "exactly-15-byte"),
        ("caf\u00e9caf\u00e9caf\u00e9", "caf\u00e9caf\u00e9caf\u00e9"),  # 15 bytes
        ("caf\u00e9caf\u00e9caf\u00e9x", "caf\u00e9caf\u00e9caf\u00e9"),
        ("line\nfeed-and-more", "line\nfeed-and-m"),
    ],
)
def test_a_kernel_thread_has_the_name_that_a_scheduler_sees(
    host: Host, shown: str, name: str
) -> None:
    """/proc shows more; 15 bytes are what every target and ``tierc explain`` compare."""
    host.proc.thread(2, shown, flags=KERNEL)
    host.proc.thread(3, "other", flags=KERNEL)
    exact = "".join("?" if char < " " else char for char in name)
    longer = [rule(n, 1, kthread=exact + "?" * n) for n in range(1, 4)]
    host.apply(rule(0, 1, kthread=exact[:-1]), *longer, rule(4, 0, kthread=exact))
    assert [host.proc.allowed(pid) for pid in (2, 3)] == ["0", "0-3"]


def test_a_kernel_thread_we_moved_to_one_cpu_stays_ours(host: Host) -> None:
    host.proc.thread(2, "kswapd0", flags=KERNEL)
    host.apply(rule(0, 0, kthread="kswapd*"))
    assert "1 already right" in host.apply(rule(0, 0, kthread="kswapd*"))
    host.apply(rule(0, 1, kthread="kswapd*"))
    assert host.proc.allowed(2) == "2-3"
    host.revert()
    assert host.proc.allowed(2) == "0-3"


def test_a_cpuset_cuts_the_wish_and_below_the_minimum_nothing_is_set(host: Host) -> None:
    for tree, name, pid, group, cpus in [
        ("", "cpuset.cpus.effective", 10, "/a", "0-2"),
        ("unified", "cpuset.cpus.effective", 11, "/b c", "2-3"),
        ("cpuset", "cpuset.effective_cpus", 12, "/d", "0-1"),
        ("cpuset", "cpuset.cpus", 13, "/e", "1-3"),
    ]:
        host.proc.thread(pid, f"w{pid}", cpuset=group, allowed=cpus)
        host.proc.cgroup(group[1:], pid, tree=tree)
        (host.proc.root / "cgroup" / tree / group[1:] / name).write_text(cpus + "\n")
    host.proc.thread(14, "w14", cpuset="/../x", allowed="0-3")  # another namespace: unknown
    out = host.apply(rule(0, 1, comm="w*"))
    assert [host.proc.allowed(pid) for pid in range(10, 15)] == ["0-2", "2-3", "0-1", "2-3", "2-3"]
    assert "needs 2 of CPUs 2-3, but has only 2: online are 0-3, its cpuset /a has 0-2" in out
    assert "needs 2 of CPUs 2-3, but has none: online are 0-3, its cpuset /d has 0-1" in out
    assert "5 matched, 2 changed, 1 already right, 2 skipped" in out


def test_a_thread_without_affinity_of_its_own_gets_none_back(host: Host) -> None:
    """In a cpuset, what a thread may use is the cpuset's: it must follow when that grows."""
    group = host.proc.root / "cgroup/pod"
    host.proc.cpus("0-3", possible="0-7")
    host.proc.cgroup("pod", 10, 11)
    (group / "cpuset.cpus.effective").write_text("1-3\n")
    host.proc.thread(10, "w10", cpuset="/pod", allowed="1-3")
    host.proc.thread(11, "w11", cpuset="/pod", allowed="1-2")
    host.apply(rule(0, 1, comm="w*"))
    assert [host.proc.allowed(p) for p in (10, 11)] == ["2-3", "2-3"]
    host.revert()
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0-7", "1-2"]


def test_where_the_cpuset_is_unknown_the_kernel_has_the_last_word(
    host: Host, tmp_path: Path
) -> None:
    """The kernel cuts silently: too little left is put back, enough is recorded as it is."""
    host.proc.thread(10, "w10", allowed="0-3")
    host.proc.thread(11, "w11", allowed="0-3")
    shims = host.proc.taskset(
        tmp_path / "cutting",
        'case $3,$2 in 10,2-3) set -- "$1" 3 "$3" ;; 11,0-2) set -- "$1" 0-1 "$3" ;; esac',
    )
    bands = [("0-2", 2), ("2-3", 2), ("0-3", 1)]
    rules = [rule(0, 1, comm="w10"), rule(1, 0, comm="w11")]
    where = host.scripts(rules, bands=bands)
    done = host.shell.run(where / "apply.sh", shims=shims)
    assert "put 10/10 back: the kernel allowed only 3 of 2-3" in done.stderr
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0-3", "0-1"]
    lines = host.shell.record.read_text().splitlines()[1:]
    assert lines == ["11 100 11 0-3 0-1 -"]
    again = host.shell.run(where / "apply.sh", shims=shims)
    assert "1 already right" in again.stdout
    host.revert()
    assert host.proc.allowed(11) == "0-3"


def test_deadline_threads_are_reported_and_left(host: Host) -> None:
    host.proc.thread(10, "w10", policy=6)
    host.proc.thread(11, "w11", policy=1)
    out = host.apply(rule(0, 0, comm="w*"))
    assert "deadline scheduling" in out
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0-3", "0"]


@pytest.mark.parametrize("tree", ["", "unified", "systemd"])
def test_control_group_trees(host: Host, tree: str) -> None:
    if tree == "":
        (host.proc.root / "cgroup").mkdir()
        (host.proc.root / "cgroup/cgroup.controllers").touch()
    groups = {
        10: "ci.slice",
        11: "ci.slice/job 1/x",
        12: "ciXslice",
        13: "system.slice/docker-ab.scope",
        14: "other/system.slice/docker-ab.scope",
        15: "k/pod$(touch x)/c",
    }
    host.proc.cgroup("", 1, tree=tree)
    for pid, group in groups.items():
        host.proc.thread(pid, "w")
        host.proc.cgroup(group, pid, tree=tree)
    host.proc.thread(16, "w")
    host.apply(
        rule(0, 0, cgroup="ci.slice/**"),
        rule(1, 0, comm="w", cgroup="system.slice/docker-*.scope"),
        rule(2, 0, cgroup="**/pod$(touch x)/*"),
        rule(3, 1, comm="w"),
    )
    got = {pid: host.proc.allowed(pid) for pid in range(10, 17)}
    assert got == {10: "0", 11: "0", 12: "2-3", 13: "0", 14: "2-3", 15: "0", 16: "2-3"}
    assert not Path("x").exists()


def test_without_control_groups_their_rules_are_inactive_never_wider(host: Host) -> None:
    host.proc.thread(10, "w")
    out = host.apply(rule(0, 0, comm="w", cgroup="**"))
    assert "rules that ask for a control group are inactive" in out
    assert host.proc.allowed(10) == "0-3"


def test_command_lines_are_bytes_with_spaces(host: Host) -> None:
    lines = {
        10: b"python3\0-m\0vllm.serve\0",
        11: b"python3 -m vllm.serve\0\0\0\0",
        12: b"python3\0-m\nvllm.serve\0",
        13: b"python3\0-m\0vllmXserve\0",
        14: b"",
        15: b"python3\0-m\x01vllm.serve\0",
        16: b"python3\0-m\0vllm.serve\0-x\0",
        17: b"\xff\xfe vllm.serve\0$(touch x)\0",
    }
    for pid, line in lines.items():
        host.proc.thread(pid, "python3", cmdline=line)
    host.proc.thread(18, "python3")  # gone before its command line was read
    host.apply(
        rule(0, 0, comm="python?", cmdline=r"^[a-z]+3 -m vllm\.serve$"),
        rule(1, 1, cmdline=r"\$\(touch x\)$"),
        rule(2, 1, leader_comm="python3", cmdline="(-x|Xs)"),
    )
    got = {pid: host.proc.allowed(pid) for pid in range(10, 19)}
    assert got == {
        10: "0",
        11: "0",
        12: "0",
        13: "2-3",
        14: "0-3",
        15: "0-3",
        16: "2-3",
        17: "2-3",
        18: "0-3",
    }


@pytest.mark.parametrize("awk", ["mawk", "gawk", "busybox awk"])
def test_anchors_inside_an_expression(one_host: Host, tmp_path: Path, awk: str) -> None:
    """mawk 1.3.4 dies of such expressions: no awk is asked."""
    program, _, applet = awk.partition(" ")
    path = find_tool(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    shim(tmp_path / "shims", "awk", f'exec {path} {applet} "$@"')
    for pid, line in {10: b"a\0b", 11: b"xb", 12: b"ab", 13: b"-x y", 14: b"b"}.items():
        one_host.proc.thread(pid, "w", cmdline=line)
    one_host.apply(
        rule(0, 0, cmdline="(^a ?)(^a ?)*b$"),
        rule(1, 1, cmdline="(^|x)(b$)?$"),
        rule(2, 1, cmdline="a^b|b$a"),
        rule(3, 0, cmdline="-x y"),
    )
    got = {pid: one_host.proc.allowed(pid) for pid in range(10, 15)}
    assert got == {10: "0", 11: "2-3", 12: "0", 13: "0", 14: "2-3"}


def test_many_rules_may_ask_for_one_command_line(host: Host) -> None:
    lines = {10: b"serve\0a", 11: b"serve\0b", 12: b"other"}
    for pid, line in lines.items():
        host.proc.thread(pid, f"w{pid}", cmdline=line)
    host.apply(
        rule(0, 0, comm="w10", cmdline="^serve"),
        rule(1, 0, comm="w12", cmdline="^serve"),
        rule(2, 1, comm="w11", cmdline="^serve"),
        rule(3, 0, comm="w11", cmdline="b$"),
    )
    got = {pid: host.proc.allowed(pid) for pid in lines}
    assert got == {10: "0", 11: "2-3", 12: "0-3"}


def test_every_byte_of_a_name_counts(host: Host) -> None:
    """All 254 bytes a name can hold beside NUL and what ends it; the glob has one for each."""
    names = [b"q%cz" % byte for byte in range(1, 256)]
    for number, name in enumerate(names):
        host.proc.thread(100, "lead")
        host.proc.thread(100, os.fsdecode(name), tid=101 + number)
    host.proc.thread(100, "qz", tid=400)
    host.proc.thread(100, "q\n\nz", tid=401)
    host.apply(rule(0, 0, comm="q?z"), rule(1, 1, comm="q??z"))
    got = Counter(host.proc.allowed(100, 101 + n) for n in range(255))
    assert got == {"0": 255}
    assert [host.proc.allowed(100, tid) for tid in (100, 400, 401)] == ["0-3", "0-3", "2-3"]


def test_spaces_at_the_ends_of_a_name_count(host: Host) -> None:
    for pid, name in enumerate(["w", " w", "w ", " ", "\tw", ""], 10):
        host.proc.thread(pid, name)
    host.apply(rule(0, 0, comm="w"), rule(1, 1, comm=" *"))
    got = [host.proc.allowed(pid) for pid in range(10, 16)]
    assert got == ["0", "2-3", "0-3", "2-3", "0-3", "0-3"]


def test_no_command_line_matches_no_pattern(host: Host) -> None:
    for pid, line in {10: b"", 11: b"\0\0", 12: b"a\0", 13: b" \0"}.items():
        host.proc.thread(pid, "w", cmdline=line)
    host.apply(rule(0, 0, cmdline="x*"))
    assert [host.proc.allowed(pid) for pid in range(10, 14)] == ["0-3", "0-3", "0", "0"]


def test_a_process_with_the_id_of_one_we_changed_is_not_its_heir(host: Host) -> None:
    """Neither the process that got the id, nor what it starts, has anything of ours."""
    host.proc.thread(10, "w", start=100)
    host.proc.thread(10, "w2", tid=11, start=200)
    host.apply(rule(0, 0, comm="w*"))
    assert host.proc.allowed(10, 11) == "0"
    for tid in (10, 11):
        (host.proc.root / f"proc/10/task/{tid}/stat").unlink()
    host.proc.thread(10, "new", start=900, allowed="0")
    host.proc.thread(10, "new2", tid=12, start=901, allowed="0")
    host.proc.thread(20, "child", ppid=10, start=950, allowed="0")
    assert "0 restored" in host.apply(rule(0, 0, comm="w*"))
    assert host.proc.allowed(10) == host.proc.allowed(20) == host.proc.allowed(10, 12) == "0"
    assert not host.shell.record.exists()


def test_a_subset_lacks_no_planned_cache(one_host: Host) -> None:
    on = machine(range(6), [{c} for c in range(6)], [{0, 1, 2, 3}, {4, 5}], arch="x86_64")
    assert "planned: llc 0-3" in one_host.apply(on=on, code=3)
    for cpu in range(4):
        one_host.proc.cpu(cpu, cache__index0__level="2", cache__index0__type="Data")
        one_host.proc.cpu(cpu, cache__index0__shared_cpu_list="0-3")
    one_host.apply(on=on)


def test_fewer_cpus_online_than_planned(host: Host) -> None:
    host.proc.thread(10, "w10")
    host.proc.thread(11, "w11")
    rules = [rule(0, 0, comm="w10"), rule(1, 1, comm="w11")]
    host.proc.cpus("0-2", possible="0-3")
    out = host.apply(*rules)
    assert "needs 2 of CPUs 2-3, but has only 2: online are 0-2" in out
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0", "0-3"]
    host.proc.cpus("0-3")
    host.apply(*rules)
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0", "2-3"]
    host.proc.cpus("0-4")
    assert "live:    online 0-4" in host.apply(*rules, code=3)
    assert [host.proc.allowed(p) for p in (10, 11)] == ["0-3", "0-3"]


@pytest.mark.parametrize(
    ("files", "fits"),
    [
        ({0: "0,2", 2: "0,2", 1: "1,3", 3: "1,3"}, True),
        ({0: "0", 2: "2", 1: "1,3", 3: "1,3"}, False),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, False),
    ],
)
def test_a_subset_must_have_the_planned_cores(
    one_host: Host, files: dict[int, str], fits: bool
) -> None:
    on = machine(range(6), [{0, 2}, {1, 3}, {4}, {5}], [], arch="x86_64")
    one_host.proc.thread(10, "w")
    for cpu, siblings in files.items():
        one_host.proc.cpu(cpu, topology__core_cpus_list=siblings)
    bands = [("0,4", 1), ("2-3", 2), ("0-5", 1)]
    one_host.apply(rule(0, 0, comm="w"), on=on, bands=bands, code=0 if fits else 3)
    assert one_host.proc.allowed(10) == ("0" if fits else "0-3")


def test_what_a_plan_does_not_know_of_architecture(one_host: Host) -> None:
    for arch, code in (("aarch64", 3), ("x86_64", 0)):
        on = machine(range(4), [{0}, {1}, {2}, {3}], [], arch=arch)
        one_host.apply(on=on, code=code)
    on = FOUR.model_copy(update={"arch": None})
    one_host.apply(on=on)


def test_a_scan_starts_few_programs(one_host: Host, tmp_path: Path) -> None:
    """The number of programs does not grow with threads, processes or control groups."""
    log = tmp_path / "log"
    for name in ("awk", "cat", "cp", "find", "grep", "sed", "sort", "tr", "xargs", "mktemp", "mv"):
        real = find_tool(name)
        if real is None:
            pytest.skip(f"{name} is not installed")
        shim(tmp_path / "shims", name, f'echo {name} >>"{log}"\nexec {real} "$@"')
    rules = [
        rule(0, 0, comm="VLLM::EngineCor"),
        rule(1, 1, comm="stress-ng*", cgroup="ci.slice/**"),
        rule(2, 0, kthread="irq/*-nvidia"),
        rule(3, 2, leader_comm="kubelet"),
    ]
    started = []
    for size in (20, 400):
        for number in range(size):
            pid = 1000 + 10 * number
            for tid in range(pid, pid + 5):
                host_name = f"service-{number % 50}"
                one_host.proc.thread(pid, host_name, tid=tid, allowed="0-3")
            one_host.proc.cgroup(f"ci.slice/{number}", pid, tree="unified")
        one_host.proc.cgroup("", tree="unified")
        one_host.proc.thread(7, "VLLM::EngineCor")
        log.write_text("")
        assert "1 matched" in one_host.apply(*rules)
        started.append(Counter(log.read_text().split()))
        one_host.revert()
    assert started[0] == started[1]
    assert started[1].total() < 60


def test_an_entry_that_cannot_be_read_is_not_an_error(one_host: Host) -> None:
    proc = one_host.proc.root / "proc"
    one_host.proc.thread(10, "w")
    (proc / "11/task/11").mkdir(parents=True)
    (proc / "12").mkdir()
    one_host.proc.thread(13, "w")
    (proc / "13/task/13/status").unlink()
    one_host.proc.thread(14, "w")
    (proc / "14/task/14/stat").write_text("")
    (proc / "15/task/15").mkdir(parents=True)
    (proc / "15/comm").write_text("w")
    (proc / "12x").mkdir()
    out = one_host.apply(rule(0, 0, comm="w"))
    assert "1 changed" in out
    assert one_host.proc.allowed(10) == "0"


def test_names_from_a_machine_reach_a_terminal_printable(one_host: Host) -> None:
    one_host.proc.thread(10, "w\x1b[31m\r\x07é")
    out = one_host.apply(rule(0, 0, comm="w*"))
    assert "10/10 w?[31m????" in out
    assert all(char == "\n" or " " <= char <= "~" for char in out)
