"""NCCL's topology XML: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads.

The nodes of a cloud's virtual machines often have it where sysfs says nothing of locality.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.bdf import canonical_bdf
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.xml import Element, parse_xml, root_tag
from compiler.facts.partial import (
    DevicePart,
    DeviceType,
    LinkPart,
    Note,
    NumaPart,
    Partial,
    ReadError,
)
from compiler.facts.pci_ids import AMD, GPU_CLASSES, INTEL, NVIDIA
from compiler.facts.shown import clean, shown

MAX_DEVICES: Final = 4096
_MAX_NUMA: Final = 1024
"""As many nodes as Linux can have (CONFIG_NODES_SHIFT of 10)."""
_HEX: Final = re.compile(r"0x([0-9a-f]{1,8})", re.ASCII | re.IGNORECASE)
_KERNEL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,63}", re.ASCII)
"""Fused and virtual interfaces of NCCL have other names, which the kernel does not know."""

_GPU_VENDORS: Final = (NVIDIA, AMD, INTEL)
_NO_VENDOR: Final = ("0000", "ffff")
_NETWORK: Final = "02"

# NCCL names machines in its own way; its "ppc64" is either byte order.
_ARCHES: Final[Mapping[str, str]] = {
    "x86_64": "x86_64",
    "arm64": "aarch64",
    "aarch64": "aarch64",
}


@dataclass(slots=True)
class _Reading:
    """What is known after some part of the file."""

    numa: dict[int, CpuSet | None] = field(default_factory=dict)
    devices: list[DevicePart] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)
    nvlinks: list[tuple[int, Element]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def _sniff(text: str) -> bool:
    return root_tag(text) == "system" and "<cpu" in text and "numaid=" in text


def read_nccl(text: Text) -> tuple[Partial, ...]:
    """Return what a file says of its machine: NUMA nodes, GPUs, network devices and NVLinks.

    It does not say which CPUs are online: an affinity is what the kernel shows as the CPUs of a
    NUMA node, or what the file's author wrote.

    Raises:
        ReadError: it is malformed, or of several machines.
    """
    root = parse_xml(text)
    if root.tag != "system":
        raise ReadError(f"<{clean(root.tag, 60)}> is not NCCL's <system>", line=root.line)
    if root.get("version") not in ("1", None):
        raise ReadError(
            f"NCCL topology of version {shown(root.get('version') or '')} is not known",
            line=root.line,
            help="version 1 is",
        )
    hosts = {cpu.get("host_hash") for cpu in root.all("cpu")}
    if len(hosts) > 1:
        raise ReadError(
            f"NCCL topology of {len(hosts)} machines",
            line=root.line,
            help="dump one on each machine, with NCCL_MNNVL_ENABLE=0",
        )
    reading = _Reading()
    arches = set()
    for cpu in root.all("cpu"):
        arches.add(_ARCHES.get(cpu.get("arch") or ""))
        _read_cpu(cpu, reading)
    if not reading.numa and not reading.devices:
        raise ReadError("NCCL topology without a NUMA node or device", line=root.line)
    _drop_overlaps(reading)
    return (
        Partial(
            reader="nccl",
            file=text.name,
            arch=arches.pop() if len(arches) == 1 else None,
            numa=tuple(NumaPart(number, cpus) for number, cpus in sorted(reading.numa.items()))
            or None,
            devices=tuple(reading.devices),
            links=_links(reading),
            # What is odd about one device may be written many times.
            notes=tuple({note.message: note for note in reversed(reading.notes)}.values())[::-1],
        ),
    )


NCCL: Final = Format(
    name="nccl-topology",
    title="NCCL topology XML (NCCL_TOPO_FILE)",
    sniff=_sniff,
    read=read_nccl,
)


def _read_cpu(cpu: Element, reading: _Reading) -> None:
    number, cpus = _number(cpu), _affinity(cpu)
    if number is not None:
        # Parts of a NUMA node, such as sub-sockets, are elements of their own.
        known = reading.numa.get(number, CpuSet())
        reading.numa[number] = None if known is None or cpus is None else known | cpus
    stack = list(reversed(cpu.children))
    while stack:
        here = stack.pop()
        if len(reading.devices) > MAX_DEVICES:
            raise ReadError(f"more than {MAX_DEVICES} devices", line=here.line)
        if here.tag == "nic":
            # NCCL puts an interface that belongs to no PCI function at the first CPU, wherever
            # it is.
            if names := _interfaces(here):
                reading.devices.append(DevicePart("nic", names=names, confidence="unknown"))
        elif here.tag == "pci" and not _read_pci(here, number, cpus, reading):
            stack += reversed(list(here.all("pci")))


def _read_pci(pci: Element, number: int | None, cpus: CpuSet | None, reading: _Reading) -> bool:
    """Add a device; return whether it is one, rather than a switch."""
    gpu, code = pci.find("gpu"), _hexadecimal(pci, "class", 6) or ""
    names = tuple(sorted({name for nic in pci.all("nic") for name in _interfaces(nic)}))
    vendor, model = _hexadecimal(pci, "vendor", 4), _hexadecimal(pci, "device", 4)
    if vendor in _NO_VENDOR:
        vendor = None
    type_: DeviceType
    if gpu is not None or (code[:2] in GPU_CLASSES and vendor in (*_GPU_VENDORS, None)):
        type_ = "gpu"
    elif code[:2] == _NETWORK or pci.find("nic") is not None:
        type_ = "nic"
    elif code or pci.find("pci") is not None:
        return False
    else:
        # NCCL looks the class up on the machine; that the device is there is known all the same.
        type_ = "other"
    bdf = canonical_bdf(pci.get("busid") or "")
    if bdf is None:
        raise ReadError(
            f"busid {shown(pci.get('busid') or '')} is not a PCI address", line=pci.line
        )
    if bdf in reading.at:
        reading.notes.append(Note(f"{bdf} is in the file twice; the first one counts", pci.line))
        return True
    reading.at[bdf] = place = len(reading.devices)
    index = gpu.get("dev") if gpu is not None else None
    reading.devices.append(
        DevicePart(
            type=type_,
            bdf=bdf,
            index=int(index) if index and re.fullmatch(r"[0-9]{1,4}", index, re.ASCII) else None,
            vendor=vendor,
            model=f"{vendor}:{model}" if vendor and model else None,
            names=names,
            numa=() if number is None else (number,),
            cpus=cpus or None,
            confidence="measured" if number is not None or cpus else "unknown",
        )
    )
    if gpu is not None:
        reading.nvlinks += [(place, link) for link in gpu.all("nvlink")]
    return True


def _number(cpu: Element) -> int | None:
    """Return the NUMA node; None: not given or -1, which is unknown.

    Raises:
        ReadError: it is something else.
    """
    text = cpu.get("numaid")
    if text in (None, "", "-1"):
        return None
    assert text is not None
    if not re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) or int(text) >= _MAX_NUMA:
        raise ReadError(f"numaid {shown(text)} is not a NUMA node", line=cpu.line)
    return int(text)


def _affinity(cpu: Element) -> CpuSet | None:
    text = cpu.get("affinity")
    if not text:
        return None
    try:
        return CpuSet.parse_hex_mask(text)
    except CpuListError as error:
        raise ReadError(f"affinity: {clean(str(error))}", line=cpu.line) from None


def _drop_overlaps(reading: _Reading) -> None:
    """Forget the CPUs of NUMA nodes that share some; a CPU belongs to one node."""
    covered = shared = CpuSet()
    for cpus in reading.numa.values():
        if cpus is not None:
            shared |= covered & cpus
            covered |= cpus
    if not shared:
        return
    for number, cpus in sorted(reading.numa.items()):
        if cpus is not None and not cpus.isdisjoint(shared):
            reading.numa[number] = None
            reading.notes.append(
                Note(
                    f"numaid {number} shares CPU {cpus & shared} with another one; its affinity "
                    "is not used"
                )
            )
    # The devices keep their node, and lose the list that is not believed.
    reading.devices = [
        replace(one, cpus=None, confidence=one.confidence if one.numa else "unknown")
        if one.cpus is not None and not one.cpus.isdisjoint(shared)
        else one
        for one in reading.devices
    ]


def _links(reading: _Reading) -> tuple[LinkPart, ...]:
    """Return the NVLinks between GPUs; those to an NVSwitch lead to no GPU in particular."""
    counts: dict[tuple[int, int], int] = {}
    for place, link in reading.nvlinks:
        target = reading.at.get(canonical_bdf(link.get("target") or "") or "")
        count = _count(link)
        if target is None or not count:
            continue
        if target == place:
            reading.notes.append(
                Note(f"{link.get('target')} has an NVLink to itself; not used", link.line)
            )
            continue
        counts[place, target] = counts.get((place, target), 0) + count
    links = []
    for (a, b), count in sorted(counts.items()):
        back = counts.get((b, a))
        if back is not None and back != count:
            if a < b:
                names = f"{reading.devices[a].bdf} and {reading.devices[b].bdf}"
                reading.notes.append(
                    Note(f"{names} count {count} and {back} NVLinks to each other; not used")
                )
        elif (back is None or a < b) and count < 1000:
            links.append(LinkPart(min(a, b), max(a, b), f"NV{count}"))
    return tuple(sorted(links, key=lambda link: (link.a, link.b)))


def _count(link: Element) -> int:
    text = link.get("count") or ""
    return int(text) if re.fullmatch(r"[0-9]{1,3}", text, re.ASCII) else 0


def _interfaces(nic: Element) -> tuple[str, ...]:
    """Return the kernel's names of the interfaces of a <nic>."""
    names = [net.get("name") or "" for net in nic.all("net")]
    return tuple(sorted({name for name in names if _KERNEL_NAME.fullmatch(name)}))


def _hexadecimal(pci: Element, name: str, digits: int) -> str | None:
    match = _HEX.fullmatch(pci.get(name) or "")
    return None if match is None else match.group(1).lower().rjust(digits, "0")
