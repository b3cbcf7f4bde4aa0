"""Collecting devices, and which CPUs they are near."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.facts.collect import collect
from compiler.model.facts import Device, FactsSpec
from tests.sysfs_builder import NODE, SysfsBuilder

NVIDIA, AMD, INTEL, ASPEED, MATROX = 0x10DE, 0x1002, 0x8086, 0x1A03, 0x102B
VGA, DISPLAY_3D, ACCELERATOR, ETHERNET, BRIDGE = 0x030000, 0x030200, 0x120000, 0x020000, 0x060400


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """Two packages, each a NUMA node of four CPUs and one L3."""
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-7", possible="0-7", present="0-7")
    b.cores(["0", "1", "2", "3"], package=0)
    b.cores(["4", "5", "6", "7"], package=1)
    b.cache(3, "0-3", level=3, size="8192K", id=0)
    b.cache(3, "4-7", level=3, size="8192K", id=1)
    b.node(0, "0-3", mem_kib=1 << 20, distance="10 21")
    b.node(1, "4-7", mem_kib=1 << 20, distance="21 10")
    return b


def spec_of(b: SysfsBuilder) -> FactsSpec:
    return collect(b.root, name="n", live=False).spec


def only(b: SysfsBuilder) -> tuple[Device, tuple[str, ...]]:
    spec = spec_of(b)
    (device,) = spec.devices
    return device, spec.warnings


def near(device: Device) -> tuple[int | None, str | None, str, str]:
    cpus = device.locality.cpus
    return (
        device.numa,
        None if cpus is None else str(cpus),
        device.locality.scope,
        device.locality.confidence,
    )


def test_gpus_by_vendor_and_class(b: SysfsBuilder) -> None:
    for bdf, code, vendor in (
        ("0000:05:00.0", VGA, ASPEED),
        ("0000:06:00.0", VGA, MATROX),
        ("0000:07:00.0", DISPLAY_3D, NVIDIA),
        ("0000:08:00.0", 0x038000, AMD),
        ("0000:09:00.0", ACCELERATOR, AMD),
        ("0000:00:02.0", VGA, INTEL),
        ("0000:00:0b.0", ACCELERATOR, INTEL),  # an NPU
        ("0000:07:00.1", 0x040300, NVIDIA),  # its sound
        ("0000:0a:00.0", 0x068000, NVIDIA),  # NVSwitch
        ("0000:0b:00.0", VGA, 0x1AF4),  # virtio
    ):
        b.pci(bdf, code=code, vendor=vendor, device=0x1234, numa=0, local="0-3")
    spec = spec_of(b)
    assert [(d.id, d.type, d.vendor, d.bdf) for d in spec.devices] == [
        ("gpu0", "gpu", "8086", "0000:00:02.0"),
        ("gpu1", "gpu", "10de", "0000:07:00.0"),
        ("gpu2", "gpu", "1002", "0000:08:00.0"),
        ("gpu3", "gpu", "1002", "0000:09:00.0"),
    ]
    assert spec.devices[1].model == "10de:1234"
    assert spec.devices[1].uuid is None
    assert spec.warnings == ()


def test_the_order_is_that_of_addresses_as_numbers(b: SysfsBuilder) -> None:
    for bdf in ("10000:01:00.0", "000f:01:00.0", "0000:41:00.0", "0000:05:1f.7", "ffff:00:00.0"):
        b.pci(bdf, code=DISPLAY_3D, vendor=NVIDIA, device=1, numa=0)
    assert [d.bdf for d in spec_of(b).devices] == [
        "0000:05:1f.7",
        "0000:41:00.0",
        "000f:01:00.0",
        "ffff:00:00.0",
        "10000:01:00.0",
    ]


def test_model_and_uuid_from_the_driver(b: SysfsBuilder) -> None:
    for number, uuid in enumerate(("GPU-6f1a", "GPU-????????-????")):
        bdf = f"0000:0{number + 1}:00.0"
        b.pci(bdf, code=DISPLAY_3D, vendor=NVIDIA, device=0x2330, numa=0)
        b.file(
            f"proc/driver/nvidia/gpus/{bdf}/information",
            f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\n",
        )
    found = [(d.model, d.uuid) for d in spec_of(b).devices]
    assert found == [("NVIDIA H100", "GPU-6f1a"), ("NVIDIA H100", None)]


# --- locality ----------------------------------------------------------------------------------


def test_a_node_with_cpus_is_measured(b: SysfsBuilder) -> None:
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=1, local="4-7")
    device, warnings = only(b)
    assert near(device) == (1, "4-7", "numa", "measured")
    assert warnings == ()


def test_minus_one_is_unknown_and_never_node_0(b: SysfsBuilder) -> None:
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1, local="0-7")
    device, warnings = only(b)
    assert near(device) == (None, None, "unknown", "unknown")
    assert any("numa_node -1 or missing) and 2 nodes have CPUs" in w for w in warnings)


def test_minus_one_where_one_node_has_cpus_is_that_node(b: SysfsBuilder) -> None:
    b.node(0, "0-7", mem_kib=1 << 20)
    b.node(1, "", mem_kib=1 << 20)
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1)
    device, warnings = only(b)
    assert near(device) == (0, "0-7", "machine", "inferred")
    assert warnings == ()


def test_minus_one_with_local_cpus_of_its_own(b: SysfsBuilder) -> None:
    """All that POWER9 has is local_cpus."""
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1, mask="00000000,000000f0")
    device, _ = only(b)
    assert near(device) == (1, "4-7", "numa", "measured")


def test_local_cpus_that_are_no_node_keep_their_scope(b: SysfsBuilder) -> None:
    b.node(0, "0-5", mem_kib=1)
    b.node(1, "6-7", mem_kib=1)
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1, local="4-7")
    b.pci("0000:02:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1, local="1-2")
    found = [near(device) for device in spec_of(b).devices]
    assert found == [(None, "4-7", "llc", "measured"), (None, "1-2", "unknown", "measured")]


def test_package_scope(b: SysfsBuilder) -> None:
    for cpu in range(8):
        b.file(f"sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list", "0-7\n")
    b.node(0, "0-5", mem_kib=1)
    b.node(1, "6-7", mem_kib=1)
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=-1, local="4-7")
    assert near(only(b)[0]) == (None, "4-7", "package", "measured")


def test_where_node_and_local_cpus_differ_the_node_counts(b: SysfsBuilder) -> None:
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=1, local="0-3")
    device, warnings = only(b)
    assert near(device) == (1, "4-7", "numa", "measured")
    assert any("local CPUs are 0-3; the node counts" in warning for warning in warnings)


def test_a_node_that_is_not_there(b: SysfsBuilder) -> None:
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=5, local="0-7")
    device, warnings = only(b)
    assert near(device) == (None, None, "unknown", "unknown")
    assert any("there is no such node" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("local", "place"),
    [("0-3", (2, "0-3", "numa", "measured")), ("0-7", (2, None, "unknown", "unknown"))],
)
def test_a_device_on_a_node_without_cpus(
    b: SysfsBuilder, local: str, place: tuple[object, ...]
) -> None:
    b.node(2, "", mem_kib=1 << 20)
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=2, local=local)
    device, warnings = only(b)
    assert near(device) == place
    assert bool(warnings) == (local == "0-7") or any("distance" in w for w in warnings)


def test_a_kernel_without_numa_has_one_locality(tmp_path: Path) -> None:
    b = SysfsBuilder(tmp_path / "flat")
    b.masks(online="0-1")
    b.cores(["0", "1"])
    b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=None, local="0-1")
    b.pci("0000:02:00.0", code=VGA, vendor=NVIDIA, device=1, numa=None)
    assert [near(device) for device in spec_of(b).devices] == [
        (None, "0-1", "machine", "inferred"),
        (None, None, "unknown", "unknown"),
    ]


# --- network devices ---------------------------------------------------------------------------


def test_names_of_one_function_come_together_and_virtual_ones_stay_out(b: SysfsBuilder) -> None:
    path = b.pci("0000:41:00.0", code=0x020700, vendor=0x15B3, device=0x1021, numa=1, local="4-7")
    b.interface("ib0", path)
    b.interface("mlx5_0", path, "infiniband")
    b.pci("0000:42:00.0", code=ETHERNET, vendor=INTEL, device=0x1592, numa=0)  # without a driver
    for name in ("lo", "br0", "eth0.10", "docker0", "veth1"):
        b.virtual_interface(name)
    b.directory("sys/class/infiniband/rxe0")
    spec = spec_of(b)
    assert [(d.id, d.bdf, d.names, d.numa) for d in spec.devices] == [
        ("nic0", "0000:41:00.0", ("ib0", "mlx5_0"), 1),
        ("nic1", "0000:42:00.0", (), 0),
    ]


def test_virtual_functions_of_this_machine_stay_out(b: SysfsBuilder) -> None:
    parent = b.pci("0000:41:00.0", code=ETHERNET, vendor=INTEL, device=0x1592, numa=1)
    child = b.pci("0000:41:01.0", code=ETHERNET, vendor=INTEL, device=0x1889, numa=1)
    b.link(f"{child}/physfn", parent)
    b.interface("eth0", parent)
    b.interface("eth0v0", child)
    assert [(d.bdf, d.names) for d in spec_of(b).devices] == [("0000:41:00.0", ("eth0",))]


def test_an_interface_deeper_than_its_function(b: SysfsBuilder) -> None:
    path = b.pci("0000:00:03.0", code=ETHERNET, vendor=0x1AF4, device=0x1041, numa=-1)
    b.directory(f"{path}/virtio2")
    b.interface("eth0", f"{path}/virtio2")
    assert [(d.bdf, d.names) for d in spec_of(b).devices] == [("0000:00:03.0", ("eth0",))]


def test_usb_is_nobodys_and_a_platform_device_has_no_address(b: SysfsBuilder) -> None:
    host = b.pci("0000:00:14.0", code=0x0C0330, vendor=INTEL, device=1, numa=0)
    b.directory(f"{host}/usb1/1-1/1-1:1.0")
    b.interface("enx00", f"{host}/usb1/1-1/1-1:1.0")
    b.directory("sys/devices/platform/soc/fd580000.ethernet")
    b.interface("end0", "sys/devices/platform/soc/fd580000.ethernet")
    (device,) = spec_of(b).devices
    assert (device.bdf, device.vendor, device.names) == (None, None, ("end0",))


def test_odd_entries_are_named(b: SysfsBuilder) -> None:
    b.directory("sys/bus/pci/devices/not-an-address")
    b.link("sys/bus/pci/devices/0000:09:00.0", "sys/devices/gone")
    path = b.pci("0000:01:00.0", code=VGA, vendor=NVIDIA, device=1, numa=0)
    b.file(f"{path}/class", "vga\n")
    path = b.pci("0000:02:00.0", code=VGA, vendor=NVIDIA, device=1, numa=1)
    b.file(f"{path}/device", "0x\n")
    spec = spec_of(b)
    assert [(d.bdf, d.model) for d in spec.devices] == [("0000:02:00.0", None)]
    assert len(spec.warnings) == 3
    assert any("not-an-address" in warning for warning in spec.warnings)


def test_a_link_out_of_the_root_brings_nothing_in(b: SysfsBuilder, tmp_path: Path) -> None:
    outside = SysfsBuilder(tmp_path / "outside")
    outside.pci("0000:66:00.0", code=VGA, vendor=NVIDIA, device=1, numa=0)
    (b.root / "sys/bus/pci").mkdir(parents=True)
    (b.root / "sys/bus/pci/devices").symlink_to(tmp_path / "outside/sys/bus/pci/devices")
    assert spec_of(b).devices == ()
    assert (b.root / NODE / "node0").is_dir()
