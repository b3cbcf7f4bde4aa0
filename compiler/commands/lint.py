"""``tierc lint``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from compiler.catalog import all_codes
from compiler.commands.session import (
    FINDINGS,
    OK,
    Session,
    UsageError,
    fail,
    open_session,
    output_formats,
    write_outputs,
)
from compiler.diagnostics import Severity
from compiler.report.json import render_json
from compiler.report.text import render_text, summary
from compiler.words import counted

FORMATS = ("text", "json")


def run(paths: Sequence[Path], formats: Sequence[str], fail_on: str | None, color: str) -> int:
    """Check the paths and print reports; return the exit code."""
    try:
        wanted = output_formats(formats, FORMATS)
        session = open_session(paths, tests=True)
        write_outputs(wanted, partial(_render, session), color)
    except UsageError as error:
        return fail(str(error))
    level = fail_on or session.compilation.policy.project.spec.lint.fail_on
    return FINDINGS if session.judged.fails(Severity.parse(level)) else OK


def _render(session: Session, name: str, color: bool) -> str:
    judged = session.judged
    if name == "json":
        names = {id: code.name for id, code in all_codes().items()}
        return render_json(judged.findings, suppressed=judged.suppressed, names=names)
    text = render_text(judged.findings, session.lines, color=color)
    last = summary(judged.findings, judged.suppressed)
    checked = session.compilation.policy
    files = set(checked.files)
    parts = [counted(len(checked.intents), "intent"), counted(len(checked.nodes), "node")]
    if session.suite is not None and (session.suite.tests or session.suite.unread):
        files |= set(session.suite.files)
        parts.append(counted(len(session.suite.tests) + len(session.suite.unread), "test"))
    what = f"{counted(len(files), 'file')}, {', '.join(parts)} checked: {last}\n"
    return f"{text}\n{what}" if text else what
