"""Which files of an archive a reader could ask for; the rest is passed over.

A directory that holds a machine's files can be anywhere in the archive, so it is found by how a
path goes on: ``host7/sys/devices/...``.
"""

from __future__ import annotations

from typing import Final

MAX_FILE: Final = 8 * 1024 * 1024
"""Bytes that are read of one file."""
MAX_ATTRIBUTE: Final = 64 * 1024
"""Bytes that are read of an attribute of sysfs."""
# One byte more is kept, so that what is longer is seen to be longer.
_ATTRIBUTE: Final = MAX_ATTRIBUTE + 1
_FILE: Final = MAX_FILE + 1

TEXTS: Final = frozenset({"json", "xml", "txt", "yaml", "yml", "csv", "log", "out"})
"""Name endings of files that may hold text in one of the formats."""

_SYS: Final = frozenset({"bus", "class", "devices", "firmware", "fs", "hypervisor", "kernel"})
_CLASSES: Final = frozenset({"dmi", "infiniband", "kfd", "net"})
_VIRTUAL: Final = frozenset({"dmi", "kfd", "net"})
_NO_DEVICES: Final = frozenset({"LNXSYSTM:00", "breakpoint", "css0", "software", "tracepoint"})
# Directories that every device or CPU has and no reader looks into.
_DULL: Final = frozenset({"cpuidle", "power", "thermal_throttle", "statistics", "queues"})
_NO_PROC: Final = frozenset(
    {"bus", "device-tree", "fs", "irq", "kallsyms", "kcore", "kpagecount", "kpageflags", "scsi"}
)
_OF_PROCESS: Final = frozenset({"cgroup", "cmdline", "comm", "mounts", "ns", "status"})
_KUBELETS: Final = frozenset({"k0s", "kubelet", "rancher"})
_NO_KUBELET: Final = frozenset({"containerd", "pki", "plugins", "plugins_registry", "pods"})


def kept_bytes(path: str) -> int:
    """Return how many bytes of the file at ``path`` are kept; 0: it is of no use.

    ``path`` has no slash at its start or end.
    """
    steps = path.split("/")
    for at, step in enumerate(steps[:-1]):
        rest = steps[at + 1 :]
        if step == "sys" and rest[0] in _SYS and (at == 0 or steps[at - 1] != "proc"):
            return _ATTRIBUTE if _in_sys(rest) else 0
        if step == "proc":
            return _FILE if _in_proc(rest) else 0
        if step == "nodes" and rest[0].isdigit():
            return _ATTRIBUTE  # the topology directory of the AMD driver
    if is_text(path):
        return _FILE
    for at, step in enumerate(steps[:-1]):
        rest = steps[at + 1 :]
        if step in ("etc", "run"):
            return _ATTRIBUTE
        if step == "lib" and at and steps[at - 1] == "var":
            return _FILE if rest[0] in _KUBELETS and not set(rest) & _NO_KUBELET else 0
        if step == "microk8s":
            return 0 if set(rest) & _NO_KUBELET else _FILE
    return _ATTRIBUTE if steps[-1] == ".dockerenv" else 0


def is_text(path: str) -> bool:
    """Return whether the name of a file is one that texts have."""
    name, dot, ending = path.rpartition("/")[2].rpartition(".")
    return bool(name and dot) and ending.lower() in TEXTS


def _in_sys(rest: list[str]) -> bool:
    first, second = rest[0], rest[1] if len(rest) > 1 else ""
    if set(rest) & _DULL:
        return False
    if first == "bus":
        return second == "pci"
    if first == "class":
        return second in _CLASSES
    if first == "firmware":
        return second == "dmi"
    if first == "kernel":
        return second not in ("debug", "mm", "slab", "tracing")
    if first == "devices":
        if second == "system":
            return len(rest) < 3 or rest[2] in ("cpu", "node")
        if second == "virtual":
            return len(rest) < 3 or rest[2] in _VIRTUAL
        return second not in _NO_DEVICES
    return True


def _in_proc(rest: list[str]) -> bool:
    if rest[0].isdigit():
        return len(rest) < 2 or rest[1] in _OF_PROCESS
    if rest[0] == "sys":
        return len(rest) < 2 or rest[1] == "kernel"
    return rest[0] not in _NO_PROC
