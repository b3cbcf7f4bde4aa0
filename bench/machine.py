"""A server's sysfs as a tree of files: 2 sockets of 96 cores with 2 threads, 384 CPUs.

Sized after AMD's EPYC 9654: 8 cores share an L3 and every CPU shows four caches.  Beside what
tierc reads there is what it must pass over: a real server shows both.
"""

from __future__ import annotations

from compiler.cpuset import CpuSet
from tests.sysfs_builder import CPU, SysfsBuilder, mask_text

SOCKETS = 2
CORES = 96
"""Cores of a socket."""
PER_LLC = 8
"""Cores that share an L3."""
CPUS = SOCKETS * CORES * 2
_WORDS = CPUS // 32
_GPUS, _NICS, _OTHERS = 8, 10, 150
_STANZA = (
    "processor\t: {cpu}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
    "model name\t: AMD EPYC 9654 96-Core Processor\nphysical id\t: {socket}\n"
    "siblings\t: 192\ncore id\t\t: {core}\ncpu cores\t: 96\nflags\t\t: {flags}\n\n"
)


def build(b: SysfsBuilder) -> None:
    """Write the machine with an empty builder."""
    everything = f"0-{CPUS - 1}"
    b.masks(online=everything, possible=everything, present=everything, isolated="", nohz_full="")
    for socket in range(SOCKETS):
        _socket(b, socket)
    flags = " ".join(["lm", *(f"flag{n}" for n in range(150))])  # as many as this processor shows
    b.file(
        "proc/cpuinfo",
        "".join(
            _STANZA.format(cpu=cpu, socket=cpu // CORES % SOCKETS, core=cpu % CORES, flags=flags)
            for cpu in range(CPUS)
        ),
    )
    b.file("sys/devices/system/node/online", "0-1\n")
    b.file("proc/meminfo", "MemTotal:       1584000000 kB\n")
    b.file("proc/sys/kernel/osrelease", "6.8.0-60-generic\n")
    b.file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    for number in range(_GPUS + _NICS + _OTHERS):
        _function(b, number)


def _socket_cpus(socket: int) -> CpuSet:
    first = CORES * socket
    half = CORES * SOCKETS
    cores = range(first, first + CORES)
    return CpuSet([*cores, *(cpu + half for cpu in cores)])


def _socket(b: SysfsBuilder, socket: int) -> None:
    half = CORES * SOCKETS
    package = _socket_cpus(socket)
    for core in range(CORES * socket, CORES * (socket + 1)):
        first = core - core % PER_LLC
        shared = CpuSet([*range(first, first + PER_LLC), *range(first + half, first + half + 8)])
        pair = CpuSet((core, core + half))
        for cpu in pair:
            _cpu(b, cpu, core, socket, {"core": pair, "die": package, "package": package})
            sets = (pair, pair, pair, shared)
            for index, (level, kind, size, cpus) in enumerate(
                zip((1, 1, 2, 3), ("Data", "Instruction", "Unified", "Unified"),
                    ("32K", "32K", "1024K", "32768K"), sets, strict=True)
            ):  # fmt: skip
                _cache(b, cpu, index, level, kind, size, cpus)
    b.node(socket, str(package), mem_kib=792_000_000, distance="10 32" if not socket else "32 10")
    b.file(f"sys/devices/system/node/node{socket}/cpumap", mask_text(package, _WORDS) + "\n")


def _cpu(b: SysfsBuilder, cpu: int, core: int, socket: int, levels: dict[str, CpuSet]) -> None:
    base = f"{CPU}/cpu{cpu}"
    for name, cpus in levels.items():
        b.file(f"{base}/topology/{name}_cpus_list", f"{cpus}\n")
        b.file(f"{base}/topology/{name}_cpus", mask_text(cpus, _WORDS) + "\n")
    for name, old in (("core", "thread_siblings"), ("package", "core_siblings")):
        b.file(f"{base}/topology/{old}_list", f"{levels[name]}\n")
        b.file(f"{base}/topology/{old}", mask_text(levels[name], _WORDS) + "\n")
    b.file(f"{base}/topology/core_id", f"{core % CORES}\n")
    b.file(f"{base}/topology/die_id", "0\n")
    b.file(f"{base}/topology/cluster_id", "65535\n")
    b.file(f"{base}/topology/physical_package_id", f"{socket}\n")
    for name, value in (("cpuinfo_max_freq", 3_707_812), ("cpuinfo_min_freq", 1_500_000)):
        b.file(f"{base}/cpufreq/{name}", f"{value}\n")
    b.file(f"{base}/acpi_cppc/highest_perf", "255\n")
    b.file(f"{base}/acpi_cppc/nominal_perf", "165\n")
    if cpu:
        b.file(f"{base}/online", "1\n")


def _cache(
    b: SysfsBuilder, cpu: int, index: int, level: int, kind: str, size: str, cpus: CpuSet
) -> None:
    base = f"{CPU}/cpu{cpu}/cache/index{index}"
    for name, value in (
        ("level", level),
        ("type", kind),
        ("size", size),
        ("id", cpus.lowest),
        ("shared_cpu_list", cpus),
        ("shared_cpu_map", mask_text(cpus, _WORDS)),
        ("coherency_line_size", 64),
        ("number_of_sets", 64),
        ("ways_of_associativity", 8),
        ("physical_line_partition", 1),
    ):
        b.file(f"{base}/{name}", f"{value}\n")


def _function(b: SysfsBuilder, number: int) -> None:
    """Write a PCI function: GPUs, then network devices, then what servers have besides."""
    socket = number % SOCKETS
    code, vendor, device = 0x060400, 0x1022, 0x14AB
    if number < _GPUS:
        code, vendor, device = 0x030200, 0x10DE, 0x2330
    elif number < _GPUS + _NICS:
        code, vendor, device = 0x020700, 0x15B3, 0x1021
    local = str(_socket_cpus(socket))
    path = b.pci(
        f"0000:{number + 1:02x}:00.0",
        code=code,
        vendor=vendor,
        device=device,
        numa=socket,
        local=local,
    )
    if code == 0x020700:
        b.interface(f"ib{number}", path)
        b.interface(f"mlx5_{number}", path, "infiniband")
