"""What /proc/cpuinfo tells that sysfs does not: architecture, vendor, virtual machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from compiler.facts.tree import Tree

_MAX_BYTES: Final = 8 * 1024 * 1024  # about 1.5 KiB of flags a CPU
_S390: Final = re.compile(r"vendor_id\s*:\s*IBM/S390", re.ASCII)
_MACHINE: Final = frozenset(
    {"x86_64", "aarch64", "armv7l", "i686", "ppc64", "ppc64le", "riscv64", "s390x"}
)


@dataclass(frozen=True)
class CpuInfo:
    """Attributes:
    arch: machine name as ``uname -m`` prints it; None is unknown.
    vendor: ``vendor_id`` of x86.
    hypervisor: whether x86 announces a hypervisor; None is unknown.
    midr: MIDR of each Arm CPU, from the fields it is printed as.
    """

    arch: str | None = None
    vendor: str | None = None
    hypervisor: bool | None = None
    midr: Mapping[int, int] = field(default_factory=dict)


def read_cpuinfo(tree: Tree) -> CpuInfo:
    """Return what can be told from ``/proc/cpuinfo``; everything unknown where it is missing."""
    text = tree.text("/proc/cpuinfo", limit=_MAX_BYTES) or ""
    first: dict[str, str] = {}
    midr: dict[int, int] = {}
    for part in text.split("\n\n"):
        stanza: dict[str, str] = {}
        for line in part.splitlines():
            key, colon, value = line.partition(":")
            if colon:
                stanza.setdefault(key.strip().lower(), value.strip())
        first = {**stanza, **first}
        if "vendor_id" in stanza and "flags" in stanza:
            break  # x86, where all stanzas say the same of what is wanted
        _add_midr(stanza, midr)
    flags = first.get("flags", "").split()
    return CpuInfo(
        arch=_arch(tree, first, flags, text),
        vendor=first.get("vendor_id"),
        hypervisor=("hypervisor" in flags) if flags else None,
        midr=midr,
    )


def _add_midr(stanza: Mapping[str, str], midr: dict[int, int]) -> None:
    try:
        cpu = int(stanza["processor"])
        implementer, part = int(stanza["cpu implementer"], 16), int(stanza["cpu part"], 16)
    except (KeyError, ValueError):
        return
    if 0 <= implementer <= 0xFF and 0 <= part <= 0xFFF:
        midr[cpu] = implementer << 24 | part << 4


def _arch(tree: Tree, first: Mapping[str, str], flags: list[str], text: str) -> str | None:
    name = tree.line("/proc/sys/kernel/arch")  # since Linux 6.1
    if name is not None and name in _MACHINE:
        return name
    if flags and "vendor_id" in first:
        return "x86_64" if "lm" in flags else None
    if "cpu implementer" in first:
        return {"8": "aarch64", "AArch64": "aarch64"}.get(first.get("cpu architecture", ""))
    if _S390.search(text):
        return "s390x"
    if first.get("isa", "").startswith("rv64"):
        return "riscv64"
    return "ia64" if first.get("arch") == "IA-64" else None
