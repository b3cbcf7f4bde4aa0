"""The machines of the examples as files of sysfs and procfs, see tests/sysfs_builder.py.

What such machines look like is public: CPU and cache sizes are the vendors' figures, PCI addresses
and NUMA numbering are those that people's `nvidia-smi` and `lspci` print.  No file is copied.
"""

from __future__ import annotations

from compiler.cpuset import CpuSet
from tests.sysfs_builder import NODE, SysfsBuilder

NVIDIA = 0x10DE
MELLANOX = 0x15B3
CONNECTX7 = 0x1021
INFINIBAND = 0x020700
ETHERNET = 0x020000
CONTROLLER_3D = 0x030200
VGA = 0x030000


def workstation(b: SysfsBuilder) -> None:
    """Threadripper PRO 7955WX: two CCDs of eight cores with SMT, one NUMA node, two RTX 6000 Ada.

    The second thread of core n is CPU n+16.  The firmware tells no NUMA node of PCI devices, so
    ``numa_node`` is -1.  The board's controller has a VGA function that computes nothing.
    """
    b.masks(online="0-31", possible="0-31", present="0-31", isolated="", nohz_full="  (null)")
    b.cores([f"{n},{n + 16}" for n in range(16)])
    for n in range(16):
        _small_caches(b, f"{n},{n + 16}", l1d="32K", l1i="32K", l2="1024K")
    b.cache(3, "0-7,16-23", level=3, size="32768K")
    b.cache(3, "8-15,24-31", level=3, size="32768K")
    b.attribute("0-31", "cpufreq/cpuinfo_max_freq", 5_374_000)
    b.file(f"{NODE}/online", "0\n")
    b.node(0, "0-31", mem_kib=263_764_272, distance="10")
    for bridge, bus in (("20:01.1", "21"), ("40:01.1", "41")):
        root = f"pci0000:{bridge[:2]}/0000:{bridge}"
        _gpu(b, f"0000:{bus}:00.0", 0x26B1, "NVIDIA RTX 6000 Ada Generation", root, -1, "0-31", VGA)
        # the sound of its outputs
        b.pci(f"0000:{bus}:00.1", code=0x040300, vendor=NVIDIA, device=0x22BA, under=root)
    b.pci("0000:e6:00.0", code=VGA, vendor=0x1A03, device=0x2000, local="0-31")
    for port, name in enumerate(("enp193s0f0", "enp193s0f1")):
        bdf = f"0000:c1:00.{port}"
        path = b.pci(
            bdf, code=ETHERNET, vendor=0x8086, device=0x15FF, local="0-31",
            under="pci0000:c0/0000:c0:01.1",
        )  # fmt: skip
        b.interface(name, path)
    for name in ("lo", "docker0"):
        b.virtual_interface(name)
    _kernel(
        b, "ws-a", "x86_64", "6.12.63+deb13-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.63-1",
        ("ASUSTeK COMPUTER INC.", "Pro WS WRX90E-SAGE SE"),
    )  # fmt: skip


def hgx(b: SysfsBuilder) -> None:
    """Two Xeon 8480C (56 cores, SMT), 8 H100 and 8 ConnectX-7, a pair behind each PCIe switch.

    The second thread of core n is CPU n+112.
    """
    b.masks(online="0-223", possible="0-223", present="0-223", isolated="", nohz_full="  (null)")
    near = ("0-55,112-167", "56-111,168-223")
    for socket in range(2):
        first = 56 * socket
        b.cores([f"{n},{n + 112}" for n in range(first, first + 56)], package=socket)
        b.level("package", socket, near[socket])
        for n in range(first, first + 56):
            _small_caches(b, f"{n},{n + 112}", l1d="48K", l1i="32K", l2="2048K")
        b.cache(3, near[socket], level=3, size="107520K")
    b.attribute("0-223", "cpufreq/cpuinfo_max_freq", 3_800_000)
    b.file(f"{NODE}/online", "0-1\n")
    b.node(0, near[0], mem_kib=1_056_461_104, distance="10 21")
    b.node(1, near[1], mem_kib=1_056_914_380, distance="21 10")
    gpus = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
    for i, bus in enumerate(gpus):
        root, nic = f"{int(bus, 16) - 6:02x}", int(bus, 16) - 3
        switch = f"pci0000:{root}/0000:{root}:01.0"
        socket = i // 4
        _gpu(
            b, f"0000:{bus}:00.0", 0x2330, "NVIDIA H100 80GB HBM3", switch, socket, near[socket],
            CONTROLLER_3D,
        )  # fmt: skip
        path = b.pci(
            f"0000:{nic:02x}:00.0", code=INFINIBAND, vendor=MELLANOX, device=CONNECTX7,
            numa=socket, local=near[socket], under=switch,
        )  # fmt: skip
        b.interface(f"ibp{nic}s0", path)
        b.interface(f"mlx5_{i}", path, "infiniband")
    b.virtual_interface("lo")
    _kernel(
        b, "hgx-a", "x86_64", "6.14.0-37-generic", "#37~24.04.1-Ubuntu SMP PREEMPT_DYNAMIC",
        ("NVIDIA", "DGXH100"),
    )  # fmt: skip
    b.file("sys/kernel/sched_ext/state", "disabled\n")


def gh200(b: SysfsBuilder) -> None:
    """GH200: 72 cores, NUMA node 0 with them, node 1 the memory of the GPU, nodes 2 to 8 empty."""
    b.masks(online="0-71", possible="0-71", present="0-71", isolated="", nohz_full="")
    _grace_cpus(b, 0)
    b.file(f"{NODE}/online", "0-8\n")
    b.node(0, "0-71", mem_kib=501_735_744, distance="10 80" + 7 * " 80")
    b.node(1, "", mem_kib=99_614_720, distance="80 10" + 7 * " 255")
    for id in range(2, 9):
        far = ("80" if n == 0 else "10" if n == id else "255" for n in range(9))
        b.node(id, "", mem_kib=0, distance=" ".join(far))
    path = "pci0009:00/0009:00:00.0"
    _gpu(b, "0009:01:00.0", 0x2342, "NVIDIA GH200 480GB", path, 0, "0-71", CONTROLLER_3D)
    b.file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node: 1\nStatus: online\n")
    nic = b.pci(
        "0000:01:00.0", code=ETHERNET, vendor=MELLANOX, device=CONNECTX7, numa=0, local="0-71",
        under="pci0000:00/0000:00:00.0",
    )  # fmt: skip
    b.interface("enp1s0np0", nic)
    b.interface("mlx5_0", nic, "infiniband")
    b.virtual_interface("lo")
    _kernel(
        b, "gh200-a", "aarch64", "6.8.0-1044-nvidia-64k", "#47-Ubuntu SMP PREEMPT_DYNAMIC",
        ("Supermicro", "ARS-111GL-NHR"),
    )  # fmt: skip


def gb200(b: SysfsBuilder) -> None:
    """A tray of a GB200 NVL72: two Grace, four GPUs, 34 NUMA nodes of which two have CPUs.

    Each GPU has eight nodes, one for each MIG instance it could have; without MIG all memory is in
    the first: nodes 2, 10, 18 and 26.  Distances are left out: 34 lists of 34 numbers would be most
    of the example, and nothing is decided by them.
    """
    b.masks(online="0-143", possible="0-143", present="0-143", isolated="", nohz_full="")
    near = ("0-71", "72-143")
    for socket in range(2):
        _grace_cpus(b, socket)
    b.file(f"{NODE}/online", "0-33\n")
    b.node(0, near[0], mem_kib=501_719_040)
    b.node(1, near[1], mem_kib=501_578_752)
    gpus = ("0008:01:00.0", "0009:01:00.0", "0018:01:00.0", "0019:01:00.0")
    for id in range(2, 34):
        b.node(id, "", mem_kib=194_018_304 if id % 8 == 2 else 0)
    for i, bdf in enumerate(gpus):
        domain = bdf[:4]
        _gpu(
            b, bdf, 0x2941, "NVIDIA GB200", f"pci{domain}:00/{domain}:00:00.0", i // 2,
            near[i // 2], CONTROLLER_3D,
        )  # fmt: skip
        status = f"Node: {2 + 8 * i}\nStatus: online\n"
        b.file(f"proc/driver/nvidia/gpus/{bdf}/numa_status", status)
    for i, (domain, name) in enumerate(
        (("0000", "ibp3s0"), ("0002", "ibP2p3s0"), ("0010", "ibP16p3s0"), ("0012", "ibP18p3s0"))
    ):
        path = b.pci(
            f"{domain}:03:00.0", code=INFINIBAND, vendor=MELLANOX, device=CONNECTX7, numa=i // 2,
            local=near[i // 2], under=f"pci{domain}:00/{domain}:00:00.0",
        )  # fmt: skip
        b.interface(name, path)
        b.interface(f"mlx5_{i}", path, "infiniband")
    b.virtual_interface("lo")
    _kernel(
        b, "gb200-a", "aarch64", "6.8.0-1044-nvidia-64k", "#47-Ubuntu SMP PREEMPT_DYNAMIC",
        ("NVIDIA", "GB200 NVL"),
    )  # fmt: skip


def _grace_cpus(b: SysfsBuilder, socket: int) -> None:
    """Write 72 Neoverse V2 without SMT; some clock higher, which makes them no other kind."""
    first = 72 * socket
    cpus = f"{first}-{first + 71}"
    b.cores([str(n) for n in range(first, first + 72)], package=socket)
    b.level("package", socket, cpus)
    b.attribute(cpus, "regs/identification/midr_el1", "0x00000000410fd4f0")
    for n in CpuSet.parse(cpus):
        mhz = 3438 if n % 12 == 5 else 3375
        b.attribute(str(n), "cpufreq/cpuinfo_max_freq", mhz * 1000)
        _small_caches(b, str(n), l1d="64K", l1i="64K", l2="1024K")
    b.cache(3, cpus, level=3, size="116736K")


def _small_caches(b: SysfsBuilder, cpus: str, *, l1d: str, l1i: str, l2: str) -> None:
    b.cache(0, cpus, level=1, size=l1d, kind="Data")
    b.cache(1, cpus, level=1, size=l1i, kind="Instruction")
    b.cache(2, cpus, level=2, size=l2)


def _gpu(
    b: SysfsBuilder, bdf: str, device: int, model: str, under: str, numa: int, local: str, code: int
) -> None:
    """Write a GPU and what its driver says to plain users, who do not see the UUID."""
    b.pci(bdf, code=code, vendor=NVIDIA, device=device, numa=numa, local=local, under=under)
    b.file(
        f"proc/driver/nvidia/gpus/{bdf}/information",
        f"Model: \t\t {model}\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
        f"Bus Location: \t {bdf}\n",
    )


def _kernel(
    b: SysfsBuilder, host: str, arch: str, release: str, version: str, board: tuple[str, str]
) -> None:
    """Write a kernel with cgroup v2 and BTF, without any option that concerns CPUs."""
    b.file("proc/sys/kernel/hostname", f"{host}\n")
    b.file("proc/sys/kernel/arch", f"{arch}\n")
    b.file("proc/sys/kernel/osrelease", f"{release}\n")
    b.file("proc/sys/kernel/version", f"{version}\n")
    b.file("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{release} ro quiet\n")
    b.file("sys/kernel/btf/vmlinux", "")
    b.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n")
    b.directory("var/lib")
    b.file("sys/class/dmi/id/sys_vendor", f"{board[0]}\n")
    b.file("sys/class/dmi/id/product_name", f"{board[1]}\n")
