"""The machine's own files: packages, dies, clusters, caches, NUMA nodes, devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from compiler.facts.host import read_host
from compiler.facts.partial import DevicePart, LlcPart, ReadError
from compiler.facts.tree import Tree
from tests.host_reading import flat, named, notes, read
from tests.sysfs_builder import CPU, NODE, SysfsBuilder, gb10


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """An empty machine."""
    return SysfsBuilder(tmp_path / "root")


# --- the partial -------------------------------------------------------------------------------


def test_gb10_as_a_source(tmp_path: Path) -> None:
    partial = read(gb10(tmp_path / "root"))
    assert (partial.reader, partial.file, partial.node) == ("sysfs", "sysfs", "spark-a")
    assert partial.arch == "aarch64"
    assert [str(core) for core in partial.cores or ()] == [str(cpu) for cpu in range(20)]
    assert named(partial.packages) == [(36, "0-19")]
    assert (partial.dies, partial.clusters) == (None, None)
    assert partial.llcs == (
        LlcPart(CpuSet(range(10)), 3, 8192),
        LlcPart(CpuSet(range(10, 20)), 3, 16384),
    )
    assert [(n.id, str(n.cpus), dict(n.distances)) for n in partial.numa or ()] == [
        (0, "0-19", {0: 10})
    ]
    fast, small = partial.kinds or ()
    assert (fast.name, str(fast.cpus), fast.evidence) == ("performance", "5-9,15-19", "midr")
    assert (fast.model, fast.figure, fast.value) == ("Cortex-X925", "cpu_capacity", 1024)
    assert (small.name, small.model, small.value) == ("efficiency", "Cortex-A725", 731)
    assert sorted(set((partial.capacities or {}).values())) == [718, 731, 997, 1017, 1024]
    assert partial.nohz_full == CpuSet()
    gpu = (partial.devices or ())[0]
    assert (gpu.bdf, gpu.model, gpu.pcie_root) == ("000f:01:00.0", "NVIDIA GB10", "pci000f:01")
    assert partial.kernel is not None
    assert partial.kernel.release == "6.17.0-1014-nvidia"
    assert partial.notes == ()


def test_a_source_is_named_as_it_is_asked(b: SysfsBuilder) -> None:
    flat(b)
    partial = read_host(Tree.of_disk(b.root), live=False, name="snap.tgz!host")
    assert partial.file == "snap.tgz!host"


@pytest.mark.parametrize(
    ("there", "part"), [(False, "no such directory"), (True, "nothing says which CPUs are online")]
)
def test_without_cpus_there_is_no_source(tmp_path: Path, there: bool, part: str) -> None:
    if there:
        (tmp_path / CPU).mkdir(parents=True)
    with pytest.raises(ReadError) as caught:
        read_host(Tree.of_disk(tmp_path), live=False)
    assert caught.value.message.startswith("/sys/devices/system/cpu: ")
    assert part in caught.value.message
    assert caught.value.help


@pytest.mark.parametrize(
    ("host", "node"),
    [("Spark-A", "spark-a"), ("a_b..c-", "a-b.c"), ("a" * 70, "a" * 63), ("日本", None)],
)
def test_the_host_name_as_a_node_name(b: SysfsBuilder, host: str, node: str | None) -> None:
    flat(b)
    assert read(b).node is None
    b.file("etc/hostname", f"{host}\n")
    partial = read(b)
    assert partial.node == node
    assert any("is no node name" in note for note in notes(partial)) == (node != host.lower())


def test_nothing_but_the_online_cpus_is_unknown_and_not_empty(b: SysfsBuilder) -> None:
    b.masks(online="0-1")
    partial = read(b)
    for name in (
        "possible", "present", "isolated", "nohz_full", "allowed", "cores", "packages", "dies",
        "clusters", "llcs", "numa", "kinds", "capacities", "arch", "node", "kubelet",
    ):  # fmt: skip
        assert getattr(partial, name) is None, name
    assert partial.devices == ()
    assert any("which CPUs form a core is unknown" in note for note in notes(partial))


def test_no_numa_is_known_on_the_running_machine_only(b: SysfsBuilder) -> None:
    flat(b)
    assert read(b).numa is None
    assert read(b, live=True).numa == ()


# --- packages, dies, clusters ------------------------------------------------------------------


def test_eight_sockets_with_two_threads_a_core(b: SysfsBuilder) -> None:
    """Socket s has cores 4s to 4s+3, and their second threads 32 later."""
    b.masks(online="0-63")
    for socket in range(8):
        first = 4 * socket
        b.cores([f"{c},{c + 32}" for c in range(first, first + 4)])
        cpus = f"{first}-{first + 3},{first + 32}-{first + 35}"
        b.level("package", socket, cpus)
        b.level("die", 0, cpus)
        b.cache(3, cpus, level=3, size="32M")
        row = ["10" if other == socket else "21" for other in range(8)]
        row[(socket + 4) % 8] = "31"
        b.node(socket, cpus, mem_kib=1 << 20, distance=" ".join(row))
    partial = read(b)
    assert len(partial.cores or ()) == 32
    expected = [(s, f"{4 * s}-{4 * s + 3},{4 * s + 32}-{4 * s + 35}") for s in range(8)]
    assert named(partial.packages) == expected
    assert named(partial.dies) == [(0, cpus) for _, cpus in expected]
    assert [str(llc.cpus) for llc in partial.llcs or ()] == [cpus for _, cpus in expected]
    assert (partial.numa or ())[1].distances == {
        0: 21, 1: 10, 2: 21, 3: 21, 4: 21, 5: 31, 6: 21, 7: 21,
    }  # fmt: skip
    spec = collect(b.root, name="n", live=False).spec
    assert [str(group.cpus) for group in spec.cores] == [cpus for _, cpus in expected]
    assert {len(group.smt) for group in spec.cores} == {2}


def test_a_virtual_machine_of_packages_with_one_cpu_and_one_cache(b: SysfsBuilder) -> None:
    b.masks(online="0-31")
    for cpu in range(32):
        b.core(str(cpu))
        b.level("package", cpu, str(cpu))
    b.cache(3, "0-31", level=3, size="16384K")
    partial = read(b)
    assert named(partial.packages) == [(cpu, str(cpu)) for cpu in range(32)]
    assert [str(llc.cpus) for llc in partial.llcs or ()] == ["0-31"]


def test_package_ids_need_no_order_and_minus_one_is_unknown(b: SysfsBuilder) -> None:
    flat(b, "0-5")
    b.level("package", 8442, "0-1")
    b.level("package", -1, "2-3")
    b.level("package", 36, "4-5")
    assert named(read(b).packages) == [(8442, "0-1"), (36, "4-5")]
    b.level("package", -1, "0-5")
    assert read(b).packages == ()  # asked, and not known


def test_packages_without_the_set_are_told_by_their_id(b: SysfsBuilder) -> None:
    b.masks(online="0-3")
    b.cores(["0", "2"], package=1)
    b.cores(["1", "3"], package=0)
    assert named(read(b).packages) == [(1, "0,2"), (0, "1,3")]


def test_a_set_of_cpus_with_different_ids_is_not_believed(b: SysfsBuilder) -> None:
    flat(b, "0-3")
    b.level("package", 0, "0-3")
    b.file(f"{CPU}/cpu3/topology/physical_package_id", "1\n")
    partial = read(b)
    assert named(partial.packages) == [(0, "0-2"), (1, "3")]
    assert any("CPU 0 and of CPU 3 differ" in note for note in notes(partial))


def test_an_offline_cpu_is_in_no_package(b: SysfsBuilder) -> None:
    flat(b, "1-2")
    b.level("package", 0, "0-3")
    assert named(read(b).packages) == [(0, "1-2")]


def test_dies_repeat_their_ids_in_every_package(b: SysfsBuilder) -> None:
    flat(b)
    for package, first in ((0, 0), (1, 4)):
        b.level("package", package, f"{first}-{first + 3}")
        b.level("die", 0, f"{first}-{first + 1}")
        b.level("die", 1, f"{first + 2}-{first + 3}")
    assert named(read(b).dies) == [(0, "0-1"), (1, "2-3"), (0, "4-5"), (1, "6-7")]
    spec = collect(b.root, name="n", live=False).spec
    assert [(str(g.cpus), g.package, g.die) for g in spec.cores] == [
        ("0-1", 0, 0),
        ("2-3", 0, 1),
        ("4-5", 1, 0),
        ("6-7", 1, 1),
    ]


@pytest.mark.parametrize("number", [-1, 65535])
@pytest.mark.parametrize("name", ["die", "cluster"])
def test_a_level_that_the_firmware_lacks(b: SysfsBuilder, name: str, number: int) -> None:
    flat(b)
    b.level(name, number, "0-7")
    partial = read(b)
    assert not partial.dies
    assert not partial.clusters


def test_a_die_id_without_its_cpus_says_nothing(b: SysfsBuilder) -> None:
    flat(b)
    b.attribute("0-7", "topology/die_id", 0)
    assert read(b).dies is None


def test_clusters_of_one_core_are_left_out(b: SysfsBuilder) -> None:
    """A hybrid machine: each P-core has an L2 of its own, four E-cores share one."""
    b.masks(online="0-7")
    b.cores(["0-1", "2-3", "4", "5", "6", "7"])
    b.level("cluster", 0, "0-1")
    b.level("cluster", 8, "2-3")
    b.level("cluster", 16, "4-7")
    assert named(read(b).clusters) == [(16, "4-7")]
    b.level("cluster", 16, "4")
    b.level("cluster", 17, "5")
    b.level("cluster", 18, "6")
    b.level("cluster", 19, "7")
    assert read(b).clusters == ()


def test_a_cluster_that_cuts_a_core_is_not_used(b: SysfsBuilder) -> None:
    b.masks(online="0-3")
    b.cores(["0-1", "2-3"])
    b.level("cluster", 0, "0-2")
    b.level("cluster", 1, "3")
    partial = read(b)
    assert partial.clusters == ()
    assert any("the cluster of CPUs 0-2 cuts a core in two" in note for note in notes(partial))


# --- caches ------------------------------------------------------------------------------------


def test_several_last_level_caches_in_a_node(b: SysfsBuilder) -> None:
    flat(b)
    b.node(0, "0-7", mem_kib=1)
    for first in (0, 2, 4, 6):
        b.cache(3, f"{first}-{first + 1}", level=3, size="16M", id=first)
    assert [str(llc.cpus) for llc in read(b).llcs or ()] == ["0-1", "2-3", "4-5", "6-7"]


def test_two_levels_may_be_last_on_one_machine(b: SysfsBuilder) -> None:
    flat(b)
    b.cache(2, "0-7", level=2, size="1M")
    b.cache(3, "0-3", level=3, size="16M")
    partial = read(b)
    assert partial.llcs == (
        LlcPart(CpuSet(range(4)), 3, 16384),
        LlcPart(CpuSet(range(4, 8)), 2, 1024),
    )


@pytest.mark.parametrize("form", ["shared_cpu_list", "shared_cpu_map"])
def test_a_cpu_without_a_cache_directory_is_in_no_cache(b: SysfsBuilder, form: str) -> None:
    flat(b, "0-3")
    b.cache(3, "0-3", level=3, size="16M", form=form)
    (b.root / CPU / f"cpu2/cache/index3/{form}").unlink()
    partial = read(b)
    assert [str(llc.cpus) for llc in partial.llcs or ()] == ["0-1,3"]
    assert any("last-level cache of CPU 2 is unknown" in note for note in notes(partial))


def test_a_mask_stands_in_for_a_list_of_junk(b: SysfsBuilder) -> None:
    flat(b, "0-3")
    for cpus in ("0-1", "2-3"):
        b.cache(3, cpus, level=3, size="16M", form="shared_cpu_map")
    b.attribute("0-3", "cache/index3/shared_cpu_list", "junk")
    assert [str(llc.cpus) for llc in read(b).llcs or ()] == ["0-1", "2-3"]


# --- NUMA --------------------------------------------------------------------------------------


def test_a_node_larger_than_a_package(b: SysfsBuilder) -> None:
    b.masks(online="0-7")
    for package, cpus in enumerate(("0-1", "2-3", "4-5", "6-7")):
        b.cores([str(cpu) for cpu in CpuSet.parse(cpus)], package=package)
    b.node(0, "0-3", mem_kib=1, distance="10 20")
    b.node(1, "4-7", mem_kib=1, distance="20 10")
    partial = read(b)
    assert len(partial.packages or ()) == 4
    assert [str(node.cpus) for node in partial.numa or ()] == ["0-3", "4-7"]


def test_distances_follow_the_online_nodes_and_need_not_be_symmetric(b: SysfsBuilder) -> None:
    flat(b)
    b.file(f"{NODE}/online", "0,2,8\n")
    b.node(0, "0-3", mem_kib=1, distance="10 14 40")
    b.node(2, "", mem_kib=1, distance="24 10 80")
    b.node(8, "4-7", mem_kib=1, distance="32 80 10")
    b.node(9, "", mem_kib=0, distance="1 2 3")
    assert [(node.id, dict(node.distances)) for node in read(b).numa or ()] == [
        (0, {0: 10, 2: 14, 8: 40}),
        (2, {0: 24, 2: 10, 8: 80}),
        (8, {0: 32, 2: 80, 8: 10}),
    ]


def test_a_node_that_the_snapshot_lacks_keeps_its_column(b: SysfsBuilder) -> None:
    flat(b)
    b.file(f"{NODE}/online", "0-2\n")
    b.node(0, "0-3", mem_kib=1, distance="10 20 30")
    b.node(2, "4-7", mem_kib=1, distance="30 20 10")
    partial = read(b)
    assert [dict(node.distances) for node in partial.numa or ()] == [{0: 10, 2: 30}, {0: 30, 2: 10}]
    assert any("node 1 is online, but has no directory" in note for note in notes(partial))


def test_cpus_of_a_node_that_are_not_said_are_unknown_and_not_none(b: SysfsBuilder) -> None:
    flat(b)
    b.node(0, "0-7", mem_kib=1)
    b.file(f"{NODE}/node1/meminfo", "Node 1 MemTotal:  2048 kB\n")
    one = (read(b).numa or ())[1]
    assert (one.cpus, one.memory_mib) == (None, 2)


def test_gpu_memory_is_a_node_of_the_gpu(b: SysfsBuilder) -> None:
    """A Grace machine: the GPU is on node 0, and its memory is node 1."""
    flat(b)
    b.node(0, "0-7", mem_kib=1)
    b.node(1, "", mem_kib=96 << 20)
    b.node(2, "", mem_kib=0)
    b.pci("0009:01:00.0", code=0x030200, vendor=0x10DE, device=0x2342, numa=0, local="0-7")
    b.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: 1\nStatus: online\n")
    partial = read(b)
    assert [node.gpu_memory for node in partial.numa or ()] == [False, True, False]
    (gpu,) = partial.devices or ()
    assert (gpu.numa, gpu.memory_node, str(gpu.cpus)) == ((0,), 1, "0-7")


# --- devices -----------------------------------------------------------------------------------


def devices(b: SysfsBuilder) -> tuple[DevicePart, ...]:
    return read(b).devices or ()


def test_the_pcie_root_is_the_first_bus_above(b: SysfsBuilder) -> None:
    flat(b)
    deep = "sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0"
    vmd = "sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e1:00.0"
    for path, vendor in ((deep, "0x10de"), (vmd, "0x1002")):
        b.file(f"{path}/class", "0x030200\n")
        b.file(f"{path}/vendor", f"{vendor}\n")
        b.link(f"sys/bus/pci/devices/{path.rpartition('/')[2]}", path)
    b.directory("sys/devices/platform/soc/fd580000.ethernet")
    b.interface("end0", "sys/devices/platform/soc/fd580000.ethernet")
    b.pci("0000:05:00.0", code=0x020000, vendor=0x8086, device=1)
    assert [(d.type, d.bdf, d.pcie_root) for d in devices(b)] == [
        ("gpu", "0000:3b:00.0", "pci0000:3a"),
        ("gpu", "10000:e1:00.0", "pci0000:00"),
        ("nic", "0000:05:00.0", "pci0000:05"),
        ("nic", None, None),
    ]


def test_a_device_says_only_what_sysfs_says_of_it(b: SysfsBuilder) -> None:
    flat(b)
    b.node(0, "0-7", mem_kib=1)
    for bus, numa, local, mask in (
        (1, 0, "0-7", None),
        (2, -1, "0-7", None),  # a list that is the machine
        (3, -1, None, "000000f0"),  # POWER9
        (4, None, "", None),
        (5, 7, None, None),  # no such node: the merge knows
    ):
        b.pci(
            f"0000:{bus:02x}:00.0",
            code=0x030000,
            vendor=0x10DE,
            device=1,
            numa=numa,
            local=local,
            mask=mask,
        )
    found = [(d.numa, d.cpus and str(d.cpus), d.confidence) for d in devices(b)]
    assert found == [
        ((0,), "0-7", "measured"),
        ((), "0-7", "measured"),
        ((), "4-7", "measured"),
        ((), None, "unknown"),
        ((7,), None, "measured"),
    ]


def test_the_vga_of_a_board_controller_is_no_gpu(b: SysfsBuilder) -> None:
    flat(b)
    b.pci("0000:01:00.0", code=0x030000, vendor=0x102B, device=0x0538, numa=0)
    b.pci("0000:02:00.0", code=0x030000, vendor=0x1A03, device=0x2000, numa=0)
    b.pci("0000:03:00.0", code=0x030200, vendor=0x10DE, device=0x20B0, numa=0)
    assert [d.bdf for d in devices(b)] == ["0000:03:00.0"]
