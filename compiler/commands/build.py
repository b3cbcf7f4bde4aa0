"""``tierc build``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from compiler.artifact import Artifact
from compiler.commands.build_scope import left_alone, owned, require
from compiler.commands.messages import Messages
from compiler.commands.session import (
    FINDINGS,
    OK,
    USAGE,
    Session,
    UsageError,
    fail,
    open_session,
    print_findings,
    refuse_errors,
    use_color,
)
from compiler.diagnostics import Diagnostic, Severity
from compiler.emission import cluster_stream, emit
from compiler.pipeline import any_plan
from compiler.plan import PLAN_VERSION
from compiler.provenance import merged, provenance
from compiler.report.summary import describe
from compiler.report.text import render_text
from compiler.shard import Shard
from compiler.tree import LOCK_TIMEOUT, TreeError, check_tree, write_tree
from compiler.words import counted

_LOCK_PER_SHARD: Final = 10.0
"""Seconds that a shard waits for each other one: all may be done at the same time."""
_NAMES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options, as given.

    Attributes:
        out: directory of the tree; None with ``stdout`` only.
        nodes, targets: only these; empty: all.
        shard: ``I/N``.
        stdout: target to stream.
    """

    out: Path | None = None
    nodes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    shard: str | None = None
    stdout: str | None = None
    allow_empty: bool = False
    check: bool = False


def run(path: Path, wanted: Wanted, color: str) -> int:
    """Compile and write, compare or print; return the exit code.

    Raises:
        OSError: all is done, and something of what it says could not be written.
    """
    said = Messages()
    code = _run(path, wanted, color, said)
    said.check()
    return code


def _run(path: Path, wanted: Wanted, color: str, said: Messages) -> int:
    try:
        if path.is_file():
            raise UsageError(f"{path} is a file; build takes a policy repository")
        _fit_together(wanted)
        shard = _shard(wanted.shard)
        session = open_session([path], shard=shard)
        if wanted.out is not None:
            _outside_sources(session, wanted.out)
        require(session, wanted.nodes, wanted.targets, wanted.stdout)
    except UsageError as error:
        return fail(str(error))
    what = "written"
    if wanted.check or wanted.stdout is not None:
        what = "compared" if wanted.check else "printed"
    stopped = refuse_errors(session, f"nothing {what}")
    with said.telling():
        print_findings(session, sys.stderr, color, at=Severity.WARNING)
    if stopped is not None:
        print(stopped, file=sys.stderr)
        return FINDINGS
    if wanted.stdout is not None:
        return _stream(session, wanted.stdout, said, allow_empty=wanted.allow_empty)
    if not any_plan(session.compilation):
        return fail(
            "nothing to build: no node could be planned; see the findings above, and add "
            "node facts with tierc facts collect"
        )
    assert wanted.out is not None
    return _tree(session, wanted.out, wanted, shard, color, said)


def _fit_together(wanted: Wanted) -> None:
    given = {
        "-o": wanted.out is not None,
        "--node": bool(wanted.nodes),
        "--target": bool(wanted.targets),
        "--shard": wanted.shard is not None,
        "--check": wanted.check,
    }
    if wanted.stdout is None:
        if wanted.allow_empty:
            raise UsageError("--allow-empty is about --stdout")
        if wanted.out is None:
            raise UsageError(
                "say where to write with -o DIR, or what to print with --stdout TARGET"
            )
        if wanted.nodes and wanted.shard is not None:
            raise UsageError("--node and --shard both choose nodes; give one of them")
        return
    for option, there in given.items():
        if there:
            raise UsageError(
                f"--stdout and {option} exclude each other: it prints all objects of the cluster "
                "and writes nothing"
            )


def _shard(text: str | None) -> Shard | None:
    if text is None:
        return None
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise UsageError(f"--shard: {error}") from error


def _outside_sources(session: Session, out: Path) -> None:
    """Refuse an output directory whose files the next run would read as sources."""
    root, target = session.root.resolve(), out.resolve()
    if target.parent == target:
        raise UsageError(f"-o {out} is the root of the file system; choose a directory of its own")
    sources = session.compilation.policy.project.spec.sources
    for entry in (*sources.intents, *sources.nodes, *sources.tests):
        source = (root / entry).resolve()
        if target.is_relative_to(source) and target != root:
            raise UsageError(
                f"-o {out} is inside {entry}, whose files are read as sources; choose another place"
            )


def _stream(session: Session, target: str, said: Messages, *, allow_empty: bool) -> int:
    compilation = session.compilation
    without = compilation.unplanned
    if without:
        names = ", ".join(without[:_NAMES_SHOWN])
        more = f" and {len(without) - _NAMES_SHOWN} more" if len(without) > _NAMES_SHOWN else ""
        nodes = counted(len(without), "node")
        with said.telling():
            print(
                f"tierc: {nodes} without a plan and not in the output: {names}{more}",
                file=sys.stderr,
            )
    data = cluster_stream(compilation, target)
    if not allow_empty and not (data.strip() and any_plan(compilation)):
        return fail(
            "nothing to print: no node has a plan, and whoever applies nothing removes what is "
            "there; --allow-empty prints it all the same"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return OK


def _tree(
    session: Session,
    out: Path,
    wanted: Wanted,
    shard: Shard | None,
    color: str,
    said: Messages,
) -> int:
    compilation = session.compilation
    files = emit(compilation, nodes=wanted.nodes or None, targets=wanted.targets or None)
    scope = partial(owned, compilation, wanted.nodes, wanted.targets)
    note = left_alone(compilation, wanted.nodes, wanted.targets)
    if note:
        with said.telling():
            print(f"tierc: {note}", file=sys.stderr)
    try:
        if wanted.check:
            return _check(out, files, scope, color)
        if shard is None:
            files.append(provenance(compilation))
        report = write_tree(
            out,
            files,
            plan_version=PLAN_VERSION,
            scope=scope,
            lock_timeout=LOCK_TIMEOUT + (_LOCK_PER_SHARD * shard.count if shard else 0),
            merge=partial(merged, compilation) if shard else None,
        )
    except TreeError as error:
        _print([error.diagnostic], color)
        return USAGE
    with said.telling():
        _print(report.findings(str(out)), color)
    mine = [node for group in compilation.classes if group.mine for node in group.nodes]
    sys.stdout.write(describe(compilation, wanted.nodes or mine))
    sys.stdout.write(
        f"{out}: {len(report.written)} written, {len(report.unchanged)} unchanged, "
        f"{len(report.pruned)} removed\n"
    )
    return OK


def _check(
    out: Path, artifacts: Sequence[Artifact], scope: Callable[[str], bool], color: str
) -> int:
    report = check_tree(out, artifacts, plan_version=PLAN_VERSION, scope=scope)
    if report.foreign:
        names = ", ".join(report.foreign[:_NAMES_SHOWN])
        print(f"tierc: not written by tierc, and left alone: {names}", file=sys.stderr)
    if not report.differences:
        print(f"{out}: up to date")
        return OK
    _print(report.findings(str(out)), color)
    return FINDINGS


def _print(findings: Sequence[Diagnostic], color: str) -> None:
    if findings:
        stream = sys.stderr
        stream.write(render_text(findings, lambda _: None, color=use_color(color, stream)) + "\n")
