"""Canonical YAML of plain data: one text for one value, read alike by every YAML reader.

A small writer of our own rather than an emitter of a library.  What is hard about YAML is reading
it; writing the block form of mappings, lists and scalars takes a page.  The emitters of the
common libraries leave texts unquoted that only *their* reader takes for a text (ruamel: ``no``,
``on``, ``1:30``; PyYAML: ``25921e05``), fold long lines, and are slow to import.  Here a text
stands without quotes only if it is a plain word or a CPU range, so that YAML 1.1 and 1.2 readers
agree by construction, and the bytes do not change with a library's version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias, TypeGuard, Union

Route: TypeAlias = tuple[str | int, ...]
Plain: TypeAlias = Union[str, int, float, bool, "Mapping[str, Plain]", "Sequence[Plain]", None]

_STEP: Final = 2
_WIDTH: Final = 100
_MAX_KEY: Final = 1000  # a key on one line may have at most 1,024 characters
_MAX_DEPTH: Final = 64

# Begins with a letter (or a path's slash), and has nothing that means anything to YAML.
_WORD: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*\Z")
# A CPU list with at least one range: `0-3`, `0-3,8`, `0-30:1/2`.  A date has two dashes, so it is
# none; a list without a range such as `0,8` is quoted, because old readers take it for 8.
_ITEM: Final = r"(?:0|[1-9][0-9]*)(?:-(?:0|[1-9][0-9]*)(?::[1-9][0-9]*/[1-9][0-9]*)?)?"
_CPU_RANGES: Final = re.compile(rf"(?=[^-]*-){_ITEM}(?:,{_ITEM})*\Z")
# Words that some reader takes for a boolean, null or a number, in any case.
_SPECIAL: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"}
)
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
# Lines of a literal block: printable ASCII that begins and ends with something visible.
_LITERAL_LINE: Final = re.compile(r"(?: *[!-~](?:[ -~]*[!-~])?)?\Z")


def dump(
    data: Mapping[str, Plain],
    *,
    header: Sequence[str] = (),
    comments: Mapping[Route, str] | None = None,
) -> str:
    """Return one YAML document in block form.

    Keys keep the order in which they are given.  Lists of numbers stand on one line, or on
    several of at most 100 characters; everything else on lines of its own; empty mappings and
    lists are ``{}`` and ``[]``.  No anchors, no folding, LF, exactly one newline at the end, ASCII
    only.

    Args:
        data: mappings with text keys, lists or tuples, text, int, finite float, bool, None.
        header: comment lines before the document, without ``#``.
        comments: comments to put above a key or a list item, by route; several lines allowed.

    Raises:
        TypeError: something else than plain data, or a key that is not text.
        ValueError: a float that is not finite, a lone surrogate, a key longer than 1,000
            characters, nesting deeper than 64 (also data that contains itself), or a comment at
            a route that is not in the data.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"a document is a mapping, not {type(data).__name__}")
    writer = _Writer(dict(comments or {}))
    lines = [line for text in header for line in _comment(text, 0)]
    lines += writer.block(data, (), 0) if data else ["{}"]
    if writer.unused:
        raise ValueError(f"comment at {sorted(writer.unused, key=str)[0]}, where nothing is")
    return "\n".join(lines) + "\n"


def scalar(text: str) -> str:
    """Return a text as it stands on one line: plain where every reader agrees, else quoted.

    Raises:
        ValueError: it holds a lone surrogate.
    """
    if (_WORD.match(text) and text.lower() not in _SPECIAL) or _CPU_RANGES.match(text):
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    if (known := _ESCAPES.get(char)) is not None:
        return known
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    if 0xD800 <= code < 0xE000:
        raise ValueError(f"lone surrogate {char!a} is no text")
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _comment(text: str, indent: int) -> list[str]:
    return [
        f"{' ' * indent}# {ascii(line)[1:-1] if not line.isascii() else line}".rstrip()
        for line in re.sub(r"[^\n -~\x80-\U0010ffff]", " ", text).split("\n")
    ]


class _Writer:
    def __init__(self, comments: dict[Route, str]) -> None:
        self._comments = comments
        self.unused = set(comments)

    def block(self, data: Plain, route: Route, indent: int) -> Iterator[str]:
        """Yield the lines of a mapping or list that is not empty."""
        if len(route) > _MAX_DEPTH:
            raise ValueError(f"nested deeper than {_MAX_DEPTH}")
        if isinstance(data, Mapping):
            for key, value in data.items():
                if not isinstance(key, str):
                    raise TypeError(f"key {key!r} is not text")
                if len(key) > _MAX_KEY:
                    raise ValueError(f"key {key[:40]!r}... is longer than {_MAX_KEY} characters")
                here = (*route, key)
                yield from self._above(here, indent)
                yield from self._entry(f"{' ' * indent}{scalar(key)}:", value, here, indent)
        elif isinstance(data, Sequence):
            for index, value in enumerate(data):
                here = (*route, index)
                yield from self._above(here, indent)
                yield from self._item(value, here, indent)

    def _item(self, value: Plain, route: Route, indent: int) -> Iterator[str]:
        """Yield a list item; a mapping or list in it begins on the line of the dash."""
        dash = f"{' ' * indent}-"
        if not _is_block(value):
            yield from self._entry(dash, value, route, indent)
            return
        lines = self.block(value, route, indent + _STEP)
        for line in lines:
            if not line.lstrip().startswith("#"):
                yield f"{dash} {line.lstrip()}"
                break
            yield line[_STEP:]  # a comment on the first key stands above the dash
        yield from lines

    def _above(self, route: Route, indent: int) -> list[str]:
        if route not in self._comments:
            return []
        self.unused.discard(route)
        return _comment(self._comments[route], indent)

    def _entry(self, before: str, value: Plain, route: Route, indent: int) -> Iterator[str]:
        if isinstance(value, str):
            yield from _text(before, value, indent)
        elif _is_block(value):
            yield before
            yield from self.block(value, route, indent + _STEP)
        else:
            yield from _wrapped(f"{before} ", _atom(value), " " * (indent + _STEP))


def _wrapped(before: str, atom: str, indent: str) -> Iterator[str]:
    """Yield a value on one line, and a list of numbers that is too long for one on several."""
    while (
        len(before) + len(atom) > _WIDTH
        and (cut := atom.rfind(", ", 0, max(0, _WIDTH - len(before)))) > 0
    ):
        yield before + atom[: cut + 1]
        before, atom = indent, atom[cut + 2 :]
    yield before + atom


def _is_block(value: object) -> bool:
    """Return whether a value takes lines of its own."""
    if isinstance(value, str | bytes) or not isinstance(value, Mapping | Sequence) or not value:
        return False
    return not _numbers(value)


def _numbers(value: object) -> TypeGuard[Sequence[int]]:
    return isinstance(value, list | tuple) and all(type(item) is int for item in value)


def _atom(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        text = f"{Decimal(repr(value)):f}"
        return text if "." in text else f"{text}.0"
    if isinstance(value, Mapping) and not value:
        return "{}"
    if _numbers(value):
        return str(list(value))
    raise TypeError(f"{type(value).__name__} is not plain data")


def _text(before: str, text: str, indent: int) -> Iterator[str]:
    """Yield a text on one line, or one that has several lines as a literal block."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    literal = (
        "\n" in text
        and lines[0] != ""
        and not lines[0].startswith(" ")
        and lines[-1] != ""
        and all(_LITERAL_LINE.match(line) for line in lines)
    )
    if not literal:
        yield f"{before} {scalar(text)}"
        return
    yield f"{before} |{'' if body != text else '-'}"
    for line in lines:
        yield f"{' ' * (indent + _STEP)}{line}" if line else ""
