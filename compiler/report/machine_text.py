"""A machine drawn on a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from compiler.facts.write import cpu_list
from compiler.picture.machine import Box, CoreRow, DeviceMark, Machine
from compiler.report.cells import printable
from compiler.report.frames import (
    ASCII,
    UNICODE,
    Line,
    Piece,
    beside,
    fold,
    framed,
    line_width,
    shown,
    width_of,
)
from compiler.report.machine_words import (
    Form,
    chain,
    core_text,
    device_words,
    kind_text,
    lanes_text,
    legend,
    marks_text,
    memory_text,
    placement_words,
    row_form,
    row_text,
    titles,
)

MIN_WIDTH: Final = 40
_SINGLY: Final = 32
"""A machine of so many cores at most shows each by itself; a larger one shows ranges."""
_CELLS: Final = 8
"""Cores side by side; a row of up to ten is not broken."""

_BOLD: Final = "\x1b[1m"
_DEVICE: Final = {"gpu": "\x1b[32m", "nic": "\x1b[36m", "other": ""}
_MARK: Final = "\x1b[33m"
_WARN: Final = "\x1b[1;33m"
_LANES: Final = tuple(f"\x1b[1;{code}m" for code in (34, 33, 32, 35, 36, 31))


def render_machine_text(
    machine: Machine, *, width: int = 80, ascii_only: bool = False, color: bool = False
) -> str:
    """Return the drawing, no line wider than ``width`` columns (at least :data:`MIN_WIDTH`).

    Nothing in the result but colours and line ends is a control character.  With ``ascii_only``
    all else is ASCII, other characters of names become escapes.
    """
    drawing = _Drawing(machine, max(width, MIN_WIDTH), ascii_only=ascii_only)
    return "".join(shown(line, color=color) + "\n" for line in drawing.lines())


class _Drawing:
    def __init__(self, machine: Machine, width: int, *, ascii_only: bool) -> None:
        self._machine = machine
        self._width = width
        self._ascii = ascii_only
        self._glyphs = ASCII if ascii_only else UNICODE
        self._singly = sum(len(row.cores) for row in machine.rows()) <= _SINGLY
        self._forms: set[Form] = set()

    def lines(self) -> list[Line]:
        """Return all lines."""
        machine = self._machine
        lines: list[Line] = [self._line(machine.name, _BOLD)]
        lines += self._pairs(machine.facts)
        lines.append(())
        lines += self._grid(machine.boxes, self._width)
        for device in machine.devices:
            lines += self._device(device, None, self._width)
        lines += self._section(
            "devices near no CPU, or not known to which:",
            [self._device(device, None, self._width - 2) for device in machine.unplaced],
        )
        lines += self._section(
            "NUMA nodes without CPUs:",
            [self._text(memory_text(nodes), self._width - 2) for nodes in machine.memory],
        )
        if machine.offline is None:
            lines += self._section("offline CPUs: unknown", None)
        elif machine.offline:
            lines += self._section(f"offline CPUs: {cpu_list(machine.offline)}", None)
        if keys := legend(machine, sorted(self._forms)):
            lines += [(), *self._pairs(keys)]
        if said := placement_words(machine):
            lines += [(), *self._pairs(said)]
        if machine.warnings:
            lines.append(())
        for warning in machine.warnings:
            lines += fold([Piece("warning: ", _WARN), *self._words(warning)], self._width, indent=2)
        return lines

    # --- boxes ------------------------------------------------------------------------------

    def _grid(self, boxes: Sequence[Box], limit: int) -> list[Line]:
        """Return framed boxes, all equally wide, side by side where that takes fewer lines."""
        whole = self._columns(boxes, limit, limit)
        half = (limit - 1) // 2
        if len(boxes) == 1 or any(self._least(box) > half for box in boxes):
            return whole
        halves = self._columns(boxes, limit, half)
        return halves if len(halves) < len(whole) else whole

    def _columns(self, boxes: Sequence[Box], limit: int, each: int) -> list[Line]:
        """Return framed boxes, none wider than ``each``, as many side by side as fit."""
        bodies = [self._body(chain(box)[-1], each - 4) for box in boxes]
        heads = [self._title(box, each - 6) for box in boxes]
        body = max((line_width(line) for lines in bodies for line in lines), default=0)
        head = max(line_width(line) for lines in heads for line in lines) + 2
        width = max(body, head) + 4
        blocks = [
            framed(head[0], [*head[1:], *body], width, self._glyphs)
            for head, body in zip(heads, bodies, strict=True)
        ]
        return beside(blocks, width, max(1, (limit + 1) // (width + 1)))

    def _least(self, box: Box) -> int:
        """Return how wide a box must be for no word in it to be torn."""
        boxes = chain(box)
        last = boxes[-1]
        parts = [width_of(title + self._glyphs.dot) + 2 for title in titles(boxes)]
        parts += [self._least(inside) for inside in last.boxes]
        for row, label in zip(last.rows, self._labels(last.rows), strict=True):
            texts = [core_text(core) for core in row.cores] if self._singly else [row_text(row)]
            parts += [len(label) + len(word) for text in texts for word in _broken(text)]
        for device in last.devices:
            parts += [
                width_of(self._clean(word)) + 2
                for text in device_words(device, last)
                for word in _broken(text)
            ]
        return max(parts) + 4

    def _title(self, box: Box, limit: int) -> list[Line]:
        parts = titles(chain(box))
        joined = [f"{part}{self._glyphs.dot}" for part in parts[:-1]] + parts[-1:]
        return fold([Piece(part, _BOLD) for part in joined], limit)

    def _body(self, box: Box, limit: int) -> list[Line]:
        """Return what is in the frame of a box."""
        body = self._grid(box.boxes, limit) if box.boxes else []
        for row, label in zip(box.rows, self._labels(box.rows), strict=True):
            body += self._row(row, label, limit)
        for device in box.devices:
            body += self._device(device, box, limit)
        return body

    def _labels(self, rows: Iterable[CoreRow]) -> list[str]:
        labels = [kind_text(row, self._machine) for row in rows]
        widest = max(map(len, labels), default=0)
        return [label.ljust(widest + 2) if widest else "" for label in labels]

    def _row(self, row: CoreRow, label: str, limit: int) -> list[Line]:
        after: list[Piece] = []
        if lanes := lanes_text(row):
            first = next(letter for one in row.lanes for letter in one)
            letters = [key.letter for key in self._machine.lanes]
            after.append(Piece(f" {lanes}", _LANES[letters.index(first) % len(_LANES)]))
        if marks := marks_text(row):
            after.append(Piece(f" {marks}", _MARK))
        if self._singly:
            if row.smt > 1:
                self._forms.add("plus")
            return self._cells(row, label, after, limit)
        text = row_text(row)
        form = row_form(row)
        if form != "cpus":
            self._forms.add(form or "plus")
        if ":" in text:
            self._forms.add("stride")
        pieces = [Piece(part) for part in _broken(text)]
        return fold([Piece(label), *pieces, *after], limit, indent=len(label))

    def _cells(self, row: CoreRow, label: str, after: list[Piece], limit: int) -> list[Line]:
        cells = [core_text(core) for core in row.cores]
        widest = max(map(len, cells))
        room = max(1, (limit - len(label) + 1) // (widest + 1))
        count = min(room, len(cells) if len(cells) <= _CELLS + 2 else _CELLS)
        lines: list[Line] = []
        for start in range(0, len(cells), count):
            part = " ".join(cell.rjust(widest) for cell in cells[start : start + count])
            ending = after if start + count >= len(cells) else []
            head = label if not start else " " * len(label)
            lines += fold([Piece(head), Piece(part), *ending], limit, indent=len(label))
        return lines

    def _device(self, device: DeviceMark, box: Box | None, limit: int) -> list[Line]:
        words = [self._clean(word) for word in device_words(device, box)]
        style = _DEVICE[device.type]
        pieces = [Piece(f"{words[0]} ", style)]
        for word in words[1:]:
            pieces += [Piece(part) for part in _broken(f"{word} ")]
        return fold(pieces, limit, indent=2)

    # --- text -------------------------------------------------------------------------------

    def _section(self, title: str, blocks: Sequence[list[Line]] | None) -> list[Line]:
        """Return a title and indented blocks; nothing where there are no blocks."""
        if blocks is not None and not blocks:
            return []
        lines: list[Line] = [(), *fold(self._words(title), self._width, indent=2)]
        for block in blocks or ():
            lines += [(Piece("  "), *line) for line in block]
        return lines

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Line]:
        widest = max(width_of(word) for word, _ in pairs)
        lines: list[Line] = []
        for word, text in pairs:
            head = Piece(word.ljust(widest + 2))
            lines += fold([head, *self._words(text)], self._width, indent=widest + 2)
        return lines

    def _text(self, text: str, limit: int) -> list[Line]:
        return fold(self._words(text), limit, indent=2)

    def _line(self, text: str, style: str = "") -> Line:
        return (Piece(self._clean(text), style),)

    def _words(self, text: str) -> list[Piece]:
        return [Piece(part) for part in _broken(self._clean(text))]

    def _clean(self, text: str) -> str:
        text = printable(text)
        return text.encode("ascii", "backslashreplace").decode() if self._ascii else text


def _broken(text: str) -> list[str]:
    """Return a text in parts between which a line may end: after blanks and commas."""
    return re.findall(r"[^ ,]*[ ,]+|[^ ,]+", text)
