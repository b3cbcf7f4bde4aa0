"""hwloc XML: devices, the machine itself, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import union
from compiler.facts.formats.hwloc import HWLOC
from compiler.facts.partial import DevicePart
from tests.hwloc_xml import (
    FOUR,
    core,
    cpukind,
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
