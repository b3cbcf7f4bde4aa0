"""Collecting: cores, masks, caches, NUMA nodes, and the document."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet, union
from compiler.facts.collect import FactsError, collect
from compiler.facts.fingerprint import facts_fingerprint, facts_fingerprint_text
from compiler.facts.write import facts_yaml
from compiler.fingerprint import digest
from tests.collected import cores, simple, spec_of
from tests.sysfs_builder import CPU, NODE, SysfsBuilder, gb10, mask_text


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """An empty machine."""
    return SysfsBuilder(tmp_path / "root")


# --- cores -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "planes"),
    [
        (["0,4", "1,5", "2,6", "3,7"], ["0-3", "4-7"]),
        (["0-1", "2-3", "4-5", "6-7"], ["0,2,4,6", "1,3,5,7"]),
    ],
)
@pytest.mark.parametrize(
    "form", ["core_cpus_list", "thread_siblings_list", "core_cpus", "thread_siblings"]
)
def test_siblings_far_and_near(
    b: SysfsBuilder, pairs: list[str], planes: list[str], form: str
) -> None:
    b.masks(online="0-7")
    b.cores(pairs, form=form)
    b.cache(3, "0-7", level=3, size="16M")
    spec = spec_of(b)
    assert cores(spec) == pairs
    (group,) = spec.cores
    assert [str(plane) for plane in group.smt] == planes
    assert spec.llcs[0].size_kib == 16384
    assert spec.warnings == ()


def test_core_id_repeats_in_every_package_and_means_nothing(b: SysfsBuilder) -> None:
    b.masks(online="0-7")
    b.cores(["0,4", "1,5"], package=0)
    b.cores(["2,6", "3,7"], package=1)
    spec = spec_of(b)
    assert cores(spec) == ["0,4", "1,5", "2,6", "3,7"]
    assert [(str(g.cpus), g.package) for g in spec.cores] == [("0-1,4-5", 0), ("2-3,6-7", 1)]


def test_irregular_sibling_ids_still_pair_up(b: SysfsBuilder) -> None:
    b.masks(online="0-7")
    pairs = ["0,7", "1,6", "2,5", "3-4"]  # the second threads descend
    b.cores(pairs)
    spec = spec_of(b)
    assert cores(spec) == pairs


def test_offline_cpu_0_and_an_offline_sibling(b: SysfsBuilder) -> None:
    b.masks(online="1-6", possible="0-7", present="0-7")
    # The kernel drops offline CPUs from sibling lists, but a snapshot may keep them.
    b.cores(["0,4", "1,5", "2,6", "3,7"])
    b.cache(3, "0-7", level=3, size="8192K")
    b.node(0, "1-6", mem_kib=1 << 20)
    spec = spec_of(b)
    assert cores(spec) == ["1,5", "2,6", "3", "4"]
    assert spec.warnings == ()
    assert str(spec.llcs[0].cpus) == "1-6"
    assert str(spec.cpus.present) == "0-7"


def test_without_the_online_file_an_offline_cpu_has_no_topology(b: SysfsBuilder) -> None:
    b.cores(["0", "1", "3"])
    b.file(f"{CPU}/cpu2/online", "0\n")
    b.directory(f"{CPU}/cpufreq")
    spec = spec_of(b)
    assert str(spec.cpus.online) == "0-1,3"
    assert spec.cpus.possible is None
    assert spec.cpus.isolated is None


def test_no_topology_at_all_is_refused_because_the_cores_are_unknown(b: SysfsBuilder) -> None:
    for cpu in range(3):
        b.directory(f"{CPU}/cpu{cpu}")
    b.file(f"{CPU}/cpu1/online", "0\n")
    with pytest.raises(FactsError, match="threads of one core"):
        spec_of(b)
    b.file(f"{CPU}/cpu2/online", "0\n")
    spec = spec_of(b)  # a single CPU is a core
    assert cores(spec) == ["0"]
    assert all(group.package is None and group.llc is None for group in spec.cores)


def test_siblings_that_contradict_each_other_never_join(b: SysfsBuilder) -> None:
    simple(b)
    b.file(f"{CPU}/cpu0/topology/core_cpus_list", "0-1\n")
    spec = spec_of(b)
    assert cores(spec) == ["0", "1", "2", "3"]
    assert any("CPU 0 names the siblings 0-1" in warning for warning in spec.warnings)


def test_siblings_without_the_cpu_itself(b: SysfsBuilder) -> None:
    simple(b)
    b.file(f"{CPU}/cpu2/topology/core_cpus_list", "\n")
    spec = spec_of(b)
    assert cores(spec) == ["0", "1", "2", "3"]
    assert any("lack CPU 2 itself" in warning for warning in spec.warnings)


def test_package_minus_one_is_unknown(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    b.cores(["0", "1"], package=-1)
    assert {group.package for group in spec_of(b).cores} == {None}


def test_more_than_64_cpus_in_masks(b: SysfsBuilder) -> None:
    b.masks(online="0-135")
    b.cores([f"{cpu},{cpu + 68}" for cpu in range(68)], form="thread_siblings")
    b.cache(3, "0-33,68-101", level=3, size="32768K", form="shared_cpu_map")
    b.cache(3, "34-67,102-135", level=3, size="32768K", form="shared_cpu_map")
    b.file(f"{NODE}/node0/cpumap", mask_text(CpuSet(range(136)), 8) + "\n")
    spec = spec_of(b)
    assert len(cores(spec)) == 68
    assert cores(spec)[67] == "67,135"
    assert [str(llc.cpus) for llc in spec.llcs] == ["0-33,68-101", "34-67,102-135"]
    assert [str(node.cpus) for node in spec.numa] == ["0-135"]
    assert [[str(plane) for plane in group.smt] for group in spec.cores] == [
        ["0-33", "68-101"],
        ["34-67", "102-135"],
    ]


# --- masks -------------------------------------------------------------------------------------


def test_the_null_that_nohz_full_reads_is_empty_and_not_unknown(b: SysfsBuilder) -> None:
    simple(b)
    b.masks(nohz_full="  (null)", isolated="2-3")
    spec = spec_of(b)
    assert spec.cpus.nohz_full == CpuSet()
    assert str(spec.cpus.isolated) == "2-3"
    assert spec.warnings == ()


def test_possible_is_wider_than_present_is_wider_than_online(b: SysfsBuilder) -> None:
    simple(b)
    b.masks(possible="0-511", present="0-7")
    spec = spec_of(b)
    assert (len(spec.cpus.possible or ()), str(spec.cpus.present)) == (512, "0-7")
    assert union(group.cpus for group in spec.cores) == CpuSet(range(4))


def test_junk_in_a_mask_is_named_and_the_directories_answer(b: SysfsBuilder) -> None:
    simple(b)
    b.masks(online="0-3,banana", possible="7-0", isolated="0-99999999")
    spec = spec_of(b)
    assert str(spec.cpus.online) == "0-3"
    assert spec.cpus.possible is None
    assert spec.cpus.isolated is None
    assert len(spec.warnings) == 3
    assert any(w.startswith(f"/{CPU}/online: ") and "banana" in w for w in spec.warnings)


def test_online_outside_possible(b: SysfsBuilder) -> None:
    simple(b)
    b.masks(possible="0-1")
    spec = spec_of(b)
    assert spec.cpus.possible is None
    assert any("lacks the online CPU 2-3" in warning for warning in spec.warnings)


@pytest.mark.parametrize("there", [False, True])
def test_no_cpu_information_is_refused(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / CPU).mkdir(parents=True)
        (tmp_path / CPU / "online").write_text("\n")
    with pytest.raises(FactsError) as caught:
        collect(tmp_path, name="n", live=False)
    assert caught.value.path == "/sys/devices/system/cpu"
    assert "CPU" in caught.value.message


# --- caches ------------------------------------------------------------------------------------


def test_the_last_level_is_found_by_level_and_not_by_index(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    b.cores(["0", "1"])
    b.cache(0, "0-1", level=3, size="4096K", id=7)
    for cpu in "01":
        b.cache(1, cpu, level=2, size="512K", id=int(cpu))
        b.cache(3, cpu, level=1, size="32K", id=int(cpu))
        b.cache(2, cpu, level=4, size="1K", kind="Instruction", id=int(cpu))
    spec = spec_of(b)
    (llc,) = spec.llcs
    assert (llc.level, str(llc.cpus), llc.size_kib) == (3, "0-1", 4096)
    assert spec.warnings == ()


def test_no_l3_and_split_first_level(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    b.cores(["0", "1"])
    for cpu in "01":
        b.cache(0, cpu, level=1, size="48K", kind="Data")
        b.cache(1, cpu, level=1, size="32K", kind="Instruction")
    spec = spec_of(b)
    assert [(llc.level, str(llc.cpus), llc.size_kib) for llc in spec.llcs] == [
        (1, "0", 48),
        (1, "1", 48),
    ]


def test_no_cache_directory(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    b.cores(["0", "1"])
    spec = spec_of(b)
    assert spec.llcs == ()
    assert {group.llc for group in spec.cores} == {None}
    assert any("last-level caches are unknown" in warning for warning in spec.warnings)


def test_caches_are_numbered_by_lowest_cpu_whatever_the_kernel_calls_them(
    b: SysfsBuilder,
) -> None:
    b.masks(online="0-7")
    b.cores([str(cpu) for cpu in range(8)])
    b.cache(2, "4-7", level=2, size="", id=5)
    b.cache(2, "0-3", level=2, size="1024K", id=5)
    spec = spec_of(b)
    assert [(llc.id, str(llc.cpus), llc.size_kib) for llc in spec.llcs] == [
        (0, "0-3", 1024),
        (1, "4-7", None),
    ]


def test_a_cache_without_its_cpu_and_a_cache_of_junk(b: SysfsBuilder) -> None:
    simple(b)
    b.file(f"{CPU}/cpu0/cache/index3/level", "99\n")
    b.file(f"{CPU}/cpu1/cache/index3/shared_cpu_list", "2-3\n")
    b.file(f"{CPU}/cpu2/cache/index3/size", "big\n")
    spec = spec_of(b)
    assert {str(g.cpus): g.llc is None for g in spec.cores} == {"2-3": False, "0-1": True}
    assert any("lacks CPU 1 itself" in warning for warning in spec.warnings)
    assert any("level 99" in warning for warning in spec.warnings)
    assert any("last-level cache of CPU 0-1 is unknown" in warning for warning in spec.warnings)
    assert any("'big' is not a size" in warning for warning in spec.warnings)


def test_caches_that_contradict_each_other_keep_the_cpus_that_agree(b: SysfsBuilder) -> None:
    simple(b)
    for cpu in "123":
        b.file(f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list", "1-3\n")
    spec = spec_of(b)
    assert [str(llc.cpus) for llc in spec.llcs] == ["0", "1-3"]
    assert any("CPU 0 shares its L3 cache with 0-3" in warning for warning in spec.warnings)


# --- NUMA --------------------------------------------------------------------------------------


def test_sparse_nodes_one_without_cpus_and_one_of_gpu_memory(b: SysfsBuilder) -> None:
    b.masks(online="0-3,8-11")
    b.cores([*map(str, range(4)), *map(str, range(8, 12))])
    b.file(f"{NODE}/online", "0,2,8,10\n")
    b.node(0, "0-3", mem_kib=2 << 20, distance="10 20 40 80")
    b.node(2, "", mem_kib=96 << 20, distance="20 10 80 40")
    b.node(8, "8-11", mem_kib=1 << 20, distance="40 80 10 20")
    b.node(10, "", mem_kib=0, distance="80 40 20 10")
    b.node(11, "", mem_kib=0)  # not online
    b.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: 10\nStatus: offline\n")
    spec = spec_of(b)
    assert [(n.id, str(n.cpus), n.memory_mib, n.role) for n in spec.numa] == [
        (0, "0-3", 2048, "cpu"),
        (2, "", 98304, "memory"),
        (8, "8-11", 1024, "cpu"),
        (10, "", 0, "gpu-memory"),
    ]
    assert spec.numa[1].distances == (20, 10, 80, 40)
    assert [(str(g.cpus), g.numa) for g in spec.cores] == [("0-3", 0), ("8-11", 8)]


def test_an_empty_node_without_a_word_about_it_is_unknown(b: SysfsBuilder) -> None:
    simple(b)
    b.node(1, "", mem_kib=0)
    assert spec_of(b).numa[1].role == "unknown"


def test_a_cpu_in_two_nodes_and_one_in_none(b: SysfsBuilder) -> None:
    simple(b)
    b.node(0, "0-1", mem_kib=1 << 20)
    b.node(1, "1-2", mem_kib=1 << 20)
    spec = spec_of(b)
    assert {str(g.cpus): g.numa for g in spec.cores} == {"0-1": 0, "2": 1, "3": None}
    assert any("CPU 1 is in a lower node too" in warning for warning in spec.warnings)
    assert any("CPU 3 is in no node" in warning for warning in spec.warnings)


def test_node_oddities(b: SysfsBuilder) -> None:
    simple(b)
    b.file(f"{NODE}/online", "0-1\n")
    b.file(f"{NODE}/node0/distance", "10 20 30\n")
    b.file(f"{NODE}/node0/meminfo", "nothing here\n")
    spec = spec_of(b)
    assert [node.id for node in spec.numa] == [0]
    assert spec.numa[0].distances == ()
    assert spec.numa[0].memory_mib is None
    assert len(spec.warnings) == 3


def test_no_node_directory(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    b.cores(["0", "1"])
    spec = spec_of(b)
    assert spec.numa == ()
    assert {group.numa for group in spec.cores} == {None}


# --- the document ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "name"),
    [("Spark-A\n", "spark-a"), ("a_b..c-\n", "a-b.c"), ("\n", "node"), ("日本", "node")],
)
def test_the_node_is_called_like_the_host(b: SysfsBuilder, host: str, name: str) -> None:
    simple(b)
    b.file("proc/sys/kernel/hostname", host)
    facts = collect(b.root, name=None, live=False)
    assert facts.metadata.name == name
    assert bool(facts.spec.warnings) == (name not in ("spark-a",))


@pytest.mark.parametrize("name", ["", "Spark", "a_b", "a..b", "-a", "a" * 64, "$(id)", "a\nb"])
def test_a_given_name_must_be_a_node_name(b: SysfsBuilder, name: str) -> None:
    simple(b)
    with pytest.raises(FactsError, match="node name"):
        collect(b.root, name=name, live=False)


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = gb10(tmp_path / "one"), gb10(tmp_path / "two")
    texts = {facts_yaml(collect(b.root, name=None, live=False)) for b in (one, two, one)}
    assert len(texts) == 1


def test_the_fingerprint_is_that_of_the_canonical_text(b: SysfsBuilder) -> None:
    b.masks(online="0-3")
    b.cores(["0,2", "1,3"])
    b.cache(3, "0-3", level=3, size="1024K")
    b.file("proc/sys/kernel/arch", "x86_64\n")
    facts = collect(b.root, name="n", live=False)
    text = "tierc-cpu-2\narch x86_64\nonline 0-3\ncore 0,2\ncore 1,3\nllc 0-3\n"
    assert facts_fingerprint_text(facts) == text
    assert facts_fingerprint(facts) == digest(text)
    b.file("proc/sys/kernel/osrelease", "7.0.0\n")
    assert facts_fingerprint(collect(b.root, name="m", live=False)) == digest(text)


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("facts are collected without running a program")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(os, "system", refuse)
    facts = collect(Path("/"), name="here", live=True)
    online = Path("/sys/devices/system/cpu/online").read_text()
    assert facts.spec.cpus.online == CpuSet.parse(online)
    assert facts.spec.arch == os.uname().machine
    assert facts.spec.kernel.release == os.uname().release
    mine = CpuSet(os.sched_getaffinity(0))
    allowed = facts.spec.cpus.allowed
    assert allowed is None or allowed <= mine
    if mine < facts.spec.cpus.online:
        assert allowed is not None
