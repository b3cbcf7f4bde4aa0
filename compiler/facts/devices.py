"""GPUs and network devices from sysfs, and where it says they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from compiler.cpuset import CpuSet
from compiler.facts.bdf import bdf_key, canonical_bdf
from compiler.facts.nvidia import NvidiaGpu
from compiler.facts.partial import DevicePart
from compiler.facts.pci_ids import GPU_CLASSES, NVIDIA, is_gpu
from compiler.facts.tree import Tree, clean

PCI: Final = "/sys/bus/pci/devices"
_NET_CLASSES: Final = ("/sys/class/net", "/sys/class/infiniband")
_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}", re.ASCII)
_USB: Final = re.compile(r"usb[0-9]+", re.ASCII)

_NETWORK_CLASS: Final = "02"


@dataclass(slots=True)
class _Found:
    """A device on its way; ``path`` is its directory below /sys/devices."""

    type: Literal["gpu", "nic"]
    path: str
    bdf: str | None
    names: set[str] = field(default_factory=set)


def read_devices(
    tree: Tree, online: CpuSet, nvidia: Mapping[str, NvidiaGpu]
) -> tuple[DevicePart, ...]:
    """Return GPUs, then network devices, each by PCI address.

    Only physical functions count: SR-IOV virtual functions of this machine, bridges, VLANs and
    other virtual interfaces are left out, and so are interfaces behind USB.

    ``numa`` is ``numa_node``: -1 is unknown, never node 0.  ``cpus`` is ``local_cpulist``, which
    the kernel derives from it: no second witness, but all that POWER9 has.
    """
    found = _pci_devices(tree)
    _add_interfaces(tree, found)
    chosen = sorted(
        found.values(),
        key=lambda one: (
            one.type,
            one.bdf is None,
            bdf_key(one.bdf),
            sorted(one.names),
            one.path,
        ),
    )
    return tuple(_device(tree, online, nvidia, one) for one in chosen)


def _pci_devices(tree: Tree) -> dict[str, _Found]:
    """Return GPUs and network controllers by their resolved directory."""
    found: dict[str, _Found] = {}
    for name in tree.names(PCI):
        bdf = canonical_bdf(name)
        if bdf is None:
            tree.warn(f"{PCI}: {clean(name, 60)} is not a PCI address")
            continue
        path = tree.resolve(f"{PCI}/{name}")
        if path is None:
            continue
        base = f"{(tree.hexadecimal(f'{path}/class') or 0) >> 16:02x}"
        if base != _NETWORK_CLASS and base not in GPU_CLASSES:
            continue
        vendor = _id(tree, path, "vendor")
        if vendor is None or tree.link(f"{path}/physfn") is not None:
            continue
        if base == _NETWORK_CLASS:
            found[path] = _Found("nic", path, bdf)
        elif is_gpu(base, vendor, _id(tree, path, "device")):
            found[path] = _Found("gpu", path, bdf)
    return found


def _add_interfaces(tree: Tree, found: dict[str, _Found]) -> None:
    """Add the kernel's names of network devices, and devices that are not PCI functions."""
    for base in _NET_CLASSES:
        for name in tree.names(base):
            path = tree.resolve(f"{base}/{name}/device")
            if path is None or not path.startswith("/sys/devices/"):
                continue  # virtual, or not a link as the kernel makes them
            own = path
            path, bdf = _function(path)
            if path is None or tree.link(f"{path}/physfn") is not None:
                continue
            if path not in found and path != own and not _is_network(tree, path):
                bdf = None
            device = found.setdefault(path, _Found("nic", path, bdf))
            if device.type == "nic":
                device.names.add(clean(name, 60))


def _is_network(tree: Tree, path: str) -> bool:
    """Return whether a PCI function is a network controller.

    An interface behind another kind of function (a Thunderbolt controller) is not at the address
    of that function: it comes and goes while the function stays, and a node that compares
    addresses does not count it.
    """
    return (tree.hexadecimal(f"{path}/class") or 0) >> 16 == int(_NETWORK_CLASS, 16)


def _function(path: str) -> tuple[str | None, str | None]:
    """Return the device that an interface belongs to, and its PCI address if it has one.

    Of ``.../0000:00:03.0/virtio0`` it is the PCI function.  A USB interface belongs to none: its
    nearest function is the host controller, which stands for everything plugged in.
    """
    steps = path.split("/")
    for last in range(len(steps), 0, -1):
        step = steps[last - 1]
        if _USB.fullmatch(step):
            return None, None
        if (bdf := _full_bdf(step)) is not None:
            return "/".join(steps[:last]), bdf
    if "virtual" in steps:
        return None, None
    return path, None


def _full_bdf(step: str) -> str | None:
    """Return the address that a directory is named by; it has a domain there."""
    return canonical_bdf(step) if step.count(":") == 2 else None


def _pcie_root(path: str) -> str | None:
    """Return the root complex: the first step such as ``pci0000:3a``.

    Further ones are domains behind it (Intel VMD).
    """
    return next((step for step in path.split("/") if _ROOT.fullmatch(step)), None)


def _id(tree: Tree, path: str, name: str) -> str | None:
    """Return a PCI id as four digits."""
    number = tree.hexadecimal(f"{path}/{name}")
    return None if number is None else f"{number:04x}"


def _device(tree: Tree, online: CpuSet, nvidia: Mapping[str, NvidiaGpu], one: _Found) -> DevicePart:
    vendor = device = None
    if one.bdf is not None:
        vendor = _id(tree, one.path, "vendor")
        device = _id(tree, one.path, "device")
    gpu = NvidiaGpu()
    if one.type == "gpu" and one.bdf is not None and vendor == NVIDIA:
        gpu = nvidia.get(one.bdf, gpu)
    model = gpu.model
    if model is None and vendor is not None and device is not None:
        model = f"{vendor}:{device}"
    node = tree.number(f"{one.path}/numa_node")
    numa = (node,) if node is not None and node >= 0 else ()
    near = tree.cpus(f"{one.path}/local_cpulist", f"{one.path}/local_cpus")
    near = near & online if near is not None else None
    return DevicePart(
        type=one.type,
        bdf=one.bdf,
        uuid=gpu.uuid,
        vendor=vendor,
        model=model,
        names=tuple(sorted(one.names)),
        pcie_root=_pcie_root(one.path),
        numa=numa,
        memory_node=gpu.memory_node,
        cpus=near or None,
        confidence="measured" if numa or near else "unknown",
    )
