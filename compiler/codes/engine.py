"""Codes of the lint engine itself (TRC920-TRC929)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

RULE_CRASHED: Final = Code(
    "TRC920",
    "rule-crashed",
    Severity.ERROR,
    """\
A lint rule failed while it ran. The other rules did their work; this one's findings are unknown,
so a policy is not called clean.

It is a fault of tierc: please report it with the documents that cause it. Until then the rule can
be left out:

```yaml
kind: Project
spec:
  lint: {severity: {TRC206: "off"}}
```
""",
)
UNUSED_SUPPRESSION: Final = Code(
    "TRC921",
    "unused-suppression",
    Severity.WARNING,
    """\
A comment `# tierc: ignore[CODE] reason` silences nothing: the finding is gone, or the comment is
on another line.

It would hide a later finding that nobody has looked at. Remove it. A comment behind a value
applies to its own line, one on a line of its own to the next line that has content:

```yaml
match:
  - {comm: "job-*"}  # tierc: ignore[TRC212] single-user machine
  # tierc: ignore[TRC212] the same
  - {comm: "step-*"}
```

Where a finding comes and goes with the nodes of a policy, name TRC921 in the same comment.
""",
    adjustable=True,
)
NOT_SUPPRESSIBLE: Final = Code(
    "TRC922",
    "not-suppressible",
    Severity.ERROR,
    """\
A comment tries to silence a finding that is no lint rule, or the project changes its severity.

Errors of the language, conflicts and refusals cannot be silenced: tierc would have to guess what
was meant. Remove the comment or the line in `lint.severity`, and what the finding is about.
`tierc rule CODE` says whether a code is a lint rule.
""",
)
UNKNOWN_CODE: Final = Code(
    "TRC923",
    "unknown-code",
    Severity.ERROR,
    """\
A suppression or `lint.severity` names a code that does not exist, so it silences nothing and
changes nothing. Correct it; `tierc rule` lists all codes.
""",
)
