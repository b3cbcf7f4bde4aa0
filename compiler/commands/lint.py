"""``tierc lint``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from compiler.catalog import all_codes
from compiler.commands.session import (
    FINDINGS,
    OK,
    Session,
    UsageError,
    counted,
    fail,
    open_session,
    use_color,
)
from compiler.diagnostics import Severity
from compiler.report.json import render_json
from compiler.report.text import render_text, summary

FORMATS = ("text", "json")


def run(paths: Sequence[Path], formats: Sequence[str], fail_on: str | None, color: str) -> int:
    """Check the paths and print reports; return the exit code."""
    try:
        wanted = [_split(one) for one in formats]
        if len([file for _, file in wanted if file is None]) > 1:
            raise UsageError("only one --format may go to standard output; write FORMAT=FILE")
        session = open_session(paths)
    except UsageError as error:
        return fail(str(error))
    for name, file in wanted:
        if file is None:
            sys.stdout.write(_render(session, name, color=use_color(color, sys.stdout)))
            continue
        try:
            file.write_text(_render(session, name, color=False), encoding="utf-8")
        except OSError as error:
            return fail(f"cannot write {file}: {error.strerror}")
    level = fail_on or session.compilation.policy.project.spec.lint.fail_on
    return FINDINGS if session.judged.fails(Severity.parse(level)) else OK


def _split(text: str) -> tuple[str, Path | None]:
    name, eq, file = text.partition("=")
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}; formats are {', '.join(FORMATS)}")
    if eq and not file:
        raise UsageError(f"--format {text} names no file")
    return name, Path(file) if eq else None


def _render(session: Session, name: str, *, color: bool) -> str:
    judged = session.judged
    if name == "json":
        names = {id: code.name for id, code in all_codes().items()}
        return render_json(judged.findings, suppressed=judged.suppressed, names=names)
    text = render_text(judged.findings, session.lines, color=color)
    last = summary(judged.findings, judged.suppressed)
    checked = session.compilation.policy
    what = (
        f"{counted(len(checked.files), 'file')}, {counted(len(checked.intents), 'intent')}, "
        f"{counted(len(checked.nodes), 'node')} checked: {last}\n"
    )
    return f"{text}\n{what}" if text else what
