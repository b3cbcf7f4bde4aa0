"""``tierc init``."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from compiler.commands.messages import Messages
from compiler.commands.session import (
    FINDINGS,
    OK,
    Session,
    UsageError,
    fail,
    open_session,
    print_findings,
)
from compiler.decode import decode
from compiler.diagnostics import Diagnostic, Severity, Sink
from compiler.facts.collect import FactsError, collect
from compiler.model.base import NodeMetadata
from compiler.model.facts import NodeFacts
from compiler.report.cells import printable
from compiler.scaffold.content import facts_file, repository
from compiler.scaffold.engines import Running, running
from compiler.scaffold.write import missing, obstacles, write
from compiler.source import read_source
from compiler.words import counted


def run(directory: Path, name: str | None, sysroot: Path) -> int:
    """Write a policy repository; return the exit code."""
    if name is not None:
        try:
            NodeMetadata(name=name)
        except ValidationError:
            return fail(
                f"--name {printable(name)!r} is not a node name: lower-case letters, digits, "
                "'-' and '.', at most 253"
            )
    if not sysroot.is_dir():
        return fail(f"{printable(str(sysroot))} is not a directory")
    where = printable(str(directory))
    if os.path.lexists(directory) and not directory.is_dir():
        return fail(f"{where} is not a directory")
    facts, problem = _facts(sysroot, name)
    said = Messages()
    try:
        files = _clean(facts, running(sysroot) if facts is not None else (), said)
        kept = None
        if facts is not None and _has_facts(directory, facts.metadata.name):
            kept = facts_file(facts.metadata.name)
            files.pop(kept)
        if blocked := obstacles(directory, files):
            return fail(
                f"nothing written: in {where} {', '.join(map(printable, blocked))}; move what is "
                "there away, or give another directory"
            )
        new = missing(directory, files)
        if new:
            write(directory, new)
    except OSError as error:
        place = f" {printable(str(error.filename))}" if error.filename else ""
        return fail(f"nothing written: cannot write{place}: {(error.strerror or '').lower()}")
    for path in new:
        print(f"created {printable(str(directory / path))}")
    if kept is not None:
        file = printable(str(directory / kept))
        print(f"kept {file}; to renew it: tierc facts collect --force -o {shlex.quote(file)}")
    if not new:
        print(f"{where}: nothing to do, it is all there")
    code = _judge(directory, facts, problem)
    said.check()
    return code


def _facts(sysroot: Path, name: str | None) -> tuple[NodeFacts | None, str]:
    try:
        return collect(sysroot, name=name, live=sysroot.resolve() == Path("/")), ""
    except FactsError as error:
        return None, str(error)


def _clean(facts: NodeFacts | None, engines: Sequence[Running], said: Messages) -> dict[str, bytes]:
    """Return a repository that lints clean: an engine the machine is too small for is a template.

    Findings about the facts themselves are the machine's; they stay and are shown.
    """
    found: list[Diagnostic] = []
    for lanes in (True, False) if engines else ():
        files = repository(facts, engines, lanes=lanes)
        with tempfile.TemporaryDirectory(prefix="tierc-init-") as scratch:
            write(Path(scratch), files)
            found = _about_intents(open_session([Path(scratch)]))
        if not found:
            return files
    if found:
        names = " and ".join(one.engine for one in engines)
        with said.telling():
            print(
                f"tierc: {names} runs here, and an intent for it would not compile cleanly "
                f"({found[0].message}); intents/engine.yaml is a template instead",
                file=sys.stderr,
            )
    return repository(facts, ())


def _about_intents(session: Session) -> list[Diagnostic]:
    return [
        finding
        for finding in session.judged.findings
        if finding.severity >= Severity.WARNING
        and not finding.span.path.removeprefix(session.prefix).startswith("nodes/")
    ]


def _has_facts(directory: Path, node: str) -> bool:
    """Tell whether facts of the node are there, which a second look may find changed."""
    path = facts_file(node)
    if not os.path.lexists(directory / path):
        return False
    sink = Sink()
    file = read_source(directory, path, sink)
    found = [decode(document, sink) for document in file.documents] if file is not None else []
    return any(
        one is not None and isinstance(one.model, NodeFacts) and one.model.metadata.name == node
        for one in found
    )


def _judge(directory: Path, facts: NodeFacts | None, problem: str) -> int:
    """Lint the repository as it is now, with what else is in it, and say what comes next."""
    if facts is None:
        print(
            f"tierc: no node facts: {problem}; run tierc facts collect on a node",
            file=sys.stderr,
        )
    try:
        session = open_session([directory])
    except UsageError as error:
        return fail(str(error))
    print_findings(session, sys.stderr, "auto", at=Severity.WARNING)
    policy = session.compilation.policy
    print(
        f"{counted(len(policy.intents), 'intent')}, {counted(len(policy.nodes), 'node')}; "
        "mode observe: scripts only report"
    )
    if facts is None or session.judged.fails(Severity.ERROR):
        return FINDINGS
    there = "" if directory.resolve() == Path.cwd() else f"cd {shlex.quote(str(directory))}; "
    print(f"next: {there}tierc build . -o rendered; tierc explain {facts.metadata.name}")
    return OK
