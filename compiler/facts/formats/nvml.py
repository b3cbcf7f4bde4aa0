"""What NVML said, as :mod:`compiler.facts.gather.nvml` writes it down: JSON of this project.

One object: ``{"tiercNvml": 1, "limited": BOOL, "gpus": [...]}``.  A GPU has ``index`` and, where
NVML told them, ``pciBusId``, ``uuid``, ``name``, ``cpus`` and ``numa`` (lists as the kernel writes
them), ``memoryNode`` (the NUMA node that its memory is) and ``mig`` (UUIDs of instances).
``limited``: the process that asked could not use all CPUs, and NVML cuts affinity to those.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.bdf import canonical_bdf
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import DevicePart, Note, Partial, ReadError
from compiler.facts.pci_ids import NVIDIA
from compiler.facts.tree import clean

READER: Final = "nvml"
MARK: Final = "tiercNvml"
_VERSION: Final = 1
_MAX_NODE: Final = 1 << 20
_AGAIN: Final = "collect again with tierc facts collect"


def sniff(text: str) -> bool:
    """Return whether a text is such JSON."""
    return text.lstrip().startswith("{") and f'"{MARK}"' in text[:200]


def read(text: Text) -> tuple[Partial, ...]:
    """Return the GPUs and their MIG instances.

    Raises:
        ReadError: the JSON is broken, or of another form.
    """
    try:
        said = json.loads(text.text)
    except json.JSONDecodeError as error:
        raise ReadError(f"not JSON: {error.msg.lower()}", line=error.lineno, help=_AGAIN) from None
    except (RecursionError, ValueError):
        raise ReadError("not JSON of NVML's answers", help=_AGAIN) from None
    if not isinstance(said, dict) or MARK not in said:
        raise ReadError("not JSON of NVML's answers", help=_AGAIN)
    if said[MARK] != _VERSION:
        raise ReadError(f"{MARK} is not {_VERSION}", help="import it with a newer tierc")
    gpus = said.get("gpus")
    if not isinstance(gpus, list) or not all(isinstance(gpu, dict) for gpu in gpus):
        raise ReadError("gpus is not a list of objects", help=_AGAIN)
    notes: list[Note] = []
    devices = [
        device for gpu in gpus for device in _devices(gpu, said.get("limited") is True, notes)
    ]
    return (Partial(reader=READER, file=text.name, devices=tuple(devices), notes=tuple(notes)),)


def _devices(gpu: Mapping[str, Any], limited: bool, notes: list[Note]) -> Iterator[DevicePart]:
    uuid = _text(gpu, "uuid")
    index = _number(gpu, "index")
    what = f"GPU {'?' if index is None else index}"
    cpus, numa = _list(gpu, "cpus", what, notes), _list(gpu, "numa", what, notes)
    suspect = False
    if limited and cpus is not None:
        notes.append(
            Note(f"{what}: CPUs {cpus} may be cut to those that the process asking could use")
        )
        suspect = numa is None
        cpus = cpus if suspect else None
    known = numa is not None or cpus is not None
    yield DevicePart(
        "gpu",
        bdf=canonical_bdf(_text(gpu, "pciBusId") or ""),
        uuid=uuid,
        index=index,
        vendor=NVIDIA,
        model=_text(gpu, "name"),
        numa=tuple(numa or ()),
        memory_node=_number(gpu, "memoryNode"),
        cpus=cpus,
        confidence="suspect" if suspect else "measured" if known else "unknown",
    )
    instances = gpu.get("mig")
    for one in instances if isinstance(instances, list) and uuid is not None else ():
        if isinstance(one, str) and one.strip():
            yield DevicePart(
                "gpu",
                uuid=clean(one, 80),
                parent_uuid=uuid,
                vendor=NVIDIA,
                confidence="unknown",
            )


def _text(gpu: Mapping[str, Any], key: str) -> str | None:
    value = gpu.get(key)
    return clean(value, 80) or None if isinstance(value, str) else None


def _number(gpu: Mapping[str, Any], key: str) -> int | None:
    value = gpu.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NODE:
        return value
    return None


def _list(gpu: Mapping[str, Any], key: str, what: str, notes: list[Note]) -> CpuSet | None:
    """Return a list; None for an empty one too, which NVML gives where it knows nothing."""
    value = gpu.get(key)
    if not isinstance(value, str):
        return None
    try:
        return CpuSet.parse(value) or None
    except CpuListError as error:
        notes.append(Note(f"{what}: {key}: {clean(str(error))}"))
        return None


FORMAT: Final = Format(name="nvml", title="answers of NVML", sniff=sniff, read=read)
