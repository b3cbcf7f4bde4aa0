"""What commands share: loading a policy, judging it, printing reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TextIO

from compiler.diagnostics import Diagnostic, Severity, Sink, Span
from compiler.lint import Judged, judge, run_rules
from compiler.pipeline import Compilation, compile_policy
from compiler.policytest import Suite, check_names, load_tests
from compiler.profiles import SCHEME, builtin_lines
from compiler.project import NothingToCheckError, locate
from compiler.project import load as load_policy
from compiler.report.text import render_text, summary
from compiler.shard import Shard
from compiler.suggest import nearest
from compiler.words import counted, listed

OK, FINDINGS, USAGE = 0, 1, 2
_NAMES_SHOWN: Final = 8
_FIRST_RULE: Final = "TRC200"
"""Codes below are of files that cannot be read and documents that are not in the language."""


class UsageError(Exception):
    """The command cannot be carried out as given; the message says why."""


@dataclass(frozen=True)
class Session:
    """A loaded, compiled and judged policy."""

    compilation: Compilation
    judged: Judged
    root: Path
    """Directory of the policy repository."""
    prefix: str
    """What paths of findings begin with, so that they can be opened from here."""
    suite: Suite | None = None
    """The tests beside the policy, where the command looks at them."""

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of any file a finding may point into."""
        own = path.removeprefix(self.prefix)
        tests = self.suite.lines(own) if self.suite is not None else None
        return self.compilation.policy.lines(own) or tests or builtin_lines(path)


def open_session(
    paths: Sequence[Path], *, tests: bool = False, shard: Shard | None = None
) -> Session:
    """Load and compile what the paths name, run the rules, judge the findings.

    With ``tests`` the documents of tests are checked as well; they change nothing else.  With a
    shard only its classes are placed.

    Raises:
        UsageError: there is nothing to check.
    """
    sink = Sink()
    try:
        place = locate(paths)
        policy = load_policy(place, sink)
    except NothingToCheckError as error:
        raise UsageError(str(error)) from error
    compilation = compile_policy(policy, sink, shard=shard)
    run_rules(compilation, sink)
    files, suite = policy.files, None
    if tests:  # after compiling: an error in a test must not keep a policy from a plan
        suite = load_tests(place, policy)
        files = {**policy.files, **suite.test_files}
        sink.extend(suite.findings)
        sink.extend(check_names(suite, compilation))
    judged = judge(sink, policy, files)
    prefix = path_prefix(place.root)
    shown = tuple(
        prefixed(finding, prefix)
        for finding in judged.findings
        if place.only is None or finding.span.path in place.only
    )
    return Session(compilation, replace(judged, findings=shown), place.root, prefix, suite)


def require_known(name: str, known: Sequence[str], word: str) -> None:
    """Check that the policy has something by a name.

    Raises:
        UsageError: it has not; the message offers what was probably meant.
    """
    if name not in known:
        raise UsageError(f"the policy has no {word} {name!r}; {what_is_meant(name, known)}")


def what_is_meant(name: str, known: Sequence[str], those: str = "it has") -> str:
    """Return what to say of a name that is not known: the nearest that is, else which there are."""
    close = nearest(name, known)
    if close:
        return f"did you mean {close[0]}?"
    if not known:
        return f"{those} none"
    more = len(known) - _NAMES_SHOWN
    shown = known if more <= 0 else [*known[:_NAMES_SHOWN], f"{more} more"]
    return f"{those} {listed(shown)}"


def require_node(name: str, names: Sequence[str], findings: Iterable[Diagnostic]) -> None:
    """Check that the policy has a node, and say so where a file that holds it may be broken.

    Args:
        name: the node.
        names: of the nodes that could be read.
        findings: about the policy; those of reading it count.

    Raises:
        UsageError: it has no such node, or none that can be read.
    """
    broken = [one for one in findings if one.severity is Severity.ERROR and one.code < _FIRST_RULE]
    if name not in names and broken:
        raise UsageError(
            f"the policy has no node {name!r} that can be read; first error: {broken[0].span}: "
            f"{broken[0].message}"
        )
    require_known(name, names, "node")


def path_prefix(root: Path) -> str:
    """Return the way from the working directory to the root, empty or ending in a slash."""
    if root.is_absolute():
        relative = os.path.relpath(root)
        text = root.as_posix() if relative.startswith("..") else Path(relative).as_posix()
    else:
        text = root.as_posix()
    return "" if text == "." else text.rstrip("/") + "/"


def prefixed(finding: Diagnostic, prefix: str) -> Diagnostic:
    """Return the finding with its places as they can be opened from here."""
    return replace(
        finding,
        span=prefixed_span(finding.span, prefix),
        related=tuple(
            replace(row, span=prefixed_span(row.span, prefix)) for row in finding.related
        ),
    )


def prefixed_span(span: Span, prefix: str) -> Span:
    """Return the place as it can be opened from here; those inside tierc stay as they are."""
    return span if span.path.startswith(SCHEME) else replace(span, path=prefix + span.path)


def output_formats(written: Sequence[str], known: Sequence[str]) -> list[tuple[str, Path | None]]:
    """Split ``--format`` options into the format and the file, None for standard output.

    Raises:
        UsageError: a format is not known, or several go to one place.
    """
    wanted = [_format(one, known) for text in written for one in text.split(",")]
    if len([file for _, file in wanted if file is None]) > 1:
        raise UsageError("only one --format may go to standard output; write FORMAT=FILE")
    files = [file for _, file in wanted if file is not None]
    for file in files:
        if files.count(file) > 1:
            raise UsageError(f"several --format go to {file}; give each a file of its own")
    return wanted


def _format(text: str, known: Sequence[str]) -> tuple[str, Path | None]:
    name, eq, file = text.partition("=")
    if name not in known:
        raise UsageError(f"unknown format {name!r}; formats are {', '.join(known)}")
    if eq and not file:
        raise UsageError(f"--format {text} names no file")
    return name, Path(file) if eq else None


def write_output(text: str, file: Path | None) -> None:
    """Write a report to a file, or to standard output.

    Raises:
        UsageError: the file cannot be written.
    """
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def write_outputs(
    outputs: Iterable[tuple[str, Path | None]], render: Callable[[str, bool], str], color: str
) -> None:
    """Write a report in each of its formats: files first, whatever becomes of standard output.

    A reader of standard output that has gone (``| head -1``) must cost no file, nor must one file
    that cannot be written cost another.

    Args:
        outputs: formats and files, as of :func:`output_formats`.
        render: returns the report in a format, in colour or not.
        color: of standard output: ``auto``, ``always`` or ``never``; files have none.

    Raises:
        UsageError: a file cannot be written; all else is.
        OSError: standard output cannot be written.
    """
    failed: UsageError | None = None
    try:
        for name, file in sorted(outputs, key=lambda output: output[1] is None):
            tint = file is None and use_color(color, sys.stdout)
            try:
                write_output(render(name, tint), file)
            except UsageError as error:
                failed = failed or error
    except OSError as error:
        if failed is None:
            raise
        raise failed from error
    if failed is not None:
        raise failed


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


def fail(message: str) -> int:
    """Print a usage error; return its exit code."""
    print(f"tierc: {message}", file=sys.stderr)
    return USAGE


def refuse_errors(session: Session, what: str) -> str | None:
    """Return the line that says why errors stop a command, or None without errors."""
    errors = [f for f in session.judged.findings if f.severity is Severity.ERROR]
    if not errors:
        return None
    count, first = counted(len(errors), "error"), errors[0]
    return f"tierc: {what}: {count}, first {first.span}: {first.message}"
