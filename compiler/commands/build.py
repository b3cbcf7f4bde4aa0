"""``tierc build``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.artifact import Artifact
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
    require_known,
    require_node,
    use_color,
)
from compiler.diagnostics import Diagnostic, Severity
from compiler.pipeline import emit
from compiler.plan import PLAN_VERSION
from compiler.provenance import provenance
from compiler.registry import TARGETS
from compiler.report.summary import describe
from compiler.report.text import render_text
from compiler.tree import PROVENANCE, TreeError, check_tree, write_tree


def run(
    path: Path,
    out: Path,
    nodes: Sequence[str],
    targets: Sequence[str],
    color: str,
    *,
    check: bool,
) -> int:
    """Compile and write, or compare; return the exit code."""
    try:
        if path.is_file():
            raise UsageError(f"{path} is a file; build takes a policy repository")
        session = open_session([path])
        _outside_sources(session, out)
        _require(session, nodes, targets)
    except UsageError as error:
        return fail(str(error))
    stopped = refuse_errors(session, "nothing compared" if check else "nothing written")
    print_findings(session, sys.stderr, color, at=Severity.WARNING)
    if stopped is not None:
        print(stopped, file=sys.stderr)
        return FINDINGS
    if not any(group.plan is not None for group in session.compilation.classes):
        return fail(
            "nothing to build: no node could be planned; see the findings above, and add "
            "node facts with tierc facts collect"
        )
    artifacts = _artifacts(session, nodes, targets)
    scope = _scope(nodes, targets)
    try:
        if check:
            return _check(out, artifacts, scope, color)
        report = write_tree(out, artifacts, plan_version=PLAN_VERSION, scope=scope)
    except TreeError as error:
        _print([error.diagnostic], color)
        return USAGE
    _print(report.findings(str(out)), color)
    sys.stdout.write(describe(session.compilation, nodes or None))
    sys.stdout.write(
        f"{out}: {len(report.written)} written, {len(report.unchanged)} unchanged, "
        f"{len(report.pruned)} removed\n"
    )
    return OK


def _outside_sources(session: Session, out: Path) -> None:
    """Refuse an output directory whose files the next run would read as sources."""
    root, target = session.root.resolve(), out.resolve()
    sources = session.compilation.policy.project.spec.sources
    for entry in (*sources.intents, *sources.nodes, *sources.tests):
        source = (root / entry).resolve()
        if target.is_relative_to(source) and target != root:
            raise UsageError(
                f"-o {out} is inside {entry}, whose files are read as sources; choose another place"
            )


def _artifacts(session: Session, nodes: Sequence[str], targets: Sequence[str]) -> list[Artifact]:
    files = emit(session.compilation, nodes=nodes or None, targets=targets or None)
    return [*files, provenance(session.compilation)]


def _scope(nodes: Sequence[str], targets: Sequence[str]) -> Callable[[str], bool]:
    """Return which paths a build owns: all, or those of some nodes and targets.

    Plans and the provenance are always brought up to date with what is written.
    """

    def owned(path: str) -> bool:
        parts = path.split("/")
        if path == PROVENANCE or (not nodes and not targets):
            return True
        if len(parts) < 3 or parts[0] != "nodes" or (nodes and parts[1] not in nodes):
            return False
        return not targets or parts[2] in (*targets, "plan.json")

    return owned


def _require(session: Session, nodes: Sequence[str], targets: Sequence[str]) -> None:
    policy = session.compilation.policy
    for node in nodes:
        require_node(node, [n.name for n in policy.nodes], session.judged.findings)
    for target in targets:
        enabled = policy.project.spec.targets.enabled
        if target in TARGETS and target not in enabled:
            raise UsageError(
                f"the policy has no target {target!r}; the project does not enable it "
                "(spec.targets)"
            )
        require_known(target, enabled, "target")


def _check(
    out: Path, artifacts: Sequence[Artifact], scope: Callable[[str], bool], color: str
) -> int:
    report = check_tree(out, artifacts, plan_version=PLAN_VERSION, scope=scope)
    if report.foreign:
        names = ", ".join(report.foreign[:5])
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
