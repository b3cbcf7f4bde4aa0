"""From bytes to text: encodings, line ends, and characters that may not stand in a source."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from compiler.codes import reading as codes
from compiler.diagnostics import Span
from compiler.reading.findings import Findings, StopReading

_BOM: Final = "\ufeff"

# Unicode 15.1.  Written out, because the tables of the running Python would make the verdict
# depend on its version.
_DIRECTION: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_FORBIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u2028\u2029\ufeff\ufffe\uffff" + _DIRECTION + "]"
)
_INVISIBLE: Final = re.compile(
    "[\\xa0\\xad\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200d\u202f\u205f-\u2065"
    "\u206a-\u206f\u3000\u3164\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)

_NAMES: Final = {
    "\x00": "NUL",
    "\r": "a carriage return without a line feed",
    "\x1b": "ESC, the start of a terminal command",
    "\x7f": "DEL",
    "\x85": "next line",
    "\xa0": "no-break space",
    "\xad": "soft hyphen",
    "\u200b": "zero width space",
    "\u200c": "zero width non-joiner",
    "\u200d": "zero width joiner",
    "\u2028": "line separator",
    "\u2029": "paragraph separator",
    "\u202f": "narrow no-break space",
    "\u2060": "word joiner",
    "\u3000": "ideographic space",
    "\ufeff": "byte order mark, inside the text",
}

_PACKED: Final = {
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\0": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"PK\x03\x04": "a zip archive",
    b"\x7fELF": "a program",
}
"""First bytes of files that are no text, as their formats define them."""


class SourceText:
    """The text of one file, with LF line ends and without a byte order mark.

    Offsets count characters of ``text``.
    """

    __slots__ = ("_starts", "lines", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines = text_lines(text)
        self._starts: list[int] | None = None

    def line_of(self, offset: int) -> int:
        """Return the line, from 0, that holds the character at ``offset``."""
        return bisect_right(self._line_starts(), offset) - 1

    def start_of(self, line: int) -> int:
        """Return the offset at which ``line``, from 0, starts."""
        return self._line_starts()[line]

    def position(self, start: int, end: int) -> tuple[int, int, int, int]:
        """Return lines and columns, all from 0, of the characters from ``start`` to ``end``."""
        starts = self._line_starts()
        first = bisect_right(starts, start) - 1
        last = first if end == start else bisect_right(starts, end, first) - 1
        return first, start - starts[first], last, end - starts[last]

    def span(self, start: int, end: int) -> Span:
        """Return the place of the characters from ``start`` to before ``end``."""
        line, col, end_line, end_col = self.position(start, end)
        return Span(self.path, line + 1, col + 1, end_line + 1, end_col + 1)

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts, at = [0], 0
            for line in self.text.split("\n")[:-1]:
                at += len(line) + 1
                starts.append(at)
            self._starts = starts
        return self._starts


def text_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text with LF line ends; a last empty one does not count."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(lines)


def shown_lines(data: bytes) -> tuple[str, ...]:
    """Return lines to show for a file that could not be decoded; none of one that has no lines."""
    if _packed(data) is not None:
        return ()
    text = data.decode("utf-8", "replace").removeprefix(_BOM)
    return text_lines(text.replace("\r\n", "\n"))


def _packed(data: bytes) -> str | None:
    return next((name for magic, name in _PACKED.items() if data.startswith(magic)), None)


def decode(data: bytes, out: Findings) -> SourceText:
    """Return the text of a file.

    A byte order mark at the start and CR LF line ends are accepted and leave no trace.

    Raises:
        StopReading: it is not UTF-8.
    """
    if (wide := _wide_encoding(data)) is not None:
        raise out.stop(
            codes.NOT_UTF8,
            Span.of_file(out.path),
            f"this file is {wide}, not UTF-8",
            help=f"save it as UTF-8: iconv -f {wide} -t UTF-8 FILE",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if (packed := _packed(data)) is not None:
            raise out.stop(
                codes.NOT_UTF8,
                Span.of_file(out.path),
                f"this file is {packed}, not YAML or JSON",
                help="tierc facts import reads archives of node facts",
            ) from None
        before = data[: error.start].decode("utf-8").removeprefix(_BOM).replace("\r\n", "\n")
        line, col = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise out.stop(
            codes.NOT_UTF8,
            Span(out.path, line, col, line, col + 1),
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8",
            help="save the file as UTF-8; if it is in an older encoding, "
            "iconv -f LATIN1 -t UTF-8 FILE converts it",
        ) from None
    return SourceText(out.path, text.removeprefix(_BOM).replace("\r\n", "\n"))


def refuse_forbidden(source: SourceText, out: Findings) -> None:
    """Report every character that may stand nowhere.

    Raises:
        StopReading: there was one.  Parsers differ in how they read on, so none does.
    """
    found = False
    for match in _FORBIDDEN.finditer(source.text):
        found = True
        char = match.group()
        out.add(
            codes.FORBIDDEN_CHARACTER.at(
                source.span(match.start(), match.end()),
                f"{describe(char)} may not stand in a source file",
                help=_forbidden_help(char),
            )
        )
    if found:
        raise StopReading


def report_invisible(
    source: SourceText, quoted: Sequence[tuple[int, int]], end: int, out: Findings
) -> None:
    """Report blanks and characters of no width before ``end`` and outside ``quoted``.

    ``quoted`` are the stretches in which they are harmless, in order: quoted texts and comments.
    """
    if source.text.isascii():
        return
    ends = [end for _, end in quoted]
    for match in _INVISIBLE.finditer(source.text, 0, end):
        at = bisect_right(ends, match.start())
        if at < len(quoted) and quoted[at][0] <= match.start():
            continue
        char = match.group()
        out.add(
            codes.INVISIBLE_CHARACTER.at(
                source.span(match.start(), match.end()),
                f"{describe(char)} outside quotes is taken for a part of the word next to it",
                help="replace it with a space or delete it; if it is meant, quote the text",
            )
        )


def has_invisible(text: str) -> bool:
    """Return whether a text holds characters that :func:`report_invisible` looks for."""
    return not text.isascii() and _INVISIBLE.search(text) is not None


def first_invisible(text: str, start: int, end: int) -> int | None:
    """Return the offset of the first character that has no width or looks like a space."""
    match = _INVISIBLE.search(text, start, end)
    return None if match is None else match.start()


def describe(char: str) -> str:
    """Return the name by which a finding calls a character that cannot be seen."""
    if (name := _NAMES.get(char)) is None:
        if re.match(f"[{_DIRECTION}]", char):
            name = "changes the direction of text"
        else:
            name = "control character" if char < "\xa0" else "an invisible character"
    return f"U+{ord(char):04X} ({name})"


def _forbidden_help(char: str) -> str:
    if char == "\r":
        return "end lines with LF or CR LF"
    if char == "\x00":
        return "delete it; if the file is not text at all, take it out of the sources"
    escape = f"\\u{ord(char):04x}"
    return f'delete it; if it is meant, write it as "{escape}" in double quotes'


def _wide_encoding(data: bytes) -> str | None:
    for mark, name in (
        (b"\xff\xfe\0\0", "UTF-32"),
        (b"\0\0\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    ):
        if data.startswith(mark):
            return name
    # No mark: the first characters of a source are ASCII, so the zero bytes show the width.
    head = data[:4]
    if len(head) < 4:
        return None
    zeros = "".join("0" if byte == 0 else "x" for byte in head)
    return {"x000": "UTF-32LE", "000x": "UTF-32BE", "x0x0": "UTF-16LE", "0x0x": "UTF-16BE"}.get(
        zeros
    )
