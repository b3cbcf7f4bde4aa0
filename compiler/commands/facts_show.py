"""``tierc facts show``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from compiler.codes import placement as placement_codes
from compiler.commands.facts_read import Found, find_facts
from compiler.commands.machine_output import FORMATS, print_machine
from compiler.commands.session import OK, UsageError, fail, path_prefix, prefixed_span
from compiler.diagnostics import Severity
from compiler.picture.machine import Machine
from compiler.picture.machine_layout import machine_picture
from compiler.picture.machine_owners import planned_picture
from compiler.pipeline import compile_policy
from compiler.report.cells import printable
from compiler.report.machine_text import MIN_WIDTH
from compiler.suggest import nearest
from compiler.words import counted


def run(
    word: str,
    project: Path,
    output: str,
    out: Path | None,
    width: int | None,
    color: str,
    *,
    ascii_only: bool,
    lanes: bool = True,
) -> int:
    """Draw a machine; return the exit code.

    Args:
        word: a file of facts, ``-``, or the name of a node.
        project: the policy in which names are looked up.
        output: one of :data:`FORMATS`.
        out: the file to write; None: standard output.
        width: columns of the text; None: those of the terminal, else 80.
        color: ``auto``, ``always`` or ``never``.
        ascii_only: whether the text is plain ASCII.
        lanes: whether a node named as one of the policy is drawn with the owners of its CPUs.
    """
    if output not in FORMATS:
        close = nearest(output, FORMATS)
        hint = f"; did you mean {close[0]}?" if close else f"; formats are {', '.join(FORMATS)}"
        return fail(f"unknown format {output!r}{hint}")
    if width is not None and width < MIN_WIDTH:
        return fail(f"--width {width} is too narrow to draw in; give at least {MIN_WIDTH}")
    try:
        found = find_facts(word, project, color)
        if out is not None and found.file is not None and _same_file(out, found.file):
            raise UsageError(f"-o {out} is the file of the facts themselves; give another name")
        machine = _planned(found) if lanes else machine_picture(found.facts)
        print_machine(machine, output, out, color, width=width, ascii_only=ascii_only)
    except UsageError as error:
        return fail(str(error))
    return OK


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # not there yet
        return False


def _planned(found: Found) -> Machine:
    """Return the picture with owners where there is a plan, and say on stderr why there is none."""
    facts, policy, sink = found.facts, found.policy, found.findings
    if policy is None:
        return machine_picture(facts)
    name = facts.metadata.name
    own = tuple(node for node in policy.nodes if node.name == name)
    group = compile_policy(replace(policy, nodes=own), sink).of_node(name)
    plan = None if group is None else group.plan
    if plan is None:
        # Of a node that is quarantined the reason is a warning.
        reasons = [
            one
            for one in sink.sorted()
            if one.severity is Severity.ERROR or one.code == placement_codes.QUARANTINED.id
        ]
        why = "tierc lint says why"
        if reasons:
            first = prefixed_span(reasons[0].span, path_prefix(found.root))
            more = f" and {counted(len(reasons) - 1, 'more reason')}" if len(reasons) > 1 else ""
            why = f"{first}: {reasons[0].message}{more}; tierc lint says more"
        print(printable(f"tierc: drawn without lanes, {name} has no plan: {why}"), file=sys.stderr)
    return planned_picture(facts, plan)
