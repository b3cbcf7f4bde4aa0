"""Builds small trees of sysfs and procfs files, retyped from what the kernel writes.

The layout and the number formats are those of Documentation/ABI/testing/sysfs-devices-system-cpu,
sysfs-devices-system-node and sysfs-bus-pci; no file is copied from a machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from compiler.cpuset import CpuSet
from compiler.facts.files.memory import Link, MemoryFiles

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"


def mask_text(cpus: CpuSet, words: int = 1) -> str:
    """Write a set as the kernel's hexadecimal mask: 32-bit words, most significant first."""
    count = max(words, (cpus.mask.bit_length() + 31) // 32)
    return ",".join(f"{word:08x}" for word in reversed(cpus.words(32, count)))


class SysfsBuilder:
    """A machine in files below ``root``; every method writes what the kernel would show."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / CPU).mkdir(parents=True)

    def file(self, path: str, text: str = "") -> None:
        """Write one file below the root."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def directory(self, path: str) -> None:
        """Make one directory below the root."""
        (self.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def link(self, path: str, target: str) -> None:
        """Make a link with a relative target to ``target`` (a path below the root)."""
        here = self.root / path.lstrip("/")
        here.parent.mkdir(parents=True, exist_ok=True)
        there = self.root / target.lstrip("/")
        here.symlink_to(os.path.relpath(there, here.parent))

    # --- CPUs ----------------------------------------------------------------------------------

    def masks(self, **masks: str) -> None:
        """Write cpu/online, possible, present, isolated, nohz_full as given."""
        for name, text in masks.items():
            self.file(f"{CPU}/{name}", text + "\n")

    def core(
        self, cpus: str, *, package: int = 0, core: int = 0, form: str = "core_cpus_list"
    ) -> None:
        """Write topology/ of the CPUs of one core; ``form`` says how siblings are given."""
        siblings = CpuSet.parse(cpus)
        for cpu in siblings:
            base = f"{CPU}/cpu{cpu}/topology"
            text = str(siblings) if form.endswith("_list") else mask_text(siblings, 4)
            self.file(f"{base}/{form}", text + "\n")
            self.file(f"{base}/physical_package_id", f"{package}\n")
            self.file(f"{base}/core_id", f"{core}\n")

    def cores(
        self, cores: Iterable[str], *, package: int = 0, form: str = "core_cpus_list"
    ) -> None:
        """Write several cores of one package."""
        for number, cpus in enumerate(cores):
            self.core(cpus, package=package, core=number, form=form)

    def level(self, name: str, number: int, cpus: str) -> None:
        """Write a package, die or cluster (``name``) into topology/ of its CPUs."""
        file = "physical_package_id" if name == "package" else f"{name}_id"
        members = CpuSet.parse(cpus)
        for cpu in members:
            base = f"{CPU}/cpu{cpu}/topology"
            self.file(f"{base}/{file}", f"{number}\n")
            self.file(f"{base}/{name}_cpus_list", f"{members}\n")
            self.file(f"{base}/{name}_cpus", mask_text(members, 4) + "\n")

    def cache(
        self,
        index: int,
        cpus: str,
        *,
        level: int,
        size: str,
        kind: str = "Unified",
        id: int | None = None,
        form: str = "shared_cpu_list",
    ) -> None:
        """Write one cache into cache/indexN of each CPU that shares it."""
        shared = CpuSet.parse(cpus)
        for cpu in shared:
            base = f"{CPU}/cpu{cpu}/cache/index{index}"
            self.file(f"{base}/level", f"{level}\n")
            self.file(f"{base}/type", f"{kind}\n")
            self.file(f"{base}/size", f"{size}\n")
            text = str(shared) if form.endswith("_list") else mask_text(shared, 4)
            self.file(f"{base}/{form}", text + "\n")
            if id is not None:
                self.file(f"{base}/id", f"{id}\n")

    def attribute(self, cpus: str, name: str, value: object) -> None:
        """Write one file into the directory of each CPU."""
        for cpu in CpuSet.parse(cpus):
            self.file(f"{CPU}/cpu{cpu}/{name}", f"{value}\n")

    def node(self, id: int, cpus: str, *, mem_kib: int | None, distance: str = "") -> None:
        """Write one NUMA node."""
        base = f"{NODE}/node{id}"
        self.file(f"{base}/cpulist", cpus + "\n")
        if mem_kib is not None:
            self.file(f"{base}/meminfo", f"Node {id} MemTotal:       {mem_kib} kB\n")
        if distance:
            self.file(f"{base}/distance", distance + "\n")

    # --- devices -------------------------------------------------------------------------------

    def pci(
        self,
        bdf: str,
        *,
        code: int,
        vendor: int,
        device: int,
        numa: int | None = -1,
        local: str | None = None,
        mask: str | None = None,
        under: str | None = None,
    ) -> str:
        """Write one PCI function and return its directory.

        ``under`` is the directory it is in: root complex and bridges, such as
        ``pci0000:15/0000:15:01.0``.
        """
        path = f"sys/devices/{under or 'pci' + bdf.rpartition(':')[0]}/{bdf}"
        self.file(f"{path}/class", f"0x{code:06x}\n")
        self.file(f"{path}/vendor", f"0x{vendor:04x}\n")
        self.file(f"{path}/device", f"0x{device:04x}\n")
        if numa is not None:
            self.file(f"{path}/numa_node", f"{numa}\n")
        if local is not None:
            self.file(f"{path}/local_cpulist", local + "\n")
        if mask is not None:
            self.file(f"{path}/local_cpus", mask + "\n")
        self.link(f"sys/bus/pci/devices/{bdf}", path)
        return path

    def interface(self, name: str, parent: str, kind: str = "net") -> None:
        """Write a network interface (``kind`` net or infiniband) of the device at ``parent``."""
        path = f"{parent}/{kind}/{name}"
        self.directory(path)
        self.link(f"{path}/device", parent)
        self.link(f"sys/class/{kind}/{name}", path)

    def virtual_interface(self, name: str) -> None:
        """Write an interface without a device, such as a bridge."""
        self.directory(f"sys/devices/virtual/net/{name}")
        self.link(f"sys/class/net/{name}", f"sys/devices/virtual/net/{name}")


class MemoryBuilder(SysfsBuilder):
    """The same in memory, for machines of thousands of CPUs; a file is written once."""

    def __init__(self) -> None:
        self.root = Path("/")
        self.files = MemoryFiles()

    def file(self, path: str, text: str = "") -> None:
        """Write one file."""
        self.files.add(f"/{path.lstrip('/')}", text.encode())

    def directory(self, path: str) -> None:
        """Make one directory."""
        self.files.add_directory(f"/{path.lstrip('/')}")

    def link(self, path: str, target: str) -> None:
        """Make a link to ``target``."""
        self.files.add(f"/{path.lstrip('/')}", Link(f"/{target.lstrip('/')}"))


def gb10(root: Path) -> SysfsBuilder:
    """A DGX Spark: GB10 with ten Cortex-A725 and ten Cortex-X925, one L3 for each ten CPUs.

    Each L3 holds five cores of either kind.  ``cpu_capacity`` is the maximum clock of the core
    (2808, 2860, 3900, 3978 and 4004 MHz) over the highest one, times 1024: five values for two
    kinds, which only the MIDRs (parts 0xd87 and 0xd85, r0p1) tell.
    """
    b = SysfsBuilder(root)
    b.masks(online="0-19", possible="0-19", present="0-19", isolated="", nohz_full="  (null)")
    b.cores([str(cpu) for cpu in range(20)], package=36)
    for cpus, midr, capacity, mhz in (
        ("0-4", 0x410FD871, 718, 2808),
        ("5-9", 0x410FD851, 997, 3900),
        ("10-14", 0x410FD871, 731, 2860),
        ("15-18", 0x410FD851, 1017, 3978),
        ("19", 0x410FD851, 1024, 4004),
    ):
        b.attribute(cpus, "regs/identification/midr_el1", f"0x{midr:016x}")
        b.attribute(cpus, "cpu_capacity", capacity)
        b.attribute(cpus, "cpufreq/cpuinfo_max_freq", mhz * 1000)
    for cpu in range(20):
        big = cpu % 10 >= 5
        b.cache(0, str(cpu), level=1, size="64K", kind="Data")
        b.cache(1, str(cpu), level=1, size="64K", kind="Instruction")
        b.cache(2, str(cpu), level=2, size="2048K" if big else "512K")
    b.cache(3, "0-9", level=3, size="8192K")
    b.cache(3, "10-19", level=3, size="16384K")
    b.file(f"{NODE}/online", "0\n")
    b.node(0, "0-19", mem_kib=125_513_728, distance="10")

    near = {"numa": 0, "local": "0-19"}
    b.pci("000f:01:00.0", code=0x030000, vendor=0x10DE, device=0x2E12, **near)  # type: ignore[arg-type]
    b.pci("000f:00:00.0", code=0x060400, vendor=0x10DE, device=0x22D1, **near)  # type: ignore[arg-type]
    gpu = "proc/driver/nvidia/gpus/000f:01:00.0"
    b.file(
        f"{gpu}/information",
        "Model: \t\t NVIDIA GB10\nIRQ:   \t\t 462\n"
        "GPU UUID: \t GPU-????????-????-????-????-????????????\n"
        "Video BIOS: \t 9a.0b.1c.00.00\nBus Location: \t 000f:01:00.0\n",
    )
    for port, (bdf, net, rdma) in enumerate(
        (
            ("0000:01:00.0", "enp1s0f0np0", "rocep1s0f0"),
            ("0000:01:00.1", "enp1s0f1np1", "rocep1s0f1"),
            ("0002:01:00.0", "enP2p1s0f0np0", "roceP2p1s0f0"),
            ("0002:01:00.1", "enP2p1s0f1np1", "roceP2p1s0f1"),
        )
    ):
        path = b.pci(bdf, code=0x020000, vendor=0x15B3, device=0x1021, **near)  # type: ignore[arg-type]
        b.interface(net, path)
        b.interface(rdma, path, "infiniband")
        b.file(f"{path}/net/{net}/dev_port", f"{port % 2}\n")
    wired = b.pci("0007:01:00.0", code=0x020000, vendor=0x10EC, device=0x8127, **near)  # type: ignore[arg-type]
    b.interface("enP7s7", wired)
    wireless = b.pci("0009:01:00.0", code=0x028000, vendor=0x14C3, device=0x7925, **near)  # type: ignore[arg-type]
    b.interface("wlP9s9", wireless)
    for name in ("lo", "docker0"):
        b.virtual_interface(name)

    b.file("proc/sys/kernel/hostname", "spark-a\n")
    b.file("proc/sys/kernel/arch", "aarch64\n")
    b.file("proc/sys/kernel/osrelease", "6.17.0-1014-nvidia\n")
    b.file(
        "proc/sys/kernel/version", "#14-Ubuntu SMP PREEMPT_DYNAMIC Thu Mar 12 18:00:00 UTC 2026\n"
    )
    b.file("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro quiet init_on_alloc=0\n")
    b.file("sys/kernel/btf/vmlinux", "")
    b.file("sys/kernel/sched_ext/state", "disabled\n")
    b.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
    b.directory("var/lib")
    b.file("sys/class/dmi/id/sys_vendor", "NVIDIA\n")
    b.file("sys/class/dmi/id/product_name", "NVIDIA_DGX_Spark\n")
    return b
