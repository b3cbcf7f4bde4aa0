"""Devices of two machines: which is which, and in what they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from compiler.facts.bdf import bdf_key
from compiler.facts.diff_values import NOT_GIVEN, Change, changed, fields
from compiler.model.facts import Device, FactsSpec

_Numbered = tuple[tuple[tuple[str, int], ...], str]

_DIGITS: Final = re.compile(r"([0-9]{1,18})", re.ASCII)


def device_changes(a: Sequence[Device], b: Sequence[Device]) -> Iterator[Change]:
    """Yield the differences of devices.

    A device is recognised by its PCI address, else its UUID, else a kernel name, else its id,
    where neither an address nor a UUID says that it is another.
    """
    for one, other in _pairs(a, b):
        what = _called(one, other)
        if one is None or other is None:
            there = [None if d is None else _said(d) for d in (one, other)]
            yield from changed("devices", what, *there, missing=NOT_GIVEN)
            continue
        yield from fields("devices", what, one, other, skip=("parent",))
        yield from changed(
            "devices", f"{what} parent", _parent(one, a), _parent(other, b), missing=NOT_GIVEN
        )


def _called(one: Device | None, other: Device | None) -> str:
    """Return what two views of one device are called."""
    known = [device for device in (one, other) if device is not None]
    return next((d.bdf for d in known if d.bdf is not None), known[0].id)


def _said(device: Device) -> str:
    """Return what a device that only one side has is, and what is not known of it."""
    parts = [f"{device.type} {device.id}", f"model {device.model or 'unknown'}"]
    if device.bdf is None:
        parts.append("PCI address unknown")
    return ", ".join(parts)


def _parent(device: Device, devices: Sequence[Device]) -> str | None:
    found = next((one for one in devices if one.id == device.parent), None)
    return None if found is None else found.bdf or found.id


def _pairs(a: Sequence[Device], b: Sequence[Device]) -> list[tuple[Device | None, Device | None]]:
    pairs: list[tuple[Device | None, Device | None]] = []
    left, right = list(a), list(b)
    for keys in _EVIDENCE:
        by_key: dict[str, list[Device]] = {}
        for device in right:
            for key in keys(device):
                by_key.setdefault(key, []).append(device)
        found: dict[str, Device] = {}  # by id: ids are unique on a node
        rest = []
        for one in left:
            near = (device for key in keys(one) for device in by_key.get(key, ()))
            other = next((d for d in near if d.id not in found and _may_be(one, d)), None)
            if other is None:
                rest.append(one)
            else:
                found[other.id] = other
                pairs.append((one, other))
        left, right = rest, [device for device in right if device.id not in found]
    pairs += [(one, None) for one in left]
    pairs += [(None, other) for other in right]
    return sorted(pairs, key=_place)


_EVIDENCE: Final[tuple[Callable[[Device], tuple[str, ...]], ...]] = (
    lambda device: () if device.bdf is None else (device.bdf,),
    lambda device: () if device.uuid is None else (device.uuid,),
    lambda device: device.names,
    lambda device: (device.id,),
)
"""What a device is recognised by, best first."""


def _may_be(one: Device, other: Device) -> bool:
    """Whether two may be the same device: of one type, and nothing that both know differs."""
    if one.type != other.type:
        return False
    if one.bdf is not None and other.bdf is not None:
        return one.bdf == other.bdf
    return one.uuid is None or other.uuid is None or one.uuid == other.uuid


def _place(pair: tuple[Device | None, Device | None]) -> tuple[bool, tuple[int, ...], _Numbered]:
    called = _called(*pair)
    return not bdf_key(called), bdf_key(called), numbered(called)


def numbered(name: str) -> _Numbered:
    """Return a key that orders names by the numbers in them: nic2 before nic10."""
    parts = _DIGITS.split(name)
    return tuple(
        (part, int(digits)) for part, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True)
    ), name


def link_changes(a: FactsSpec, b: FactsSpec) -> Iterator[Change]:
    """Yield the differences of links between devices, whichever end is named first."""
    pairs = _pairs(a.devices, b.devices)
    mine = _links(a, {one.id: _called(one, other) for one, other in pairs if one is not None})
    theirs = _links(b, {other.id: _called(one, other) for one, other in pairs if other is not None})
    for ends in sorted({*mine, *theirs}, key=lambda ends: [numbered(end) for end in ends]):
        yield from changed("links", " and ".join(ends), mine.get(ends), theirs.get(ends))


def _links(spec: FactsSpec, names: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    return {
        tuple(sorted((names[one.a], names[one.b]), key=numbered)): one.kind for one in spec.links
    }
