"""Which PCI functions are GPUs: in sysfs, in hwloc's words, and in the scripts on the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.facts.collect import collect
from compiler.facts.formats.format import Text
from compiler.facts.formats.hwloc import HWLOC
from compiler.facts.pci_ids import is_gpu
from tests.sysfs_builder import SysfsBuilder
from tests.taskset_host import FOUR
from tests.taskset_live import Shell
from tests.taskset_sys import printed

pytest_plugins = ("tests.taskset_fixtures",)

# (class, vendor, device) -> whether it is a GPU.
FUNCTIONS = {
    (0x030200, 0x10DE, 0x2330): True,  # H100
    (0x030000, 0x1002, 0x73BF): True,  # Radeon RX 6800
    (0x038000, 0x8086, 0x0BD5): True,  # Ponte Vecchio
    (0x120000, 0x1002, 0x74A1): True,  # MI300X
    (0x120000, 0x8086, 0x7D1D): False,  # an NPU
    (0x030000, 0x1A03, 0x2000): False,  # ASPEED
    (0x030000, 0x102B, 0x0536): False,  # Matrox G200eW3
    (0x030000, 0x1002, 0x515E): False,  # ES1000
    (0x030000, 0x1002, 0x5969): False,  # ES1000
    (0x030000, 0x1002, 0x4752): False,  # Rage XL
    (0x030000, 0x10DE, 0x515E): True,  # another vendor's number
}
GPUS = [f"0000:{n:02x}:00.0" for n, one in enumerate(FUNCTIONS.values(), 1) if one]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-3")
    b.cores(["0", "1", "2", "3"])
    b.node(0, "0-3", mem_kib=1 << 20)
    for number, (code, vendor, device) in enumerate(FUNCTIONS, 1):
        b.pci(f"0000:{number:02x}:00.0", code=code, vendor=vendor, device=device, numa=0)
    return b.root


def test_sysfs(machine: Path) -> None:
    devices = collect(machine, name="n", live=False).spec.devices
    assert [(one.type, one.bdf) for one in devices] == [("gpu", bdf) for bdf in GPUS]


def test_the_script_on_the_node_sees_the_same(shell: Shell, machine: Path, tmp_path: Path) -> None:
    plan = FOUR.model_copy(update={"gpus": (), "nics": ()})
    text = printed(shell, "--devices", machine / "sys", tmp_path, plan)
    assert text == "tierc-devices-1\n" + "".join(f"gpu {bdf}\n" for bdf in GPUS)


def test_hwloc() -> None:
    pci = "".join(
        f'<object type="PCIDev" pci_busid="0000:{number:02x}:00.0" '
        f'pci_type="{code >> 8:04x} [{vendor:04x}:{device:04x}] [0000:0000] 00"/>'
        for number, (code, vendor, device) in enumerate(FUNCTIONS, 1)
    )
    text = (
        '<?xml version="1.0"?><topology version="2.0"><object type="Machine" cpuset="0x1" '
        'complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1">'
        '<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1"/>'
        '<object type="Core" cpuset="0x1"><object type="PU" os_index="0" cpuset="0x1"/></object>'
        '<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-ff]">'
        f"{pci}</object></object></topology>"
    )
    [partial] = HWLOC.read(Text("x", text))
    assert [one.bdf for one in partial.devices or ()] == GPUS


@pytest.mark.parametrize(("vendor", "device"), [(None, None), (None, "515e"), ("1a03", None)])
def test_who_is_unknown_is_no_gpu(vendor: str | None, device: str | None) -> None:
    assert not is_gpu("03", vendor, device)


def test_a_gpu_of_unknown_model_is_one() -> None:
    assert is_gpu("03", "1002", None)
    assert not is_gpu("02", "1002", None)
