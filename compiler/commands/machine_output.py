"""Pictures of machines as commands print them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final, TextIO

from compiler.commands.session import use_color, write_output
from compiler.picture.machine import Machine
from compiler.report.frames import UNICODE
from compiler.report.machine_json import render_machine_json
from compiler.report.machine_svg import render_machine_svg
from compiler.report.machine_text import MIN_WIDTH, render_machine_text

FORMATS: Final = ("text", "json", "svg")
_WIDTH: Final = 80
"""Columns where no terminal says how wide it is."""


def print_machine(
    machine: Machine,
    output: str,
    out: Path | None,
    color: str,
    *,
    width: int | None = None,
    ascii_only: bool = False,
) -> None:
    """Write a picture to a file, or to standard output.

    Args:
        machine: what to draw.
        output: one of :data:`FORMATS`.
        out: the file to write; None: standard output.
        color: of the text: ``auto``, ``always`` or ``never``.
        width: columns of the text; None: those of the terminal, else 80.
        ascii_only: whether the text is plain ASCII.

    Raises:
        UsageError: the file cannot be written.
    """
    if output == "json":
        text = render_machine_json(machine)
    elif output == "svg":
        text = render_machine_svg(machine)
    else:
        terminal = out is None and sys.stdout.isatty()
        text = render_machine_text(
            machine,
            width=width or (_columns() if terminal else _WIDTH),
            ascii_only=ascii_only or (terminal and not can_draw(sys.stderr)),
            color=use_color(color, sys.stdout) if out is None else color == "always",
        )
    write_output(text, out)


def _columns() -> int:
    return max(MIN_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)


def can_draw(stream: TextIO) -> bool:
    """Tell whether a stream's character set has the lines of boxes.

    Standard output is always UTF-8, whatever the locale, so that files are the same everywhere;
    what a terminal understands is what standard error was opened with.
    """
    try:
        "".join(UNICODE).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
