"""The outcome of ``tierc test`` as JUnit XML, the form that CI systems read.

One suite a PolicyTest, one case an item of it.  Only elements and attributes that every reader of
the format knows; no time, so that the same outcome gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from compiler.policytest import Broken, Case, Report, Result
from compiler.report.cells import printable
from compiler.report.testtext import case_lines

_QUOTE: Final = {'"': "&quot;", "\n": "&#10;"}


def render_test_junit(report: Report) -> str:
    """Return the outcome as an XML document; what XML cannot hold is escaped as in text."""
    total = report.passed + report.failed + len(report.broken)
    counts = _counts(total, report.failed, len(report.broken))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="tierc test" {counts}>']
    for result in report.results:
        lines += _suite(result)
    for broken in report.broken:
        lines += _broken(broken)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(result: Result) -> Iterator[str]:
    failed = sum(not case.passed for case in result.cases)
    counts = _counts(len(result.cases), failed, 0)
    yield f"  <testsuite name={_attribute(result.name)} {counts}>"
    for case in result.cases:
        head = f"    <testcase name={_attribute(case.name)} classname={_attribute(result.name)}"
        if case.passed:
            yield f"{head}/>"
            continue
        yield f"{head}>"
        yield f'      <failure message={_attribute(_message(case))} type="expectation">'
        yield from map(_text, case_lines(case, indent=0))
        yield "      </failure>"
        yield "    </testcase>"
    yield "  </testsuite>"


def _message(case: Case) -> str:
    first = case.failures[0]
    more = len(case.failures) - 1
    text = f"{first.span}: expected {first.expected}, got {first.got}"
    return text + (f" (and {more} more)" if more else "")


def _broken(broken: Broken) -> Iterator[str]:
    first = broken.findings[0]
    yield f"  <testsuite name={_attribute(broken.name)} {_counts(1, 0, 1)}>"
    yield f'    <testcase name="can run" classname={_attribute(broken.name)}>'
    message = f"{first.span}: {first.message}"
    yield f"      <error message={_attribute(message)} type={_attribute(first.code)}>"
    for found in broken.findings:
        yield _text(
            printable(f"{found.span}: {found.severity.label}[{found.code}]: {found.message}")
        )
        if found.help:
            yield _text(printable(f"  help: {found.help}"))
    yield "      </error>"
    yield "    </testcase>"
    yield "  </testsuite>"


def _counts(tests: int, failures: int, errors: int) -> str:
    return f'tests="{tests}" failures="{failures}" errors="{errors}"'


def _attribute(text: str) -> str:
    return f'"{escape(printable(text), _QUOTE)}"'


def _text(line: str) -> str:
    return escape(line)
