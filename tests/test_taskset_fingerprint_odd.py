"""The fingerprint in sh and in Python on odd machines: what either reads of them is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from tests.sysfs_builder import SysfsBuilder
from tests.taskset_host import FOUR, Host
from tests.taskset_live import Shell
from tests.taskset_plans import machine, rule
from tests.taskset_sys import both_ways, live_text, pairs, printed, text, write_sys

pytest_plugins = ("tests.taskset_fixtures",)


# --- what the plan does not know is not compared ----------------------------------------------


def test_unknown_caches_and_architecture_are_not_looked_at(shell: Shell, tmp_path: Path) -> None:
    sys = write_sys(
        tmp_path / "sys", "0-3", pairs(range(2), range(2, 4)), {(3, "Unified"): [[*range(4)]]}
    )
    cores = pairs(range(2), range(2, 4))
    blind = machine(range(4), cores, [], "x86_64")
    want = "tierc-cpu-2\narch x86_64\nonline 0-3\ncore 0,2\ncore 1,3\nllc ?\n"
    assert printed(shell, "--fingerprint", sys, tmp_path, blind) == want
    blinder = blind.model_copy(update={"arch": None})
    assert printed(shell, "--fingerprint", sys, tmp_path, blinder) == want.replace("x86_64", "?")
    seeing = machine(range(4), cores, [range(4)], "x86_64")
    seen = printed(shell, "--fingerprint", sys, tmp_path, seeing)
    assert seen == want.replace("llc ?", "llc 0-3")


def test_a_machine_that_shows_no_caches_is_not_the_planned_one(
    shell: Shell, tmp_path: Path
) -> None:
    sys = write_sys(tmp_path / "sys", "0-1", [[0], [1]], {})
    got = live_text(shell, sys, tmp_path)
    assert got.endswith("core 1\nllc ?\n")
    assert got == text("0-1", [[0], [1]], [])
    assert got != text("0-1", [[0], [1]], [[0, 1]])


@pytest.mark.parametrize(
    ("online", "siblings", "cpus"),
    [
        ("0-3", {0: "0,2", 1: "1,3", 2: "2,0", 3: "3,1"}, "0,2 1,3"),  # not sorted
        ("3,0-2", {0: "0-2:1/2", 1: "1-3:1/2", 2: "0-3:1/2", 3: "0-3:1/1"}, "0,2 1 3"),
        ("0-3", {0: "0-1\n\0", 1: "0-1\0", 2: "(null)", 3: ""}, "0-1 2 3"),
        ("0-1", {0: "1-0", 1: "01"}, "0 1"),  # backwards; octal to some
        ("0-1", {0: "0-1,", 1: "0 1"}, "0 1"),
        ("0-1", {0: " 0 , 1 ", 1: "0,1"}, "0-1"),
        ("1-3", {1: "0-1", 2: "2-3", 3: "2-3"}, "1 2-3"),  # CPU 0 is offline
        ("0-1", {0: "0-4294967294", 1: "1,9999"}, "0 1"),
        ("0-1", {0: "1", 1: "0-1"}, "0 1"),  # one that does not name itself
    ],
)
def test_odd_lists(
    shell: Shell, tmp_path: Path, online: str, siblings: dict[int, str], cpus: str
) -> None:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online=f"{online},9")
    b.core("9")  # where no CPU says anything of cores there are no facts
    for cpu, listed in siblings.items():
        b.file(f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list", listed + "\n")
    text, _ = both_ways(shell, b.root, tmp_path)
    cores = [line.split()[1] for line in text.splitlines() if line.startswith("core")]
    assert cores == [*cpus.split(), "9"]


@pytest.mark.parametrize(
    ("listed", "mask", "core"),
    [
        (None, "00000001,00000001", "0,32"),
        (None, "1,00000000,00000001", "0,64"),
        (None, "ff,3", "0-1,32-39"),  # words need not be padded
        ("junk", "00000003", "0-1"),
        ("junk", "00000003,", "0"),
        (None, "xyz", "0"),
        (None, "000000001", "0"),  # nine digits are no word
        ("", "00000003", "0"),  # a list that is there, though empty, counts
    ],
)
def test_masks(shell: Shell, tmp_path: Path, listed: str | None, mask: str, core: str) -> None:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-95")
    b.core("95")
    for cpu in CpuSet.parse(core):
        base = f"sys/devices/system/cpu/cpu{cpu}/topology"
        if listed is not None:
            b.file(f"{base}/thread_siblings_list", listed + "\n")
        b.file(f"{base}/thread_siblings", mask + "\n")
    text, _ = both_ways(shell, b.root, tmp_path)
    assert f"core {core}\n" in text


@pytest.mark.parametrize("online", [None, "", "(null)", "junk"])
def test_without_a_list_of_online_cpus(shell: Shell, tmp_path: Path, online: str | None) -> None:
    """Directories with topology/ are online; where none has it, what is not switched off."""
    for name, topology, want in (("a", True, "0,2-3"), ("b", False, "1")):
        b = SysfsBuilder(tmp_path / name)
        if online is not None:
            b.masks(online=online)
        for cpu in range(4):
            b.directory(f"sys/devices/system/cpu/cpu{cpu}")
            state = "1" if topology or cpu == 1 else "0"
            if cpu != 1:  # as the kernel does for a CPU that cannot be switched off
                b.file(f"sys/devices/system/cpu/cpu{cpu}/online", f"{state}\n")
            if topology and cpu != 1:
                b.core(str(cpu))
        b.directory("sys/devices/system/cpu/cpufreq")
        text, _ = both_ways(shell, b.root, tmp_path)
        assert f"online {want}\n" in text


def test_l3_beside_l2_only_and_caches_that_lack_their_cpu(shell: Shell, tmp_path: Path) -> None:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-7")
    b.cores(map(str, range(8)))
    shared = {0: "0-3", 1: "0-3", 2: "0-3", 3: "0-3", 4: "4-5", 5: "4-5", 6: "0-1", 7: "junk"}
    for cpu, listed in shared.items():
        base = f"sys/devices/system/cpu/cpu{cpu}/cache"
        for index, (level, kind, cpus) in enumerate(
            [(1, "Data", str(cpu)), (2, "Unified", listed), (4, "Instruction", "0-7")]
        ):
            b.file(f"{base}/index{index}/level", f"{level}\n")
            b.file(f"{base}/index{index}/type", f"{kind}\n")
            b.file(f"{base}/index{index}/shared_cpu_list", f"{cpus}\n")
        if cpu < 4:
            b.file(f"{base}/index11/level", "3\n")  # the highest level, not the highest index
            b.file(f"{base}/index11/type", "Unified\n")
            b.file(f"{base}/index11/shared_cpu_list", "0-5\n" if cpu == 0 else "0-3\n")
    text, _ = both_ways(shell, b.root, tmp_path)
    found = [line for line in text.splitlines() if line.startswith("llc")]
    # CPU 0 says other than its neighbours: nobody else is in its set, and it is not in theirs.
    assert found == ["llc 0", "llc 1-3", "llc 4-5"]
    b.file("sys/devices/system/cpu/cpu0/cache/index11/shared_cpu_list", "0-3\n")
    text, _ = both_ways(shell, b.root, tmp_path)
    assert text.splitlines()[-2:] == ["llc 0-3", "llc 4-5"]


def test_many_cpus(shell: Shell, tmp_path: Path) -> None:
    """1,500 CPUs: sibling sets 750 apart, and sixteen cores a cache."""
    count = 1500
    base = tmp_path / "sys/devices/system/cpu"
    cores = pairs(range(count // 2), range(count // 2, count))
    llcs = [
        [
            *range(n, min(n + 16, count // 2)),
            *range(n + count // 2, min(n + count // 2 + 16, count)),
        ]
        for n in range(0, count // 2, 16)
    ]
    write_sys(tmp_path / "sys", f"0-{count - 1}", cores, {(3, "Unified"): llcs})
    assert base.is_dir()
    want = text(f"0-{count - 1}", cores, llcs)
    assert live_text(shell, tmp_path / "sys", tmp_path) == want
    assert want.count("core ") == count // 2


def test_facts_without_caches_fit_a_machine_that_shows_them(host: Host) -> None:
    for cpu in range(4):
        host.proc.cpu(cpu, cache__index0__level="3", cache__index0__type="Unified")
        host.proc.cpu(cpu, cache__index0__shared_cpu_list="0-3")
    host.proc.thread(10, "w")
    host.apply(rule(0, 0, comm="w"), on=FOUR)
    assert FOUR.llcs == ()
    assert host.proc.allowed(10) == "0"
    host.proc.cpus("0-2", possible="0-3")
    host.proc.thread(11, "w")
    host.apply(rule(0, 0, comm="w"), on=FOUR)
    assert host.proc.allowed(11) == "0"


def test_a_subset_of_cpus_without_the_planned_caches(host: Host) -> None:
    """Only CPUs that never had a known cache are left: nothing planned is missed."""
    on = machine(range(4), [{0}, {1}, {2}, {3}], [{0, 1}], arch="x86_64")
    host.proc.cpus("2-3", possible="0-3")
    host.proc.thread(10, "w")
    host.apply(rule(0, 1, comm="w"), on=on)
    assert host.proc.allowed(10) == "2-3"
    host.proc.cpus("1-3", possible="0-3")
    assert "planned: llc 0-1" in host.apply(rule(0, 1, comm="w"), on=on, code=3)
