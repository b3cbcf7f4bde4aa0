"""Codes of the lint engine itself (TRC920-TRC929)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

RULE_CRASHED: Final = Code(
    "TRC920",
    "rule-crashed",
    Severity.ERROR,
    """\
A lint rule failed while it ran. The other rules did their work; this one's findings are unknown.
It is a fault of tierc: please report it with the documents that cause it.
""",
)
UNUSED_SUPPRESSION: Final = Code(
    "TRC921",
    "unused-suppression",
    Severity.WARNING,
    """\
A comment `# tierc: ignore[CODE] reason` silences nothing: the finding is gone, or the comment is
on another line. Remove it, so that it does not hide a later finding.
""",
    adjustable=True,
)
NOT_SUPPRESSIBLE: Final = Code(
    "TRC922",
    "not-suppressible",
    Severity.ERROR,
    """\
A comment tries to silence a finding that is no lint rule, or the project changes its severity.
Errors of the language, conflicts and refusals cannot be silenced: tierc would have to guess.
""",
)
UNKNOWN_CODE: Final = Code(
    "TRC923",
    "unknown-code",
    Severity.ERROR,
    """\
A suppression or `lint.severity` names a code that does not exist. `tierc rule` lists all codes.
""",
)
