"""Devices of several sources: which is which, and where they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.merge.place import looks_truncated
from compiler.facts.partial import (
    DevicePart,
    LinkPart,
    NumaPart,
    Partial,
)
from tests.merge_parts import (
    AMD,
    GPU0,
    GPU1,
    NVIDIA,
    cpus,
    gpu,
    merged,
    on_two,
    place,
    said,
    sets,
    topo,
    two_nodes,
)

# --- devices: which is which -------------------------------------------------------------------


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
