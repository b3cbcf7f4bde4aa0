"""``tierc rule``."""

from __future__ import annotations

import sys

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
        close = nearest(code.upper(), known) or nearest(code, [c.name for c in known.values()])
        hint = f"; did you mean {close[0]}?" if close else ""
        return fail(f"no finding has the code {code!r}{hint}")
    sys.stdout.write(page(found))
    return OK


def page(code: Code) -> str:
    """Return the documentation of a code as Markdown."""
    kind = (
        "Lint rule: its severity can be set in lint.severity, and one finding can be silenced "
        f"with a comment `# tierc: ignore[{code.id}] reason`."
        if code.adjustable
        else "Not a lint rule: it cannot be silenced."
    )
    return f"# {code.id} {code.name} ({code.severity.label})\n\n{code.doc.strip()}\n\n{kind}\n"
