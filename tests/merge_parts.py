"""What sources say of one node, for tests of merging them."""

from __future__ import annotations

from typing import Any

from compiler.cpuset import CpuSet
from compiler.facts.merge import Merged, merge
from compiler.facts.partial import (
    DevicePart,
    LinkPart,
    LlcPart,
    NumaPart,
    Partial,
)
from compiler.model.facts import Device

NVIDIA, AMD = "10de", "1002"
GPU0, GPU1 = "0000:17:00.0", "0000:b5:00.0"


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def sets(*texts: str) -> tuple[CpuSet, ...]:
    return tuple(CpuSet.parse(text) for text in texts)


def two_nodes(reader: str = "sysfs", file: str = "snap", **other: Any) -> Partial:
    """Eight cores of two threads (n, n+8), two packages, each a NUMA node with two L3."""
    values: dict[str, Any] = {
        "online": cpus("0-15"),
        "cores": sets(*(f"{n},{n + 8}" for n in range(8))),
        "packages": ((0, cpus("0-3,8-11")), (1, cpus("4-7,12-15"))),
        "llcs": tuple(
            LlcPart(cpus(f"{n}-{n + 1},{n + 8}-{n + 9}"), 3, 16384) for n in (0, 2, 4, 6)
        ),
        "numa": (
            NumaPart(0, cpus("0-3,8-11"), 4096, {0: 10, 1: 21}),
            NumaPart(1, cpus("4-7,12-15"), 4096, {0: 21, 1: 10}),
        ),
    }
    return Partial(reader, file, **{**values, **other})


def gpu(bdf: str | None = None, **other: Any) -> DevicePart:
    return DevicePart("gpu", bdf=bdf, **{"vendor": NVIDIA, **other})


def merged(*partials: Partial) -> Merged:
    return merge(partials, name="n")


def said(result: Merged) -> str:
    return "\n".join(result.facts.spec.warnings)


def place(device: Device) -> tuple[int | None, str | None, str, str]:
    near = device.locality.cpus
    where = (None if near is None else str(near), device.locality.scope, device.locality.confidence)
    return (device.numa, *where)


def topo(*devices: DevicePart, links: tuple[LinkPart, ...] = ()) -> Partial:
    return Partial("nvidia-smi topo", "topo.txt", devices=devices, links=links)


def on_two(*devices: DevicePart) -> Partial:
    return two_nodes(devices=devices)
