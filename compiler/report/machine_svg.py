"""A machine as an SVG picture: no script, no font, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from compiler.cpuset import CpuSet
from compiler.facts.write import cpu_list
from compiler.model.facts import CoreKind
from compiler.picture.machine import Box, CoreRow, DeviceMark, Machine, Role
from compiler.report.cells import printable
from compiler.report.frames import Piece, fold
from compiler.report.machine_words import (
    chain,
    device_words,
    kind_text,
    lanes_text,
    legend,
    marks_text,
    memory_text,
    placement_words,
    row_text,
    titles,
)
from compiler.report.palette import TINTS
from compiler.report.svg import (
    CHAR,
    LINE,
    PAD,
    Block,
    below,
    beside,
    grid,
    moved,
    number,
    rect,
    text,
)

_ROOM: Final = 1160
"""Pixels across that a picture takes if it can."""
_SINGLY: Final = 1024
"""A machine of so many cores at most shows each by itself; a larger one shows ranges."""
_DEVICE_COLUMNS: Final = 26
_TITLE_COLUMNS: Final = 44
_STACK: Final = 4
"""Devices on top of each other, or more where the cores beside them are higher."""
_KINDS: Final[dict[CoreKind, str]] = {
    "performance": TINTS[0],
    "standard": "#dcdcdc",
    "efficiency": TINTS[2],
    "lowpower": TINTS[4],
}
_UNOWNED: Final = "#fff"
"""Fill of a CPU without owner where others have one."""
_LANE_TINTS: Final = 6
"""The last tint is the grey of housekeeping."""
_ROLES: Final[dict[Role, str]] = {"housekeeping": "#bcbcbc", "leftovers": "#ececec"}
_STYLE: Final = """\
svg{background:#fff}
text{font:12px monospace;fill:#1b1b1b;white-space:pre}
.back{fill:#fff}
.name{font-weight:bold;font-size:14px}
.title{font-weight:bold}
.note{fill:#555}
.box{fill:none;stroke:#777}
.core{stroke:#555}
.other{stroke:#555;stroke-dasharray:3 2}
.on{fill:#111}
.part{stroke:none}
.gpu{fill:#e6f4d7;stroke:#4f7d1c;stroke-width:1.5}
.nic{fill:#e3ecf7;stroke:#41658f}
.dev{fill:#eee;stroke:#777}
.warn{fill:#8f3a00}
@media (prefers-color-scheme:dark){
svg{background:#161616}
text{fill:#e8e8e8}
.back{fill:#161616}
.note{fill:#aaa}
.box{stroke:#8a8a8a}
.on{fill:#111}
.warn{fill:#ffb27a}
}
"""


def render_machine_svg(machine: Machine) -> str:
    """Return the picture as an XML document, sized to the machine."""
    drawing = _Drawing(machine).block()
    width, height = drawing.width + 2 * PAD, drawing.height + 2 * PAD
    size = f'width="{number(width)}" height="{number(height)}"'
    view = f'viewBox="0 0 {number(width)} {number(height)}"'
    title = escape(printable(machine.name))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n"
        f"{rect(width, height, 'back', round=0)}{moved(drawing, PAD, PAD)}</svg>\n"
    )


class _Drawing:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._singly = sum(len(row.cores) for row in machine.rows()) <= _SINGLY
        self._digits = len(str(machine.online.highest))
        self._tints = _fills(machine)

    def block(self) -> Block:
        """Return the whole picture."""
        machine = self._machine
        boxes = self._grid(machine.boxes, _ROOM)
        columns = max(60, int(boxes.width // CHAR))
        parts = [
            text(machine.name, "name"),
            _pairs(machine.facts, columns),
            boxes,
        ]
        if machine.devices:
            parts.append(_row_of([_device(one, None) for one in machine.devices]))
        if machine.unplaced:
            apart = [_device(one, None) for one in machine.unplaced]
            parts.append(
                below(
                    [text("devices near no CPU, or not known to which", "title"), _row_of(apart)], 4
                )
            )
        lines = [f"without CPUs: {memory_text(nodes)}" for nodes in machine.memory]
        if machine.offline is None:
            lines.append("offline CPUs: unknown")
        elif machine.offline:
            lines.append(f"offline CPUs: {cpu_list(machine.offline)}")
        if lines:
            parts.append(below([one for line in lines for one in _folded(line, columns, "")]))
        if keys := self._legend(columns):
            parts.append(below(keys, 3))
        if said := placement_words(machine):
            parts.append(_pairs(said, columns))
        if machine.warnings:
            parts.append(
                below(
                    [
                        one
                        for warning in machine.warnings
                        for one in _folded(f"warning: {warning}", columns, "warn")
                    ]
                )
            )
        return below(parts, 12)

    def _grid(self, boxes: Sequence[Box], room: float) -> Block:
        return grid([self._box(box, room - 2 * PAD) for box in boxes], "box", room)

    def _box(self, box: Box, room: float) -> Block:
        boxes = chain(box)
        last = boxes[-1]
        devices = [_device(device, last) for device in last.devices]
        widest = max((device.width for device in devices), default=0)
        left = room - widest - PAD if devices else room
        inner = (
            self._grid(last.boxes, left)
            if last.boxes
            else below([self._row(row) for row in last.rows], 6)
        )
        if devices:
            high = max(_STACK, int(inner.height // (devices[0].height + 4)))
            stacks = [below(devices[i : i + high], 4) for i in range(0, len(devices), high)]
            inner = beside([inner, *stacks])
        return below([_heading(titles(boxes), inner.width), inner], 4)

    def _row(self, row: CoreRow) -> Block:
        words = (kind_text(row, self._machine), lanes_text(row), marks_text(row, words=True))
        label = [text(said, "")] if (said := " ".join(word for word in words if word)) else []
        if not self._singly:
            return below([*label, text(row_text(row))])
        cells = [self._core(core, row) for core in row.cores]
        columns = len(cells) if len(cells) <= 10 else 8 if len(cells) <= 32 else 16
        lines = [beside(cells[i : i + columns], 3) for i in range(0, len(cells), columns)]
        return below([*label, below(lines, 3)])

    def _core(self, core: CpuSet, row: CoreRow) -> Block:
        """Return a core: a field for each thread, the threads on top of each other."""
        width = self._digits * CHAR + 8
        fields = []
        for cpu, marks, lanes in zip(core, row.marks, row.lanes, strict=True):
            bare = _UNOWNED if self._machine.lanes else _KINDS[row.kind]
            fills = [self._tints[letter] for letter in lanes] or [bare]
            style = "other" if {"x", "k"} & set(marks) else "core"
            part = width / len(fills)  # a CPU of several owners has a stripe for each
            stripes = [
                Block(part, LINE, rect(part, LINE, "part", fill=one, round=0)) for one in fills
            ]
            label = text(str(cpu), "on")
            body = (
                rect(width, LINE, style, fill=fills[0], round=1)
                if len(fills) == 1
                else beside(stripes, 0).body + rect(width, LINE, style, fill="none", round=1)
            )
            body += moved(label, (width - label.width) / 2, 0)
            fields.append(Block(width, LINE, body))
        return below(fields)

    def _legend(self, columns: int) -> list[Block]:
        lines: list[Block] = []
        kinds = {row.kind for row in self._machine.rows()}
        if not self._machine.lanes and len(kinds) > 1:
            for kind, fill in _KINDS.items():
                if kind in kinds:
                    lines.append(beside([_swatch(fill), text(kind)]))
        if any(row.smt > 1 for row in self._machine.rows()):
            lines.append(text("joined fields are threads of one core"))
        for sign, meaning in legend(self._machine, ()):
            tint = self._tints.get(sign.strip("[]"))
            said = below(_folded(f"{sign}  {meaning}", columns, ""))
            lines.append(said if tint is None else beside([_swatch(tint), said]))
        if self._machine.not_allowed or self._machine.kubelet:
            lines.append(text("a dashed field is not allowed, or the kubelet's"))
        return lines


def _fills(machine: Machine) -> dict[str, str]:
    """Return a colour for each letter: greys where there is no lane."""
    fills: dict[str, str] = {}
    lanes = 0
    for key in machine.lanes:
        fills[key.letter] = _ROLES.get(key.lane.role) or TINTS[lanes % _LANE_TINTS]
        lanes += key.lane.role == "lane"
    return fills


def _swatch(fill: str) -> Block:
    return Block(LINE, LINE, rect(LINE - 2, LINE - 2, "core", fill=fill, round=1))


def _device(device: DeviceMark, box: Box | None) -> Block:
    words = device_words(device, box)
    pieces = [Piece(f"{word} ") for word in words]
    lines = fold([Piece(printable(piece.text)) for piece in pieces], _DEVICE_COLUMNS)
    blocks = [text("".join(p.text for p in line), "on") for line in lines]
    inner = below(blocks)
    style = {"gpu": "gpu", "nic": "nic", "other": "dev"}[device.type]
    width, height = _DEVICE_COLUMNS * CHAR + 10, inner.height + 6
    return Block(width, height, rect(width, height, style) + moved(inner, 5, 3))


def _row_of(devices: Sequence[Block]) -> Block:
    lines = [beside(devices[i : i + 5]) for i in range(0, len(devices), 5)]
    return below(lines, 4)


def _heading(parts: Sequence[str], room: float) -> Block:
    """Return a title in as few lines as its box is wide for, or a little wider."""
    pieces = [Piece(f"{part} · ") for part in parts[:-1]] + [Piece(parts[-1])]
    columns = max(_TITLE_COLUMNS, int(room // CHAR))
    return below([text("".join(p.text for p in line), "title") for line in fold(pieces, columns)])


def _folded(words: str, columns: int, style: str) -> list[Block]:
    pieces = [Piece(f"{word} ") for word in printable(words).split(" ")]
    return [text("".join(p.text for p in line), style) for line in fold(pieces, max(20, columns))]


def _pairs(pairs: Sequence[tuple[str, str]], columns: int) -> Block:
    widest = max(len(word) for word, _ in pairs) + 2
    lines = []
    for word, said in pairs:
        head = Block(widest * CHAR, LINE, text(word, "note").body)
        lines.append(beside([head, below(_folded(said, columns - widest, "note"))], 0))
    return below(lines)
