"""Codes of placement: what a machine can and cannot give (TRC400-TRC449)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNPLACEABLE: Final = Code(
    "TRC400",
    "unplaceable",
    Severity.ERROR,
    """\
A node cannot give what an intent must have: a lane's minimum, or a `require`.

Nothing is written for any node, so that a fleet is never half changed, unless the project says
`onUnplaceable: quarantine`; then the node gets no plan and this is a warning.
""",
)
QUARANTINED: Final = Code(
    "TRC401",
    "quarantined",
    Severity.WARNING,
    """\
The project says `onUnplaceable: quarantine`, and this node could not be planned; it gets no
files. The message says what was missing.
""",
)
DEGRADED: Final = Code(
    "TRC402",
    "degraded",
    Severity.WARNING,
    """\
A preference could not be met on a node, or the machine is too small for everything at once. The
plan records it; `require` would make it an error.
""",
    adjustable=True,
)
