"""Several sources of one node become its facts: precedence, disagreements, places of devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.nodefacts import FORMAT
from compiler.facts.merge import Merged, merge
from compiler.facts.merge.place import looks_truncated
from compiler.facts.partial import (
    READERS,
    DevicePart,
    KindPart,
    LinkPart,
    LlcPart,
    Note,
    NumaPart,
    Partial,
    ReadError,
)
from compiler.facts.write import facts_yaml
from compiler.model.facts import Device, Kernel, Kubelet, Virtualization

NVIDIA, AMD = "10de", "1002"
GPU0, GPU1 = "0000:17:00.0", "0000:b5:00.0"


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def sets(*texts: str) -> tuple[CpuSet, ...]:
    return tuple(CpuSet.parse(text) for text in texts)


def two_nodes(reader: str = "sysfs", file: str = "snap", **other: Any) -> Partial:
    """Eight cores of two threads (n, n+8), two packages, each a NUMA node with two L3."""
    values: dict[str, Any] = {
        "online": cpus("0-15"),
        "cores": sets(*(f"{n},{n + 8}" for n in range(8))),
        "packages": ((0, cpus("0-3,8-11")), (1, cpus("4-7,12-15"))),
        "llcs": tuple(
            LlcPart(cpus(f"{n}-{n + 1},{n + 8}-{n + 9}"), 3, 16384) for n in (0, 2, 4, 6)
        ),
        "numa": (
            NumaPart(0, cpus("0-3,8-11"), 4096, {0: 10, 1: 21}),
            NumaPart(1, cpus("4-7,12-15"), 4096, {0: 21, 1: 10}),
        ),
    }
    return Partial(reader, file, **{**values, **other})


def gpu(bdf: str | None = None, **other: Any) -> DevicePart:
    return DevicePart("gpu", bdf=bdf, **{"vendor": NVIDIA, **other})


def merged(*partials: Partial) -> Merged:
    return merge(partials, name="n")


def said(result: Merged) -> str:
    return "\n".join(result.facts.spec.warnings)


def place(device: Device) -> tuple[int | None, str | None, str, str]:
    near = device.locality.cpus
    where = (None if near is None else str(near), device.locality.scope, device.locality.confidence)
    return (device.numa, *where)


# --- CPUs --------------------------------------------------------------------------------------


def test_one_source_gives_its_facts_and_no_word() -> None:
    spec = merged(two_nodes()).facts.spec
    assert [(str(g.cpus), g.llc, g.numa, g.package) for g in spec.cores] == [
        ("0-1,8-9", 0, 0, 0),
        ("2-3,10-11", 1, 0, 0),
        ("4-5,12-13", 2, 1, 1),
        ("6-7,14-15", 3, 1, 1),
    ]
    assert [(llc.id, str(llc.cpus), llc.size_kib) for llc in spec.llcs][1] == (
        1,
        "2-3,10-11",
        16384,
    )
    assert [(n.id, n.memory_mib, n.distances, n.role) for n in spec.numa] == [
        (0, 4096, (10, 21), "cpu"),
        (1, 4096, (21, 10), "cpu"),
    ]
    assert [(s.reader, s.facts) for s in spec.sources] == [
        ("sysfs", ("cpus", "cores", "packages", "llcs", "numa"))
    ]
    assert spec.warnings == ()


def test_a_machine_described_by_many_readers_is_no_disagreement() -> None:
    alone = merged(two_nodes()).facts.spec
    # Tools number packages as they like, and that is no contradiction.
    other_numbers = ((7, cpus("4-7,12-15")), (3, cpus("0-3,8-11")))
    result = merged(
        two_nodes(),
        two_nodes("hwloc", "a.xml", packages=other_numbers),
        two_nodes("lscpu", "l.csv", packages=other_numbers),
        Partial("node", "node.yaml", cpu_count=16),
    )
    assert result.facts.spec == alone
    assert result.disagreements == ()


def test_the_most_trusted_source_wins_and_the_loser_is_named() -> None:
    wrong = sets(*(f"{n}-{n + 1}" for n in range(0, 16, 2)))
    result = merged(two_nodes("lscpu", "dir/l.csv", cores=wrong), two_nodes())
    assert result.facts.spec.cores == merged(two_nodes()).facts.spec.cores
    (found,) = result.disagreements
    assert (found.fact, found.winner.reader, found.winner.file) == ("cores", "sysfs", "snap")
    assert (found.loser.reader, found.loser.file) == ("lscpu", "dir/l.csv")
    assert found.winner.value.startswith("0,8 1,9")
    assert found.loser.value.startswith("0-1 2-3")
    assert "lscpu (l.csv) says 0-1 2-3" in said(result)  # without the directory


def test_an_export_from_a_cgroup_that_sees_fewer_cpus_agrees() -> None:
    seen = cpus("0-3,8")  # of core 1 to 3 it sees one thread only
    part = Partial(
        "hwloc",
        "cgroup.xml",
        online=seen,
        cores=sets("0,8", "1", "2", "3"),
        llcs=(LlcPart(cpus("0-1,8"), 3), LlcPart(cpus("2-3"), 3)),
        numa=(NumaPart(0, seen),),
    )
    result = merged(part, two_nodes())
    assert result.disagreements == ()
    assert result.facts.spec.cores == merged(two_nodes()).facts.spec.cores
    # The same with lscpu, which ranks lower but sees every CPU.
    result = merged(part, two_nodes("lscpu", "l.csv"))
    assert result.disagreements == ()
    spec = result.facts.spec
    assert spec.cpus.online == cpus("0-15")
    assert {core for group in spec.cores for core in group.cores()} == set(two_nodes().cores or ())
    assert [str(llc.cpus) for llc in spec.llcs] == [
        "0-1,8-9",
        "2-3,10-11",
        "4-5,12-13",
        "6-7,14-15",
    ]
    assert [str(node.cpus) for node in spec.numa] == ["0-3,8-11", "4-7,12-15"]


def test_lscpu_that_sees_fewer_cpus_than_sysfs_disagrees() -> None:
    small = replace(
        two_nodes("lscpu", "l.csv"),
        online=cpus("0-14"),
        cores=sets(*(f"{n},{n + 8}" for n in range(7)), "7"),
    )
    assert [d.fact for d in merged(two_nodes(), small).disagreements] == ["online CPUs"]


def test_another_count_of_cpus_is_said() -> None:
    result = merged(two_nodes(), Partial("node", "node.json", cpu_count=12))
    assert result.disagreements == ()
    (remark,) = result.remarks
    assert remark.file == "node.json"
    assert "12 CPUs, but 16 are online" in remark.message


def test_a_cpu_list_of_another_machine_disagrees() -> None:
    result = merged(
        two_nodes("hwloc", "a.xml"), two_nodes("cadvisor", "b.json", online=cpus("0-31"))
    )
    assert "online CPUs" in [d.fact for d in result.disagreements]


@pytest.mark.parametrize(
    ("partials", "message"),
    [
        ([], "which CPUs are online"),
        ([Partial("nvidia-smi topo", "t.txt", devices=(gpu(index=0),))], "t.txt (nvidia-smi topo)"),
        ([Partial("node", "n.yaml", cpu_count=8)], "which CPUs are online"),
        ([Partial("lscpu", "l.txt", online=cpus("0-7"))], "threads of one core"),
        (
            [Partial("lscpu", "l.txt", online=cpus("0-7"), cores=sets("0,4", "1,5"))],
            "one core; it is unknown for CPU 2-3,6-7",
        ),
    ],
)
def test_without_cpus_or_cores_it_is_refused_with_the_command(
    partials: list[Partial], message: str
) -> None:
    with pytest.raises(ReadError) as caught:
        merge(partials, name="n")
    assert message in caught.value.message
    for way in ("lscpu -p=cpu,online,core,socket,node,cache", "sys/devices/system", "--bundle"):
        assert way in caught.value.help


def test_the_highest_cache_of_each_cpu_counts_and_numbers_follow_cpus() -> None:
    part = Partial(
        "hwloc",
        "a.xml",
        online=cpus("0-5"),
        cores=sets("0", "1", "2", "3", "4", "5"),
        # Low-power cores 4-5 are outside the L3, and have an L2 together.
        llcs=(
            LlcPart(cpus("4-5"), 2),
            LlcPart(cpus("2-3"), 2),
            LlcPart(cpus("0-3"), 3),
            LlcPart(cpus("0-1"), 2),
        ),
    )
    spec = merged(part).facts.spec
    assert [(c.id, c.level, str(c.cpus)) for c in spec.llcs] == [(0, 3, "0-3"), (1, 2, "4-5")]


def test_caches_of_one_level_that_overlap_are_not_used() -> None:
    part = two_nodes(llcs=(LlcPart(cpus("0-7"), 3), LlcPart(cpus("7-15"), 3)))
    result = merged(part)
    assert result.facts.spec.llcs == ()
    assert "two L3 caches hold CPU 7" in said(result)


def test_dies_and_clusters_reach_the_groups() -> None:
    part = two_nodes(
        dies=((0, cpus("0-3,8-11")), (0, cpus("4-5,12-13")), (1, cpus("6-7,14-15"))),
        clusters=((5, cpus("0-1,8-9")),),
    )
    groups = merged(part).facts.spec.cores
    assert [(str(g.cpus), g.die, g.cluster) for g in groups] == [
        ("0-1,8-9", 0, 5),
        ("2-3,10-11", 0, None),
        ("4-5,12-13", 0, None),
        ("6-7,14-15", 1, None),
    ]


def test_kinds_from_the_best_source_with_names_from_another() -> None:
    fast, slow = cpus("0-3,8-11"), cpus("4-7,12-15")
    best = two_nodes(
        kinds=(
            KindPart("performance", fast, "midr", None, "cpu_capacity", 1024),
            KindPart("efficiency", slow, "midr", None, "cpu_capacity", 500),
        ),
        capacities={cpu: 1024 if cpu in fast else 500 for cpu in range(16)},
    )
    names = Partial(
        "sbc-bench",
        "b.txt",
        kinds=(
            KindPart("performance", fast, "midr", "Cortex-X925"),
            KindPart("efficiency", slow, "midr", "Cortex-A725"),
        ),
    )
    result = merged(names, best)
    assert [(k.name, k.model, k.value) for k in result.facts.spec.kinds] == [
        ("performance", "Cortex-X925", 1024),
        ("efficiency", "Cortex-A725", 500),
    ]
    assert {(g.kind, g.capacity) for g in result.facts.spec.cores} == {
        ("performance", 1024),
        ("efficiency", 500),
    }
    assert result.disagreements == ()
    other = replace(names, kinds=(KindPart("performance", slow, "midr"),))
    assert [d.fact for d in merged(best, other).disagreements] == ["kinds"]


def test_kinds_of_which_one_is_offline_are_one_kind() -> None:
    part = two_nodes(
        kinds=(
            KindPart("performance", cpus("0-15"), "pmu"),
            KindPart("lowpower", cpus("16-17"), "pmu"),
        )
    )
    spec = merged(part).facts.spec
    assert spec.kinds == ()
    assert {group.kind for group in spec.cores} == {"standard"}


def test_masks() -> None:
    result = merged(
        two_nodes(possible=cpus("0-31"), present=cpus("0-7"), isolated=cpus("6-7")),
        two_nodes("hwloc", "a.xml", present=cpus("0-15"), isolated=cpus("")),
    )
    masks = result.facts.spec.cpus
    assert (str(masks.possible), str(masks.present), str(masks.isolated)) == ("0-31", "0-15", "6-7")
    assert "present CPUs 0-7 lack the online CPU 8-15" in said(result)
    assert [d.fact for d in result.disagreements] == ["isolated CPUs"]


def test_allowed_cpus_of_a_tool_are_recorded_with_a_word() -> None:
    result = merged(two_nodes(), Partial("hwloc", "a.xml", allowed=cpus("0-3")))
    assert result.facts.spec.cpus.allowed == cpus("0-3")
    assert "leave it out if the limit is" in said(result)
    assert merged(two_nodes(allowed=cpus("0-99"))).facts.spec.cpus.allowed is None
    assert merged(two_nodes(allowed=cpus("70"))).facts.spec.cpus.allowed is None


# --- NUMA --------------------------------------------------------------------------------------


def test_each_fact_of_a_node_comes_from_who_knows_it() -> None:
    bare = two_nodes(numa=(NumaPart(0, cpus("0-3,8-11")), NumaPart(1, cpus("4-7,12-15"))))
    rich = two_nodes("hwloc", "a.xml")
    result = merged(bare, rich)
    assert [(n.memory_mib, n.distances) for n in result.facts.spec.numa] == [
        (4096, (10, 21)),
        (4096, (21, 10)),
    ]
    assert result.disagreements == ()


def test_nodes_without_cpus_keep_their_ids_and_get_their_role() -> None:
    nodes = two_nodes().numa or ()
    part = two_nodes(
        numa=(
            *nodes,
            NumaPart(2, cpus(""), 97871),
            NumaPart(10, cpus(""), 97871),
            NumaPart(18, cpus("")),
        ),
        devices=(gpu(GPU0, numa=(0,), memory_node=10),),
    )
    spec = merged(part).facts.spec
    assert [(n.id, n.role) for n in spec.numa] == [
        (0, "cpu"),
        (1, "cpu"),
        (2, "memory"),
        (10, "gpu-memory"),
        (18, "unknown"),
    ]
    assert {n.distances for n in spec.numa} == {()}  # not to all nodes, so not at all


def test_node_contradictions_are_said_once_a_source() -> None:
    swapped = two_nodes(
        "lscpu", "l.csv", numa=(NumaPart(0, cpus("0-7")), NumaPart(1, cpus("8-15")))
    )
    extra = Partial("nccl", "n.xml", numa=(NumaPart(5, cpus("")),))
    result = merged(two_nodes(), swapped, extra)
    assert [(d.fact, d.loser.reader) for d in result.disagreements] == [
        ("numa", "nccl"),
        ("numa", "lscpu"),
    ]
    assert [node.id for node in result.facts.spec.numa] == [0, 1]


def test_a_cpu_that_two_nodes_claim_is_of_the_lower() -> None:
    part = two_nodes(numa=(NumaPart(1, cpus("0-3,8-11")), NumaPart(2, cpus("3-7,8-15"))))
    spec = merged(part).facts.spec
    assert {str(g.cpus): g.numa for g in spec.cores}["2-3,10-11"] == 1
    assert [str(node.cpus) for node in spec.numa] == ["0-3,8-11", "3-15"]


def test_zones_without_cpus_are_no_nodes() -> None:
    part = two_nodes("lscpu", "l.csv", numa=None)
    zones = Partial("nrt", "nrt.yaml", numa=(NumaPart(0, None, 4096), NumaPart(1, None, 4096)))
    result = merged(part, zones)
    assert result.facts.spec.numa == ()
    assert "NUMA is unknown" in said(result)


# --- devices: which is which -------------------------------------------------------------------


def topo(*devices: DevicePart, links: tuple[LinkPart, ...] = ()) -> Partial:
    return Partial("nvidia-smi topo", "topo.txt", devices=devices, links=links)


def on_two(*devices: DevicePart) -> Partial:
    return two_nodes(devices=devices)


def test_one_gpu_under_all_its_names() -> None:
    query = Partial(
        "nvidia-smi -q",
        "q.xml",
        devices=(
            gpu(GPU0, uuid="GPU-a", index=0, model="H100 PCIe"),
            gpu(GPU1, uuid="GPU-b", index=1, model="H100 PCIe"),
            gpu(uuid="MIG-2", parent_uuid="GPU-b", model="1g.10gb"),
            gpu(uuid="MIG-1", parent_uuid="GPU-b", model="2g.20gb"),
        ),
    )
    nics = Partial("nccl", "n.xml", devices=(DevicePart("nic", names=("mlx5_0",), numa=(0,)),))
    result = merged(
        on_two(
            gpu(GPU1, model="10de:2331", numa=(1,), pcie_root="pci0000:b0"),
            gpu(GPU0, model="10de:2331", numa=(0,)),
            DevicePart("nic", bdf="0000:4b:00.0", names=("eth0", "mlx5_0"), numa=(0,)),
        ),
        query,
        nics,
        topo(
            gpu(index=0, numa=(0,)),
            gpu(index=1, numa=(1,)),
            DevicePart("nic", names=("mlx5_0",)),
            links=(LinkPart(0, 1, "NV12"), LinkPart(2, 0, "PXB"), LinkPart(1, 2, "SYS")),
        ),
    )
    spec = result.facts.spec
    assert result.disagreements == ()
    assert spec.warnings == ()
    assert [(d.id, d.bdf, d.uuid, d.index, d.model, d.parent) for d in spec.devices] == [
        ("gpu0", GPU0, "GPU-a", 0, "H100 PCIe", None),
        ("gpu1", GPU1, "GPU-b", 1, "H100 PCIe", None),
        ("gpu1-mig0", None, "MIG-2", None, "1g.10gb", "gpu1"),
        ("gpu1-mig1", None, "MIG-1", None, "2g.20gb", "gpu1"),
        ("nic0", "0000:4b:00.0", None, None, None, None),
    ]
    assert spec.devices[1].pcie_root == "pci0000:b0"
    assert place(spec.devices[2]) == place(spec.devices[1]) == (1, "4-7,12-15", "numa", "measured")
    assert spec.devices[4].names == ("eth0", "mlx5_0")
    assert [(link.a, link.b, link.kind) for link in spec.links] == [
        ("gpu0", "gpu1", "NV12"),
        ("gpu0", "nic0", "PXB"),
        ("gpu1", "nic0", "SYS"),
    ]


def test_numbers_follow_the_order_of_addresses_where_counts_are_equal() -> None:
    addresses = ["0000:e1:00.0", "0000:0a:00.0", "10000:01:00.0"]
    result = merged(
        on_two(*(gpu(bdf, numa=(0,)) for bdf in addresses)),
        topo(gpu(index=2, numa=(0,)), gpu(index=0, numa=(0,)), gpu(index=1, numa=(0,))),
    )
    assert [(d.bdf, d.index) for d in result.facts.spec.devices] == [
        ("0000:0a:00.0", 0),
        ("0000:e1:00.0", 1),
        ("10000:01:00.0", 2),
    ]


def test_another_number_of_gpus_is_dropped_with_a_word() -> None:
    result = merged(on_two(gpu(GPU0, numa=(0,)), gpu(GPU1, numa=(1,))), topo(gpu(index=0)))
    assert [(d.bdf, d.index) for d in result.facts.spec.devices] == [(GPU0, None), (GPU1, None)]
    assert "1 NVIDIA GPUs by number, and other sources have 2" in said(result)


def test_a_known_number_matches_whatever_the_count() -> None:
    query = Partial(
        "nvidia-smi -q",
        "q.xml",
        devices=(gpu(GPU0, index=3), gpu(GPU1, index=1)),
    )
    result = merged(two_nodes(), query, topo(gpu(index=1, numa=(1,)), gpu(index=7, numa=(0,))))
    assert [(d.bdf, d.index, d.numa) for d in result.facts.spec.devices] == [
        (GPU0, 3, None),
        (GPU1, 1, 1),
    ]
    assert "NVIDIA GPU 7 is not among those of other sources" in said(result)


def test_numbers_of_two_vendors_do_not_mix() -> None:
    rocm = Partial("rocm-smi", "r.txt", devices=(gpu(index=0, vendor=AMD, numa=(1,)),))
    result = merged(on_two(gpu(GPU0, numa=(0,))), rocm, topo(gpu(index=0, numa=(0,))))
    assert [(d.vendor, d.bdf, d.index, d.numa) for d in result.facts.spec.devices] == [
        (NVIDIA, GPU0, 0, 0),
        (AMD, None, 0, 1),
    ]


def test_an_instance_of_a_gpu_that_no_source_has_is_left_out() -> None:
    query = Partial("nvidia-smi -q", "q", devices=(gpu(uuid="MIG-1", parent_uuid="GPU-x"),))
    result = merged(two_nodes(), query)
    assert result.facts.spec.devices == ()
    assert "MIG-1 is an instance of GPU GPU-x" in said(result)


def test_different_uuids_of_one_address_disagree() -> None:
    query = Partial("nvidia-smi -q", "q.xml", devices=(gpu(GPU0, uuid="GPU-b"),))
    result = merged(on_two(gpu(GPU0, uuid="GPU-a", numa=(0,))), query)
    assert result.facts.spec.devices[0].uuid == "GPU-a"
    assert [d.fact for d in result.disagreements] == ["gpu0 uuid"]


def test_an_address_and_a_uuid_that_a_third_source_ties_together() -> None:
    slices = Partial("dra", "d.yaml", devices=(gpu(GPU0, uuid="GPU-a"),))
    numbered = Partial("nvml", "nvml", devices=(gpu(uuid="GPU-a", index=4),))
    result = merged(on_two(gpu(GPU0, numa=(0,))), numbered, slices)
    assert [(d.bdf, d.uuid, d.index) for d in result.facts.spec.devices] == [(GPU0, "GPU-a", 4)]


def test_nameless_nics_are_kept_only_where_no_other_source_has_nics() -> None:
    nics = (DevicePart("nic", index=0, numa=(1,)), DevicePart("nic", index=1))
    spec = merged(two_nodes(), topo(gpu(index=0, numa=(0,)), *nics)).facts.spec
    assert [(d.id, d.numa) for d in spec.devices] == [("gpu0", 0), ("nic0", 1), ("nic1", None)]
    known = DevicePart("nic", bdf="0000:4b:00.0", numa=(0,))
    result = merged(on_two(known), topo(gpu(index=0, numa=(0,)), *nics))
    assert [d.id for d in result.facts.spec.devices] == ["gpu0", "nic0"]
    assert "network devices without a name" in said(result)


def test_links_that_differ_or_are_of_no_kind() -> None:
    two = (gpu(GPU0, numa=(0,)), gpu(GPU1, numa=(1,)))
    result = merged(
        replace(on_two(*two), links=(LinkPart(1, 0, "SYS"), LinkPart(0, 0, "PIX"))),
        topo(gpu(index=0), gpu(index=1), links=(LinkPart(0, 1, "NODE"),)),
        Partial("hwloc", "h", devices=two, links=(LinkPart(0, 1, "warp"),)),
    )
    assert [(x.a, x.b, x.kind) for x in result.facts.spec.links] == [("gpu0", "gpu1", "SYS")]
    assert [d.fact for d in result.disagreements] == ["link of gpu0 and gpu1"]
    assert "'warp', which is not known" in said(result)


# --- devices: where they are -------------------------------------------------------------------


def near(*partials: Partial) -> tuple[tuple[int | None, str | None, str, str], str]:
    result = merged(*partials)
    (device,) = result.facts.spec.devices
    return place(device), said(result)


def test_a_node_with_cpus_is_measured() -> None:
    assert near(on_two(gpu(GPU0, numa=(1,)))) == ((1, "4-7,12-15", "numa", "measured"), "")


def test_unknown_is_never_node_0() -> None:
    found, words = near(on_two(gpu(GPU0)))
    assert found == (None, None, "unknown", "unknown")
    assert "which CPUs are near is unknown" in words
    # The kernel's list for -1 names all CPUs, and tells as little.
    assert near(on_two(gpu(GPU0, cpus=cpus("0-15"))))[0] == found


def test_unknown_where_one_node_has_cpus_can_only_be_that_one() -> None:
    one = (NumaPart(4, cpus("0-15")), NumaPart(5, cpus("")))
    part = two_nodes(numa=one, devices=(gpu(GPU0),))
    assert near(part) == ((4, "0-15", "machine", "inferred"), "")


def test_without_numa_a_list_of_all_cpus_is_the_machine() -> None:
    flat = two_nodes(numa=None, devices=(gpu(GPU0, cpus=cpus("0-15")),))
    assert near(flat) == ((None, "0-15", "machine", "inferred"), "")


def test_a_truncated_list_loses_against_its_node() -> None:
    """nvidia-smi topo -m prints 0,2,4,... of a node with many CPUs."""
    even, odd = cpus("0-30:1/2"), cpus("1-31:1/2")
    part = Partial(
        "lscpu",
        "l.csv",
        online=cpus("0-31"),
        cores=sets(*map(str, range(32))),
        numa=(NumaPart(0, even), NumaPart(1, odd)),
    )
    cut = cpus("1,3,5,7,9,11")
    found, words = near(part, topo(gpu(index=0, numa=(1,), cpus=cut, confidence="suspect")))
    assert found == (1, str(odd), "numa", "measured")
    assert "local CPUs are only 1,3,5,7,9,11; the node counts" in words
    # An old driver prints no NUMA column: the list lies within one node only.
    found, words = near(part, topo(gpu(index=0, cpus=cut, confidence="suspect")))
    assert found == (1, str(odd), "numa", "inferred")
    assert "the node counts" in words


def test_a_list_without_any_numa_knowledge_is_suspect_if_it_looks_truncated() -> None:
    flat = two_nodes(numa=None)
    found, words = near(flat, topo(gpu(index=0, cpus=cpus("0,2,4,6,8,10"))))
    assert found == (None, "0,2,4,6,8,10", "unknown", "suspect")
    assert "looks like a shortened list" in words
    found, words = near(flat, topo(gpu(index=0, cpus=cpus("0-3,8-11"))))
    assert found == (None, "0-3,8-11", "package", "measured")
    assert words == ""


@pytest.mark.parametrize(
    ("text", "truncated"),
    [
        ("0,2,4,6,8,10", True),
        ("1,5,9", True),
        ("0,4", True),
        ("0,1,2,3,4,5", False),
        ("0,2,4,6,8,11", False),
        ("0,2,4,6,8,10,12", False),
        ("7", False),
        ("", False),
    ],
)
def test_what_looks_truncated(text: str, truncated: bool) -> None:
    assert looks_truncated(cpus(text)) is truncated


def test_local_cpus_of_sysfs_are_no_second_witness() -> None:
    found, words = near(on_two(gpu(GPU0, numa=(1,), cpus=cpus("0-3,8-11"))))
    assert found == (1, "4-7,12-15", "numa", "measured")
    assert "local CPUs are 0-3,8-11; the node counts" in words


def test_one_l3_of_the_node_is_finer_and_wins() -> None:
    hwloc = Partial("hwloc", "a.xml", devices=(gpu(GPU0, numa=(1,), cpus=cpus("6-7,14-15")),))
    assert near(on_two(gpu(GPU0, numa=(1,))), hwloc) == ((1, "6-7,14-15", "llc", "measured"), "")


def test_a_part_of_a_node_that_is_no_cache_loses() -> None:
    hwloc = Partial("hwloc", "a.xml", devices=(gpu(GPU0, numa=(1,), cpus=cpus("6,14-15")),))
    found, words = near(on_two(gpu(GPU0, numa=(1,))), hwloc)
    assert found == (1, "4-7,12-15", "numa", "measured")
    assert "local CPUs are only 6,14-15; the node counts" in words


def test_one_l3_that_nvidia_smi_prints_is_taken_for_a_cut_list() -> None:
    """Its list is made from the node: if it is a part of it, the tool's cgroup cut it."""
    short = topo(gpu(index=0, numa=(1,), cpus=cpus("6-7,14-15")))
    assert near(on_two(gpu(GPU0, numa=(1,))), short)[0] == (1, "4-7,12-15", "numa", "measured")


def test_a_place_seen_from_a_cgroup_is_the_node() -> None:
    view = Partial(
        "hwloc",
        "a.xml",
        online=cpus("4-5"),
        cores=sets("4", "5"),
        devices=(gpu(GPU0, numa=(1,), cpus=cpus("4-5")),),
    )
    assert near(on_two(gpu(GPU0, numa=(1,))), view) == ((1, "4-7,12-15", "numa", "measured"), "")


def test_hwloc_that_knows_the_package_only_does_not_contradict() -> None:
    fine = (
        NumaPart(0, cpus("0-1,8-9")),
        NumaPart(1, cpus("2-3,10-11")),
        NumaPart(2, cpus("4-7,12-15")),
    )
    hwloc = Partial("hwloc", "a.xml", devices=(gpu(GPU0, numa=(0, 1), cpus=cpus("0-3,8-11")),))
    found = near(two_nodes(numa=fine, devices=(gpu(GPU0, numa=(1,)),)), hwloc)
    assert found == ((1, "2-3,10-11", "numa", "measured"), "")
    found = near(two_nodes(numa=fine), hwloc)
    assert found == ((None, "0-3,8-11", "package", "measured"), "")


def test_a_gpu_between_all_nodes_gives_no_locality() -> None:
    """Case C01: the NUMA column says 0-1."""
    result = merged(
        two_nodes(),
        topo(*(gpu(index=n, numa=(0, 1), cpus=cpus("0-15")) for n in range(2))),
    )
    assert [place(d) for d in result.facts.spec.devices] == [
        (None, "0-15", "machine", "measured"),
        (None, "0-15", "machine", "measured"),
    ]
    (words,) = result.facts.spec.warnings
    assert words.startswith("gpu0, gpu1: near NUMA nodes 0, 1, which have all CPUs")
    assert "no locality information" in words


GRACE = (
    NumaPart(0, CpuSet(range(8))),
    NumaPart(1, CpuSet(range(8, 16))),
    *(NumaPart(n, CpuSet(), 98304) for n in (2, 10, 18, 26)),
)


def test_a_gpu_on_a_node_of_memory_only() -> None:
    """Case C04: the driver names the memory's node; the CPUs come from the list."""
    part = two_nodes(numa=GRACE)
    printed = topo(
        gpu(index=0, numa=(2,), cpus=cpus("0-7")), gpu(index=1, numa=(18,), cpus=cpus("8-15"))
    )
    spec = merged(part, printed).facts.spec
    assert [place(d) for d in spec.devices] == [
        (2, "0-7", "numa", "measured"),
        (18, "8-15", "numa", "measured"),
    ]
    assert [node.id for node in spec.numa] == [0, 1, 2, 10, 18, 26]
    # Without a list it is unknown, whatever the distances.
    found, words = near(two_nodes(numa=GRACE, devices=(gpu(GPU0, numa=(2,)),)))
    assert found == (2, None, "unknown", "unknown")
    assert "node 2, which has no CPUs" in words
    # Another source that names the node with the CPUs is no contradiction.
    found, words = near(
        two_nodes(numa=GRACE, devices=(gpu(GPU0, numa=(2,)),)),
        topo(gpu(index=0, numa=(0, 2, 10), cpus=cpus("0-7"), memory_node=2)),
    )
    assert found == (0, "0-7", "numa", "measured")
    assert words == ""


def test_a_node_that_is_not_there() -> None:
    found, words = near(on_two(gpu(GPU0, numa=(5,))))
    assert found == (None, None, "unknown", "unknown")
    assert "on node 5, but there is no such node" in words
    found, words = near(two_nodes(numa=None), topo(gpu(index=0, numa=(1,), cpus=cpus("4-7,12-15"))))
    assert found == (None, "4-7,12-15", "package", "measured")
    assert "no source tells the nodes" in words


def test_sources_that_put_a_device_on_different_nodes() -> None:
    result = merged(on_two(gpu(GPU0, numa=(1,))), topo(gpu(index=0, numa=(0,))))
    assert result.facts.spec.devices[0].numa == 1
    assert [d.fact for d in result.disagreements] == [f"gpu0 ({GPU0}) numa"]


# --- the rest ----------------------------------------------------------------------------------


def test_kernel_kubelet_and_virtualization_field_by_field() -> None:
    first = two_nodes(
        kernel=Kernel(release="6.8", cgroup="v2"),
        kubelet=Kubelet(present=False),
        virtualization=Virtualization(vm=True),
    )
    second = Partial("node", "n.yaml", kernel=Kernel(release="6.5", btf=True))
    third = Partial("kubelet", "state", kubelet=Kubelet(present=True, policy="static"))
    result = merged(third, second, first)
    spec = result.facts.spec
    assert (spec.kernel.release, spec.kernel.cgroup, spec.kernel.btf) == ("6.8", "v2", True)
    assert spec.kubelet == Kubelet(present=True, policy="static")
    assert spec.virtualization.vm is True
    assert sorted(d.fact for d in result.disagreements) == ["kernel release", "kubelet"]
    assert merged(two_nodes(kubelet=Kubelet(present=False))).facts.spec.kubelet == Kubelet(
        present=False
    )


def test_labels_that_kubernetes_would_refuse_are_left_out() -> None:
    part = two_nodes(labels={"zone": "a", "bad key": "x", "long": "v" * 64})
    result = merged(part, Partial("labels", "l.json", labels={"zone": "b", "arch/x": ""}))
    assert dict(result.facts.metadata.labels) == {"arch/x": "", "zone": "a"}
    assert "'bad key'" in said(result)
    assert [d.fact for d in result.disagreements] == ["label zone"]


@pytest.mark.parametrize("name", ["", "A", "a_b", "a..b", "x" * 64, "a\nb"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(ReadError, match="not a node name"):
        merge([two_nodes()], name=name)


def test_the_name_comes_from_the_sources_or_must_be_given() -> None:
    assert merge([two_nodes(node="a")], name=None).facts.metadata.name == "a"
    assert merge([two_nodes(node="a")], name="b").facts.metadata.name == "b"
    with pytest.raises(ReadError, match="names the node"):
        merge([two_nodes()], name=None)


def test_warnings_are_bounded_and_name_their_file() -> None:
    notes = tuple(Note(f"odd {n}", n) for n in range(1, 101))
    warnings = merged(two_nodes("hwloc", "dir/a.xml", notes=notes)).facts.spec.warnings
    assert warnings[0] == "a.xml:1: odd 1"
    assert warnings[-1] == "36 more warnings are left out"
    assert len(warnings) == 65


def test_values_of_messages_are_harmless() -> None:
    part = Partial("lscpu", "l\x1b[2J.txt", kernel=Kernel(release="6\x1b[31m" + "9" * 500))
    result = merged(two_nodes(kernel=Kernel(release="5")), part)
    (found,) = result.disagreements
    assert found.loser.value.isprintable()
    assert len(found.loser.value) <= 160


# --- NodeFacts documents as a source -----------------------------------------------------------

EVERYTHING = (
    two_nodes(
        node="n",
        arch="x86_64",
        labels={"zone": "a"},
        possible=cpus("0-31"),
        isolated=cpus(""),
        dies=((0, cpus("0-3,8-11")), (0, cpus("4-7,12-15"))),
        kinds=(
            KindPart("performance", cpus("0-3,8-11"), "midr", "X", "cpu_capacity", 1024),
            KindPart("efficiency", cpus("4-7,12-15"), "midr", "A", "cpu_capacity", 512),
        ),
        capacities=dict.fromkeys(range(16), 1024),
        devices=(
            gpu(GPU0, numa=(0,), pcie_root="pci0000:16"),
            gpu(GPU1, numa=(1,), uuid="GPU-b"),
            DevicePart("nic", bdf="0000:4b:00.0", names=("eth0",)),
        ),
        kernel=Kernel(release="6.8"),
        kubelet=Kubelet(present=True, policy="static", reserved=cpus("0")),
        virtualization=Virtualization(vm=False),
        notes=(Note("/sys/x: odd"),),
    ),
    Partial(
        "hwloc",
        "a.xml",
        allowed=cpus("0-7"),
        devices=(gpu(GPU0, numa=(0,), cpus=cpus("2-3,10-11")),),
    ),
    Partial(
        "nvidia-smi -q", "q.xml", devices=(gpu(uuid="MIG-1", parent_uuid="GPU-b", model="1g"),)
    ),
    topo(gpu(index=0, numa=(0,)), gpu(index=1, numa=(0,)), links=(LinkPart(0, 1, "NODE"),)),
)


def test_facts_read_back_are_the_same_facts() -> None:
    once = merge(EVERYTHING, name=None)
    text = facts_yaml(once.facts)
    assert FORMAT.sniff(text)
    again = merge(FORMAT.read(Text("dir/n.yaml", text)), name=None)
    assert again.facts == once.facts
    assert facts_yaml(again.facts) == text
    # What was concluded from several sources stands: one L3, finer than the node.
    assert place(again.facts.spec.devices[0]) == (0, "2-3,10-11", "llc", "measured")


def test_a_source_added_to_facts_fills_in() -> None:
    text = facts_yaml(merge([on_two(gpu(GPU0, numa=(1,)))], name="n").facts)
    query = Partial("nvidia-smi -q", "q.xml", devices=(gpu(GPU0, uuid="GPU-a", index=0),))
    result = merge([query, *FORMAT.read(Text("n.yaml", text))], name=None)
    (device,) = result.facts.spec.devices
    assert (device.uuid, device.index, device.numa) == ("GPU-a", 0, 1)
    assert [s.reader for s in result.facts.spec.sources] == ["sysfs", "nvidia-smi -q"]


def test_facts_without_sources_rank_last() -> None:
    facts = merge([two_nodes()], name="n").facts
    bare = facts.model_copy(update={"spec": facts.spec.model_copy(update={"sources": ()})})
    partials = FORMAT.read(Text("n.yaml", facts_yaml(bare)))
    assert [one.reader for one in partials] == ["document"]
    other = two_nodes("cadvisor", "m.json", cores=sets(*map(str, range(16))))
    assert len(merge([*partials, other], name=None).facts.spec.cores[0].smt) == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [(("online: 0-15", "online: 15-0"), 7), (("kind: NodeFacts", "kind: NodeFacts\nmore: 1"), 3)],
)
def test_a_document_with_an_error_is_refused_at_its_line(
    change: tuple[str, str], line: int
) -> None:
    text = facts_yaml(merge([two_nodes()], name="n").facts).replace(*change)
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("n.yaml", text))
    assert caught.value.line == line


def test_other_documents_are_not_taken_for_node_facts() -> None:
    assert not FORMAT.sniff("apiVersion: v1\nkind: Node\n")
    assert not FORMAT.sniff("apiVersion: tierc.dev/v1alpha1\nkind: Intent\n")
    assert not FORMAT.sniff("a log that says kind: NodeFacts and apiVersion: tierc.dev/v1alpha1\n")
    text = facts_yaml(merge([two_nodes()], name="n").facts)
    other = "---\napiVersion: tierc.dev/v1alpha1\nkind: Project\nmetadata: {name: p}\nspec: {}\n"
    with pytest.raises(ReadError, match="not NodeFacts"):
        FORMAT.read(Text("x.yaml", text + other))


# --- properties --------------------------------------------------------------------------------


@st.composite
def sources(draw: st.DrawFn) -> list[Partial]:
    """Sources of one or of different machines: what they say may contradict itself."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        count = draw(st.integers(1, 8))
        online = CpuSet(range(count))
        pair = draw(st.booleans()) and count % 2 == 0
        half = count // 2
        cores = (
            tuple(CpuSet((n, n + half)) for n in range(half))
            if pair
            else tuple(CpuSet((n,)) for n in range(count))
        )
        cut = draw(st.integers(0, count))
        numa = (NumaPart(0, CpuSet(range(cut))), NumaPart(3, CpuSet(range(cut, count))))
        devices = tuple(
            gpu(
                draw(st.sampled_from([None, GPU0, GPU1])) if number else GPU0,
                index=draw(st.none() | st.integers(0, 2)),
                uuid=draw(st.sampled_from([None, "GPU-a", "GPU-b"])),
                numa=draw(st.sampled_from([(), (0,), (3,), (0, 3), (7,)])),
                cpus=draw(st.none() | st.sets(st.integers(0, 9)).map(CpuSet)),
            )
            for _ in range(draw(st.integers(0, 3)))
        )
        found.append(
            Partial(
                draw(st.sampled_from(READERS)),
                draw(st.sampled_from(["a", "b"])),
                online=online,
                cores=cores,
                llcs=draw(st.sampled_from([None, (LlcPart(online, 3),), (LlcPart(cores[0], 2),)])),
                numa=draw(st.sampled_from([None, numa])),
                devices=devices,
                links=(LinkPart(0, 1, "NV4"),) if len(devices) > 1 else (),
            )
        )
    return found


def outcome(partials: list[Partial]) -> Merged | str:
    try:
        return merge(partials, name="n")
    except ReadError as error:  # contradictions can leave CPUs without a core
        return error.message


@given(sources(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_sources_changes_nothing(partials: list[Partial], random: Any) -> None:
    expected = outcome(partials)
    shuffled = list(partials)
    random.shuffle(shuffled)
    result = outcome(shuffled)
    assert result == expected
    if isinstance(result, Merged) and isinstance(expected, Merged):
        assert facts_yaml(result.facts) == facts_yaml(expected.facts)


@given(sources())
@settings(max_examples=60)
def test_whatever_sources_say_the_facts_can_be_read_again(partials: list[Partial]) -> None:
    result = outcome(partials)
    if isinstance(result, str):
        assert "threads of one core" in result
        return
    facts = result.facts
    online = facts.spec.cpus.online
    assert all(d.locality.cpus is None or d.locality.cpus <= online for d in facts.spec.devices)
    again = merge(FORMAT.read(Text("n.yaml", facts_yaml(facts))), name=None).facts
    assert again.spec.cores == facts.spec.cores
    assert again.spec.numa == facts.spec.numa
    assert [(d.bdf, place(d)) for d in again.spec.devices] == [
        (d.bdf, place(d)) for d in facts.spec.devices
    ]


@given(st.sets(st.sampled_from(["hwloc", "lscpu", "cadvisor", "nccl"]), min_size=1))
@settings(max_examples=15)
def test_a_machine_agrees_with_itself(readers: set[str]) -> None:
    part = replace(EVERYTHING[0], notes=())
    others = [replace(part, reader=reader, file=reader) for reader in sorted(readers)]
    result = merge([*others, part], name=None)
    assert result.disagreements == ()
    alone = merge([part], name=None).facts
    ignored = {"sources": ()}
    assert result.facts.spec.model_copy(update=ignored) == alone.spec.model_copy(update=ignored)
