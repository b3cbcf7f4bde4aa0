"""Findings as text for people, in the manner of rustc."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compiler.diagnostics import Diagnostic, Severity, Span
from compiler.report.cells import Cell, cells, printable
from compiler.words import counted

LinesOf = Callable[[str], Sequence[str] | None]

_MAX_WIDTH: Final = 120
"""Columns of a source line that are shown; a longer line is cut around its marker."""
_LEAD: Final = 20
"""Columns shown before the marker of a line that is cut."""
_CUT: Final = Cell("...", 3)

_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_FRAME: Final = "\x1b[1;34m"
_COLORS: Final = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.INFO: "\x1b[1;36m",
}


def render_text(
    diagnostics: Sequence[Diagnostic],
    lines_of: LinesOf,
    *,
    color: bool,
    nodes_limit: int = 5,
) -> str:
    """Return the findings in the order given, each with its source lines, a blank line between.

    Each place is written ``path:line:col`` once, so that editors and terminals can follow it.

    Args:
        diagnostics: what to report.
        lines_of: the lines of a file without line ends; None where they are not known, and the
            finding is shown without them.
        color: whether to colour with ANSI sequences.  Nothing else in the result is a control
            character but the line ends: those of sources and messages are escaped.
        nodes_limit: how many nodes to name before the rest is only counted.
    """
    return "\n".join(
        _Frame(found, lines_of, color=color, nodes_limit=nodes_limit).text()
        for found in diagnostics
    )


def summary(diagnostics: Iterable[Diagnostic], suppressed: int) -> str:
    """Return one line such as ``2 errors, 1 warning, 3 suppressed``, without line end."""
    counts = dict.fromkeys((Severity.ERROR, Severity.WARNING, Severity.INFO), 0)
    for found in diagnostics:
        counts[found.severity] += 1
    parts = [_counted(count, severity) for severity, count in counts.items() if count]
    if not parts:
        parts.append("no findings")
    if suppressed:
        parts.append(f"{suppressed} suppressed")
    return ", ".join(parts)


def _counted(count: int, severity: Severity) -> str:
    return counted(count, "note" if severity is Severity.INFO else severity.label)


class _Frame:
    """One finding being written."""

    def __init__(
        self, found: Diagnostic, lines_of: LinesOf, *, color: bool, nodes_limit: int
    ) -> None:
        self.found = found
        self.lines_of = lines_of
        self.color = color
        self.nodes_limit = nodes_limit
        self.tint = _COLORS[found.severity]
        spans = [found.span, *(related.span for related in found.related)]
        shown = [span.line for span in spans if self._line(span) is not None]
        self.gutter = len(str(max(shown))) if shown else 1
        self.out: list[str] = []

    def text(self) -> str:
        found = self.found
        head = self._paint(f"{found.severity.label}[{found.code}]", self.tint)
        self.out.append(head + self._paint(f": {printable(found.message)}", _BOLD))
        self._place("-->", found.span, "^", "", self.tint)
        for related in found.related:
            self._place(":::", related.span, "-", printable(related.message), _FRAME)
        if found.help:
            self._note("help", found.help.split("\n"))
        if found.nodes:
            self._note("nodes", [self._nodes()])
        return "\n".join(self.out) + "\n"

    def _place(self, arrow: str, span: Span, mark: str, label: str, tint: str) -> None:
        pad = " " * self.gutter
        bar = self._paint(f"{pad} |", _FRAME)
        if arrow == ":::" and self.out[-1] != bar and self._line(self.found.span) is not None:
            self.out.append(bar)
        where = f"{printable(span.path)}:{span.line}:{span.col}"
        line = self._line(span)
        if line is None:
            where += f": {label}" if label else ""
            self.out.append(f"{pad}{self._paint(arrow, _FRAME)} {where}")
            return
        before, marked, after = _cut(line, span)
        length = max(1, sum(cell.width for cell in marked))
        under = " " * sum(cell.width for cell in before) + self._paint(
            mark * length + (f" {label}" if label else ""), tint
        )
        number = self._paint(f"{span.line:>{self.gutter}} |", _FRAME)
        source = "".join(cell.shown for cell in (*before, *marked, *after)).rstrip()
        self.out += [
            f"{pad}{self._paint(arrow, _FRAME)} {where}",
            bar,
            f"{number} {source}".rstrip(),
            f"{bar} {under}",
        ]

    def _note(self, word: str, lines: Sequence[str]) -> None:
        pad = " " * self.gutter
        lead = f"{pad} {self._paint('=', _FRAME)} {self._paint(f'{word}:', _BOLD)} "
        for line in lines:
            self.out.append((lead + printable(line)).rstrip())
            lead = " " * (self.gutter + len(f" = {word}: "))

    def _nodes(self) -> str:
        nodes = self.found.nodes
        named = ", ".join(nodes[: self.nodes_limit])
        rest = len(nodes) - self.nodes_limit
        return f"{named} and {rest} more" if rest > 0 else named

    def _line(self, span: Span) -> str | None:
        lines = self.lines_of(span.path)
        return lines[span.line - 1] if lines and 0 < span.line <= len(lines) else None

    def _paint(self, text: str, tint: str) -> str:
        return f"{tint}{text}{_RESET}" if self.color else text


def _cut(line: str, span: Span) -> tuple[list[Cell], list[Cell], list[Cell]]:
    """Return the cells before, at and behind the marker, cut to what fits.

    Of a place over several lines the rest of its first line is marked.
    """
    # Bound the work on a line of megabytes: only what is near the marker can be shown.
    start = max(0, min(span.col - 1, len(line)))
    stop = max(start, min(span.end_col - 1, len(line)))
    if span.end_line > span.line:
        stop = max(start, len(line.rstrip()))
    first = 0 if len(line) <= _MAX_WIDTH else max(0, start - _MAX_WIDTH)
    last = min(len(line), first + 3 * _MAX_WIDTH)
    row = cells(line[first:last])
    before, marked = row[: start - first], row[start - first : stop - first]
    after = row[stop - first :]
    cut_left, cut_right = first > 0, last < len(line)
    if sum(cell.width for cell in row) <= _MAX_WIDTH and not (cut_left or cut_right):
        return before, marked, after
    room = _MAX_WIDTH - 2 * _CUT.width
    wanted = sum(cell.width for cell in (*before, *marked))
    if cut_left or wanted > room:
        kept = _last_cells(before, _LEAD)
        cut_left = cut_left or len(kept) < len(before)
        before = kept
    room -= sum(cell.width for cell in before)
    kept_marked = _first_cells(marked, room)
    kept_after = _first_cells(after, room - sum(cell.width for cell in kept_marked))
    cut_right = cut_right or len(kept_marked) < len(marked) or len(kept_after) < len(after)
    if len(kept_marked) < len(marked):
        kept_after = []
    return (
        [_CUT, *before] if cut_left else before,
        kept_marked,
        [*kept_after, _CUT] if cut_right else kept_after,
    )


def _first_cells(row: Sequence[Cell], room: int) -> list[Cell]:
    kept = []
    for cell in row:
        room -= cell.width
        if room < 0:
            break
        kept.append(cell)
    return kept


def _last_cells(row: Sequence[Cell], room: int) -> list[Cell]:
    kept = []
    for cell in reversed(row):
        room -= cell.width
        if room < 0:
            break
        kept.append(cell)
    kept.reverse()
    return kept
