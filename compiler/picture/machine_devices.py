"""Devices in a picture of a machine: beside the CPUs they are near, or apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from compiler.facts.bdf import bdf_key
from compiler.model.facts import NodeFacts
from compiler.picture.machine import Box, DeviceMark
from compiler.topology import Topology
from compiler.words import natural


def device_marks(facts: NodeFacts, topology: Topology) -> tuple[DeviceMark, ...]:
    """Return the devices in the order in which they are drawn; parts of others only count."""
    spec = facts.spec
    views = {view.id: view for view in topology.devices}
    instances = Counter(device.parent for device in spec.devices)
    marks = []
    for device in spec.devices:
        if device.parent is not None:
            continue
        view = views[device.id]
        marks.append(
            DeviceMark(
                id=device.id,
                type=device.type,
                bdf=device.bdf,
                model=device.model,
                names=device.names,
                near=view.cpus,
                numa=view.numa,
                scope=view.scope,
                confidence=view.confidence if view.cpus is not None else "unknown",
                instances=instances[device.id],
            )
        )
    order = ("gpu", "nic", "other")
    return tuple(
        sorted(
            marks,
            key=lambda one: (
                order.index(one.type),
                not one.bdf,
                bdf_key(one.bdf),
                natural(one.id),
            ),
        )
    )


def placed(
    boxes: Sequence[Box], devices: Sequence[DeviceMark]
) -> tuple[tuple[Box, ...], tuple[DeviceMark, ...]]:
    """Return the boxes with the devices in them, and the devices that are in none.

    A device goes to the smallest box that holds all CPUs near it.
    """
    left: list[DeviceMark] = []
    inside: list[list[DeviceMark]] = [[] for _ in boxes]
    for device in devices:
        near = device.near
        if near is None:
            raise ValueError(f"{device.id} has no known place")
        at = next((i for i, box in enumerate(boxes) if near <= box.cpus), None)
        (left if at is None else inside[at]).append(device)
    out = []
    for box, own in zip(boxes, inside, strict=True):
        deeper, here = placed(box.boxes, own)
        out.append(replace(box, boxes=deeper, devices=here))
    return tuple(out), tuple(left)
