"""JSON text to a document, with the place of every key and value.

Strict RFC 8259.  The standard library's reader keeps no places, takes the last of two equal keys
without a word, and reads ``NaN``.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Final

from compiler.codes import reading as codes
from compiler.diagnostics import Related
from compiler.reading.characters import SourceText, describe, has_invisible
from compiler.reading.document import (
    MAX_DEPTH,
    MAX_VALUES,
    Data,
    Document,
    Marks,
    Place,
    Position,
    Scalar,
)
from compiler.reading.findings import Findings, StopReading
from compiler.reading.scalars import INT_MAX, INT_MIN, shorten

_BLANK: Final = re.compile(r"[ \t\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CHUNK: Final = re.compile(r'[^"\\\x00-\x1f]*')
_WORD: Final = re.compile(r"[-+.\w]+|[^ \t\n]")
_HEX: Final = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES: Final = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_CONSTANTS: Final[dict[str, Scalar]] = {"true": True, "false": False, "null": None}
_MAX_DIGITS: Final = 20


def compose_json(source: SourceText, out: Findings) -> tuple[Document, ...]:
    """Return the document of a JSON text; none where it is empty or cannot be read.

    Never raises.
    """
    try:
        return _Reader(source, out).document()
    except StopReading:
        return ()


class _Reader:
    def __init__(self, source: SourceText, out: Findings) -> None:
        self.source = source
        self.out = out
        self.text = source.text
        self.at = 0
        self._values = 0

    def document(self) -> tuple[Document, ...]:
        self._skip()
        if self.at == len(self.text):
            return ()
        data, place = self._value(1)
        self._skip()
        if self.at < len(self.text):
            raise self._wrong(
                f"{self._here()} follows the end of the document",
                "a JSON file holds one document; use YAML with `---` for several",
            )
        if not isinstance(data, dict):
            what = "a list" if isinstance(data, tuple) else "a single value"
            line, col, end_line, end_col = place.value
            start = self.source.start_of(line) + col
            self.out.add(
                codes.DOCUMENT_NOT_MAPPING.at(
                    self.source.span(start, self.source.start_of(end_line) + end_col),
                    f"this document is {what}, not an object",
                    help='a document starts with "apiVersion" and "kind"',
                )
            )
            return ()
        path = self.source.path
        return (Document(path, 0, data, Marks(path, place)),)

    def _value(self, depth: int) -> tuple[Data, Place]:
        self._values += 1
        if self._values > MAX_VALUES:
            raise self.out.stop(
                codes.TOO_MANY_VALUES,
                self.source.span(self.at, self.at + 1),
                f"more than {MAX_VALUES} values in one file",
                help="split the file",
            )
        start = self.at
        char = self.text[start : start + 1]
        if char in ("{", "["):
            if depth > MAX_DEPTH:
                raise self.out.stop(
                    codes.TOO_DEEP,
                    self.source.span(start, start + 1),
                    f"lists and objects are nested more than {MAX_DEPTH} deep",
                    help="no kind of document needs that; is a bracket doubled?",
                )
            self.at += 1
            return self._object(start, depth) if char == "{" else self._array(start, depth)
        data: Scalar
        if char == '"':
            data = self._string()
        elif char == "-" or "0" <= char <= "9":
            data = self._number()
        else:
            data = self._constant()
        return data, Place(self._position(start), self.text[start : self.at])

    def _object(self, start: int, depth: int) -> tuple[Data, Place]:
        data: dict[str, Data] = {}
        places: dict[str, Place] = {}
        if not self._closed("}"):
            while True:
                key_start = self.at
                if self.text[key_start : key_start + 1] != '"':
                    raise self._no_key()
                key = self._string()
                key_at = self._position(key_start)
                key_end = self.at
                self._skip()
                if self.text[self.at : self.at + 1] != ":":
                    raise self._wrong(f"a `:` is expected, not {self._here()}", "write a `:`")
                self.at += 1
                self._skip()
                first = places.get(key)
                if first is not None:
                    self._duplicate(key, key_start, key_end, first)
                value, place = self._value(depth + 1)
                if first is None:
                    place.key = key_at
                    data[key] = value
                    places[key] = place
                if not self._more("}", "object"):
                    break
        return data, Place(self._position(start), None, places)

    def _array(self, start: int, depth: int) -> tuple[Data, Place]:
        items: list[Data] = []
        places: list[Place] = []
        if not self._closed("]"):
            while True:
                value, place = self._value(depth + 1)
                items.append(value)
                places.append(place)
                if not self._more("]", "list"):
                    break
        return tuple(items), Place(self._position(start), None, places)

    def _closed(self, bracket: str) -> bool:
        self._skip()
        if self.text[self.at : self.at + 1] == bracket:
            self.at += 1
            return True
        return False

    def _more(self, bracket: str, what: str) -> bool:
        """Step over what separates two items; return whether another one follows."""
        if self._closed(bracket):
            return False
        if self.text[self.at : self.at + 1] != ",":
            raise self._wrong(
                f"a `,` or `{bracket}` is expected in this {what}, not {self._here()}",
                f"put a comma between two items, and close the {what} with `{bracket}`",
            )
        comma = self.at
        self.at += 1
        self._skip()
        if self.text[self.at : self.at + 1] == bracket:
            self.at = comma
            raise self._wrong("a comma after the last item", "delete it; JSON has none there")
        return True

    def _string(self) -> str:
        text, start = self.text, self.at
        at = start + 1
        parts = []
        while True:
            match = _CHUNK.match(text, at)
            assert match is not None  # it matches nothing, too
            parts.append(match.group())
            at = match.end()
            char = text[at : at + 1]
            if char == '"':
                self.at = at + 1
                return "".join(parts)
            if char != "\\":
                self.at = at if char == "\t" else start
                if char == "\t":
                    raise self._wrong("a tab in a text", "write it as \\t")
                raise self._wrong("a text in quotes is not closed", 'close it with `"`')
            self.at = at
            parts.append(self._escape())
            at = self.at

    def _escape(self) -> str:
        """Read the escape at the current place."""
        char = self.text[self.at + 1 : self.at + 2]
        if (plain := _ESCAPES.get(char)) is not None:
            self.at += 2
            return plain
        if char != "u":
            raise self._wrong(
                f"`\\{char}` is not an escape of JSON" if char.strip() else "a lone backslash",
                "write a backslash as \\\\",
                length=2,
            )
        first = self._hex(self.at)
        if 0xD800 <= first < 0xDC00 and self.text[self.at + 6 : self.at + 8] == "\\u":
            second = self._hex(self.at + 6)
            if 0xDC00 <= second < 0xE000:
                self.at += 12
                return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
        if 0xD800 <= first < 0xE000:
            raise self._wrong(
                f"`\\u{first:04x}` is half of a character",
                "write both halves, or the character itself",
                length=6,
            )
        self.at += 6
        return chr(first)

    def _hex(self, at: int) -> int:
        match = _HEX.match(self.text, at + 2)
        if match is None:
            self.at = at
            raise self._wrong(
                "`\\u` needs four hexadecimal digits", "write a backslash as \\\\", length=2
            )
        return int(match.group(), 16)

    def _number(self) -> int | float | str:
        start = self.at
        match = _NUMBER.match(self.text, start)
        word = self._word()
        if match is None or match.end() != start + len(word):
            raise self._wrong_word(word)
        self.at = match.end()
        value: int | float | None = None
        if match.group(1) is not None or match.group(2) is not None:
            number = float(word)
            value = number if isfinite(number) else None
        elif len(word) <= _MAX_DIGITS:
            integer = int(word)
            value = integer if INT_MIN <= integer <= INT_MAX else None
        if value is None:
            self.out.add(
                codes.NUMBER_OUT_OF_RANGE.at(
                    self.source.span(start, self.at),
                    f"the number {shorten(word)} does not fit into 64 bits",
                    help="write a smaller number, or a text in quotes if that is meant",
                )
            )
            return word
        return value

    def _constant(self) -> Scalar:
        word = self._word()
        if word not in _CONSTANTS:
            raise self._wrong_word(word)
        self.at += len(word)
        return _CONSTANTS[word]

    def _wrong_word(self, word: str) -> StopReading:
        if not word:
            return self._wrong("the file ends where a value is expected", "write the value")
        if has_invisible(word):
            return self._wrong(
                f"{describe(word[0])} cannot stand here", "replace it with a space or delete it"
            )
        shown = f"`{shorten(word)}`"
        if word == "-":
            # lscpu -J prints it for what an offline CPU has no value for.
            fix = "write null for a value that is not known"
        elif word in ("/", "#"):
            return self._wrong("JSON has no comments", "delete it, or use YAML")
        elif word in ("NaN", "Infinity", "-Infinity"):
            fix = "JSON has no such number; write null or a number"
        elif word in ("}", "]", ",", ":"):
            return self._wrong(f"a value is expected, not {shown}", "write the value")
        elif word[0] in "+-.0123456789":
            fix = "write a plain decimal number without sign + and leading zeros, or quote it"
        else:
            fix = "put texts in double quotes; the words of JSON are true, false and null"
        return self._wrong(f"{shown} is not a JSON value", fix, length=len(word))

    def _no_key(self) -> StopReading:
        if self.text[self.at : self.at + 1] in ("/", "#"):
            return self._wrong("JSON has no comments", "delete it, or use YAML")
        return self._wrong(
            f"a key in double quotes is expected, not {self._here()}",
            "put keys in double quotes; a comma stands only between two items",
        )

    def _duplicate(self, key: str, start: int, end: int, first: Place) -> None:
        assert first.key is not None
        line, col, end_line, end_col = first.key
        begin = self.source.start_of(line) + col
        finish = self.source.start_of(end_line) + end_col
        self.out.add(
            codes.DUPLICATE_KEY.at(
                self.source.span(start, end),
                f'duplicate key "{shorten(key)}"',
                related=[Related(self.source.span(begin, finish), "first defined here")],
                help="remove one of the two",
            )
        )

    def _wrong(self, message: str, fix: str, *, length: int = 1) -> StopReading:
        at = self.at
        if at >= len(self.text):  # point behind the last thing, not at an empty line
            at = len(self.text.rstrip(" \t\n"))
        span = self.source.span(at, min(at + length, len(self.text)))
        return self.out.stop(codes.JSON_SYNTAX, span, message, help=fix)

    def _here(self) -> str:
        word = self._word()
        return f"`{shorten(word)}`" if word else "the end of the file"

    def _word(self) -> str:
        match = _WORD.match(self.text, self.at)
        return match.group() if match is not None else ""

    def _skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    def _position(self, start: int) -> Position:
        return self.source.position(start, self.at)
