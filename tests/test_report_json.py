"""Reports as a program reads them."""

from __future__ import annotations

import json

from compiler.diagnostics import Diagnostic, Related, Severity, Span
from compiler.report.json import render_json


def test_nothing_found() -> None:
    out = render_json([], suppressed=2)
    assert out.endswith("}\n")
    assert json.loads(out) == {
        "version": 1,
        "summary": {"errors": 0, "warnings": 0, "infos": 0, "suppressed": 2},
        "diagnostics": [],
    }


def test_a_finding_with_everything() -> None:
    found = Diagnostic(
        "TRC031",
        Severity.WARNING,
        "duplicate key «é»",
        Span("intents/\udcff.yaml", 5, 3, 5, 7),
        (Related(Span("b.yaml", 1, 2, 3, 4), "first"),),
        "remove one",
        ("a", "b"),
    )
    bare = Diagnostic("TRC001", Severity.ERROR, "m", Span("c.yaml"))
    out = render_json([found, bare], suppressed=0, names={"TRC031": "duplicate-key"})
    assert out.isascii()
    report = json.loads(out)
    assert report["summary"] == {"errors": 1, "warnings": 1, "infos": 0, "suppressed": 0}
    assert report["diagnostics"] == [
        {
            "code": "TRC031",
            "name": "duplicate-key",
            "severity": "warning",
            "message": "duplicate key «é»",
            "span": {
                "path": "intents/\udcff.yaml",
                "line": 5,
                "column": 3,
                "endLine": 5,
                "endColumn": 7,
            },
            "related": [
                {
                    "message": "first",
                    "span": {
                        "path": "b.yaml",
                        "line": 1,
                        "column": 2,
                        "endLine": 3,
                        "endColumn": 4,
                    },
                }
            ],
            "help": "remove one",
            "nodes": ["a", "b"],
        },
        {
            "code": "TRC001",
            "name": None,
            "severity": "error",
            "message": "m",
            "span": {"path": "c.yaml", "line": 1, "column": 1, "endLine": 1, "endColumn": 1},
            "related": [],
            "help": None,
            "nodes": [],
        },
    ]
    assert list(report) == ["version", "summary", "diagnostics"]
    assert list(report["diagnostics"][0]) == list(report["diagnostics"][1])
