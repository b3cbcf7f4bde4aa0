"""NodeFacts documents, so that facts can be added to what was collected before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from compiler.cpuset import CpuSet
from compiler.decode import KINDS, decode
from compiler.diagnostics import Severity, Sink
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import (
    READERS,
    DevicePart,
    KindPart,
    LinkPart,
    LlcPart,
    Note,
    NumaPart,
    Partial,
    ReadError,
)
from compiler.model.facts import CoreGroup, CoreKind, Device, FactsSpec, NodeFacts, Overrides
from compiler.source import parse_source

_KIND: Final = re.compile(
    # No \s at the start of a line: a text of blank lines would take ages.
    r"""^(?:kind:[ ]*["']?NodeFacts["']?[ \r]*(?:\#.*)?$|"""
    r"""[ \t]*(?:\{[^{}]*?)?"kind"[ \t]*:[ \t]*"NodeFacts")""",
    re.M,
)
_VERSION: Final = re.compile(r"""(?:^|[\s{,"'])apiVersion["']?\s*:\s*["']?tierc\.dev/""")

_UNNAMED: Final = "document"
_READERS_OF_OLD: Final[Mapping[str, str]] = {"procfs": "sysfs"}
"""Readers of documents of the first release that have another name now."""
_FOLLOWS: Final[Mapping[str, str]] = {
    "packages": "cores",
    "dies": "cores",
    "clusters": "cores",
    "kinds": "cores",
    "capacities": "cores",
    "links": "devices",
}
"""Facts that come from whom another is from, where the document does not say."""
_MASKS: Final = ("online", "possible", "present", "isolated", "nohz_full", "allowed")


_OTHER: Final = re.compile(
    r"""^(?:kind:[ ]*["']?([A-Za-z]{1,40})["']?[ \r]*(?:\#.*)?$|"""
    r"""[ \t]*(?:\{[^{}]*?)?"kind"[ \t]*:[ \t]*"([A-Za-z]{1,40})")""",
    re.M,
)


def other_kind(text: str) -> str | None:
    """Return the kind of a document of tierc that is no facts; None: it is no such document."""
    found = _OTHER.search(text)
    if found is None or _VERSION.search(text) is None:
        return None
    kind = found[1] or found[2]
    return kind if kind in KINDS and kind != "NodeFacts" else None


def _sniff(text: str) -> bool:
    return _KIND.search(text) is not None and _VERSION.search(text) is not None


def _read(text: Text) -> tuple[Partial, ...]:
    """Return, for each reader that a document names, what came from it.

    Overrides are no facts and compared with nothing; the first partial of a document has them.

    Raises:
        ReadError: the documents are no valid NodeFacts.
    """
    sink = Sink()
    name = "facts.json" if text.text.lstrip().startswith("{") else "facts.yaml"
    documents = parse_source(name, text.text.encode(), sink).documents
    decoded = [decode(document, sink) for document in documents]
    first = next((found for found in sink.sorted() if found.severity is Severity.ERROR), None)
    if first is not None:
        raise ReadError(first.message, line=first.span.line, help=first.help)
    facts = [one.model for one in decoded if one is not None and isinstance(one.model, NodeFacts)]
    if not facts or len(facts) != len(decoded):
        raise ReadError(
            "the file has documents that are not NodeFacts",
            help="import a file that holds node facts only",
        )
    return tuple(partial for one in facts for partial in _partials(one, text.name))


FORMAT: Final = Format(
    name="nodefacts",
    title="NodeFacts (tierc facts collect, tierc facts import)",
    sniff=_sniff,
    read=_read,
)


def _partials(facts: NodeFacts, file: str) -> list[Partial]:
    """Return the facts by the readers that supplied them; the first also has the warnings.

    A family that several readers supplied is given to each of them: who supplied which part of
    it is not recorded.
    """
    values = _values(facts.spec)
    values["labels"] = {"labels": MappingProxyType(dict(facts.metadata.labels))}
    readers = _suppliers(facts.spec)
    fields: dict[str, dict[str, Any]] = {}
    for family, found in values.items():
        known = {name: value for name, value in found.items() if value is not None}
        is_known = any(value or isinstance(value, CpuSet) for value in known.values())
        if not is_known and family not in readers:
            continue
        first = readers.get(_FOLLOWS.get(family, ""), [_UNNAMED])[:1]
        for reader in readers.get(family, first):
            fields.setdefault(reader, {}).update(known)
    name = facts.metadata.name
    partials = [
        Partial(reader=reader, file=file, node=name, merged=True, **fields[reader])
        for reader in READERS
        if reader in fields
    ]
    warnings = tuple(Note(warning) for warning in facts.spec.warnings)
    head = replace(partials[0], notes=warnings)
    if facts.spec.overrides != Overrides():
        head = replace(
            head, overrides=facts.spec.overrides, overridden=MappingProxyType(_keys(facts.spec))
        )
    return [head, *partials[1:]]


def _keys(spec: FactsSpec) -> dict[str, str]:
    """Return what tells the devices that overrides name from others, whatever their ids."""
    named = {one.id for one in spec.overrides.devices}
    keys = {one.id: one.bdf or one.uuid for one in spec.devices if one.id in named}
    return {id_: key for id_, key in keys.items() if key is not None}


def _suppliers(spec: FactsSpec) -> dict[str, list[str]]:
    """Return the readers that supplied each family, most trusted first."""
    found: dict[str, list[str]] = {}
    said = [
        (reader, source.facts)
        for source in spec.sources
        if (reader := _READERS_OF_OLD.get(source.reader, source.reader)) in READERS
    ]
    for reader, families in sorted(said, key=lambda one: READERS.index(one[0])):
        for family in families:
            readers = found.setdefault("cpus" if family == "allowed" else family, [])
            if reader not in readers:
                readers.append(reader)
    return found


def _values(spec: FactsSpec) -> dict[str, dict[str, Any]]:
    """Return the facts as fields of a partial, by family; None or empty: unknown."""
    cores = tuple(core for group in spec.cores for core in group.cores())
    capacities = {
        cpu: group.capacity
        for group in spec.cores
        if group.capacity is not None
        for cpu in group.cpus
    }
    devices = {"devices": _devices(spec)}
    return {
        "arch": {"arch": spec.arch},
        "cpus": {name: getattr(spec.cpus, name) for name in _MASKS},
        "cores": {"cores": cores},
        "packages": {"packages": _groups(spec, "package")},
        "dies": {"dies": _dies(spec.cores)},
        "clusters": {"clusters": _groups(spec, "cluster")},
        "kinds": {"kinds": _kinds(spec)},
        "capacities": {"capacities": MappingProxyType(capacities)},
        "llcs": {"llcs": tuple(LlcPart(c.cpus, c.level, c.size_kib) for c in spec.llcs)},
        "numa": {"numa": _numa(spec)},
        "devices": devices,
        "links": {**devices, "links": _links(spec)} if spec.links else {},
        "kernel": {"kernel": spec.kernel if spec.kernel.model_fields_set else None},
        "kubelet": {"kubelet": spec.kubelet},
        "virtualization": {
            "virtualization": spec.virtualization if spec.virtualization.model_fields_set else None
        },
    }


def _groups(spec: FactsSpec, field: str) -> tuple[tuple[int, CpuSet], ...] | None:
    return _joined((getattr(group, field), group.cpus) for group in spec.cores)


def _joined(pairs: Iterable[tuple[int | None, CpuSet]]) -> tuple[tuple[int, CpuSet], ...] | None:
    found: dict[int, CpuSet] = {}
    for label, cpus in pairs:
        if label is not None:
            found[label] = found.get(label, CpuSet()) | cpus
    return tuple(found.items()) or None


def _dies(groups: Iterable[CoreGroup]) -> tuple[tuple[int, CpuSet], ...] | None:
    """Return the dies; their ids repeat in every package."""
    found: dict[tuple[int | None, int], CpuSet] = {}
    for group in groups:
        if group.die is not None:
            key = (group.package, group.die)
            found[key] = found.get(key, CpuSet()) | group.cpus
    return tuple((die, cpus) for (_, die), cpus in found.items()) or None


def _kinds(spec: FactsSpec) -> tuple[KindPart, ...]:
    """Return the kinds by the rows, and without rows (as in the first release) by the cores."""
    if spec.kinds:
        return tuple(
            KindPart(k.name, k.cpus, k.evidence, k.model, k.figure, k.value) for k in spec.kinds
        )
    found: dict[CoreKind, CpuSet] = {}
    for group in spec.cores:
        found[group.kind] = found.get(group.kind, CpuSet()) | group.cpus
    order: tuple[CoreKind, ...] = ("performance", "standard", "efficiency", "lowpower")
    if len(found) < 2:
        return ()
    return tuple(KindPart(name, found[name], None) for name in order if name in found)


def _numa(spec: FactsSpec) -> tuple[NumaPart, ...]:
    ids = sorted(node.id for node in spec.numa)
    return tuple(
        NumaPart(
            id=node.id,
            cpus=node.cpus,
            memory_mib=node.memory_mib,
            distances=MappingProxyType(
                dict(zip(ids, node.distances, strict=True)) if node.distances else {}
            ),
            gpu_memory=node.role == "gpu-memory",
        )
        for node in spec.numa
    )


def _devices(spec: FactsSpec) -> tuple[DevicePart, ...]:
    by_id = {device.id: device for device in spec.devices}
    return tuple(_device(device, by_id, spec) for device in spec.devices)


def _device(device: Device, by_id: Mapping[str, Device], spec: FactsSpec) -> DevicePart:
    parent = by_id.get(device.parent or "")
    near = device.locality.cpus
    numa: tuple[int, ...] = () if device.numa is None else (device.numa,)
    if not numa and near:
        # Between nodes: the facts name one node or none.
        within = [node.id for node in spec.numa if node.cpus and node.cpus <= near]
        if sum(len(n.cpus) for n in spec.numa if n.id in within) == len(near):
            numa = tuple(within)
    return DevicePart(
        type=device.type,
        bdf=device.bdf,
        uuid=device.uuid,
        index=device.index,
        # An instance whose GPU has no UUID is told by the GPU's address.
        parent_uuid=None if parent is None else parent.uuid or parent.bdf,
        vendor=device.vendor,
        model=device.model,
        names=device.names,
        pcie_root=device.pcie_root,
        numa=numa,
        cpus=near,
        confidence=device.locality.confidence,
    )


def _links(spec: FactsSpec) -> tuple[LinkPart, ...]:
    place = {device.id: number for number, device in enumerate(spec.devices)}
    return tuple(LinkPart(place[one.a], place[one.b], one.kind) for one in spec.links)
