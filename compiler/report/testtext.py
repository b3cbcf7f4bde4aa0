"""The outcome of ``tierc test`` as text for people."""

from __future__ import annotations

from typing import Final

from compiler.policytest import Broken, Case, Failure, Report
from compiler.report.cells import printable
from compiler.report.table import table
from compiler.report.text import LinesOf, render_text

_NODES_SHOWN: Final = 5
_RESET: Final = "\x1b[0m"
_RED: Final = "\x1b[1;31m"
_GREEN: Final = "\x1b[1;32m"
_BOLD: Final = "\x1b[1m"


def render_test_text(report: Report, lines_of: LinesOf, *, color: bool) -> str:
    """Return one line a test that passed, everything about what failed, and a summary.

    Args:
        report: what the tests came to.
        lines_of: the lines of a file without line ends, as for ``render_text``.
        color: whether to colour with ANSI sequences; nothing else in the result is a control
            character but the line ends.
    """
    passed = [
        f"{_paint('ok', _GREEN, color)}    {printable(result.name)}: {len(result.cases)} passed\n"
        for result in report.results
        if all(case.passed for case in result.cases)
    ]
    blocks = [
        _failed(result.name, case, color=color)
        for result in report.results
        for case in result.cases
        if not case.passed
    ]
    blocks += [_broken(broken, lines_of, color=color) for broken in report.broken]
    last = _paint(summary_line(report), _GREEN if report.succeeded else _RED, color) + "\n"
    return "\n".join(part for part in ("".join(passed), *blocks, last) if part)


def summary_line(report: Report) -> str:
    """Return ``12 passed, 1 failed``; broken tests and files are counted where there are any."""
    parts = [f"{report.passed} passed", f"{report.failed} failed"]
    if report.broken:
        parts.append(f"{len(report.broken)} broken")
    return ", ".join(parts)


def case_lines(case: Case, *, indent: int) -> list[str]:
    """Return the failures of a case: place, expected, got, and reasons where they are new."""
    lines: list[str] = []
    said: set[tuple[str, ...]] = set()
    for failure in case.failures:
        lines.append(" " * indent + printable(str(failure.span)))
        lines += _failure(failure, failure.why not in said, indent + 2)
        said.add(failure.why)
    return lines


def _failure(failure: Failure, with_why: bool, indent: int) -> list[str]:
    rows = [("expected", failure.expected), ("got", failure.got)]
    if with_why:
        rows += [("why", line) for line in failure.why]
    if failure.nodes:
        more = len(failure.nodes) - _NODES_SHOWN
        names = ", ".join(failure.nodes[:_NODES_SHOWN])
        rows.append(("nodes", names + (f" and {more} more" if more > 0 else "")))
    if failure.help:
        rows.append(("help", failure.help))
    return table([(word, printable(text)) for word, text in rows], indent=indent)


def _failed(name: str, case: Case, *, color: bool) -> str:
    title = _paint(f"{printable(name)}: {printable(case.name)}", _BOLD, color)
    lines = [f"{_paint('FAIL', _RED, color)}  {title}", *case_lines(case, indent=2)]
    return "\n".join(lines) + "\n"


def _broken(broken: Broken, lines_of: LinesOf, *, color: bool) -> str:
    title = _paint(f"{printable(broken.name)} cannot run", _BOLD, color)
    findings = render_text(broken.findings, lines_of, color=color)
    return f"{_paint('BROKEN', _RED, color)}  {title}\n{findings}"


def _paint(text: str, tint: str, color: bool) -> str:
    return f"{tint}{text}{_RESET}" if color else text
