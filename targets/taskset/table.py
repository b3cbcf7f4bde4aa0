"""The rules as text: what a reviewer reads first, and the script's own table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.cpuset import CpuSet
from targets.shell import aligned, filled, readable, shown
from targets.taskset.groups import Group

_INDENT = " " * 8


def rules_table(groups: Sequence[Group]) -> list[str]:
    """Return a heading, and for each group a line of fields and indented lines: what it matches."""
    rows = [("# id", "how", "CPUs", "tier", "unit", "rules")]
    for group in groups:
        ids = str(CpuSet(rule.id for rule in group.rules))  # 0-2,5 as in a CPU list
        own = group.treatment
        rows.append((str(group.id), own.how, own.cpus, shown(own.tier), shown(own.unit), ids))
    heading, *lines = aligned(rows)
    out = [heading]
    for line, group in zip(lines, groups, strict=True):
        out += [line, *filled(_conditions(group), _INDENT, _INDENT)]
    return out


def _conditions(group: Group) -> Iterable[str]:
    """Return what a thread must be, in words that may be set on several lines."""
    words: list[str] = []
    for field, texts in (
        ("kthread", [rule.match.kthread for rule in group.rules]),
        ("comm", [rule.match.comm for rule in group.rules]),
        ("leaderComm", [rule.match.leader_comm for rule in group.rules[:1]]),
        ("cgroup", [rule.match.cgroup for rule in group.rules[:1]]),
        ("cmdline", [rule.match.cmdline for rule in group.rules[:1]]),
    ):
        values = [f'"{readable(text)}"' for text in dict.fromkeys(texts) if text is not None]
        if not values:
            continue
        values[0] = f"{'and ' if words else ''}{field} {values[0]}"
        words += [f"{value} |" for value in values[:-1]] + values[-1:]
    return words or ["any thread of a user"]
