"""The outcome of ``tierc test`` as JSON, for programs.

The format has a version.  Fields may be added without changing it; none is removed or changes
its meaning.
"""

from __future__ import annotations

import json
from typing import Any, Final

from compiler.diagnostics import Diagnostic, Span
from compiler.policytest import Broken, Failure, Report, Result

VERSION: Final = 1


def render_test_json(report: Report) -> str:
    """Return the outcome as one JSON object and a line end; lines and columns count from 1."""
    document = {
        "version": VERSION,
        "summary": {
            "passed": report.passed,
            "failed": report.failed,
            "broken": len(report.broken),
        },
        "tests": [_result(result) for result in report.results],
        "broken": [_broken(broken) for broken in report.broken],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _result(result: Result) -> dict[str, Any]:
    return {
        "name": result.name,
        **_place(result.span),
        "cases": [
            {
                "name": case.name,
                **_place(case.span),
                "passed": case.passed,
                "failures": [_failure(failure) for failure in case.failures],
            }
            for case in result.cases
        ],
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        **_place(failure.span),
        "expected": failure.expected,
        "got": failure.got,
        "why": list(failure.why),
        "help": failure.help or None,
        "nodes": list(failure.nodes),
    }


def _broken(broken: Broken) -> dict[str, Any]:
    return {
        "name": broken.name,
        **_place(broken.span),
        "findings": [_finding(found) for found in broken.findings],
    }


def _finding(found: Diagnostic) -> dict[str, Any]:
    return {
        "code": found.code,
        "severity": found.severity.label,
        "message": found.message,
        **_place(found.span),
        "help": found.help or None,
    }


def _place(span: Span) -> dict[str, Any]:
    return {"path": span.path, "line": span.line, "column": span.col}
