"""Text on a terminal: how wide a character is, and which may be printed as they are.

Sources and findings may come from somebody else's repository.  Nothing of them reaches a
terminal that could move its cursor, colour it, or make text read in another direction.
"""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

TAB_WIDTH: Final = 4


class Cell(NamedTuple):
    """What to print for one character, and how many columns it takes."""

    shown: str
    width: int


def cells(line: str) -> list[Cell]:
    """Return a cell for each character of a line; tabs go to the next multiple of four."""
    column = 0
    row = []
    for char in line:
        if char == "\t":
            width = TAB_WIDTH - column % TAB_WIDTH
            cell = Cell(" " * width, width)
        else:
            cell = _cell(char)
        column += cell.width
        row.append(cell)
    return row


def printable(text: str) -> str:
    """Return a text on one line, with an escape for each character that is not for printing."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_cell(char).shown for char in text)


def _cell(char: str) -> Cell:
    if " " <= char <= "~":
        return Cell(char, 1)
    category = unicodedata.category(char)
    if category in ("Mn", "Me"):
        return Cell(char, 0)
    # Controls, format characters, lone surrogates, line and paragraph separators, unassigned
    # ones, and blanks that look like a space but are not.
    if category[0] == "C" or category in ("Zl", "Zp", "Zs"):
        shown = _escape(char)
        return Cell(shown, len(shown))
    return Cell(char, 2 if unicodedata.east_asian_width(char) in "WF" else 1)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:04x}}}"
