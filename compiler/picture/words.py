"""Texts that fit into a box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Final

from compiler.cpuset import CpuSet
from compiler.plan import Condition

WIDTH: Final = 38
"""Characters on a line of a box."""
_PATTERNS: Final = 2
"""Patterns shown of a unit; the rest is counted."""
_NODES: Final = 3


def fold(text: str) -> list[str]:
    """Return a sentence as lines of a box."""
    return wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def short(text: str, width: int = WIDTH) -> str:
    """Return a text that is not longer than ``width``; three dots stand for its middle.

    Both ends are kept: paths begin alike, and differ where they end.
    """
    if len(text) <= width:
        return text
    tail = (width - 3) // 2
    return f"{text[: width - 3 - tail]}...{text[len(text) - tail :]}"


def cpu_text(cpus: CpuSet, width: int = 24) -> str:
    """Return a CPU list, cut between its ranges where it is long, and then with its size."""
    text = str(cpus)
    if len(text) <= width:
        return text or "none"
    return f"{text[:width].rpartition(',')[0] or text[:width]},... ({len(cpus)} CPUs)"


def matcher_lines(conditions: Sequence[Condition]) -> tuple[str, ...]:
    """Return what a unit's threads are recognised by, the first few patterns of it."""
    patterns = list(dict.fromkeys(_main(condition) for condition in conditions))
    lines = [short(text) for text in patterns[:_PATTERNS]]
    if len(patterns) > _PATTERNS:
        more = len(patterns) - _PATTERNS
        lines.append(f"and {more} more pattern{'s' if more > 1 else ''}")
    lines += _common("in cgroup", [c.cgroup for c in conditions if _names(c)])
    lines += _common("in pods", [c.pods for c in conditions])
    return tuple(lines)


def _names(condition: Condition) -> bool:
    """Return whether anything but the cgroup tells the threads."""
    return any((condition.kthread, condition.comm, condition.leader_comm, condition.cmdline))


def _main(condition: Condition) -> str:
    for word, pattern in (
        ("kthread", condition.kthread),
        ("comm", condition.comm),
        ("leaderComm", condition.leader_comm),
        ("cmdline", condition.cmdline),
        ("cgroup", condition.cgroup),
    ):
        if pattern is not None:
            return f"{word} {pattern}"
    return "any thread"


def _common(word: str, values: Sequence[str | None]) -> list[str]:
    """Return the value that all matchers share, or that there are several."""
    different = set(values)
    if not different or different == {None}:
        return []
    only = next(iter(different)) if len(different) == 1 else None
    return [short(f"{word} {only}" if only is not None else f"{word}s that differ")]


def names_text(names: Iterable[str]) -> str:
    """Return the first few names, and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - _NODES
    shown = ", ".join(ordered[:_NODES])
    return f"{shown} and {more} more" if more > 0 else shown
