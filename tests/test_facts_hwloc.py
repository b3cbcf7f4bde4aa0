"""hwloc XML of versions 1, 2 and 3: what is believed, what stays unknown, what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import MAX_CPUS, CpuSet, union
from compiler.facts.formats.format import Text
from compiler.facts.formats.hwloc import HWLOC
from compiler.facts.formats.hwloc_tree import cut, read_mask
from compiler.facts.formats.xml import Element
from compiler.facts.partial import DevicePart, KindPart, LlcPart, NumaPart, Partial, ReadError

FIXTURES = Path(__file__).parent / "fixtures" / "hwloc"
DIRECTORIES = (
    "hwloc-xml",
    "hwloc-x86-xml",
    "prrte-xml",
    "hwloc-xml-parser",
    "mpibind-xml",
    "flux-sched-xml",
    "pyhwloc-xml",
)


def read(text: str) -> Partial:
    assert HWLOC.sniff(text)
    (partial,) = HWLOC.read(Text("f.xml", text))
    return partial


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        HWLOC.read(Text("f.xml", text))
    return caught.value


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def notes(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


def obj(kind: str, mask: int | str | None = None, /, *inside: str, **attributes: object) -> str:
    """An object; ``mask`` is its cpuset."""
    if mask is not None:
        shown = f"0x{mask:08x}" if isinstance(mask, int) else mask
        attributes = {"cpuset": shown, "complete_cpuset": shown} | attributes
    words = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<object type="{kind}"{words}>{"".join(inside)}</object>'


def info(name: str, value: object) -> str:
    return f'<info name="{name}" value="{value}"/>'


def pu(*numbers: int) -> str:
    return "".join(obj("PU", 1 << number, os_index=number) for number in numbers)


def core(*numbers: int) -> str:
    return obj("Core", sum(1 << number for number in numbers), pu(*numbers))


def numa(number: int, mask: int, *inside: str, **attributes: object) -> str:
    return obj("NUMANode", mask, *inside, os_index=number, **attributes)


def topology(*machine: str, mask: int = 0xF, after: str = "", version: str = "2.0", **more) -> str:
    inside = obj("Machine", mask, *machine, os_index=0, **more)
    return f'<topology version="{version}">{inside}{after}</topology>'


def cpukind(mask: int, efficiency: int | None = None, **infos: object) -> str:
    forced = "" if efficiency is None else f' forced_efficiency="{efficiency}"'
    rows = "".join(info(name, value) for name, value in infos.items())
    return f'<cpukind cpuset="0x{mask:08x}"{forced}>{rows}</cpukind>'


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


# --- kinds of cores --------------------------------------------------------------------------

FOUR = (core(0), core(1), core(2), core(3))


def test_core_types_make_kinds_whatever_their_clocks() -> None:
    partial = read(
        topology(
            *FOUR,
            after=cpukind(0x8, 0, CoreType="IntelAtom", FrequencyMaxMHz=3900)
            + cpukind(0x2, 1, CoreType="IntelCore", FrequencyMaxMHz=5000)
            + cpukind(0x5, 2, CoreType="IntelCore", FrequencyMaxMHz=5200),
        )
    )
    assert partial.kinds == (
        KindPart("performance", cpus("0-2"), "cpukind"),
        KindPart("efficiency", cpus("3"), "cpukind"),
    )


def test_small_cores_outside_the_l3_are_low_power() -> None:
    partial = read(
        topology(
            obj("L3Cache", 0x7, core(0), core(1), core(2)),
            obj("L2Cache", 0x8, core(3)),
            after=cpukind(0xC, 0, CoreType="IntelAtom") + cpukind(0x3, 1, CoreType="IntelCore"),
        )
    )
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus)) for kind in partial.kinds] == [
        ("performance", "0-1"),
        ("efficiency", "2"),
        ("lowpower", "3"),
    ]
    named = read(
        topology(
            *FOUR, after=cpukind(8, CoreType="IntelLowPower") + cpukind(7, CoreType="IntelCore")
        )
    )
    assert named.kinds is not None
    assert [kind.name for kind in named.kinds] == ["performance", "lowpower"]


def test_one_core_type_means_that_all_are_alike() -> None:
    after = cpukind(0x3, CoreType="IntelCore") + cpukind(0xC, CoreType="IntelCore")
    assert read(topology(*FOUR, after=after)).kinds == ()
    assert read(topology(*FOUR, after=cpukind(0xF, CoreType="other"))).kinds == ()


def test_clocks_alone_make_no_kinds() -> None:
    after = cpukind(0x3, 0, FrequencyMaxMHz=3402) + cpukind(0xC, 1, FrequencyMaxMHz=3411)
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is None
    assert "differ in clocks at most" in notes(partial)
    assert read(topology(*FOUR, after=cpukind(0xF, FrequencyMaxMHz=3600))).notes == ()


def test_capacities_make_kinds_where_there_is_a_clear_gap() -> None:
    after = (
        cpukind(0x3, 0, LinuxCapacity=400)
        + cpukind(0x4, 1, LinuxCapacity=900)
        + cpukind(0x8, 2, LinuxCapacity=1024)
    )
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds == (
        KindPart("performance", cpus("2-3"), "cpukind", figure="LinuxCapacity", value=1024),
        KindPart("efficiency", cpus("0-1"), "cpukind", figure="LinuxCapacity", value=400),
    )
    assert partial.capacities == {0: 400, 1: 400, 2: 900, 3: 1024}
    flat = read(topology(*FOUR, after=after.replace('"400"', '"800"')))
    assert flat.kinds is None
    assert flat.capacities == {0: 800, 1: 800, 2: 900, 3: 1024}


def test_more_than_three_kinds_end_with_low_power() -> None:
    after = "".join(cpukind(1 << n, LinuxCapacity=c) for n, c in enumerate((1024, 700, 400, 100)))
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus), kind.value) for kind in partial.kinds] == [
        ("performance", "0", 1024),
        ("efficiency", "1", 700),
        ("lowpower", "2-3", 400),
    ]


def test_kinds_that_split_a_core_are_not_believed() -> None:
    after = cpukind(0x3, 0, CoreType="IntelAtom") + cpukind(0xC, 1, CoreType="IntelCore")
    partial = read(topology(core(0, 2), core(1, 3), after=after))
    assert partial.kinds is None
    assert "split the core of CPU 0,2" in notes(partial)


@pytest.mark.parametrize(
    "after",
    [
        cpukind(0x3, CoreType="IntelAtom"),
        cpukind(0x7, CoreType="IntelAtom") + cpukind(0xC, CoreType="IntelCore"),
    ],
)
def test_kinds_that_do_not_have_every_cpu_once_are_not_believed(after: str) -> None:
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is None
    assert "every CPU once" in notes(partial)


def test_unknown_core_types_are_ranked_by_efficiency_or_not_at_all() -> None:
    after = cpukind(0x3, 0, CoreType="Slow") + cpukind(0xC, 1, CoreType="Fast")
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus)) for kind in partial.kinds] == [
        ("performance", "2-3"),
        ("efficiency", "0-1"),
    ]
    unranked = read(topology(*FOUR, after=after.replace(' forced_efficiency="0"', "")))
    assert unranked.kinds is None
    assert "which of the core types Fast, Slow is faster" in notes(unranked)


# --- devices ---------------------------------------------------------------------------------


def pci(bdf: str, kind: str, *inside: str) -> str:
    return obj("PCIDev", None, *inside, pci_busid=bdf, pci_type=f"{kind} [0000:0000] 00")


def osdev(name: str, number: int, *infos: str) -> str:
    return obj("OSDev", None, *infos, name=name, osdev_type=number)


def devices(*inside: str, version: str = "2.0") -> tuple[DevicePart, ...]:
    """Devices below the first of two packages."""
    partial = read(
        topology(
            obj("Package", 0x3, core(0), core(1), numa(0, 0x3), *inside, os_index=0),
            obj("Package", 0xC, core(2), core(3), numa(1, 0xC), os_index=1),
            version=version,
        )
    )
    assert partial.devices is not None
    return partial.devices


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("0302 [10de:20b0]", "gpu"),
        ("0380 [1002:66a1]", "gpu"),
        ("0300 [8086:56c0]", "gpu"),
        ("1200 [1002:74a1]", "gpu"),
        ("1200 [8086:7d1d]", None),  # an NPU
        ("0300 [1a03:2000]", None),  # board management
        ("0300 [1234:1111]", None),  # a virtual display
        ("0200 [15b3:1017]", None),  # without an interface
        ("0108 [144d:a80a]", None),
    ],
)
def test_what_is_a_gpu_by_its_class_and_vendor(kind: str, type_: str | None) -> None:
    found = devices(pci("0000:01:00.0", kind, osdev("card0", 1)))
    assert [device.type for device in found] == ([type_] if type_ else [])


def test_the_names_of_a_gpu_are_one_device() -> None:
    opencl = osdev("opencl0d0", 5, info("OpenCLDeviceType", "GPU"), info("GPUModel", "C"))
    (found,) = devices(
        pci("0001:00:00.0", "0302 [10de:20b0]", osdev("cuda3", 5, info("GPUModel", "B")), opencl)
    )
    assert (found.bdf, found.model, found.index, found.names) == ("0001:00:00.0", "B", None, ())
    (found,) = devices(
        pci("10000:00:00.0", "0b40 [1234:0001]", osdev("rsmi2", 1, info("AMDUUID", "ab12")), opencl)
    )
    assert (found.type, found.index, found.uuid) == ("gpu", 2, "ab12")
    assert found.bdf == "10000:00:00.0"
    assert found.numa == (0,)
    assert found.cpus == cpus("0-1")


def test_osdev_types_are_numbers_up_to_version_2_and_bits_in_version_3() -> None:
    def names(version: str, number: int) -> list[tuple[str, ...]]:
        inside = pci("0000:01:00.0", "0200 [15b3:1017]", osdev("eth0", number))
        return [device.names for device in devices(inside, version=version)]

    assert names("2.0", 2) == names("2.0", 3) == [("eth0",)]
    assert names("3.0", 16) == names("3.0", 32) == names("3.0", 48) == [("eth0",)]
    assert names("3.0", 2) == names("3.0", 3) == []  # memory
    assert names("2.0", 16) == names("2.0", 0) == []


def test_virtual_functions_and_usb_are_left_out_aloud() -> None:
    partial = read(
        topology(
            *FOUR,
            numa(0, 0xF),
            pci("0000:0b:00.0", "0200 [1137:0043]", osdev("eth4", 2), osdev("usnic_0", 3)),
            pci("0000:0b:00.1", "0200 [1137:00cf]"),
            pci("0000:0b:00.2", "0200 [1137:00cf]"),
            pci("0000:00:14.0", "0c03 [8086:a36d]", osdev("enx00", 2)),
            obj("PCIDev", None, osdev("eth9", 2)),
        )
    )
    assert partial.devices is not None
    assert [(one.bdf, one.names) for one in partial.devices] == [
        ("0000:0b:00.0", ("eth4", "usnic_0"))
    ]
    assert "2 network functions without an interface" in notes(partial)
    assert "1 PCI devices without an address" in notes(partial)


def test_devices_that_are_not_on_the_pci_bus() -> None:
    eth, gpu = devices(
        osdev("eth0", 2),
        osdev("nvml0", 1, info("NVIDIAUUID", "GPU-1")),
        osdev("cuda0", 5),
        osdev("sda", 0),
    )
    assert (eth.type, eth.bdf, eth.names, eth.cpus) == ("nic", None, ("eth0",), cpus("0-1"))
    assert (gpu.type, gpu.bdf, gpu.index, gpu.uuid) == ("gpu", None, 0, "GPU-1")
    (alone,) = devices(osdev("cuda0", 5))
    assert (alone.type, alone.index) == ("gpu", None)


def test_locality_is_that_of_the_nearest_object_with_cpus() -> None:
    nic = obj("Bridge", None, pci("0000:01:00.0", "0200 [15b3:1017]", osdev("eth0", 2)))
    cache = obj("L3Cache", 0x1, nic)
    (found,) = devices(cache)
    assert (found.cpus, found.numa, found.confidence) == (cpus("0"), (0,), "measured")
    both = topology(
        obj("Group", 0xF, nic, *FOUR, numa(0, 0x3), numa(1, 0xC)), core(4), core(5),
        numa(2, 0x30), mask=0x3F,
    )  # fmt: skip
    (found,) = read(both).devices or ()
    assert (found.cpus, found.numa, found.confidence) == (cpus("0-3"), (0, 1), "measured")


def test_at_the_machine_is_a_place_only_where_the_machine_is_one() -> None:
    nic = pci("0000:01:00.0", "0200 [15b3:1017]", osdev("eth0", 2))
    one = (read(topology(*FOUR, nic, numa(0, 0xF), numa(1, 0x0))).devices or ())[0]
    assert (one.cpus, one.numa, one.confidence) == (cpus("0-3"), (0,), "inferred")
    two = (read(topology(*FOUR, nic, numa(0, 0x3), numa(1, 0xC))).devices or ())[0]
    assert (two.cpus, two.numa, two.confidence) == (None, (), "unknown")
    packages = obj("Package", 0x3), obj("Package", 0xC)
    unknown = (read(topology(*FOUR, nic, *packages)).devices or ())[0]
    assert (unknown.cpus, unknown.confidence) == (None, "unknown")


def test_a_device_near_cpus_that_are_not_usable_has_no_locality() -> None:
    nic = pci("0000:01:00.0", "0200 [15b3:1017]", osdev("eth0", 2))
    text = topology(*FOUR, obj("Package", "0x0", nic, complete_cpuset="0x000000f0"), numa(0, 0xF))
    (found,) = read(text).devices or ()
    assert (found.cpus, found.numa, found.confidence) == (None, (), "unknown")


def test_a_file_without_devices_does_not_say_that_there_are_none() -> None:
    assert read(topology(*FOUR)).devices is None


def test_devices_are_bounded() -> None:
    many = "".join(
        pci(f"{n >> 16:04x}:{n >> 8 & 255:02x}:{n >> 3 & 31:02x}.{n & 7}", "0302 [10de:20b0]")
        for n in range(4097)
    )
    assert "more than 4096 GPUs and interfaces" in refused(topology(*FOUR, many)).message


# --- the machine -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "node"),
    [
        ("Node7", "node7"),
        ("a_b", None),
        ("localhost", None),
        ("", None),
        ("x" * 300, None),
        ("a\nb", None),
    ],
)
def test_a_host_name_is_a_node_name_if_a_node_can_have_it(host: str, node: str | None) -> None:
    assert read(topology(info("HostName", host), *FOUR)).node == node


def test_another_system_is_not_a_linux_kernel() -> None:
    infos = info("OSName", "Darwin") + info("OSRelease", "23.1.0") + info("Architecture", "b a d")
    partial = read(topology(infos, *FOUR))
    assert partial.kernel is None
    assert partial.arch is None


def test_an_invented_machine_says_so() -> None:
    assert "invented" in notes(read(topology(info("Backend", "Synthetic"), *FOUR)))


# --- refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<topology>", "not well-formed XML"),
        ('<topology version="4.0"/>', "version '4.0' is not known"),
        ('<topology version="x"/>', "version 'x' is not known"),
        ("<topology/>", "without a Machine"),
        ("<other/>", "<other> is not hwloc's <topology>"),
        (
            f'<topology version="2.0">{obj("Machine", 1)}{obj("Machine", 1)}</topology>',
            "several machines",
        ),
        (f"<topology>{obj('System', 3, obj('Machine', 1))}</topology>", "several machines"),
        (topology(pu(0), pu(0)), "CPU 0 is in the file twice"),
        (topology(obj("PU", 1)), "PU without os_index"),
        (topology(obj("PU", None, os_index=8192)), "CPU 8192 is outside 0-8191"),
        (topology(obj("PU", None, os_index=10**30)), "PU without os_index"),
        (topology(pu(0), numa(1024, 0x1)), "NUMA node 1024 is outside 0-1023"),
        (topology(pu(0), after=cpukind(0x1) * 257), "more than 256 cpukinds"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    error = refused(text)
    assert message in error.message
    assert error.line == 1


@pytest.mark.parametrize(
    "text",
    ["", "<topology/>", '<system version="1"><cpu numaid="0"/></system>', '{"topology": "<object"}',
     "<capabilities><topology><object/></topology></capabilities>"],
)  # fmt: skip
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not HWLOC.sniff(text)


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 0xFFF)), max_size=8),
    st.lists(st.integers(0, 0xFFF), max_size=6),
    st.lists(st.sampled_from(["Core", "Package", "NUMANode", "L3Cache", "Die", "PCIDev", "Junk"])),
)
@settings(max_examples=60)
def test_whatever_the_sets_are_the_facts_are_disjoint(
    pus: list[tuple[int, int]], masks: list[int], kinds: list[str]
) -> None:
    parts = [obj(kind, mask, os_index=mask % 5) for kind, mask in zip(kinds, masks, strict=False)]
    text = topology(*(pu(number) for number in sorted({n for n, _ in pus})), *parts, mask=0xFFF)
    partial = read(text)
    online = partial.online
    for sets in (
        partial.cores or (),
        [one.cpus for one in partial.llcs or ()],
        [one for _, one in partial.packages or ()],
        [one.cpus for one in partial.numa or () if one.cpus is not None],
    ):
        assert len(union(sets)) == sum(map(len, sets))
        assert online is None or union(sets) <= online


# --- the corpus ------------------------------------------------------------------------------


def expectations(shared: Path) -> dict[str, dict[str, str]]:
    rows = {}
    for line in (shared / "corpus" / "topology" / "MANIFEST.tsv").read_text().splitlines():
        name, *_, facts = line.split("\t")
        if name.split("/")[0] in DIRECTORIES:
            rows[name] = dict(part.split("=", 1) for part in facts.split("; ") if "=" in part)
    return rows


PROCESSOR_ONLY = "hwloc made up the NUMA node: the file has the processor's word only"
NOT_THE_MANIFESTS_NUMA = {
    "hwloc-xml/fakecpukinds.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/AMD-19h-Zen4-2xEpyc-9654.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-IvyBridge-12xXeon-E5-4620v2.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-SapphireRapids-2xXeonMax9460.xml": PROCESSOR_ONLY,
}


def test_the_corpus_is_read_as_its_manifest_says(shared: Path) -> None:
    expected = expectations(shared)
    assert len(expected) == 29
    for name, facts in expected.items():
        partial = read((shared / "corpus" / "topology" / name).read_text())
        online, cores = partial.online or CpuSet(), partial.cores or ()
        shown = {
            "xml": facts["xml"],
            "pus": f"{len(online)}[{online or '-'}]",
            "cores": str(len(cores)),
            "threads/core": str(sorted({len(one) for one in cores})),
            "packages": str(len(partial.packages or ())),
            "numa": ",".join(str(node.id) for node in partial.numa or ()),
            "cpuless": ",".join(str(n.id) for n in partial.numa or () if n.cpus == CpuSet()) or "-",
            "allowed": str(partial.allowed or partial.present),
            "complete": str(partial.present),
        }
        if name in NOT_THE_MANIFESTS_NUMA:
            assert partial.numa is None
            shown["numa"] = facts["numa"]
        assert {key: facts[key] for key in shown} == shown, name
        third = [str(llc.cpus) for llc in partial.llcs or () if llc.level == 3]
        listed = re.findall(r"[0-9][0-9,-]*", facts["llc_groups"].partition("[")[2])
        assert (str(len(third)), third[: len(listed)]) == (
            facts["llc_groups"].partition("[")[0],
            listed,
        ), name
        check_devices(name, partial, facts["devs"])


def check_devices(name: str, partial: Partial, text: str) -> None:
    """Every GPU and interface of the manifest is there, under its address and near its CPUs.

    The manifest lists storage and memory too, and one GPU under all its names.
    """
    found = {one.bdf: one for one in partial.devices or () if one.bdf}
    by_name = {one: device for device in partial.devices or () for one in device.names}
    for word in text.split() if text != "-" else ():
        match = re.fullmatch(r"([^@]+)@(-|[0-9a-f:.]+):([0-9,-]+)", word)
        assert match is not None, word
        label, bdf, near = match.groups()
        if label.startswith(("dax", "mem")):
            continue
        device = by_name[label] if bdf == "-" else found[bdf]
        is_gpu = re.match("cuda|nvml|rsmi|opencl", label) is not None
        assert device.type == ("gpu" if is_gpu else "nic"), (name, word)
        assert is_gpu or label in device.names, (name, word)
        assert str(device.cpus) == near, (name, word)


def test_kinds_of_the_corpus(shared: Path) -> None:
    def kinds(name: str) -> list[tuple[str, str]] | None:
        partial = read((shared / "corpus" / "topology" / name).read_text())
        if partial.kinds is None:
            return None
        return [(kind.name, str(kind.cpus)) for kind in partial.kinds]

    # 6 performance cores of two threads, 8 efficiency cores.
    assert kinds("hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml") == [
        ("performance", "0-11"),
        ("efficiency", "12-19"),
    ]
    # One Cortex-X4 at 3.4 GHz and three at 2.85 GHz are one kind; four Cortex-A720.
    assert kinds("hwloc-xml-parser/mediatek-dimensity-9300+.xml") == [
        ("performance", "4-7"),
        ("efficiency", "0-3"),
    ]
    assert kinds("hwloc-xml/fakecpukinds.xml") is None
    assert kinds("pyhwloc-xml/sample_numa.xml") is None


# --- hwloc itself ----------------------------------------------------------------------------


def asked(program: str, path: Path, locations: list[str], *options: str) -> list[CpuSet]:
    """CPUs of objects by their logical number, as hwloc says."""
    done = subprocess.run(
        [program, "-i", str(path), *options, "--po", "-I", "pu"],
        input="\n".join(locations) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Waiting")]
    assert len(lines) == len(locations)
    return [CpuSet(map(int, line.split(","))) for line in lines]


def count(program: str, path: Path, kind: str) -> int:
    done = subprocess.run(
        [program, "-i", str(path), "-N", kind, "all"],
        capture_output=True,
        text=True,
        check=False,  # a kind that the file does not have is an error
        timeout=60,
    )
    return int(done.stdout) if done.stdout.strip().isdigit() else 0


def agrees(program: str, path: Path) -> None:
    partial = read(path.read_text())

    def all_of(kind: str) -> list[CpuSet]:
        number = count(program, path, kind)
        found = asked(program, path, [f"{kind}:{n}" for n in range(number)]) if number else []
        return sorted(found, key=lambda one: one.lowest)

    assert asked(program, path, ["all"]) == [partial.online]
    assert all_of("core") == list(partial.cores or ())
    assert all_of("package") == [one for _, one in partial.packages or ()]
    for level in (2, 3):
        caches = [llc.cpus for llc in partial.llcs or () if llc.level == level]
        if caches:
            assert all_of(f"l{level}cache") == caches
    nodes = [node for node in partial.numa or () if node.cpus]
    assert nodes or partial.numa is None
    if nodes:
        names = [f"numanode:{node.id}" for node in nodes]
        assert asked(program, path, names, "--pi") == [node.cpus for node in nodes]
    places = [
        (f"pci={one.bdf}", one) for one in partial.devices or () if one.bdf and one.cpus is not None
    ]
    if places:
        near = asked(program, path, [name for name, _ in places])
        assert near == [one.cpus for _, one in places]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_hwloc_reads_the_fixtures_alike(tool, version: str) -> None:
    agrees(tool("hwloc-calc"), FIXTURES / f"{version}.xml")


def test_hwloc_reads_the_corpus_alike(tool, shared: Path) -> None:
    program = tool("hwloc-calc")
    compared = 0
    for name, facts in expectations(shared).items():
        if facts["xml"] != "3.0":  # Debian's hwloc reads versions 1 and 2
            agrees(program, shared / "corpus" / "topology" / name)
            compared += 1
    assert compared == 15
