"""``tierc facts diff``."""

from __future__ import annotations

import sys
from pathlib import Path

from compiler.commands.facts_read import STDIN, read_facts
from compiler.commands.session import FINDINGS, OK, UsageError, fail, use_color
from compiler.facts.diff import diff_facts
from compiler.report.facts_diff import render_diff_json, render_diff_text


def run(a: str, b: str, project: Path, output: str, color: str, *, everything: bool) -> int:
    """Compare the facts of two machines; return the exit code: 1 if they differ.

    Args:
        a: a file of facts, ``-``, or the name of a node.
        b: another one.
        project: the policy in which names are looked up.
        output: ``text`` or ``json``.
        color: ``auto``, ``always`` or ``never``.
        everything: whether sources and warnings are listed as well.
    """
    if output not in ("text", "json"):
        return fail(f"unknown format {output!r}; formats are text, json")
    if a == b == STDIN:
        return fail("only one of the two can be the standard input")
    try:
        left, right = (read_facts(word, project, color) for word in (a, b))
    except UsageError as error:
        return fail(str(error))
    diff = diff_facts(left, right)
    names = [
        word if word == facts.metadata.name else f"{word} ({facts.metadata.name})"
        for word, facts in ((a, left), (b, right))
    ]
    if output == "json":
        text = render_diff_json(diff, a, b, everything=everything)
    else:
        colored = use_color(color, sys.stdout)
        text = render_diff_text(diff, *names, everything=everything, color=colored)
    sys.stdout.write(text)
    return FINDINGS if diff.changes else OK
