"""``rocm-smi --showtoponuma``, as text or with ``--json``: the NUMA node of each AMD GPU.

``Numa Affinity`` is the kernel's ``numa_node`` of the device, and -1 where it knows none.  ``Numa
Node`` is the CPU node that the KFD driver links the GPU to, which is 0 in that case
(``kfd_fill_gpu_direct_io_link_to_cpu`` in the kernel's kfd_crat.c): it counts only where the
affinity does not deny it.

A GPU in partitions is several GPUs to this tool.  ``amd-smi topology`` prints no NUMA nodes and is
not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import DevicePart, Note, Partial, ReadError
from compiler.facts.pci_ids import AMD
from compiler.facts.tree import clean

READER: Final = "rocm-smi"
_LINE: Final = re.compile(
    r"^[ \t>]*GPU ?\[?(\d{1,4})\]?[ \t]*:[ \t]*\(Topology\) Numa (Node|Affinity):[ \t]*(\S*)",
    re.ASCII | re.MULTILINE,
)
_CARD: Final = re.compile(r"card(\d{1,4})\Z", re.ASCII)
_CARD_KEY: Final = re.compile(r'"card\d{1,4}"\s*:\s*\{', re.ASCII)
_KEYS: Final = {"Node": "(Topology) Numa Node", "Affinity": "(Topology) Numa Affinity"}
_AGAIN: Final = "run rocm-smi --showtoponuma again"


@dataclass(frozen=True, slots=True)
class _Said:
    """``line`` is None where the text is JSON."""

    gpu: int
    what: str
    value: str
    line: int | None


def sniff(text: str) -> bool:
    """Return whether a text has NUMA nodes of AMD GPUs as this tool prints them."""
    if text.lstrip()[:1] == "{":
        return _CARD_KEY.search(text) is not None and _KEYS["Node"] in text
    return _LINE.search(text) is not None


def read(text: Text) -> tuple[Partial, ...]:
    """Return the GPUs with their NUMA nodes.

    Raises:
        ReadError: no GPU is named, a GPU is named twice, or the JSON is broken.
    """
    is_json = text.text.lstrip()[:1] == "{"
    found: dict[int, dict[str, _Said]] = {}
    for said in _json(text.text) if is_json else _lines(text.text):
        known = found.setdefault(said.gpu, {}).setdefault(said.what, said)
        if known.value != said.value:
            raise ReadError(
                f"GPU {said.gpu} has Numa {said.what} {clean(known.value, 20)} and "
                f"{clean(said.value, 20)}",
                line=said.line,
                help="import each machine's output as a file of its own",
            )
    if not found:
        raise ReadError("no NUMA node of a GPU in it", help=_AGAIN)
    notes: list[Note] = []
    devices = tuple(_device(gpu, said, notes) for gpu, said in sorted(found.items()))
    return (Partial(reader=READER, file=text.name, devices=devices, notes=tuple(notes)),)


def _lines(text: str) -> Iterator[_Said]:
    line, at = 1, 0
    for match in _LINE.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        yield _Said(int(match.group(1)), match.group(2), match.group(3), line)


def _json(text: str) -> Iterator[_Said]:
    try:
        cards = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReadError(f"not JSON: {error.msg.lower()}", line=error.lineno, help=_AGAIN) from None
    except (RecursionError, ValueError):
        raise ReadError("not JSON that rocm-smi prints", help=_AGAIN) from None
    if not isinstance(cards, dict):
        raise ReadError("not JSON that rocm-smi prints", help=_AGAIN)
    for name, card in cards.items():
        match = _CARD.match(name)
        if match is None or not isinstance(card, dict):
            continue
        for what, key in _KEYS.items():
            if isinstance(value := card.get(key), str | int) and not isinstance(value, bool):
                yield _Said(int(match.group(1)), what, str(value).strip(), None)


def _device(gpu: int, said: dict[str, _Said], notes: list[Note]) -> DevicePart:
    node, affinity = (
        _nodes(said[what], notes) if what in said else None for what in ("Node", "Affinity")
    )
    if "Affinity" not in said:
        numa = node
    else:
        numa = affinity
        if node and node != affinity:
            told = "the kernel knows none"
            if affinity != ():
                told = f"Numa Affinity is {clean(said['Affinity'].value, 40)}"
            notes.append(
                Note(
                    f"GPU {gpu}: Numa Node {','.join(map(str, node))} is not used: {told}",
                    said["Affinity"].line,
                )
            )
    return DevicePart(
        "gpu",
        index=gpu,
        vendor=AMD,
        numa=numa or (),
        confidence="measured" if numa else "unknown",
    )


def _nodes(said: _Said, notes: list[Note]) -> tuple[int, ...] | None:
    """Return the nodes of a value, () for -1 also where it lost its sign, None for nonsense."""
    if said.value in ("", "N/A", "None") or said.value.startswith("-"):
        return ()
    if said.value.isascii() and said.value.isdigit() and int(said.value[:20]) >= 1 << 31:
        return ()
    try:
        return tuple(CpuSet.parse(said.value))
    except CpuListError:
        message = f"GPU {said.gpu}: Numa {said.what} '{clean(said.value, 40)}' is not a node"
        notes.append(Note(message, said.line))
        return None


FORMAT: Final = Format(
    name="rocm-smi",
    title="rocm-smi --showtoponuma",
    sniff=sniff,
    read=read,
)
