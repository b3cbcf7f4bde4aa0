"""Blocks of an SVG picture: shapes and texts with a size, nested and put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from compiler.report.cells import printable
from compiler.report.frames import width_of

CHAR: Final = 7.3
"""Pixels that a column of text may take at 12 px in any common monospaced font."""
LINE: Final = 16
PAD: Final = 8


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a picture: SVG elements from (0, 0), and how much room they take, in pixels."""

    width: float
    height: float
    body: str


def text(words: str, style: str = "") -> Block:
    """Return one line of text."""
    said = escape(printable(words))
    css = f" class={quoteattr(style)}" if style else ""
    return Block(text_width(words), LINE, f'<text x="0" y="12"{css}>{said}</text>\n')


def text_width(words: str) -> float:
    """Return the room a text takes."""
    return width_of(printable(words)) * CHAR


def rect(width: float, height: float, style: str, *, fill: str = "", round: int = 3) -> str:
    """Return a rectangle from (0, 0)."""
    css = f' style="fill:{fill}"' if fill else ""
    return (
        f'<rect width="{number(width)}" height="{number(height)}" rx="{round}" '
        f"class={quoteattr(style)}{css}/>\n"
    )


def moved(block: Block, x: float, y: float) -> str:
    """Return the elements of a block at a place."""
    if not block.body:
        return ""
    return f'<g transform="translate({number(x)},{number(y)})">\n{block.body}</g>\n'


def number(value: float) -> str:
    """Return a coordinate, at most one digit after the point."""
    return f"{round(value, 1):g}"


def below(blocks: Sequence[Block], gap: float = 0) -> Block:
    """Return blocks on top of each other, left sides aligned."""
    out, y, width = [], 0.0, 0.0
    for block in blocks:
        out.append(moved(block, 0, y))
        y += block.height + gap
        width = max(width, block.width)
    return Block(width, max(0.0, y - gap), "".join(out))


def beside(blocks: Sequence[Block], gap: float = PAD) -> Block:
    """Return blocks side by side, tops aligned."""
    out, x, height = [], 0.0, 0.0
    for block in blocks:
        out.append(moved(block, x, 0))
        x += block.width + gap
        height = max(height, block.height)
    return Block(max(0.0, x - gap), height, "".join(out))


def framed(inner: Block, style: str, *, width: float = 0, height: float = 0) -> Block:
    """Return a block in a frame, at least as large as said."""
    width = max(width, inner.width + 2 * PAD)
    height = max(height, inner.height + 2 * PAD)
    return Block(width, height, rect(width, height, style) + moved(inner, PAD, PAD))


def grid(blocks: Sequence[Block], style: str, room: float) -> Block:
    """Return framed blocks in rows, equally wide, as many side by side as fit in ``room``."""
    width = max(block.width for block in blocks) + 2 * PAD
    columns = max(1, min(len(blocks), int((room + PAD) // (width + PAD))))
    lines = -(-len(blocks) // columns)
    columns = -(-len(blocks) // lines)  # equally many in each line
    rows = []
    for start in range(0, len(blocks), columns):
        row = blocks[start : start + columns]
        height = max(block.height for block in row) + 2 * PAD
        rows.append(beside([framed(one, style, width=width, height=height) for one in row]))
    return below(rows, PAD)
