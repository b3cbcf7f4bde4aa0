"""hwloc XML of versions 1 to 3: CPUs, cores, caches and nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import MAX_CPUS, CpuSet
from compiler.facts.formats.hwloc_tree import cut, read_mask
from compiler.facts.formats.xml import Element
from compiler.facts.partial import DevicePart, LlcPart, NumaPart
from tests.hwloc_xml import (
    FIXTURES,
    core,
    cpus,
    info,
    notes,
    numa,
    obj,
    pu,
    read,
    refused,
    topology,
)

# --- one machine in three versions -----------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_one_machine_has_the_same_facts_in_every_version(version: str) -> None:
    partial = read((FIXTURES / f"{version}.xml").read_text())
    even, odd = cpus("0,2,4,6"), cpus("1,3,5,7")
    assert partial.reader == "hwloc"
    assert partial.file == "f.xml"
    assert partial.node == "node-7.example.org"
    assert partial.arch == "x86_64"
    assert partial.kernel is not None
    assert partial.kernel.release == "3.10.0-1"
    assert partial.online == partial.present == cpus("0-7")
    assert partial.allowed is None
    assert partial.possible is None
    assert partial.cores == (cpus("0,4"), cpus("1,5"), cpus("2,6"), cpus("3,7"))
    assert partial.packages == ((0, even), (1, odd))
    assert partial.dies is None
    assert partial.clusters is None
    assert partial.llcs == (LlcPart(even, 3, 12288), LlcPart(odd, 3, 12288))
    assert partial.numa == (
        NumaPart(0, even, 8192, {0: 10, 1: 21}),
        NumaPart(1, odd, 8192, {0: 21, 1: 10}),
    )
    assert partial.kinds is None
    assert partial.devices == (
        DevicePart(
            type="gpu",
            bdf="0000:3b:00.0",
            uuid="GPU-11111111-2222-3333-4444-555555555555",
            index=0,
            vendor="10de",
            model="NVIDIA A100-SXM4-40GB",
            pcie_root="pci0000:3a",
            numa=(0,),
            cpus=even,
        ),
        DevicePart(
            type="nic",
            bdf="0000:af:00.0",
            vendor="15b3",
            model="15b3:101b",
            names=("ib0", "mlx5_0"),
            pcie_root="pci0000:ae",
            numa=(1,),
            cpus=odd,
        ),
        # At the machine: hwloc does not know where, and there are two places.
        DevicePart(
            type="nic",
            bdf="0000:01:00.0",
            vendor="8086",
            model="8086:1521",
            names=("eno1",),
            pcie_root="pci0000:00",
            confidence="unknown",
        ),
    )
    assert partial.links == ()
    assert partial.notes == ()


# --- which CPUs there are --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x0", ""),
        ("0x00000005", "0,2"),
        ("0x1,,0x80000000", "31,64"),
        ("0xff000000,,0xff000000", "24-31,88-95"),
        ("0x3,0x0", "32-33"),
        ("0xf...f", "0-9"),
        ("0xf...f,0x000000fc", "2-7"),
    ],
)
def test_masks(text: str, expected: str) -> None:
    element = Element("object", {"cpuset": text}, 1)
    online = cpus("0-9") if "..." in text else None
    mask = read_mask(element, "cpuset")
    assert cut(mask, online) == (cpus(expected) if "fc" not in text else cpus("2-7"))
    if "..." in text:
        assert cut(mask, None) is None
    assert read_mask(element, "other") is None


@pytest.mark.parametrize("text", ["", "0x", "0xg", "0x123456789", "0x1,0x,", "1-3", "0xf...f0"])
def test_a_malformed_mask_is_refused(text: str) -> None:
    error = refused(
        f'<topology version="2.0">\n<object type="Machine" cpuset="{text}"/></topology>'
    )
    assert error.line == 2
    assert "cpuset" in error.message


def test_a_mask_of_a_cpu_out_of_bounds_is_refused() -> None:
    words = ",".join(["0x1"] + ["0x0"] * (MAX_CPUS // 32))
    for text in (words, words + ",0x0" * 500_000):
        error = refused(
            f'<topology version="2.0"><object type="Machine" cpuset="{text}"/></topology>'
        )
        assert "outside 0-8191" in error.message or "not a 32-bit word" in error.message


@given(st.sets(st.integers(0, 200), max_size=20), st.booleans())
@settings(max_examples=50)
def test_a_mask_says_what_was_written(numbers: set[int], padded: bool) -> None:
    words = list(reversed(CpuSet(numbers).words(32, 7)))
    text = ",".join(f"0x{word:08x}" if word or padded else "" for word in words[:-1])
    text += f",0x{words[-1]:x}"
    assert cut(read_mask(Element("o", {"cpuset": text}, 1), "cpuset"), None) == CpuSet(numbers)


def test_a_cpu_without_a_pu_is_not_online_and_says_so() -> None:
    partial = read(topology(core(0), core(2), mask=0x5, complete_cpuset="0x0000000f"))
    assert partial.online == cpus("0,2")
    assert partial.present == cpus("0-3")
    assert "CPU 1,3 is not in the file" in notes(partial)


def test_what_the_cgroup_allows_is_kept_apart_from_what_is_online() -> None:
    text = topology(core(0, 1), core(2, 3), allowed_cpuset="0x00000003")
    partial = read(text)
    assert partial.online == cpus("0-3")
    assert partial.allowed == cpus("0-1")
    assert read(text.replace("0x00000003", "0x0000000f")).allowed is None
    assert read(text.replace("0x00000003", "0xf...f")).allowed is None


def test_version_1_tells_offline_from_hidden() -> None:
    text = topology(
        core(0),
        core(1),
        mask=0x3,
        complete_cpuset="0x0000000f",
        online_cpuset="0x00000007",
        allowed_cpuset="0x00000003",
    ).replace(' version="2.0"', "")
    partial = read(text)
    assert partial.online == cpus("0-1")
    assert partial.allowed == cpus("0-1")
    assert "CPU 2 is online but not in the file" in notes(partial)
    # The "whole system" has objects for CPUs that are offline.
    whole = read(text.replace("0x00000007", "0x00000001"))
    assert whole.online == cpus("0")
    assert whole.cores == (cpus("0"),)


def test_an_export_without_pus_gives_what_it_has() -> None:
    partial = read(
        topology(
            obj("Package", 0x3, numa(0, 0x3), os_index=0),
            obj("Package", 0xC, numa(1, 0xC), os_index=1),
        )
    )
    assert partial.online is None
    assert partial.cores is None
    assert partial.present == cpus("0-3")
    assert partial.packages == ((0, cpus("0-1")), (1, cpus("2-3")))
    assert partial.numa is not None
    assert [node.cpus for node in partial.numa] == [cpus("0-1"), cpus("2-3")]
    assert "no PU objects" in notes(partial)


# --- cores, groups, caches -------------------------------------------------------------------


def test_without_core_objects_cores_are_unknown() -> None:
    assert read(topology(pu(0, 1, 2, 3))).cores is None


def test_packages_dies_and_clusters() -> None:
    partial = read(
        topology(
            obj(
                "Package",
                0xF,
                obj("Die", 0x3, obj("Group", 0x3, core(0), core(1), os_index=8, subtype="Cluster")),
                obj("Group", 0xC, core(2), core(3), os_index=1, kind=1001),
                os_index=36,
            ),
        )
    )
    assert partial.packages == ((36, cpus("0-3")),)
    assert partial.dies is None  # without a number
    assert partial.clusters == ((8, cpus("0-1")),)


@pytest.mark.parametrize("index", ["-1", "4294967295", ""])
def test_a_package_without_a_number_is_unknown(index: str) -> None:
    assert read(topology(obj("Package", 0xF, core(0, 1, 2, 3), os_index=index))).packages is None


def test_the_last_level_is_found_for_every_cpu_and_is_not_for_instructions() -> None:
    partial = read(
        topology(
            obj("L3Cache", 0x3, core(0), core(1), cache_size=8 << 20),
            obj("L2Cache", 0x4, core(2), cache_size=0),
            obj("L4iCache", 0x8, core(3), cache_size=1024),
            obj("MemCache", 0xF, numa(0, 0xF), cache_size=1 << 30),
        )
    )
    assert partial.llcs == (LlcPart(cpus("0-1"), 3, 8192), LlcPart(cpus("2"), 2, None))
    assert read(topology(core(0, 1, 2, 3))).llcs is None


def test_version_1_caches_have_their_level_apart() -> None:
    partial = read(
        topology(
            obj("Cache", 0x3, core(0), core(1), depth=2, cache_type=0, cache_size=2048),
            obj("Cache", 0xC, core(2), core(3), depth=1, cache_type=2),
            obj("Cache", 0x4, depth=9),
        ).replace(' version="2.0"', "")
    )
    assert partial.llcs == (LlcPart(cpus("0-1"), 2, 2),)


def test_caches_that_overlap_are_not_believed() -> None:
    partial = read(
        topology(obj("L3Cache", 0x3), obj("L3Cache", 0x6), core(0), core(1), core(2), core(3))
    )
    assert partial.llcs is None
    assert "overlaps" in notes(partial)


# --- NUMA ------------------------------------------------------------------------------------


def test_memory_beside_cpus_has_none_of_its_own() -> None:
    partial = read(
        topology(
            core(0), core(1), core(2), core(3),
            numa(2, 0x3, subtype="HBM"),
            numa(0, 0x3, subtype="DRAM"),
            numa(1, 0xC),
            numa(3, 0xF),
            numa(8, 0xF, info("PCIBusID", "0009:01:00.0"), subtype="GPUMemory"),
            numa(9, 0x0),
            obj("Bridge", None, obj("PCIDev", None, pci_busid="0009:01:00.0",
                pci_type="0302 [10de:2342] [10de:16eb] a1"), bridge_type="0-1"),
        )
    )  # fmt: skip
    assert partial.numa is not None
    assert {node.id: node.cpus for node in partial.numa} == {
        0: cpus("0-1"),
        1: cpus("2-3"),
        2: CpuSet(),
        3: None,
        8: CpuSet(),
        9: CpuSet(),
    }
    assert [node.id for node in partial.numa if node.gpu_memory] == [8]
    assert "NUMA node 3 is near CPUs of other nodes (0-3)" in notes(partial)
    assert partial.devices is not None
    assert [device.memory_node for device in partial.devices] == [8]


def test_high_bandwidth_memory_alone_has_its_cpus() -> None:
    partial = read(topology(core(0, 1), core(2, 3), numa(0, 0xF, subtype="HBM")))
    assert partial.numa == (NumaPart(0, cpus("0-3")),)


def test_the_node_of_a_processor_only_export_is_not_believed() -> None:
    whole = (core(0, 1), core(2, 3), numa(0, 0xF))
    assert read(topology(*whole, after=info("Backend", "x86"))).numa is None
    assert read(topology(*whole, info("Backend", "x86"), info("Backend", "Linux"))).numa == (
        NumaPart(0, cpus("0-3")),
    )
    assert read(topology(core(0, 1, 2, 3))).numa is None  # version 1 of a machine without NUMA


DISTANCES = (
    '<distances2 type="NUMANode" nbobjs="2" kind="{kind}"{name} indexing="os">'
    '<indexes length="4">{ids} </indexes><u64values length="9">{values} </u64values></distances2>'
)


@pytest.mark.parametrize(
    ("kind", "name", "ids", "values", "expected"),
    [
        (5, ' name="NUMALatency"', "0 4", "10 32 20 10", {0: {0: 10, 4: 32}, 4: {0: 20, 4: 10}}),
        (5, ' name="NUMALatency"', "4 0", "10 32 20 10", {0: {0: 10, 4: 20}, 4: {0: 32, 4: 10}}),
        (5, "", "0 4", "10 32 20 10", {0: {0: 10, 4: 32}, 4: {0: 20, 4: 10}}),
        (9, "", "0 4", "10 32 20 10", {0: {}, 4: {}}),  # a bandwidth
        (5, ' name="NVLinkBandwidth"', "0 4", "10 32 20 10", {0: {}, 4: {}}),
        (5, ' name="NUMALatency"', "0 1", "10 32 20 10", {0: {}, 4: {}}),
        (5, ' name="NUMALatency"', "0 4", "10 32 20", {0: {}, 4: {}}),
        (5, ' name="NUMALatency"', "0 4", "10 32 20 x", {0: {}, 4: {}}),
    ],
)
def test_distances(kind: int, name: str, ids: str, values: str, expected: dict) -> None:
    after = DISTANCES.format(kind=kind, name=name, ids=ids, values=values)
    partial = read(topology(core(0, 1), core(2, 3), numa(0, 0x3), numa(4, 0xC), after=after))
    assert partial.numa is not None
    assert {node.id: dict(node.distances) for node in partial.numa} == expected
