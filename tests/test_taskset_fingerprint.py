"""The fingerprint that apply.sh computes in sh against compiler.fingerprint."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text
from tests.corpus import FOLDERS, snapshots, unpack
from tests.taskset_live import Shell, make_shell
from tests.taskset_plans import read_machine, this_machine
from tests.taskset_sys import both_ways, cpu_list, hex_mask, live_text, pairs, text, write_sys

pytest_plugins = ("tests.taskset_fixtures",)


def test_gb10(shell: Shell, tmp_path: Path) -> None:
    """DGX Spark: twenty cores without siblings, two caches of ten."""
    halves = [list(range(10)), list(range(10, 20))]
    sys = write_sys(
        tmp_path / "sys",
        "0-19",
        [[cpu] for cpu in range(20)],
        {
            (1, "Data"): [[cpu] for cpu in range(20)],
            (1, "Instruction"): [[cpu] for cpu in range(20)],
            (2, "Unified"): [[cpu] for cpu in range(20)],
            (3, "Unified"): halves,
        },
    )
    got = live_text(shell, sys, tmp_path, "aarch64")
    lines = ["tierc-cpu-2", "arch aarch64", "online 0-19", *[f"core {cpu}" for cpu in range(20)]]
    assert got.splitlines() == [*lines, "llc 0-9", "llc 10-19"]
    assert got == text("0-19", [[c] for c in range(20)], halves).replace("x86_64", "aarch64")


def test_strided_siblings_and_many_cpus(shell: Shell, tmp_path: Path) -> None:
    cores = pairs(range(128), range(128, 256))
    llcs = [[*range(n, n + 16), *range(n + 128, n + 144)] for n in range(0, 128, 16)]
    sys = write_sys(tmp_path / "sys", "0-255", cores, {(3, "Unified"): llcs})
    assert live_text(shell, sys, tmp_path) == text("0-255", cores, llcs)


def test_low_power_cores_outside_the_last_cache(shell: Shell, tmp_path: Path) -> None:
    """The last level is a CPU's own: on some it is L2, and an L1 of instructions never."""
    cores = [[0, 1], [2, 3], [4], [5], [6], [7], [8]]
    caches = {
        (1, "Instruction"): [[c] for c in range(9)],
        (3, "Unified"): [[0, 1, 2, 3, 4, 5]],
        (2, "Unified"): [[0, 1], [2, 3], [4, 5], [6, 7]],
        (4, "Instruction"): [[0]],
    }
    sys = write_sys(tmp_path / "sys", "0-8", cores, caches)
    assert live_text(shell, sys, tmp_path) == text("0-8", cores, [[0, 1, 2, 3, 4, 5], [6, 7]])


@pytest.mark.parametrize(
    ("names", "write"),
    [
        (("thread_siblings_list", "shared_cpu_list"), cpu_list),
        (("thread_siblings", "shared_cpu_map"), hex_mask),
        (("core_cpus", "shared_cpu_map"), hex_mask),
    ],
)
def test_older_kernels(
    shell: Shell,
    tmp_path: Path,
    names: tuple[str, str],
    write: Callable[[Iterable[int]], str],
) -> None:
    cores = pairs(range(40), range(68, 108))
    caches = [list(range(40)) + list(range(68, 108))]
    sys = write_sys(
        tmp_path / "sys", "0-39,68-107", cores, {(3, "Unified"): caches}, names=names, write=write
    )
    assert live_text(shell, sys, tmp_path) == text("0-39,68-107", cores, caches)


def test_offline_cpus_are_cut_out(shell: Shell, tmp_path: Path) -> None:
    """CPU 0 and a sibling are offline; lists may still name them."""
    sys = write_sys(
        tmp_path / "sys",
        "1-2,4-7",
        [[0, 4], [1, 5], [2, 6], [3, 7]],
        {(3, "Unified"): [[*range(8)]]},
    )
    want = text("1-2,4-7", [[4], [1, 5], [2, 6], [7]], [[1, 2, 4, 5, 6, 7]])
    assert live_text(shell, sys, tmp_path) == want
    assert "core 1,5\ncore 2,6\ncore 4\ncore 7\nllc 1-2,4-7\n" in want


def test_no_caches_no_topology_no_online(shell: Shell, tmp_path: Path) -> None:
    sys = write_sys(tmp_path / "a", "0-2", [[0, 1]], {})
    assert live_text(shell, sys, tmp_path) == text("0-2", [[0, 1], [2]], [])
    sys = write_sys(tmp_path / "b", None, [[0, 1], [2]], {})
    assert live_text(shell, sys, tmp_path) == text("0-2", [[0, 1], [2]], [])


def test_cpus_that_name_one_set_share_a_cache(shell: Shell, tmp_path: Path) -> None:
    """CPU 0 is in a set that it does not name itself: it is in the one that it names."""
    caches = {(2, "Unified"): [[0, 9]], (3, "Unified"): [[*range(1, 9)]]}
    sys = write_sys(tmp_path / "sys", "0-9", [[c] for c in range(10)], caches)
    for cpu in range(1, 9):
        path = sys / f"devices/system/cpu/cpu{cpu}/cache/index1/shared_cpu_list"
        path.write_text("0-8\n")
    got = live_text(shell, sys, tmp_path)
    assert got.endswith("llc 0,9\nllc 1-8\n")
    assert got == text("0-9", [[c] for c in range(10)], [[0, 9], range(1, 9)])
    both_ways(shell, tmp_path, tmp_path)


def test_a_tree_without_cpus_is_an_error(shell: Shell, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        live_text(shell, tmp_path / "none", tmp_path)
    assert caught.value.returncode == 7
    assert "no CPUs in" in caught.value.stderr


def test_this_machine(shell: Shell, tmp_path: Path) -> None:
    on = this_machine()
    want = cpu_text("x86_64", on.online, on.cores, on.llcs)
    assert live_text(shell, Path("/sys"), tmp_path) == want


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(data=st.data())
def test_random_machines(
    shell: Shell, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(range(0, 72, 3)))
    threads = data.draw(st.sampled_from([1, 2, 4]))
    cores = [list(ids[n : n + threads]) for n in range(0, len(ids), threads)]
    per_cache = data.draw(st.integers(1, 6))
    llcs = [
        [cpu for core in cores[n : n + per_cache] for cpu in core]
        for n in range(0, len(cores), per_cache)
    ]
    off = set(data.draw(st.lists(st.sampled_from(ids), max_size=5)))
    online = str(CpuSet(set(ids) - off))
    tmp = tmp_path_factory.mktemp("machine")
    write = data.draw(st.sampled_from([cpu_list, lambda c: str(CpuSet(c))]))
    sys = write_sys(tmp / "sys", online, cores, {(3, "Unified"): llcs}, write=write)
    assert live_text(shell, sys, tmp) == text(online, cores, llcs)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_snapshot_of_the_corpus(
    tool: Callable[[str], str], shared: Path, tmp_path: Path, folder: str
) -> None:
    """In sh (dash and busybox), in Python, and, of CPUs, by a reader of the tests' own."""
    archives = [one for one in snapshots(shared / "corpus/topology") if one.parent.name == folder]
    assert len(archives) == FOLDERS[folder]
    shells = [make_shell(kind, tool, tmp_path) for kind in ("dash", "busybox")]
    for archive in archives:
        root = unpack(archive, tmp_path / "tree" / archive.name)
        texts = {both_ways(shell, root, tmp_path) for shell in shells}
        assert len(texts) == 1
        ((cpus, _),) = texts
        online, cores, llcs = read_machine(root / "sys/devices/system/cpu")
        arch = cpus.splitlines()[1].removeprefix("arch ")
        found = cpu_text(
            None if arch == "?" else arch,
            CpuSet(online),
            map(CpuSet, cores),
            [] if cpus.endswith("llc ?\n") else map(CpuSet, llcs),
        )
        assert cpus == found, archive.name
