"""Where the scalars and the comments of a YAML text are.

The C parser drops comments, and tabs and odd characters matter only outside quotes; both are
found here, in the text between the scalars.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from compiler.codes import reading as codes
from compiler.reading.characters import SourceText
from compiler.reading.findings import Findings

# In a gap between scalars a `#` starts a comment unless it is part of an anchor, alias or tag.
_GAP: Final = re.compile(r"[&*!][^\s,\[\]{}]*|(#[^\n]*)")
_BLOCK_HEADER: Final = re.compile(r"[|>][-+0-9]*[ \t]*(#[^\n]*)?")
_TAB_INDENT: Final = re.compile(r"^ *(\t)[ \t]*(?=[^\s#])", re.MULTILINE)


class Stretch(NamedTuple):
    """A scalar in the text: offsets, and its style (empty without quotes, ``'``, ``"``, ``|``,
    ``>``)."""

    start: int
    end: int
    style: str


def comments(source: SourceText, scalars: Sequence[Stretch], end: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets of every comment before ``end``, ``#`` included, in order."""
    text, at = source.text, 0
    for scalar in scalars:
        yield from _in_gap(text, at, scalar.start)
        at = scalar.end
        if scalar.style and scalar.style in "|>":
            header = _BLOCK_HEADER.match(text, scalar.start)
            if header is not None and header.group(1) is not None:
                yield header.span(1)
    yield from _in_gap(text, at, max(at, end))


def quoted(
    scalars: Sequence[Stretch], found: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return the stretches of quoted and block scalars and of comments, in order."""
    inside = [(scalar.start, scalar.end) for scalar in scalars if scalar.style]
    # A comment in the header of a block scalar lies within that scalar.
    return tuple(sorted({*inside, *(c for c in found if not _within(c, inside))}))


def report_tabs(
    source: SourceText, inert: Sequence[tuple[int, int]], end: int, out: Findings
) -> None:
    """Report tabs in the indentation before ``end`` and outside ``inert`` (quotes, comments)."""
    if "\t" not in source.text:
        return
    for match in _TAB_INDENT.finditer(source.text, 0, end):
        if not _within(match.span(1), inert):
            out.add(
                codes.TAB_INDENTATION.at(
                    source.span(*match.span(1)),
                    "a tab in the indentation",
                    help="replace it with spaces",
                )
            )


def _within(inner: tuple[int, int], outer: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(outer, inner[0], key=lambda stretch: stretch[1])
    return at < len(outer) and outer[at][0] <= inner[0]


def _in_gap(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _GAP.finditer(text, start, end):
        if match.group(1) is not None:
            yield match.span(1)
