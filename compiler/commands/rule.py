"""``tierc rule``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler.catalog import all_codes
from compiler.commands.session import OK, fail
from compiler.diagnostics import Code
from compiler.suggest import nearest


def run(code: str | None) -> int:
    """Print one code's documentation, or the list of all codes; return the exit code."""
    known = all_codes()
    if code is None:
        for one in known.values():
            print(f"{one.id}  {one.severity.label:<7}  {one.name}")
        return OK
    found = known.get(code.upper()) or next((c for c in known.values() if c.name == code), None)
    if found is None:
        return fail(f"no finding has the code {code!r}; {_meant(code, [*known.values()])}")
    sys.stdout.write(page(found))
    return OK


def _meant(text: str, known: Sequence[Code]) -> str:
    """Say what to ask for instead; of a number that is not taken no other is any nearer."""
    number = text.upper().removeprefix("TRC")
    close = [one.id for one in known if number.isdigit() and one.id == f"TRC{number}"]
    if not number.isdigit():
        close = nearest(text.upper(), [one.id for one in known])
        close = close or nearest(text, [one.name for one in known])
    return f"did you mean {close[0]}?" if close else "tierc rule lists all there are"


def page(code: Code) -> str:
    """Return the documentation of a code as Markdown."""
    kind = (
        "Lint rule: its severity can be set in lint.severity, and one finding can be silenced "
        f"with a comment `# tierc: ignore[{code.id}] reason`."
        if code.adjustable
        else "Not a lint rule: it cannot be silenced."
    )
    return f"# {code.id} {code.name} ({code.severity.label})\n\n{code.doc.strip()}\n\n{kind}\n"
