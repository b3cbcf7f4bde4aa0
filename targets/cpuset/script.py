"""What the scripts and drop-ins say, as data for their templates."""

from __future__ import annotations

from typing import Final

from compiler.plan import NodePlan
from targets.cpuset.groups import DROP_IN, Group
from targets.cpuset.settings import IDLE, Setting, Settings
from targets.scripts import Own, fingerprint_data
from targets.shell import aligned, filled, one_line, shown

NAME: Final = "cpuset"

OWN: Final = Own(
    target=NAME,
    thing="setting",
    what="what is set here",
    tools=(
        *("awk", "cp", "find", "grep", "id", "ln", "mkdir", "mktemp", "mv", "rm", "rmdir", "sed"),
        *("sha256sum", "sleep", "sort", "tee", "tr", "uname", "xargs"),
    ),
    why_root="control groups of the system belong to root",
    state_form=(
        "A header with the boot it is of, then a line a setting, fields separated by tabs:",
        "  NUMBER KIND PATH WHAT ORIGINAL WRITTEN BEFORE",
        "NUMBER is the order in which they were made. KIND is unit (a property of a systemd unit),",
        "held (the same, where somebody had set it at run time before), file (below the root of",
        "cgroup v2) or v1 (below that of the v1 cpuset). A value that is not set is -. BEFORE is",
        "none, or, while a later change is under way, what we had written before.",
    ),
    state_test=" &&\n      ".join(
        (
            r'split($0, f, "\t") == 7 && f[1] ~ /^[0-9]+$/ && f[2] ~ /^(unit|held|file|v1)$/',
            r"f[3] !~ /^\// && f[3] !~ /(^|\/)\.\.(\/|$)/",
            r"f[4] ~ /^(AllowedCPUs|CPUWeight|cpuset\.cpus(\.partition|\.exclusive)?|"
            r"cpu\.(weight|idle)|\+cpuset|\+cpu)$/",
            "f[5] ~ /^[0-9a-z,-]+$/ && f[6] ~ /^[0-9a-z,-]+$/ && f[7] ~ /^[0-9a-z,-]+$/",
        )
    ),
)
"""What the parts that targets share say in these scripts."""


def apply_data(plan: NodePlan, made: Settings) -> dict[str, object]:
    """Return the values of the template ``apply.sh.j2``.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine.
    """
    planned = fingerprint_data(plan)
    rows = [row for row in made.rows if not row.is_nothing]
    elsewhere = sum(
        1
        for rule in plan.rules
        if rule.match.cgroup is None
        or any(
            one is not None for one in (rule.match.comm, rule.match.leader_comm, rule.match.cmdline)
        )
    )
    return {
        **planned,
        "own": OWN,
        "drop_in_name": DROP_IN,
        "mode": plan.mode,
        "groups_table": aligned([("# CPUs", "min", "weight", "how", "group"), *map(_line, rows)]),
        "because": [line for row in rows for line in _why(plan, row)],
        "nothing": [_shown(row.group) for row in made.rows if row.is_nothing],
        "not_ours": [f"{one_line(text)}: {one_line(why)}" for text, why in made.not_ours.items()],
        "lanes": [
            f"{shown(name)}: {'a partition keeps everyone else out' if why is None else why}"
            for name, why in made.lanes.items()
        ],
        "elsewhere": elsewhere,
        "rules": len(plan.rules),
    }


def drop_in(plan: NodePlan, row: Setting) -> str:
    """Return the text of a unit's drop-in."""
    lines = [
        "# Written by tierc: change the intents and build again rather than this file.",
        *(f"# {line}" for line in _why(plan, row)),
        f"[{row.group.section}]",
    ]
    if row.cpus is not None:
        lines.append(f"AllowedCPUs={row.cpus}")
    if row.weight == IDLE:
        lines += ["# systemd before 252 knows no idle, and keeps the number", "CPUWeight=1"]
    if row.weight is not None:
        lines.append(f"CPUWeight={row.weight}")
    return "\n".join(lines) + "\n"


def _line(row: Setting) -> tuple[str, ...]:
    return (
        "-" if row.cpus is None else str(row.cpus),
        str(row.below.min_cpus),
        row.weight or "-",
        ("unit" if row.group.unit is not None else "group") + ("+lane" if row.lane else ""),
        row.group.path,
    )


def _why(plan: NodePlan, row: Setting) -> list[str]:
    """Return who may be in a group, which is where its CPUs come from."""
    units = {rule.id: rule.unit for rule in plan.rules}
    names = list(dict.fromkeys(shown(units[id]) for id in row.below.rules))
    more = len(names) - 8
    who = ", ".join(names[:8]) + (f" and {more} more" if more > 0 else "")
    if row.below.has_unmatched:
        who = f"{who}, and what no rule matches" if who else "what no rule matches"
    if row.below.tier is not None:
        tier = next(tier.name for tier in plan.tiers if tier.id == row.below.tier)
        who += f"; all of tier {shown(tier)}"
    return filled(f"{_shown(row.group)}: {who}".split(" "), "", "  ")


def _shown(group: Group) -> str:
    return one_line(group.path)
