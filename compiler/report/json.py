"""Findings as JSON, for programs.

The format has a version.  Fields may be added without changing it; none is removed or changes
its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.diagnostics import Diagnostic, Severity, Span

VERSION: Final = 1


def render_json(
    diagnostics: Sequence[Diagnostic],
    *,
    suppressed: int,
    names: Mapping[str, str] | None = None,
) -> str:
    """Return the findings in the order given, as one JSON object and a line end.

    Lines and columns count from 1, in characters; ``endColumn`` is behind the last character.

    Args:
        diagnostics: what to report.
        suppressed: how many findings were left out because a comment says so.
        names: short names of codes by id; a code that is not in it has the name null.
    """
    known = names or {}
    report = {
        "version": VERSION,
        "summary": {
            "errors": _count(diagnostics, Severity.ERROR),
            "warnings": _count(diagnostics, Severity.WARNING),
            "infos": _count(diagnostics, Severity.INFO),
            "suppressed": suppressed,
        },
        "diagnostics": [_diagnostic(found, known) for found in diagnostics],
    }
    return json.dumps(report, indent=2, ensure_ascii=True) + "\n"


def _count(diagnostics: Sequence[Diagnostic], severity: Severity) -> int:
    return sum(1 for found in diagnostics if found.severity is severity)


def _diagnostic(found: Diagnostic, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "code": found.code,
        "name": names.get(found.code),
        "severity": found.severity.label,
        "message": found.message,
        "span": _span(found.span),
        "related": [
            {"message": related.message, "span": _span(related.span)} for related in found.related
        ],
        "help": found.help or None,
        "nodes": list(found.nodes),
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "path": span.path,
        "line": span.line,
        "column": span.col,
        "endLine": span.end_line,
        "endColumn": span.end_col,
    }
