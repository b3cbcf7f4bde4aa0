"""The GPUs and network devices that apply.sh sees, and what it says of others than planned."""

from __future__ import annotations

import itertools
from pathlib import Path

from compiler.fingerprint import device_text
from tests.sysfs_builder import SysfsBuilder
from tests.taskset_host import FOUR, Host
from tests.taskset_live import Shell
from tests.taskset_plans import machine, rule, this_machine
from tests.taskset_sys import both_ways, printed

pytest_plugins = ("tests.taskset_fixtures",)


def pci(root: Path, bdf: str, code: str, vendor: str, virtual: bool = False) -> None:
    directory = root / "sys/devices/pci0000:00" / bdf
    directory.mkdir(parents=True)
    (directory / "class").write_text(f"{code}\n")
    (directory / "vendor").write_text(f"{vendor}\n")
    if virtual:
        (directory / "physfn").symlink_to("../0000:00:01.0")
    link = root / "sys/bus/pci/devices" / bdf
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../../devices/pci0000:00/{bdf}")


def test_devices(shell: Shell, tmp_path: Path) -> None:
    """Every class and vendor that matters, and addresses that sort otherwise as texts."""
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0")
    b.directory("sys/devices/system/cpu/cpu0/topology")
    codes = ["0x030000", "0x030200", "0x038000", "0x120000", "0x020000", "0x020700", "0x010802"]
    vendors = ["0x10de", "0x1002", "0x8086", "0x1a03", "0x15b3"]
    for number, (code, vendor) in enumerate(itertools.product(codes, vendors)):
        pci(b.root, f"0000:{number:02x}:00.0", code, vendor)
    pci(b.root, "10000:00:00.0", "0x030200", "0x10de")
    pci(b.root, "000f:01:00.0", "0x030200", "0x10de")
    pci(b.root, "0000:00:01.0", "0x020000", "0x15b3")
    pci(b.root, "0000:00:01.1", "0x020000", "0x15b3", virtual=True)
    pci(b.root, "0000:00:02.0", "0x0b4000", "0x177d")  # a processor with a network interface
    b.directory("sys/devices/pci0000:00/0000:00:02.0/net/eth9")
    b.directory("sys/class/net/eth9")
    b.link("sys/class/net/eth9/device", "sys/devices/pci0000:00/0000:00:02.0")
    _, found = both_ways(shell, b.root, tmp_path)
    lines = found.splitlines()
    gpus = [line.split()[1] for line in lines if line.startswith("gpu")]
    assert lines[0] == "tierc-devices-1"
    assert gpus[-2:] == ["000f:01:00.0", "10000:00:00.0"]
    assert len(gpus) == 3 * 3 + 2 + 2  # three display classes of three vendors, accelerators of two
    nics = [line.split()[1] for line in lines if line.startswith("nic")]
    assert len(nics) == 2 * 5 + 2
    assert nics[:2] == ["0000:00:01.0", "0000:00:02.0"]


def test_no_pci_and_types_that_are_not_known(shell: Shell, tmp_path: Path) -> None:
    on = this_machine()
    sys = tmp_path / "root/sys"
    sys.mkdir(parents=True)
    known = on.model_copy(update={"gpus": (), "nics": ()})
    assert printed(shell, "--devices", sys, tmp_path, known) == "tierc-devices-1\n"
    pci(tmp_path / "root", "0000:01:00.0", "0x030200", "0x10de")
    pci(tmp_path / "root", "0000:02:00.0", "0x020000", "0x15b3")
    for gpus, nics, lines in (
        (("0000:01:00.0",), None, "gpu 0000:01:00.0\nnic ?\n"),
        (None, (), "gpu ?\nnic 0000:02:00.0\n"),
        (None, None, "gpu 0000:01:00.0\nnic 0000:02:00.0\n"),  # nothing to compare with
    ):
        plan_for = on.model_copy(update={"gpus": gpus, "nics": nics})
        assert printed(shell, "--devices", sys, tmp_path, plan_for) == f"tierc-devices-1\n{lines}"
    assert device_text(None, ("0000:02:00.0",)) == "tierc-devices-1\ngpu ?\nnic 0000:02:00.0\n"


def test_other_devices_are_a_warning(host: Host) -> None:
    """Named, said once in a run, and the plan is applied; other CPUs are no matter of devices."""
    on = FOUR.model_copy(update={"gpus": ("0000:01:00.0", "000f:01:00.0"), "nics": ()})
    host.proc.thread(10, "w")
    pci(host.proc.root, "0000:01:00.0", "0x030200", "0x10de")
    pci(host.proc.root, "000f:01:00.0", "0x030200", "0x10de")
    assert "devices" not in host.apply(rule(0, 0, comm="w"), on=on)
    (host.proc.root / "sys/bus/pci/devices/000f:01:00.0").unlink()
    pci(host.proc.root, "0000:02:00.0", "0x030200", "0x10de")
    pci(host.proc.root, "0000:03:00.0", "0x020000", "0x15b3")
    host.proc.thread(11, "w")
    out = host.apply(rule(0, 0, comm="w"), on=on)
    told = out[out.index("tierc: the devices of this machine are not those of the plan") :]
    assert told.splitlines()[1:4] == [
        "  gone: gpu 000f:01:00.0",
        "  new:  gpu 0000:02:00.0",
        "  new:  nic 0000:03:00.0",
    ]
    assert host.proc.allowed(11) == "0"
    unknown = on.model_copy(update={"gpus": None})
    out = host.apply(rule(0, 0, comm="w"), on=unknown)
    assert "new:  nic 0000:03:00.0" in out
    assert "gpu" not in out
    nothing = on.model_copy(update={"gpus": None, "nics": None})
    assert "devices" not in host.apply(rule(0, 0, comm="w"), on=nothing)
    other = machine(range(4), [{0, 1}, {2, 3}], [], arch="x86_64").model_copy(
        update={"gpus": (), "nics": ()}
    )
    out = host.apply(rule(0, 0, comm="w"), on=other, code=3)
    assert "planned: core 0-1" in out
    assert "devices" not in out
