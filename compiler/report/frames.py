"""Frames in frames for a terminal: pieces of text with a style, folded, framed, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from compiler.report.cells import cells

RESET: Final = "\x1b[0m"


class Piece(NamedTuple):
    """A text without line end, and the ANSI sequence it is shown with (empty: none)."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


class Glyphs(NamedTuple):
    """The characters of a frame."""

    corners: str
    """Top left, top right, bottom left, bottom right."""
    across: str
    down: str
    dot: str
    """Between the parts of a title."""


UNICODE: Final = Glyphs("┌┐└┘", "─", "│", " · ")
ASCII: Final = Glyphs("++++", "-", "|", ", ")


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(cell.width for cell in cells(text))


def line_width(line: Line) -> int:
    """Return how many columns a line takes."""
    return sum(width_of(piece.text) for piece in line)


def fold(pieces: Iterable[Piece], width: int, *, indent: int = 0) -> list[Line]:
    """Return lines no wider than ``width``, broken between pieces where that is possible.

    A piece that is too long for a line is broken anywhere; nothing is lost.  Blanks at the end of
    a line are left out.  Lines but the first begin with ``indent`` blanks.
    """
    indent = min(indent, max(0, width - 8))
    lines: list[list[Piece]] = [[]]
    used = 0
    for piece in pieces:
        if lines[-1] and used + width_of(piece.text.rstrip()) > width:
            lines.append([Piece(" " * indent)] if indent else [])
            used = indent
        for part in _chopped(piece.text, width, used, indent):
            if part is None:
                lines.append([Piece(" " * indent)] if indent else [])
                used = indent
                continue
            lines[-1].append(Piece(part, piece.style))
            used += width_of(part)
    return [_stripped(line) for line in lines]


def _chopped(text: str, width: int, used: int, indent: int) -> Iterable[str | None]:
    """Yield the parts of a text; None is a new line."""
    if used + width_of(text.rstrip()) <= width:
        yield text
        return
    part, room = "", max(1, width - used)
    for cell in cells(text):
        if part and cell.width > room:
            yield part
            yield None
            part, room = "", max(1, width - indent)
        part += cell.shown
        room -= cell.width
    yield part


def _stripped(line: Sequence[Piece]) -> Line:
    pieces = list(line)
    while pieces and not (kept := pieces[-1].text.rstrip(" ")):
        pieces.pop()
    if pieces:
        pieces[-1] = Piece(kept, pieces[-1].style)
    return tuple(pieces)


def padded(line: Line, width: int) -> Line:
    """Return a line of exactly ``width`` columns, if it is not wider already."""
    missing = width - line_width(line)
    return (*line, Piece(" " * missing)) if missing > 0 else line


def framed(title: Line, body: Sequence[Line], width: int, glyphs: Glyphs) -> list[Line]:
    """Return a frame of ``width`` columns around lines of at most ``width - 4``."""
    left, right, low_left, low_right = tuple(glyphs.corners)
    rest = glyphs.across * (width - 4 - line_width(title))
    side = Piece(glyphs.down)
    return [
        (Piece(f"{left} "), *title, Piece(f" {rest}{right}")),
        *((side, Piece(" "), *padded(line, width - 4), Piece(" "), side) for line in body),
        (Piece(f"{low_left}{glyphs.across * (width - 2)}{low_right}"),),
    ]


def beside(blocks: Sequence[Sequence[Line]], width: int, columns: int) -> list[Line]:
    """Return blocks of ``width`` columns in a grid, row by row, one blank between columns."""
    out: list[Line] = []
    for start in range(0, len(blocks), columns):
        row = blocks[start : start + columns]
        for at in range(max(map(len, row))):
            line: list[Piece] = []
            for block in row:
                if line:
                    line.append(Piece(" "))
                line += padded(block[at] if at < len(block) else (), width)
            out.append(_stripped(line))
    return out


def shown(line: Line, *, color: bool) -> str:
    """Return a line as text."""
    if not color:
        return "".join(piece.text for piece in line)
    return "".join(
        f"{piece.style}{piece.text}{RESET}" if piece.style else piece.text for piece in line
    )
