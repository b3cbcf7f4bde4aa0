"""Differences of two machines as text and as data."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, Final

from compiler.facts.diff import FactsDiff
from compiler.facts.diff_values import Change
from compiler.report.cells import printable
from compiler.words import counted

VERSION: Final = 1
_VALUE: Final = 72
"""Characters of a value that are shown in text."""
_LINES: Final = 12
"""Lines of a fingerprint that are shown in text."""
_RED, _GREEN, _BOLD, _RESET = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


def render_diff_text(
    diff: FactsDiff, a: str, b: str, *, everything: bool = False, color: bool = False
) -> str:
    """Return the differences by section, then whether plans take the two for one machine.

    Args:
        diff: the differences.
        a, b: what the two are called.
        everything: whether sources and warnings are listed, too.
        color: whether to colour with ANSI sequences.
    """

    def styled(text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if color else text

    lines = [f"{printable(a)} -> {printable(b)}"]
    shown = [*diff.changes, *(diff.remarks if everything else ())]
    for section, changes in groupby(shown, key=lambda change: change.section):
        lines.append(styled(section, _BOLD))
        for change in changes:
            before, after = styled(_cut(change.a), _RED), styled(_cut(change.b), _GREEN)
            lines.append(f"  {printable(change.what)}: {before} -> {after}{_cpus(change)}")
    count = counted(len(diff.changes), "difference") if diff.changes else "no difference"
    lines.append(styled(count, _BOLD))
    for one in diff.incomparable:
        side = a if one.unknown_in_a else b
        lines.append(f"not comparable: {one.message} in {printable(side)}")
    rest = " in the rest" if diff.incomparable else ""
    if diff.same_fingerprint:
        lines.append(f"fingerprint: the CPU parts are equal{rest}")
    else:
        lines.append(f"fingerprint: the CPU parts differ{rest}")
        for sign, rows, style in (
            ("-", diff.fingerprint_a, _RED),
            ("+", diff.fingerprint_b, _GREEN),
        ):
            lines += [styled(f"  {sign} {printable(row)}", style) for row in rows[:_LINES]]
            if len(rows) > _LINES:
                lines.append(f"  {sign} and {len(rows) - _LINES} more")
    alike = "the same machine" if diff.same_placement else "different machines"
    lines.append(f"placement: sees {alike}{rest}")
    return "\n".join(lines) + "\n"


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _VALUE else text[: _VALUE - 3] + "..."


def _cpus(change: Change) -> str:
    parts = [
        f"{sign}{cpus}"
        for sign, cpus in (("-", change.only_a), ("+", change.only_b))
        if cpus and str(cpus) not in (change.a, change.b)
    ]
    return f" ({_cut(' '.join(parts))})" if parts else ""


def render_diff_json(diff: FactsDiff, a: str, b: str, *, everything: bool = False) -> str:
    """Return the differences as one JSON object and a line end."""
    data: dict[str, Any] = {
        "version": VERSION,
        "a": a,
        "b": b,
        "same": not diff.changes,
        "samePlacement": diff.same_placement,
        "notComparable": [
            {"what": one.family, "unknownIn": "a" if one.unknown_in_a else "b"}
            for one in diff.incomparable
        ],
        "fingerprint": {
            "same": diff.same_fingerprint,
            "onlyA": list(diff.fingerprint_a),
            "onlyB": list(diff.fingerprint_b),
        },
        "differences": [_change(change) for change in diff.changes],
    }
    if everything:
        data["remarks"] = [_change(change) for change in diff.remarks]
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def _change(change: Change) -> dict[str, str]:
    return {"section": change.section, "what": change.what, "a": change.a, "b": change.b}
