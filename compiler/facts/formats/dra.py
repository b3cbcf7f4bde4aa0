"""DRA ResourceSlices (resource.k8s.io/v1alpha3 to v1): the devices of a node as drivers name them.

Attribute names without a domain belong to the driver: ``uuid`` of gpu.nvidia.com is
``gpu.nvidia.com/uuid``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.facts.bdf import canonical_bdf
from compiler.facts.formats.dra_cpu import CpuFacts, cpu_facts
from compiler.facts.formats.kubernetes_object import KubernetesObject, whole
from compiler.facts.partial import DevicePart, DeviceType, Note, Partial
from compiler.facts.pci_ids import AMD, INTEL, NVIDIA
from compiler.facts.shown import clean, shown
from compiler.source import Data

CPU_DRIVER: Final = "dra.cpu"
_STANDARD: Final = "resource.kubernetes.io"
_NETWORK: Final = "dra.net"
_PCIE_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_MAX_NODE: Final = 1 << 16
_MAX_INDEX: Final = 1 << 16

# Drivers of GPUs, and the PCI vendor of all their devices.
_GPU_DRIVERS: Final = {"gpu.nvidia.com": NVIDIA, "gpu.amd.com": AMD, "gpu.intel.com": INTEL}
# Vendors as the PCI id database names them, which is what the network driver publishes.
_VENDORS: Final = {
    "Amazon.com, Inc.": "1d0f",
    "Broadcom Inc. and subsidiaries": "14e4",
    "Intel Corporation": "8086",
    "Mellanox Technologies": "15b3",
}
_BDF_NAMES: Final = ("pciBusID", "pciAddress", "pciAddr")
_NUMA_NAMES: Final = ("numaNode", "numaNodeID", "numa")
_ROOT_NAMES: Final = ("pcieRoot", "pciRoot")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of one device, by full name.

    Attributes:
        name: of the device in its slice.
        line: of the device.
        values: numbers, texts, booleans, or tuples of them.
    """

    driver: str
    name: str
    line: int
    values: dict[str, Data]

    def first(self, names: Iterable[str], domains: Iterable[str]) -> Data:
        """Return the first value among the names in the first domain that has one."""
        for domain in domains:
            for name in names:
                if (value := self.values.get(f"{domain}/{name}")) is not None:
                    return value
        return None

    def own(self, name: str) -> Data:
        """Return the driver's own attribute of that name."""
        return self.values.get(f"{self.driver}/{name}")

    def text(self, name: str) -> str | None:
        """Return the driver's own attribute if it is a text that says something."""
        value = self.own(name)
        return clean(value, 80) or None if isinstance(value, str) else None


def read_slices(
    driver: str, slices: Sequence[KubernetesObject], file: str, node: str
) -> Partial | None:
    """Return what the slices of one driver say of the node; None if nothing that is used.

    Only the newest generation of a pool counts: a driver that republishes leaves old slices
    behind for a while.
    """
    notes: list[Note] = []
    devices = [one for slice_ in _newest(slices, notes) for one in _devices(driver, slice_)]
    if driver == CPU_DRIVER:
        cpus = cpu_facts(((one.values, one.line) for one in devices), notes)
        return _of_cpus(cpus, file, node, notes)
    parts: list[DevicePart] = []
    seen: dict[str, str] = {}
    left_out = 0
    for one in devices:
        part = _device(one, notes)
        if part is None:
            left_out += 1
            continue
        key = part.bdf or part.uuid or ""
        if key and key in seen:
            # A GPU and the same GPU handed out whole to a VM, or its partitions.
            if seen[key] != one.name:
                notes.append(Note(f"{one.name} is {seen[key]} again, not used", one.line))
            continue
        seen[key] = one.name
        parts.append(part)
    if left_out:
        notes.append(
            Note(
                f"{left_out} of the devices of driver {clean(driver, 80)} are no GPU that is there "
                "and no physical network device, not used",
                slices[0].line(),
            )
        )
    if not parts and not notes:
        return None
    return Partial(
        reader="dra", file=file, node=node, devices=tuple(parts) or None, notes=tuple(notes)
    )


def _newest(slices: Sequence[KubernetesObject], notes: list[Note]) -> tuple[KubernetesObject, ...]:
    """Return the slices of the newest generation of each pool; note pools that lack some."""
    generation: dict[str, int] = {}
    for one in slices:
        pool = one.text("spec", "pool", "name") or ""
        now = one.integer("spec", "pool", "generation") or 0
        generation[pool] = max(now, generation.get(pool, 0))
    kept: dict[str, list[KubernetesObject]] = {}
    for one in slices:
        pool = one.text("spec", "pool", "name") or ""
        if (one.integer("spec", "pool", "generation") or 0) < generation[pool]:
            notes.append(Note(f"slice {shown(one.name)} is out of date, not used", one.line()))
        else:
            kept.setdefault(pool, []).append(one)
    for pool, members in kept.items():
        count = members[0].integer("spec", "pool", "resourceSliceCount")
        names = {one.name for one in members}
        if count is not None and count > len(names):
            notes.append(
                Note(
                    f"pool {shown(pool)} has {count} slices, but {len(names)} are here; devices "
                    "are missing",
                    members[0].line("spec", "pool"),
                )
            )
    return tuple(one for members in kept.values() for one in members)


def _devices(driver: str, item: KubernetesObject) -> list[Attributes]:
    found: list[Attributes] = []
    for place in range(item.size("spec", "devices")):
        route = ("spec", "devices", place)
        raw = item.mapping(*route, "attributes") or item.mapping(*route, "basic", "attributes")
        values = {
            (name if "/" in name else f"{driver}/{name}"): _value(value)
            for name, value in raw.items()
        }
        name = clean(item.text(*route, "name") or f"device {place}", 80)
        found.append(Attributes(driver, name, item.line(*route), values))
    return found


def _value(value: Data) -> Data:
    """Take a value out of ``{int: 1}``, ``{string: x}``, ``{strings: [x]}`` and the like."""
    if isinstance(value, dict) and len(value) == 1:
        return next(iter(value.values()))
    return None


def _device(one: Attributes, notes: list[Note]) -> DevicePart | None:
    """Return a device, or None if it is neither a GPU nor a network device of the machine."""
    domains = (_STANDARD, one.driver, _NETWORK)
    type_: DeviceType
    if one.driver in _GPU_DRIVERS:
        type_ = "gpu"
    elif one.driver == _NETWORK:
        type_ = "nic"
    else:
        return None
    said = one.first(_BDF_NAMES, domains)
    bdf = canonical_bdf(said) if isinstance(said, str) else None
    if said is not None and bdf is None:
        notes.append(Note(f"{one.name}: {shown(str(said))} is no PCI address", one.line))
    if type_ == "nic":
        if bdf is None or one.own("isSriovVf") is True:
            return None  # a virtual interface, or a part of another function
        names = {one.text("ifName"), one.text("rdmaDevice")} - {None}
        vendor = one.own("pciVendor")
        return DevicePart(
            type=type_,
            bdf=bdf,
            vendor=_VENDORS.get(vendor) if isinstance(vendor, str) else None,
            model=one.text("pciDevice"),
            names=tuple(sorted(name for name in names if name is not None)),
            pcie_root=_pcie_root(one, domains, notes),
            numa=_numa(one, domains, notes),
        )
    uuid = one.text("uuid")
    parent = one.text("parentUUID") if one.text("type") == "mig" else None
    if one.text("type") == "mig":
        if uuid is None or parent is None:
            return None  # a slice that could be made, and is not there
        bdf = None  # its address is that of the whole GPU
    if bdf is None and uuid is None:
        notes.append(Note(f"{one.name} has neither PCI address nor UUID, not used", one.line))
        return None
    index = whole(one.own("index"))
    return DevicePart(
        type=type_,
        bdf=bdf,
        uuid=uuid,
        index=index if index is not None and 0 <= index < _MAX_INDEX and parent is None else None,
        parent_uuid=parent,
        vendor=_GPU_DRIVERS[one.driver],
        model=one.text("productName") or one.text("model"),
        pcie_root=_pcie_root(one, domains, notes),
        numa=_numa(one, domains, notes),
    )


def _pcie_root(one: Attributes, domains: Sequence[str], notes: list[Note]) -> str | None:
    said = one.first(_ROOT_NAMES, domains)
    if isinstance(said, tuple) and len(said) == 1:
        said = said[0]
    if said is None:
        return None
    if not isinstance(said, str) or _PCIE_ROOT.fullmatch(said) is None:
        notes.append(Note(f"{one.name}: the PCIe root is none that is known", one.line))
        return None
    return said


def _numa(one: Attributes, domains: Sequence[str], notes: list[Note]) -> tuple[int, ...]:
    """Return the NUMA node; -1 is unknown.  The standard attribute wins over a driver's own."""
    nodes: dict[int, None] = {}
    for domain in domains:
        for name in _NUMA_NAMES:
            value = whole(one.values.get(f"{domain}/{name}"))
            if value is not None and 0 <= value < _MAX_NODE:
                nodes[value] = None
    if len(nodes) > 1:
        listed = " and ".join(str(node) for node in nodes)
        notes.append(Note(f"{one.name} is on the NUMA nodes {listed}; the first counts", one.line))
    return tuple(nodes)[:1]


def _of_cpus(cpus: CpuFacts | None, file: str, node: str, notes: Sequence[Note]) -> Partial | None:
    if cpus is None:
        return Partial(reader="dra", file=file, node=node, notes=tuple(notes)) if notes else None
    return Partial(
        reader="dra",
        file=file,
        node=node,
        cores=cpus.cores,
        packages=cpus.packages,
        llcs=cpus.llcs,
        numa=cpus.numa,
        notes=tuple(notes),
    )
