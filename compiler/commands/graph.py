"""``tierc graph``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from compiler.commands.machine_output import print_machine
from compiler.commands.session import (
    FINDINGS,
    OK,
    UsageError,
    fail,
    open_session,
    print_findings,
    require_node,
    write_output,
)
from compiler.diagnostics import Severity
from compiler.picture import Picture, node_picture, policy_picture
from compiler.picture.machine import Machine
from compiler.picture.machine_owners import planned_picture
from compiler.pipeline import Compilation
from compiler.report.dot import render_dot
from compiler.report.mermaid import render_mermaid, too_large
from compiler.suggest import nearest

TIERS: Final[Mapping[str, Callable[[Picture], str]]] = {
    "dot": render_dot,
    "mermaid": render_mermaid,
}
"""Formats in which tiers are drawn."""
MACHINE: Final = ("text", "svg")
"""Formats in which the machine of a node is drawn, with its lanes."""
FORMATS: Final = (*TIERS, *MACHINE)


def run(
    path: Path | None,
    project: Path | None,
    node: str | None,
    output: str,
    out: Path | None,
    color: str,
) -> int:
    """Draw the tiers of a policy or a node, or a node's machine; return the exit code.

    Errors do not prevent the picture: it helps to understand them.

    Args:
        path: the policy repository as an argument; None: the option, or where we are.
        project: the same as an option.
    """
    if path is not None and project is not None and path != project:
        return fail(f"two policy repositories are given, {path} and {project}; name one")
    if output not in FORMATS:
        close = nearest(output, FORMATS)
        hint = f"; did you mean {close[0]}?" if close else f"; formats are {', '.join(FORMATS)}"
        return fail(f"unknown format {output!r}{hint}")
    if output in MACHINE and node is None:
        return fail(f"--format {output} draws the lanes of one node; name it with --node")
    try:
        session = open_session([path or project or Path()])
        compilation = session.compilation
        if node is not None:
            names = [n.name for n in compilation.policy.nodes]
            require_node(node, names, session.judged.findings)
    except UsageError as error:
        return fail(str(error))
    found = session.judged.findings
    errors = tuple(
        f
        for f in found
        if f.severity is Severity.ERROR and (node is None or not f.nodes or node in f.nodes)
    )
    if errors:
        shown = replace(session, judged=replace(session.judged, findings=errors))
        print_findings(shown, sys.stderr, color)
    try:
        if node is not None and output in MACHINE:
            print_machine(_machine(compilation, node), output, out, color)
        else:
            write_output(_tiers(compilation, node, output), out)
    except UsageError as error:
        return fail(str(error))
    return FINDINGS if errors else OK


def _machine(compilation: Compilation, node: str) -> Machine:
    group = compilation.of_node(node)
    facts = next(one.model for one in compilation.policy.nodes if one.name == node)
    return planned_picture(facts, None if group is None else group.plan)


def _tiers(compilation: Compilation, node: str | None, output: str) -> str:
    picture = policy_picture(compilation) if node is None else node_picture(compilation, node)
    text = TIERS[output](picture)
    if output == "mermaid" and too_large(text):
        print(
            "tierc: the chart is larger than Mermaid draws unless its maxTextSize and maxEdges "
            "are raised; use --node, or --format dot",
            file=sys.stderr,
        )
    return text
