"""``nvidia-smi topo -m`` and ``-mp``: which CPUs a GPU is near, and how devices are connected.

Both print the same columns; ``-mp`` leaves NVLink out of the matrix.  Facts of the tool:

- In every known example it cuts a list of single CPUs after six items: on a machine that numbers
  CPUs alternately it prints ``0,2,4,6,8,10`` for a node of any size.
- It cuts CPU affinity to the CPUs that the process may use; the cell may even be empty.
- NUMA Affinity lists every memory node near the GPU, on Grace also those without CPUs.
- GPU NUMA ID is the node that the GPU's own memory is.
- MIG instances are not shown.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.smi_topo_row import split_row
from compiler.facts.formats.smi_topo_text import (
    CPU,
    LINK,
    MEMORY,
    NUMA,
    Table,
    find_table,
    has_table,
    is_gpu,
)
from compiler.facts.partial import DevicePart, LinkPart, Note, Partial
from compiler.facts.pci_ids import NVIDIA

READER: Final = "nvidia-smi topo"
_ITEMS_PRINTED: Final = 6
_SHOWN: Final = 8
_NEAR: Final = ("PIX", "PXB", "PHB", "NODE")
"""Connections that stay in one NUMA node, by the tool's own legend."""
_OLD_WORDS: Final = {"SOC": "SYS"}
"""Words of old drivers, and what they are called now."""


def read(text: Text) -> tuple[Partial, ...]:
    """Return the GPUs, NICs and links of one table.

    Raises:
        ReadError: there is no table, there are several, or its header cannot be read.
    """
    table = find_table(text.text)
    return (_Reader(table, text.name).partial(),)


def is_cut_short(cpus: str) -> bool:
    """Return whether a printed CPU list looks like one that the tool cut: six equal steps."""
    items = cpus.split(",")
    if len(items) != _ITEMS_PRINTED:
        return False
    try:
        ranges = [[int(number) for number in item.split("-")] for item in items]
    except ValueError:
        return False
    steps = {b[0] - a[0] for a, b in itertools.pairwise(ranges)}
    return len(steps) == 1 and len({one[-1] - one[0] for one in ranges}) == 1


class _Reader:
    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self._name = name
        self._notes: list[Note] = []
        self._words: dict[tuple[int, int], tuple[str, int]] = {}

    def partial(self) -> Partial:
        labels = self._table.header.labels
        devices = {label: self._bare(label) for label in labels}
        lines = {row.label: row.line for row in self._table.rows}
        for row in self._table.rows:
            cells = split_row(row, self._table.header)
            a = labels.index(row.label)
            # A row that is not X to itself has lost or gained a cell.
            if cells.links is None or cells.links[a] != "X":
                self._note(
                    f"{row.label}: cells cannot be told apart; its links are not used", row.line
                )
            else:
                for b, word in enumerate(cells.links):
                    self._words[a, b] = (word, row.line)
            if not is_gpu(row.label):
                continue
            if cells.tail is None:
                self._note(
                    f"{row.label}: affinity cells cannot be told apart; they are not used", row.line
                )
            else:
                devices[row.label] = self._located(
                    devices[row.label], row.label, cells.tail, row.line
                )
        self._missing(lines)
        links = self._links()
        parts = [devices[label] for label in labels]
        self._place_nics(parts, links)
        return Partial(
            reader=READER,
            file=self._name,
            devices=tuple(parts),
            links=links,
            notes=tuple(sorted(self._notes, key=lambda note: note.line or 0)),
        )

    def _note(self, message: str, line: int | None) -> None:
        self._notes.append(Note(message, line))

    def _missing(self, lines: dict[str, int]) -> None:
        gone = [label for label in self._table.header.labels if label not in lines]
        if gone:
            shown = ", ".join(gone[:_SHOWN]) + (", ..." if len(gone) > _SHOWN else "")
            self._note(f"no row of {shown}: the table is incomplete", self._table.line)
        for label, line in self._table.strangers:
            self._note(f"{label} has no column; its row is not used", line)

    # --- devices -------------------------------------------------------------------------------

    def _bare(self, label: str) -> DevicePart:
        if is_gpu(label):
            return DevicePart("gpu", index=int(label[3:]), vendor=NVIDIA, confidence="unknown")
        if label.startswith("NIC") and label[3:].isdigit():
            name = self._table.names.get(label)
            names = () if name is None else (name,)
            return DevicePart("nic", index=int(label[3:]), names=names, confidence="unknown")
        return DevicePart("nic", names=(label,), confidence="unknown")

    def _located(
        self, device: DevicePart, label: str, tail: dict[str, str], line: int
    ) -> DevicePart:
        cpus = self._set(tail.get(CPU, ""), label, CPU, line)
        numa = self._set(tail.get(NUMA, ""), label, NUMA, line)
        memory = self._set(tail.get(MEMORY, ""), label, MEMORY, line)
        if memory is not None and len(memory) > 1:
            self._note(f"{label}: {MEMORY} {memory} is not one node", line)
            memory = None
        known = numa is not None or cpus is not None
        device = replace(
            device,
            cpus=cpus,
            numa=tuple(numa or ()),
            memory_node=None if memory is None else memory.lowest,
            confidence="measured" if known else "unknown",
        )
        if is_cut_short(tail.get(CPU, "")):
            self._note(
                f"{label}: {CPU} {tail[CPU]} looks cut short: nvidia-smi prints no more than "
                f"{_ITEMS_PRINTED} items",
                line,
            )
            device = replace(device, confidence="suspect")
        return device

    def _set(self, cell: str, label: str, column: str, line: int) -> CpuSet | None:
        """Return a cell's list; None if it is empty, N/A, -1 or nonsense."""
        if cell in ("", "N/A", "-1"):
            return None
        try:
            return CpuSet.parse(cell) or None
        except CpuListError as error:
            self._note(f"{label}: {column}: {error}", line)
            return None

    # --- links ---------------------------------------------------------------------------------

    def _links(self) -> tuple[LinkPart, ...]:
        labels = self._table.header.labels
        found = []
        odd: dict[str, int] = {}
        unequal: list[tuple[str, int]] = []
        for a in range(len(labels)):
            for b in range(a + 1, len(labels)):
                said = [self._words[at] for at in ((a, b), (b, a)) if at in self._words]
                words = {_OLD_WORDS.get(word, word) for word, _ in said}
                for word, line in said:
                    if LINK.match(word) is None or word == "X":
                        odd.setdefault(word, line)
                if len(words) > 1:
                    what = f"{labels[a]} to {labels[b]} is {said[0][0]}, but {said[1][0]}"
                    unequal.append((f"{what} the other way; not used", said[1][1]))
                elif words and not words & odd.keys():
                    found.append(LinkPart(a, b, words.pop()))
        for word, line in sorted(odd.items()):
            self._note(f"'{word}' is no kind of connection; not used", line)
        for what, line in unequal[:_SHOWN]:
            self._note(what, line)
        if len(unequal) > _SHOWN:
            self._note(f"{len(unequal) - _SHOWN} more connections differ by direction", None)
        return tuple(found)

    def _place_nics(self, parts: list[DevicePart], links: tuple[LinkPart, ...]) -> None:
        """Put a NIC on the node of the GPUs that it shares a NUMA node with."""
        nodes: dict[int, set[tuple[int, ...]]] = {}
        for link in links:
            if link.kind not in _NEAR:
                continue
            for nic, gpu in ((link.a, link.b), (link.b, link.a)):
                if parts[nic].type == "nic" and parts[gpu].type == "gpu" and parts[gpu].numa:
                    nodes.setdefault(nic, set()).add(parts[gpu].numa)
        for nic, found in sorted(nodes.items()):
            common = set.intersection(*(set(numa) for numa in found))
            if common:
                numa = tuple(sorted(common))
                parts[nic] = replace(parts[nic], numa=numa, confidence="inferred")
            else:
                label = self._table.header.labels[nic]
                self._note(f"{label} is near GPUs of different NUMA nodes", self._table.line)


FORMAT: Final = Format(
    name="nvidia-smi-topo",
    title="nvidia-smi topo -m (or -mp)",
    sniff=has_table,
    read=read,
)
