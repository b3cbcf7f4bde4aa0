"""GPUs and network devices from sysfs, and the CPUs they are near."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from compiler.facts.locality import place_device
from compiler.facts.table import CpuTable
from compiler.facts.tree import Tree, clean
from compiler.model.facts import Device

PCI: Final = "/sys/bus/pci/devices"
_BDF: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z")
_NET_CLASSES: Final = ("/sys/class/net", "/sys/class/infiniband")
_NVIDIA: Final = "/proc/driver/nvidia/gpus"

_NVIDIA_ID, _AMD_ID, _INTEL_ID = 0x10DE, 0x1002, 0x8086
# PCI class code (top byte) -> vendors whose devices of that class are GPUs.  Display controllers
# of other vendors are the VGA of a board's management controller (ASPEED, Matrox) or of a virtual
# machine; Intel's processing accelerators are NPUs and not GPUs.
_GPU_VENDORS: Final[Mapping[int, frozenset[int]]] = {
    0x03: frozenset({_NVIDIA_ID, _AMD_ID, _INTEL_ID}),
    0x12: frozenset({_NVIDIA_ID, _AMD_ID}),
}
_NETWORK_CLASS: Final = 0x02


@dataclass(slots=True)
class _Found:
    """A device on its way to the model; ``path`` is its directory below /sys/devices."""

    type: str
    path: str
    bdf: str | None
    names: set[str] = field(default_factory=set)


def read_devices(tree: Tree, table: CpuTable) -> tuple[Device, ...]:
    """Return GPUs, then network devices, each by PCI address.

    Ids are ``gpu0``, ``gpu1`` ... and ``nic0``, ``nic1`` ... in that order.  Only physical
    functions count: SR-IOV virtual functions of this machine, bridges, VLANs and other virtual
    interfaces are left out, and so are interfaces behind USB.
    """
    found = _pci_devices(tree)
    _add_interfaces(tree, found)
    devices: list[Device] = []
    for kind in ("gpu", "nic"):
        chosen = sorted(
            (one for one in found.values() if one.type == kind),
            key=lambda one: (one.bdf is None, bdf_key(one.bdf), sorted(one.names), one.path),
        )
        devices += [
            _device(tree, table, one, f"{kind}{number}") for number, one in enumerate(chosen)
        ]
    return tuple(devices)


def bdf_key(bdf: str | None) -> tuple[int, ...]:
    """Return a PCI address as numbers, so that domain 10000 follows 000f."""
    match = _BDF.match(bdf or "")
    return tuple(int(part, 16) for part in match.groups()) if match else ()


def _pci_devices(tree: Tree) -> dict[str, _Found]:
    """Return GPUs and network controllers by their resolved directory."""
    found: dict[str, _Found] = {}
    for name in tree.names(PCI):
        bdf = name.lower()
        if not _BDF.match(bdf):
            tree.warn(f"{PCI}: {clean(name, 60)} is not a PCI address")
            continue
        path = tree.resolve(f"{PCI}/{name}")
        if path is None or tree.link(f"{path}/physfn") is not None:
            continue
        code, vendor = tree.hexadecimal(f"{path}/class"), tree.hexadecimal(f"{path}/vendor")
        if code is None or vendor is None:
            continue
        if vendor in _GPU_VENDORS.get(code >> 16, ()):
            found[path] = _Found("gpu", path, bdf)
        elif code >> 16 == _NETWORK_CLASS:
            found[path] = _Found("nic", path, bdf)
    return found


def _add_interfaces(tree: Tree, found: dict[str, _Found]) -> None:
    """Add the kernel's names of network devices, and devices that are not PCI functions."""
    for base in _NET_CLASSES:
        for name in tree.names(base):
            path = tree.resolve(f"{base}/{name}/device")
            if path is None or not path.startswith("/sys/devices/"):
                continue  # virtual, or not a link as the kernel makes them
            path, bdf = _function(path)
            if path is None or tree.link(f"{path}/physfn") is not None:
                continue
            device = found.setdefault(path, _Found("nic", path, bdf))
            if device.type == "nic":
                device.names.add(clean(name, 60))


def _function(path: str) -> tuple[str | None, str | None]:
    """Return the device that an interface belongs to, and its PCI address if it has one.

    Of ``.../0000:00:03.0/virtio0`` it is the PCI function.  A USB interface belongs to none: its
    nearest function is the host controller, which stands for everything plugged in.
    """
    steps = path.split("/")
    for last in range(len(steps), 0, -1):
        step = steps[last - 1]
        if re.fullmatch(r"usb[0-9]+", step):
            return None, None
        if _BDF.match(step.lower()):
            return "/".join(steps[:last]), step.lower()
    if any(step == "virtual" for step in steps):
        return None, None
    return path, None


def _device(tree: Tree, table: CpuTable, one: _Found, id_: str) -> Device:
    vendor = device = None
    if one.bdf is not None:
        vendor = tree.hexadecimal(f"{one.path}/vendor")
        device = tree.hexadecimal(f"{one.path}/device")
    model = f"{vendor:04x}:{device:04x}" if vendor is not None and device is not None else None
    uuid = None
    if one.type == "gpu" and one.bdf is not None and vendor == _NVIDIA_ID:
        told = _nvidia(tree, one.bdf)
        model, uuid = told.get("Model", model), told.get("GPU UUID")
    numa, locality = place_device(tree, table, one.path, one.bdf or ",".join(sorted(one.names)))
    return Device(
        id=id_,
        type="gpu" if one.type == "gpu" else "nic",
        vendor=None if vendor is None else f"{vendor:04x}",
        model=model,
        bdf=one.bdf,
        uuid=uuid,
        names=tuple(sorted(one.names)),
        numa=numa,
        locality=locality,
    )


def _nvidia(tree: Tree, bdf: str) -> Mapping[str, str]:
    """Return what the NVIDIA driver tells without a tool; a UUID is hidden from plain users."""
    for name in tree.names(_NVIDIA):
        if bdf_key(name.lower()) == bdf_key(bdf):
            text = tree.text(f"{_NVIDIA}/{name}/information") or ""
            return dict(_fields(text.splitlines()))
    return {}


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        key, colon, value = line.partition(":")
        value = clean(value, 80)
        if colon and value and "?" not in value:
            yield key.strip(), value
