"""GPUs and network devices of a topology that hwloc wrote.

A function of the PCI bus stands below the object whose CPUs are near to it, and below the function
stand the names that the system and the vendors' libraries have for it.  One GPU has several
(``cuda0``, ``nvml0``, ``opencl0d0``, ``card0``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.bdf import canonical_bdf
from compiler.facts.formats.hwloc_numa import GPU_MEMORY
from compiler.facts.formats.hwloc_tree import Obj, Topology, cut, read_number
from compiler.facts.partial import (
    Confidence,
    DevicePart,
    DeviceType,
    Note,
    NumaPart,
    ReadError,
)
from compiler.facts.pci_ids import is_gpu
from compiler.facts.shown import clean

_PCI_TYPE: Final = re.compile(
    r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]", re.ASCII | re.IGNORECASE
)
_HOST_BRIDGE: Final = re.compile(
    r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-[0-9a-f]{2}\]", re.ASCII | re.IGNORECASE
)
_BACKEND: Final = re.compile(r"(nvml|rsmi|cuda|ze)([0-9]{1,4})", re.ASCII)
_BACKENDS: Final = ("nvml", "rsmi", "cuda", "ze", "opencl")
_TOOLS: Final = ("nvml", "rsmi")
"""Backends whose numbers are those of a vendor's tool.  CUDA counts in an order of its own
(fastest first, and what CUDA_VISIBLE_DEVICES leaves)."""

MAX_DEVICES: Final = 4096
_NETWORK: Final = "02"
_USB_CONTROLLER: Final = "0c03"

# osdev_type: a number up to version 2, bits in version 3 (HWLOC_OBJ_OSDEV_*).
_NETWORK_TYPES: Final = (2, 3)
_NETWORK_BITS: Final = 16 | 32


@dataclass(slots=True, eq=False)
class _Found:
    """A device and its names on the way: ``place`` is the object that its CPUs are taken from."""

    place: Obj
    interfaces: list[Obj] = field(default_factory=list)
    backends: list[Obj] = field(default_factory=list)


def read_devices(
    topology: Topology,
    online: CpuSet | None,
    numa: Sequence[NumaPart],
    packages: int,
    notes: list[Note],
) -> tuple[DevicePart, ...] | None:
    """Return GPUs and network devices, in the order of the file; None: the file has no devices.

    A network function without an interface is left out: hwloc does not tell a virtual function
    from one without a driver.  A GPU needs no vendor's library: its class and vendor tell.

    Args:
        topology: the file.
        online: CPUs that have a PU.
        numa: its NUMA nodes.
        packages: how many packages it has.
        notes: takes what is odd.

    Raises:
        ReadError: there are more than :data:`MAX_DEVICES`.
    """
    pci, loose = _collect(topology)
    if not pci and not loose:
        return None
    whole = _Whole(topology, online, numa, packages)
    devices: list[DevicePart] = []
    nameless = silent = 0
    for one in pci:
        if len(devices) + len(loose) >= MAX_DEVICES:
            raise ReadError(f"more than {MAX_DEVICES} GPUs and interfaces")
        if (device := _pci_device(one, whole)) is not None:
            devices.append(device)
        elif _busid(one.place) is None:
            nameless += 1
        elif (_pci_type(one.place) or ("",))[0].startswith(_NETWORK):
            silent += 1
    devices += [_loose_device(one, whole) for one in _without_twins(loose)]
    if nameless:
        notes.append(Note(f"{nameless} PCI devices without an address; left out"))
    if silent:
        notes.append(
            Note(
                f"{silent} network functions without an interface (virtual functions, or without "
                "a driver); left out"
            )
        )
    return tuple(devices)


def _collect(topology: Topology) -> tuple[list[_Found], list[_Found]]:
    """Return PCI functions, and devices that stand below none, each with its names."""
    pci: dict[Obj, _Found] = {}
    loose: list[_Found] = []
    for one in topology.objects:
        if one.kind == "PCIDev":
            pci[one] = _Found(one)
            continue
        if one.kind != "OSDev":
            continue
        function = next((up for up in one.ancestors() if up.kind == "PCIDev"), None)
        found = pci[function] if function is not None else _Found(one)
        if _is_interface(topology, one):
            found.interfaces.append(one)
        elif _backend(one) is not None:
            found.backends.append(one)
        if function is None and (found.interfaces or found.backends):
            loose.append(found)
    return list(pci.values()), loose


def _is_interface(topology: Topology, device: Obj) -> bool:
    number = read_number(device.element, "osdev_type")
    if number is None or not device.element.get("name"):
        return False
    return bool(number & _NETWORK_BITS) if topology.version > 2 else number in _NETWORK_TYPES


def _backend(device: Obj) -> str | None:
    """Return the library that names a GPU so; None: it names none."""
    name = device.element.get("name") or ""
    if name.startswith("opencl"):
        return "opencl" if device.info("OpenCLDeviceType") == "GPU" else None
    match = _BACKEND.fullmatch(name)
    return match.group(1) if match else None


def _pci_device(found: _Found, whole: _Whole) -> DevicePart | None:
    bdf, kind = _busid(found.place), _pci_type(found.place)
    if bdf is None:
        return None
    code, vendor, device = kind or ("", None, None)
    type_: DeviceType
    names: tuple[str, ...] = ()
    if found.backends or is_gpu(code[:2], vendor, device):
        type_ = "gpu"
    elif found.interfaces and code != _USB_CONTROLLER:
        # An interface behind USB has the controller's function above it, which stands for all
        # that is plugged in.
        type_, names = "nic", _names(found.interfaces)
    else:
        return None
    model = _first(found.backends, "GPUModel")
    return _part(
        found,
        whole,
        type_,
        bdf=bdf,
        vendor=vendor,
        model=model or (f"{vendor}:{device}" if vendor else None),
        names=names,
    )


def _loose_device(found: _Found, whole: _Whole) -> DevicePart:
    if found.backends:
        return _part(found, whole, "gpu", model=_first(found.backends, "GPUModel"))
    return _part(found, whole, "nic", names=_names(found.interfaces))


def _part(
    found: _Found,
    whole: _Whole,
    type_: DeviceType,
    *,
    bdf: str | None = None,
    vendor: str | None = None,
    model: str | None = None,
    names: tuple[str, ...] = (),
) -> DevicePart:
    cpus, numa, confidence = whole.near(found.place)
    uuid = _first(found.backends, "NVIDIAUUID") or _first(found.backends, "AMDUUID")
    return DevicePart(
        type=type_,
        bdf=bdf,
        uuid=uuid,
        index=_index(found.backends),
        vendor=vendor,
        model=model,
        names=names,
        pcie_root=_root(found.place),
        numa=numa,
        memory_node=whole.memory.get(bdf) if bdf and type_ == "gpu" else None,
        cpus=cpus,
        confidence=confidence,
    )


def _without_twins(loose: Iterable[_Found]) -> list[_Found]:
    """Drop a GPU that CUDA names where the vendor's tool names GPUs too: it is one of those."""
    rows = list(loose)
    tools = any(_backend(one) in _TOOLS for found in rows for one in found.backends)
    return [
        found
        for found in rows
        if not found.backends or not tools or _backend(found.backends[0]) in _TOOLS
    ]


class _Whole:
    """What of the machine tells where a device is."""

    def __init__(
        self, topology: Topology, online: CpuSet | None, numa: Sequence[NumaPart], packages: int
    ) -> None:
        self._online = online
        self._numa = [node for node in numa if node.cpus]
        self._all = cut(topology.machine.mask, online)
        # hwloc puts a device at the machine if it does not know better.  That is where it is only
        # if the machine has no parts.
        self._one_part = len(self._numa) == 1 or (not self._numa and packages <= 1)
        self.memory: dict[str, int] = {}
        for node in topology.of("NUMANode"):
            owner = canonical_bdf(node.info("PCIBusID") or "")
            if owner and node.os_index is not None and node.element.get("subtype") == GPU_MEMORY:
                self.memory[owner] = node.os_index

    def near(self, place: Obj) -> tuple[CpuSet | None, tuple[int, ...], Confidence]:
        """Return CPUs, NUMA nodes and how far they are known."""
        above = next((up for up in place.ancestors() if up.mask is not None), None)
        cpus = cut(above.mask, self._online) if above is not None else None
        if not cpus:
            return None, (), "unknown"
        everywhere = cpus == self._all
        if everywhere and not self._one_part:
            return None, (), "unknown"
        nodes = tuple(
            node.id for node in self._numa if node.cpus and not node.cpus.isdisjoint(cpus)
        )
        if not cpus <= union(node.cpus for node in self._numa if node.cpus):
            nodes = ()
        return cpus, nodes, "inferred" if everywhere else "measured"


def _busid(function: Obj) -> str | None:
    return canonical_bdf(function.element.get("pci_busid") or "")


def _pci_type(function: Obj) -> tuple[str, str, str] | None:
    """Return class (four digits), vendor and device."""
    match = _PCI_TYPE.match(function.element.get("pci_type") or "")
    return None if match is None else (match[1].lower(), match[2].lower(), match[3].lower())


def _root(place: Obj) -> str | None:
    """Return the root complex as sysfs names it, by the host bridge above."""
    for up in place.ancestors():
        if up.kind == "Bridge" and (up.element.get("bridge_type") or "").startswith("0-"):
            match = _HOST_BRIDGE.fullmatch(up.element.get("bridge_pci") or "")
            return f"pci{int(match[1], 16):04x}:{match[2].lower()}" if match else None
    return None


def _index(backends: Sequence[Obj]) -> int | None:
    for tool in _TOOLS:
        for one in backends:
            match = _BACKEND.fullmatch(one.element.get("name") or "")
            if match and match.group(1) == tool:
                return int(match.group(2))
    return None


def _first(backends: Sequence[Obj], name: str) -> str | None:
    """Return an info, from the library that is to be believed most."""
    order = sorted(backends, key=lambda one: _BACKENDS.index(_backend(one) or "opencl"))
    values = [value for one in order if (value := one.info(name))]
    return clean(values[0], 80) if values else None


def _names(interfaces: Sequence[Obj]) -> tuple[str, ...]:
    return tuple(sorted({clean(one.element.get("name") or "", 60) for one in interfaces}))
