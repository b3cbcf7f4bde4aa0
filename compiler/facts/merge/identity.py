"""Which devices of several sources are the same one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compiler.facts.bdf import bdf_key
from compiler.facts.merge.log import Log
from compiler.facts.partial import DevicePart, Partial
from compiler.facts.pci_ids import AMD, INTEL, NVIDIA

_VENDORS = {NVIDIA: "NVIDIA", AMD: "AMD", INTEL: "Intel"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A device as one source names it: ``position`` in the devices of ``partial``."""

    partial: Partial
    position: int
    part: DevicePart


@dataclass(slots=True, eq=False)
class Group:
    """One device: what every source says of it, most trusted first."""

    entries: list[Entry] = field(default_factory=list)

    @property
    def type(self) -> str:
        """What it is, in the words of the most trusted source."""
        return self.entries[0].part.type

    @property
    def bdf(self) -> str | None:
        """Its PCI address."""
        return next((e.part.bdf for e in self.entries if e.part.bdf is not None), None)

    @property
    def uuid(self) -> str | None:
        """Its UUID."""
        return next((e.part.uuid for e in self.entries if e.part.uuid is not None), None)

    @property
    def index(self) -> int | None:
        """The vendor's tool's number."""
        return next((e.part.index for e in self.entries if e.part.index is not None), None)

    @property
    def vendor(self) -> str | None:
        """PCI vendor id."""
        return next((e.part.vendor for e in self.entries if e.part.vendor is not None), None)

    @property
    def parent_uuid(self) -> str | None:
        """UUID, or else PCI address, of the GPU it is an instance of."""
        return next((e.part.parent_uuid for e in self.entries if e.part.parent_uuid), None)

    @property
    def names(self) -> frozenset[str]:
        """All its kernel names."""
        return frozenset(name for e in self.entries for name in e.part.names)

    @property
    def label(self) -> str:
        """How messages name it where it has no id yet."""
        return self.bdf or self.uuid or ", ".join(sorted(self.names)) or f"number {self.index}"

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: by PCI address, then number, then name."""
        index = self.index
        return (
            self.bdf is None,
            bdf_key(self.bdf),
            index is None,
            index or 0,
            sorted(self.names),
            self.uuid or "",
        )

    def holds(self, partial: Partial) -> bool:
        """Return whether ``partial`` already has an entry here: it names no device twice."""
        return any(entry.partial is partial for entry in self.entries)


def group_devices(log: Log, partials: Sequence[Partial]) -> tuple[Group, ...]:
    """Return the devices of all sources, each once.

    The same device is recognised by its PCI address, else its UUID, else a kernel name (network
    devices), else its number among the GPUs of one vendor.  NVIDIA's and AMD's tools number GPUs
    in the order of their PCI addresses, so a source that knows numbers only is matched to the
    sorted addresses of another if it has as many GPUs.  If it has not, which one is meant cannot
    be told, and what it says is left out with a remark.
    """
    index = _Index()
    numbered: list[Entry] = []
    for partial in partials:
        for position, part in enumerate(partial.devices or ()):
            entry = Entry(partial, position, part)
            group = index.find(entry)
            if group is not None:
                index.add(group, entry)
            elif part.bdf or part.uuid or part.parent_uuid or part.names:
                index.add(Group(), entry)
            else:
                numbered.append(entry)
    groups = _joined(index.groups)
    by_vendor: dict[str | None, list[Group]] = {}
    for group in groups:
        if group.type == "gpu" and group.parent_uuid is None:
            by_vendor.setdefault(group.vendor, []).append(group)
    for partial in partials:
        mine = [entry for entry in numbered if entry.partial is partial]
        gpus: dict[str | None, list[Entry]] = {}
        for entry in mine:
            if entry.part.type == "gpu":
                gpus.setdefault(entry.part.vendor, []).append(entry)
        for vendor, of_vendor in gpus.items():
            theirs = by_vendor.get(vendor, [])
            if vendor is not None:
                theirs = theirs + by_vendor.get(None, [])
            new = _match_numbers(log, theirs, partial, vendor, of_vendor)
            by_vendor.setdefault(vendor, []).extend(new)
            groups += new
        _add_nameless(log, groups, partial, [e for e in mine if e.part.type != "gpu"])
    return tuple(groups)


class _Index:
    """The groups so far, by everything that a device can be recognised by."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self._by_key: dict[tuple[object, ...], list[Group]] = {}

    def add(self, group: Group, entry: Entry) -> None:
        """Add an entry to a group, which may be new."""
        if not group.entries:
            self.groups.append(group)
        group.entries.append(entry)
        for key in _keys(entry.part):
            found = self._by_key.setdefault(key, [])
            if not any(one is group for one in found):
                found.append(group)

    def find(self, entry: Entry) -> Group | None:
        """Return the group that an entry belongs to by an identity of its own."""
        for key in _keys(entry.part):
            for group in self._by_key.get(key, ()):
                if _alike(group, entry):
                    return group
        return None


def _keys(part: DevicePart) -> list[tuple[object, ...]]:
    """Return what a device can be recognised by, best first."""
    keys: list[tuple[object, ...]] = []
    if part.bdf is not None:
        keys.append(("bdf", part.bdf))
    if part.uuid is not None:
        keys.append(("uuid", part.uuid))
    if part.parent_uuid is not None and part.index is not None:
        keys.append(("instance", part.parent_uuid, part.index))
    if part.type != "gpu":
        keys += [("name", name) for name in part.names]
    return keys


def _alike(group: Group, entry: Entry) -> bool:
    """Return whether nothing speaks against a match."""
    part = entry.part
    return (
        (part.bdf is None or group.bdf is None or part.bdf == group.bdf)
        and (part.type == "gpu") == (group.type == "gpu")
        and (part.parent_uuid is None) == (group.parent_uuid is None)
        and not group.holds(entry.partial)
        # Two UUIDs that differ are one device only at one address.
        and (
            part.uuid is None
            or group.uuid in (None, part.uuid)
            or (part.bdf is not None and part.bdf == group.bdf)
        )
    )


def _joined(groups: Iterable[Group]) -> list[Group]:
    """Join groups that a later source showed to be one: a UUID here, its PCI address there."""
    result: list[Group] = []
    by_uuid: dict[tuple[str, bool], Group] = {}
    for group in groups:
        uuid = group.uuid
        other = None
        if uuid is not None:
            other = by_uuid.setdefault((uuid, group.parent_uuid is None), group)
        if (
            other is None
            or other is group
            or (other.bdf is not None and group.bdf is not None)
            or any(other.holds(entry.partial) for entry in group.entries)
        ):
            result.append(group)
        else:
            other.entries += group.entries
    return result


def _match_numbers(
    log: Log,
    theirs: Sequence[Group],
    partial: Partial,
    vendor: str | None,
    mine: Sequence[Entry],
) -> list[Group]:
    """Add the GPUs of one vendor that a source knows by number only; return those that are new."""
    mine = sorted(mine, key=lambda e: (e.part.index is None, e.part.index or 0, e.position))
    theirs = sorted(theirs, key=lambda g: g.order)
    numbers = [group.index for group in theirs]
    if not theirs:
        return [Group([entry]) for entry in mine]
    if None not in numbers and len(set(numbers)) == len(numbers):
        by_number = dict(zip(numbers, theirs, strict=True))
        _by_number(log, partial, vendor, mine, by_number)
    elif len(mine) == len(theirs) and None not in (e.part.index for e in mine):
        for entry, group in zip(mine, theirs, strict=True):
            group.entries.append(entry)
    else:
        log.about(
            partial,
            f"has {len(mine)} {_VENDORS.get(vendor or '', '')} GPUs by number, and other sources "
            f"have {len(theirs)}; which is which is unknown, so what it says of them is left out",
        )
    return []


def _by_number(
    log: Log,
    partial: Partial,
    vendor: str | None,
    mine: Sequence[Entry],
    by_number: dict[int | None, Group],
) -> None:
    unknown = []
    for entry in mine:
        group = by_number.get(entry.part.index)
        if group is None or group.holds(partial):
            unknown.append(str(entry.part.index))
        else:
            group.entries.append(entry)
    if unknown:
        log.about(
            partial,
            f"{_VENDORS.get(vendor or '', '')} GPU {', '.join(unknown)} is not among those of "
            "other sources; what it says of it is left out".strip(),
        )


def _add_nameless(log: Log, groups: list[Group], partial: Partial, mine: Sequence[Entry]) -> None:
    """Add network devices without address and name, if no other source has network devices."""
    if not mine or (partial.merged and any(_other_half(partial, g) for g in groups)):
        return
    if any(g.type != "gpu" and not g.holds(partial) for g in groups):
        log.about(
            partial,
            f"has {len(mine)} network devices without a name, and other sources have network "
            "devices; which is which is unknown, so what it says of them is left out",
        )
        return
    groups += [Group([entry]) for entry in mine]


def _other_half(partial: Partial, group: Group) -> bool:
    """Return whether a group is from the same NodeFacts document, which names each device once."""
    return any(
        one.partial is not partial and one.partial.merged and one.partial.file == partial.file
        for one in group.entries
    )
