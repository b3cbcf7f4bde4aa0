"""``tierc graph``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from compiler.commands.session import (
    FINDINGS,
    OK,
    UsageError,
    fail,
    open_session,
    print_findings,
    require_known,
)
from compiler.diagnostics import Severity
from compiler.picture import Picture, node_picture, policy_picture
from compiler.report.dot import render_dot
from compiler.report.mermaid import render_mermaid, too_large
from compiler.suggest import nearest

FORMATS: Final[Mapping[str, Callable[[Picture], str]]] = {
    "dot": render_dot,
    "mermaid": render_mermaid,
}


def run(project: Path, node: str | None, output: str, out: Path | None, color: str) -> int:
    """Draw the tiers of a policy or a node; return the exit code.

    Errors do not prevent the picture: it helps to understand them.
    """
    render = FORMATS.get(output)
    if render is None:
        close = nearest(output, FORMATS)
        hint = f"; did you mean {close[0]}?" if close else f"; formats are {', '.join(FORMATS)}"
        return fail(f"unknown format {output!r}{hint}")
    try:
        session = open_session([project])
        compilation = session.compilation
        if node is not None:
            require_known(node, [n.name for n in compilation.policy.nodes], "node")
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
    picture = policy_picture(compilation) if node is None else node_picture(compilation, node)
    text = render(picture)
    if output == "mermaid" and too_large(text):
        print(
            "tierc: the chart is larger than Mermaid draws unless its maxTextSize and maxEdges "
            "are raised; use --node, or --format dot",
            file=sys.stderr,
        )
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            out.write_bytes(text.encode())
        except OSError as error:
            return fail(f"cannot write {out}: {error.strerror}")
    return FINDINGS if errors else OK
