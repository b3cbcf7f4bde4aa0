"""What commands share: loading a policy, judging it, printing reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from compiler.diagnostics import Diagnostic, Severity, Sink, Span
from compiler.lint import Judged, judge, run_rules
from compiler.pipeline import Compilation, compile_policy
from compiler.profiles import SCHEME, builtin_lines
from compiler.project import NothingToCheckError, locate
from compiler.project import load as load_policy
from compiler.report.text import render_text, summary

OK, FINDINGS, USAGE = 0, 1, 2


class UsageError(Exception):
    """The command cannot be carried out as given; the message says why."""


@dataclass(frozen=True)
class Session:
    """A loaded, compiled and judged policy."""

    compilation: Compilation
    judged: Judged
    prefix: str
    """What paths of findings begin with, so that they can be opened from here."""

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of any file a finding may point into."""
        own = self.compilation.policy.lines(path.removeprefix(self.prefix))
        return own or builtin_lines(path)


def open_session(paths: Sequence[Path]) -> Session:
    """Load and compile what the paths name, run the rules, judge the findings.

    Raises:
        UsageError: there is nothing to check.
    """
    sink = Sink()
    try:
        place = locate(paths)
        policy = load_policy(place, sink)
    except NothingToCheckError as error:
        raise UsageError(str(error)) from error
    compilation = compile_policy(policy, sink)
    run_rules(compilation, sink)
    judged = judge(sink, policy, policy.files)
    prefix = _prefix(place.root)
    shown = tuple(_prefixed(finding, prefix) for finding in judged.findings)
    return Session(compilation, replace(judged, findings=shown), prefix)


def _prefix(root: Path) -> str:
    """Return the way from the working directory to the root, empty or ending in a slash."""
    if root.is_absolute():
        relative = os.path.relpath(root)
        text = root.as_posix() if relative.startswith("..") else Path(relative).as_posix()
    else:
        text = root.as_posix()
    return "" if text == "." else text.rstrip("/") + "/"


def _prefixed(finding: Diagnostic, prefix: str) -> Diagnostic:
    def moved(span: Span) -> Span:
        return span if span.path.startswith(SCHEME) else replace(span, path=prefix + span.path)

    return replace(
        finding,
        span=moved(finding.span),
        related=tuple(replace(row, span=moved(row.span)) for row in finding.related),
    )


def use_color(choice: str, stream: TextIO) -> bool:
    """Tell whether to colour: as chosen, or on a terminal unless NO_COLOR is set."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR")


def print_findings(
    session: Session, stream: TextIO, color: str, *, at: Severity = Severity.INFO
) -> None:
    """Print the findings at or above a severity, and a summary line; nothing if there is none."""
    judged = session.judged
    shown = [finding for finding in judged.findings if finding.severity >= at]
    if not shown:
        return
    stream.write(render_text(shown, session.lines, color=use_color(color, stream)) + "\n")
    stream.write(summary(judged.findings, judged.suppressed) + "\n")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fail(message: str) -> int:
    """Print a usage error; return its exit code."""
    print(f"tierc: {message}", file=sys.stderr)
    return USAGE


def refuse_errors(session: Session, what: str) -> str | None:
    """Return the line that says why errors stop a command, or None without errors."""
    errors = [f for f in session.judged.findings if f.severity is Severity.ERROR]
    if not errors:
        return None
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return f"tierc: {what}: {count}, first {errors[0].span}: {errors[0].message}"
