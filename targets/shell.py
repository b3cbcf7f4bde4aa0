"""Text that goes into shell scripts: quoting, and the template environment of the targets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import jinja2

_PLAIN: Final = frozenset(range(0x21, 0x7F)) - frozenset(b"\\'\"`$")
_READABLE: Final = frozenset(range(0x20, 0x7F)) - frozenset(b'"')
_WIDTH: Final = 100
_SHARED: Final = Path(__file__).parent / "scripts"


def quote(text: str) -> str:
    """Return ``text`` as one word of POSIX shell, in which no character is special.

    Raises:
        ValueError: it holds NUL, which no shell word can.
    """
    if "\0" in text:
        raise ValueError(f"{text!r} holds NUL and cannot be a shell word")
    return shlex.quote(text)


def shown(text: str) -> str:
    """Return ``text`` as one printable ASCII word, for comments, tables and messages.

    Spaces, quotes, ``$``, backslash, control and non-ASCII characters become ``\\xNN``, one for
    each byte; no text becomes ``-``.  It cannot end a comment, and splits into one field.
    """
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if b in _PLAIN else f"\\x{b:02x}" for b in data) or "-"


def one_line(text: str) -> str:
    """Return ``text`` for a comment: spaces stay, all else as :func:`shown` has it."""
    return " ".join(shown(word) if word else "" for word in text.split(" "))


def readable(pattern: str) -> str:
    """Return a glob or an expression as written, to stand between double quotes on one line.

    For comments and quoted here-documents, where only a line's end is special.  A double quote,
    control and non-ASCII characters become ``\\xNN``, one for each byte, and lose a backslash
    before them.  Expressions have no ``\\x`` of their own; a cgroup's name may, from systemd.
    """
    data = pattern.encode("utf-8", "surrogateescape")
    return "".join(
        pair.decode("ascii") if _READABLE.issuperset(pair) else f"\\x{pair[-1]:02x}"
        for pair in re.findall(rb"\\.|.", data, re.DOTALL)
    )


def filled(words: Iterable[str], first: str, others: str) -> list[str]:
    """Return words on lines of at most 100 columns, as far as words are not longer.

    A word may hold spaces; it is not broken.  ``first`` and ``others`` are the indents.
    """
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) + 3 <= _WIDTH:  # room for " \\" at the end
            lines[-1] += f" {word}"
        else:
            lines.append((others if lines else first) + word)
    return lines


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of fields as lines, in columns.  The last is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@cache  # to compile templates takes longer than to fill them, and a fleet has many plans
def environment(templates: Path) -> jinja2.Environment:
    """Return the environment for line-oriented templates under a directory, always the same one.

    The parts that all targets share are in it as ``scripts/NAME``: see :mod:`targets.scripts`.
    An undefined name is an error, values are put in as they are (``|quote`` and ``|shown`` are
    the filters for everything that comes from a policy), and the comment marks are changed
    because ``${#name}`` is shell.
    """
    env = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.PrefixLoader({"scripts": jinja2.FileSystemLoader(_SHARED)}),
                jinja2.FileSystemLoader(templates),
            ]
        ),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - shell, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",
        comment_end_string="##}",
    )
    env.filters["quote"] = quote
    env.filters["shown"] = shown
    env.filters["one_line"] = one_line
    env.filters["readable"] = readable
    return env
