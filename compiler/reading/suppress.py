"""Suppressions: ``# tierc: ignore[TRC201, TRC204] reason``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from compiler.codes import reading as codes
from compiler.reading.characters import SourceText
from compiler.reading.document import Suppression
from compiler.reading.findings import Findings
from compiler.reading.scalars import shorten

WORD: Final = "tierc:"
_OURS: Final = re.compile(r"#+[ \t]*tierc:[ \t]*(.*)")
_IGNORE: Final = re.compile(r"ignore[ \t]*\[([^\[\]]*)\][ \t]*(.*)")
_CODE: Final = re.compile(r"TRC[0-9]{3}")


def read_suppressions(
    source: SourceText, comments: Iterable[tuple[int, int]], out: Findings
) -> tuple[Suppression, ...]:
    """Return the suppressions among the comments of a file; report those out of form."""
    found = []
    targets = _Targets(source)
    for start, end in comments:
        ours = _OURS.match(source.text, start, end)
        if ours is None:
            continue
        problem, wanted, reason = _read(ours.group(1).strip())
        span = source.span(start, end)
        if problem:
            shown = ", ".join(wanted) or "TRC201"
            form = f"write `# tierc: ignore[{shown}] reason`"
            out.add(codes.MALFORMED_SUPPRESSION.at(span, problem, help=form))
        else:
            line = targets.of(start)
            found.append(Suppression(source.path, line, span, wanted, reason))
    return tuple(found)


def _read(body: str) -> tuple[str, tuple[str, ...], str]:
    """Return what is wrong with a suppression (empty if nothing), its codes and its reason."""
    match = _IGNORE.fullmatch(body)
    if match is None:
        if re.match(r"ignore\b", body):
            if "[" not in body:
                return "this suppression names no code", (), ""
            return "the brackets of this suppression do not match", (), ""
        word = re.split(r"[\[ \t]", body, maxsplit=1)[0]
        if not word:
            return "nothing follows `tierc:`", (), ""
        return f"`{shorten(word)}` after `tierc:` is not known", (), ""
    names = [name.strip() for name in match.group(1).split(",")]
    if names == [""]:
        return "this suppression names no code", (), ""
    for name in names:
        if _CODE.fullmatch(name) is None:
            what = f"`{shorten(name)}`" if name else "an empty item"
            return f"{what} is not a code such as TRC201", (), ""
    if not match.group(2):
        return "this suppression gives no reason", tuple(dict.fromkeys(names)), ""
    return "", tuple(dict.fromkeys(names)), match.group(2)


class _Targets:
    """Finds the line that a suppression applies to.

    Remembers the last run of comments, or a file of nothing but suppressions would be searched
    to its end for each of them.
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._from = self._to = 0

    def of(self, start: int) -> int:
        """Return the line, from 1, that a suppression at offset ``start`` applies to."""
        source = self.source
        line = source.line_of(start)
        if source.text[source.start_of(line) : start].strip():
            return line + 1
        if not self._from <= line < self._to:
            self._from, self._to = line, line + 1
            while self._to < len(source.lines) and _is_void(source.lines[self._to]):
                self._to += 1
        # If nothing follows, it applies to itself and will be reported as unused.
        return self._to + 1 if self._to < len(source.lines) else line + 1


def _is_void(line: str) -> bool:
    content = line.strip()
    return not content or content.startswith("#")
