"""``nvidia-smi -q -x``: which GPUs there are, by PCI address and UUID.

It says nothing of CPUs or NUMA nodes.  The order of the GPUs is the tool's numbering.  A MIG
instance has a UUID in the DTD, but many drivers do not print it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.facts.bdf import canonical_bdf
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.xml import Element, parse_xml, root_tag
from compiler.facts.partial import DevicePart, Note, Partial, ReadError
from compiler.facts.pci_ids import NVIDIA
from compiler.facts.tree import clean

READER: Final = "nvidia-smi -q"
_ROOT: Final = "nvidia_smi_log"
_NO_VALUE: Final = frozenset({"", "N/A", "[N/A]", "Unknown Error", "[Unknown Error]", "Requested"})


def sniff(text: str) -> bool:
    """Return whether a text is the tool's XML."""
    return root_tag(text) == _ROOT


def read(text: Text) -> tuple[Partial, ...]:
    """Return the GPUs and their MIG instances.

    Raises:
        ReadError: it is not the XML of this tool, or it has no GPU.
    """
    root = parse_xml(text)
    if root.tag != _ROOT:
        raise ReadError(f"<{root.tag[:60]}> is not <{_ROOT}>", line=root.line)
    gpus = list(root.all("gpu"))
    if not gpus:
        raise ReadError("no GPU in it", line=root.line)
    notes: list[Note] = []
    attached = root.value("attached_gpus")
    numbered = attached is None or attached == str(len(gpus))
    if not numbered:
        notes.append(
            Note(
                f"{len(gpus)} of {clean(attached or '', 20)} GPUs are described, so their numbers "
                "are not known",
                root.line,
            )
        )
    devices: list[DevicePart] = []
    seen: dict[str, int] = {}
    for index, gpu in enumerate(gpus):
        device = _gpu(gpu, index if numbered else None, notes)
        if device.bdf is not None and device.bdf in seen:
            raise ReadError(
                f"GPU {device.bdf} is described twice (first in line {seen[device.bdf]})",
                line=gpu.line,
                help="import each machine's output as a file of its own",
            )
        seen.setdefault(device.bdf or "", gpu.line)
        devices += [device, *_instances(gpu, device, notes)]
    return (Partial(reader=READER, file=text.name, devices=tuple(devices), notes=tuple(notes)),)


def _gpu(gpu: Element, index: int | None, notes: list[Note]) -> DevicePart:
    written = gpu.get("id") or gpu.value("pci", "pci_bus_id") or ""
    bdf = canonical_bdf(written)
    uuid = _value(gpu, "uuid")
    if bdf is None:
        notes.append(Note(f"'{clean(written, 40)}' is not a PCI address", gpu.line))
    return DevicePart(
        "gpu",
        bdf=bdf,
        uuid=uuid,
        index=index,
        vendor=NVIDIA,
        model=_value(gpu, "product_name"),
        confidence="unknown",
    )


def _instances(gpu: Element, parent: DevicePart, notes: list[Note]) -> Iterator[DevicePart]:
    found = gpu.find("mig_devices")
    instances = [] if found is None else list(found.all("mig_device"))
    uuids = [uuid for one in instances if (uuid := _value(one, "uuid")) is not None]
    if len(uuids) < len(instances):
        count = len(instances) - len(uuids)
        notes.append(
            Note(
                f"GPU {parent.bdf or parent.uuid}: {count} MIG instance{'s' if count > 1 else ''} "
                "without a UUID left out; nvidia-smi -L prints it",
                gpu.line,
            )
        )
    if uuids and parent.uuid is None:
        notes.append(Note("MIG instances of a GPU without a UUID left out", gpu.line))
        return
    for uuid in uuids:
        yield DevicePart(
            "gpu", uuid=uuid, parent_uuid=parent.uuid, vendor=NVIDIA, confidence="unknown"
        )


def _value(element: Element, tag: str) -> str | None:
    value = clean(element.value(tag) or "", 80)
    return None if value in _NO_VALUE else value


FORMAT: Final = Format(
    name="nvidia-smi-query",
    title="nvidia-smi -q -x",
    sniff=sniff,
    read=read,
)
