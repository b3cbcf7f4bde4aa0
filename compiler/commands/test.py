"""``tierc test``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compiler.commands.messages import Messages
from compiler.commands.session import (
    FINDINGS,
    OK,
    UsageError,
    fail,
    output_formats,
    path_prefix,
    prefixed,
    prefixed_span,
    what_is_meant,
    write_outputs,
)
from compiler.diagnostics import Severity, Sink
from compiler.policy import Policy
from compiler.policytest import (
    Broken,
    Case,
    Report,
    Result,
    Suite,
    check_names,
    load_tests,
)
from compiler.policytest.run import run_tests
from compiler.policytest.snapshot import write_snapshot
from compiler.policytest.worlds import Worlds
from compiler.profiles import builtin_lines
from compiler.project import NothingToCheckError, Place, project_root
from compiler.project import load as load_policy
from compiler.report.testjson import render_test_json
from compiler.report.testjunit import render_test_junit
from compiler.report.testtext import render_test_text
from compiler.words import listed

FORMATS = ("text", "json", "junit")


def run(path: Path, keyword: str, formats: Sequence[str], color: str, *, update: bool) -> int:
    """Run the tests below a path and print reports; return the exit code."""
    if update and os.environ.get("CI", "").lower() not in ("", "0", "false", "no"):
        return fail("--update is refused when CI is set: it would hide the change")
    try:
        outputs = output_formats(formats, FORMATS)
        root, below = _where(path)
        sink = Sink()
        policy = load_policy(Place(root), sink)
        suite = load_tests(Place(root), policy)
        prefix = path_prefix(root)
        report = _report(suite, policy, sink, below, keyword, update=update)
        if not report.results and not report.broken:
            raise UsageError(f"nothing to test: {_nothing(suite, path, keyword)}")
        said = Messages()
        for file, data in report.snapshots:
            _update(root, file, data, prefix, said)
        shown = _moved(report, prefix)

        def render(name: str, tint: bool) -> str:
            if name == "json":
                return render_test_json(shown)
            if name == "junit":
                return render_test_junit(shown)
            return render_test_text(shown, lambda p: _lines(p, prefix, policy, suite), color=tint)

        write_outputs(outputs, render, color)
    except (UsageError, NothingToCheckError) as error:
        return fail(str(error))
    said.check()
    return OK if report.succeeded else FINDINGS


def _nothing(suite: Suite, path: Path, keyword: str) -> str:
    names = sorted({test.name for test in suite.tests})
    if keyword and names:
        return f"no test matches {keyword!r}; {what_is_meant(keyword, names, 'tests are')}"
    files = sorted(suite.test_files)
    where = f"tests are in {listed(files[:3])}" if files else "a test is a document in tests/"
    return f"no PolicyTest in {path}; {where}"


def _where(path: Path) -> tuple[Path, str]:
    """Return the policy repository, and the part of it to test as a path relative to it."""
    if not path.exists():
        raise UsageError(f"{path} does not exist")
    start = path.absolute()
    root = project_root(start if start.is_dir() else start.parent)
    if root is None:
        root = start if start.is_dir() else start.parent
    if root == start:
        return path, "."
    return root, start.relative_to(root).as_posix()


def _report(
    suite: Suite, policy: Policy, loading: Sink, below: str, keyword: str, *, update: bool
) -> Report:
    """Run what is below a path of the repository and has the keyword in its name."""

    def inside(path: str) -> bool:
        return below in (".", path) or path.startswith(f"{below}/")

    worlds = Worlds(policy, suite, loading.sorted())
    tests = tuple(test for test in suite.tests if inside(test.doc.path))
    chosen = replace(suite, tests=tests)
    sink = Sink()
    sink.extend(d for d in suite.findings if inside(d.span.path))
    if tests:
        sink.extend(check_names(chosen, worlds.own.compilation))
    errors = [found for found in sink.sorted() if found.severity is Severity.ERROR]
    word = keyword.casefold()
    return run_tests(
        chosen, worlds, errors, wanted=lambda name: word in name.casefold(), update=update
    )


def _update(root: Path, file: str, data: bytes, prefix: str, said: Messages) -> None:
    try:
        if (root / file).is_file() and (root / file).read_bytes() == data:
            return
        write_snapshot(root, file, data)
    except OSError as error:
        raise UsageError(f"cannot write {prefix}{file}: {error.strerror}") from error
    with said.telling():
        print(f"{prefix}{file} written", file=sys.stderr)


def _lines(path: str, prefix: str, policy: Policy, suite: Suite) -> Sequence[str] | None:
    own = path.removeprefix(prefix)
    return policy.lines(own) or suite.lines(own) or builtin_lines(path)


def _moved(report: Report, prefix: str) -> Report:
    """Return the report with places as they can be opened from here."""

    def case(one: Case) -> Case:
        failures = tuple(replace(row, span=prefixed_span(row.span, prefix)) for row in one.failures)
        return replace(one, span=prefixed_span(one.span, prefix), failures=failures)

    def result(one: Result) -> Result:
        cases = tuple(case(row) for row in one.cases)
        return replace(one, span=prefixed_span(one.span, prefix), cases=cases)

    def broken(one: Broken) -> Broken:
        findings = tuple(prefixed(found, prefix) for found in one.findings)
        name = prefix + one.name if one.name == one.span.path else one.name
        return Broken(name, prefixed_span(one.span, prefix), findings)

    return replace(
        report,
        results=tuple(result(one) for one in report.results),
        broken=tuple(broken(one) for one in report.broken),
    )
