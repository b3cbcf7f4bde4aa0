"""GPUs and network devices of all sources: ids, fields, places and links."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from compiler.facts.merge.cpus import CpuTable
from compiler.facts.merge.identity import Entry, Group, group_devices
from compiler.facts.merge.log import Log
from compiler.facts.merge.numa import NumaTable
from compiler.facts.merge.place import Placed, Placer
from compiler.facts.partial import DevicePart, Partial
from compiler.facts.shown import clean, shown
from compiler.model.facts import Device, DeviceLink

V = TypeVar("V")

_PREFIX: Final[tuple[tuple[Literal["gpu", "nic", "other"], str], ...]] = (
    ("gpu", "gpu"),
    ("nic", "nic"),
    ("other", "other"),
)
_PCI_IDS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
"""A model that is only the numbers of its vendor and device."""
_LINK: Final = re.compile(r"PIX|PXB|PHB|NODE|SYS|NV[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices in the order of the facts, and the links between them."""

    devices: tuple[Device, ...]
    links: tuple[DeviceLink, ...]


def gpu_memory_nodes(partials: Sequence[Partial]) -> frozenset[int]:
    """Return the NUMA nodes that a source says are a GPU's own memory."""
    return frozenset(
        part.memory_node
        for one in partials
        for part in one.devices or ()
        if part.memory_node is not None
    )


def merge_devices(
    log: Log, partials: Sequence[Partial], table: CpuTable, numa: NumaTable
) -> Devices:
    """Return the devices: GPUs, then network devices, then others, each by PCI address.

    Ids are ``gpu0``, ``gpu1``, ..., ``nic0``, ... in that order.  The instances of a GPU (MIG)
    follow it as ``gpu0-mig0``, ... and are where it is.
    """
    for partial in partials:
        if partial.devices is not None and partial.reader == "sysfs":
            log.supplied(partial, "devices")  # it sees all: also none is known
    groups = group_devices(log, partials)
    placer = Placer(log, table, numa)
    found: list[tuple[Group, Device]] = []
    everywhere: dict[tuple[int, ...], list[str]] = {}
    children: dict[str, list[Group]] = {}
    for group in groups:
        if group.parent_uuid is not None:
            children.setdefault(group.parent_uuid, []).append(group)
    for type_, prefix in _PREFIX:
        chosen = [g for g in groups if g.type == type_ and g.parent_uuid is None]
        for number, group in enumerate(sorted(chosen, key=lambda g: g.order)):
            id_ = f"{prefix}{number}"
            name = id_ if group.bdf is None else f"{id_} ({group.bdf})"
            placed = placer.place(name, group.entries)
            if placed.everywhere:
                everywhere.setdefault(placed.everywhere, []).append(id_)
            device = _device(log, id_, group, placed)
            found.append((group, device))
            mine = children.pop(group.uuid or "", []) + children.pop(group.bdf or "", [])
            found += [
                (child, _device(log, f"{id_}-mig{place}", child, placed, parent=id_))
                for place, child in enumerate(_in_order(mine))
            ]
    for child in (one for left in children.values() for one in left):
        log.about(
            child.entries[0].partial,
            f"{child.label} is an instance of GPU {child.parent_uuid}, which no source has; left "
            "out",
        )
    for nodes, ids in sorted(everywhere.items()):
        log.remark(
            f"{', '.join(ids)}: near NUMA nodes {', '.join(map(str, nodes))}, which have all CPUs; "
            "this gives no locality information"
        )
    devices = tuple(device for _, device in found)
    return Devices(devices, _links(log, partials, found))


def _in_order(children: Sequence[Group]) -> list[Group]:
    """Return instances in the order of the most trusted source that has them."""
    return sorted(
        children,
        key=lambda group: (group.index is None, group.index or 0, group.entries[0].position),
    )


def _device(
    log: Log, id_: str, group: Group, placed: Placed, *, parent: str | None = None
) -> Device:
    entries = group.entries
    for entry in entries:
        log.supplied(entry.partial, "devices")

    def first(name: str, get: Callable[[DevicePart], V | None], *, strict: bool = True) -> V | None:
        said = [(e, value) for e in entries if (value := get(e.part)) is not None]
        for entry, value in said[1:] if strict else ():
            if value != said[0][1]:
                log.disagree(f"{id_} {name}", said[0][0].partial, said[0][1], entry.partial, value)
        return said[0][1] if said else None

    return Device(
        id=id_,
        type=entries[0].part.type,
        vendor=first("vendor", lambda part: part.vendor),
        model=_model(entries),
        bdf=group.bdf,
        uuid=first("uuid", lambda part: part.uuid),
        index=first("index", lambda part: part.index),
        parent=parent,
        pcieRoot=first("pcieRoot", lambda part: part.pcie_root),
        names=tuple(sorted(group.names)),
        numa=placed.numa,
        locality=placed.locality,
    )


def _model(entries: Sequence[Entry]) -> str | None:
    """Return a name rather than the numbers of vendor and device."""
    models = [clean(entry.part.model, 80) for entry in entries if entry.part.model]
    names = [model for model in models if _PCI_IDS.fullmatch(model) is None]
    return next(iter(names or models), None)


def _links(
    log: Log, partials: Sequence[Partial], found: Sequence[tuple[Group, Device]]
) -> tuple[DeviceLink, ...]:
    place_of = {
        (id(entry.partial), entry.position): place
        for place, (group, _) in enumerate(found)
        for entry in group.entries
    }
    ids = [device.id for _, device in found]
    kinds: dict[tuple[int, int], tuple[Partial, str]] = {}
    for partial in partials:
        for link in partial.links:
            ends = [place_of.get((id(partial), end)) for end in (link.a, link.b)]
            a, b = ends
            if a is None or b is None or a == b:
                continue
            if _LINK.fullmatch(link.kind) is None:
                log.about(
                    partial,
                    f"the link {ids[a]} to {ids[b]} is {shown(link.kind)}, which is not known; "
                    "left out",
                )
                continue
            pair = (min(a, b), max(a, b))
            winner, kind = kinds.setdefault(pair, (partial, link.kind))
            if kind != link.kind:
                log.disagree(
                    f"link of {ids[pair[0]]} and {ids[pair[1]]}", winner, kind, partial, link.kind
                )
            log.supplied(winner, "links")
    table: Mapping[tuple[int, int], tuple[Partial, str]] = kinds
    return tuple(
        DeviceLink(a=ids[a], b=ids[b], kind=kind) for (a, b), (_, kind) in sorted(table.items())
    )
