"""What the scripts say, as data for their templates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import NodePlan, Rule
from targets.scripts import Own, fingerprint_data, left_out_data
from targets.shell import aligned, filled
from targets.taskset.cpulists import CpuList, cpu_lists
from targets.taskset.groups import Group, How, Treatment, grouped
from targets.taskset.table import rules_table

NAME: Final = "taskset"

OWN: Final = Own(
    target=NAME,
    thing="thread",
    what="affinity",
    tools=(
        *("awk", "cat", "cmp", "cp", "find", "grep", "id", "ln", "mkdir", "mktemp", "mv", "rm"),
        *("rmdir", "sed", "sha256sum", "sleep", "sort", "taskset", "tr", "uname", "xargs"),
    ),
    why_root="the affinity of other users' threads needs CAP_SYS_NICE",
    state_form=(
        "A header with the boot it is of, then a line a thread:",
        "  TID START PID ORIGINAL WRITTEN BEFORE",
        'START makes the TID unique within a boot. BEFORE is "-", or, while a change is under way, '
        "the",
        "CPUs the thread had just before it.",
    ),
    state_test=(
        'NF == 6 && $1 $2 $3 ~ /^[0-9]+$/ && list($4) && list($5) && ($6 == "-" || list($6))'
    ),
    actions="set|restore TID PID START CPUS MINIMUM fresh|known WANTED",
    verb="move",
)
"""What the parts that targets share say in these scripts."""


@dataclass(frozen=True, slots=True)
class ShellTest:
    """Shell text that opens or names one group of rules."""

    unit: str
    test: str


def apply_data(plan: NodePlan) -> dict[str, object]:
    """Return the values of the template ``apply.sh.j2``.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine, or a rule needs a
            late-bound selector or a band that is not there.
    """
    planned = fingerprint_data(plan)
    late = [rule.id for rule in plan.rules if rule.match.pods is not None]
    if late:
        raise ValueError(f"rules {late} select pods, which a script cannot")
    rules = sorted(plan.rules, key=lambda rule: rule.id)
    lists, list_of = cpu_lists(plan, rules)
    groups = grouped((rule, _treatment(plan, rule, list_of[rule.id])) for rule in rules)
    matches = {group.id: group.rules[0].match for group in groups}
    cgroups = sorted({m.cgroup for m in matches.values() if m.cgroup is not None})
    numbers = {text: number for number, text in enumerate(cgroups)}
    by_cmdline: dict[str, list[int]] = {}
    for id, match in matches.items():
        if match.cmdline is not None:
            by_cmdline.setdefault(match.cmdline, []).append(id)
    return {
        **planned,
        **left_out_data(plan, NAME),
        "own": OWN,
        "mode": plan.mode,
        "lanes": plan.lanes,
        "lists_table": aligned([("# name", "min", "CPUs"), *(one.row for one in lists)]),
        "rules_table": rules_table(groups),
        "cgroup_texts": [(number, text) for text, number in numbers.items()],
        "cgroups_table": [f"{n} {Glob.cgroup(text).as_ere()}" for text, n in numbers.items()],
        "cmdlines_table": [
            f"{','.join(map(str, ids))} {CmdlineRegex.parse(text).as_ere()}"
            for text, ids in by_cmdline.items()
        ],
        "any_name": [group.id for group in groups if not group.names],
        "by_cmdline": sorted(id for ids in by_cmdline.values() for id in ids),
        "processes": [
            (kind, tests) for kind in ("user", "kernel") if (tests := _tests(groups, kind, numbers))
        ],
        "named": [_name_test(group) for group in groups if group.names],
    }


def _treatment(plan: NodePlan, rule: Rule, cpus: CpuList) -> Treatment:
    tiers = {tier.id: tier.name for tier in plan.tiers}
    band = next(band for band in plan.bands if band.id == rule.band)
    if band.tier not in tiers:
        raise ValueError(f"band {band.id} has tier {band.tier}, which the plan lacks")
    how: How = "move"
    if rule.spawns:
        how = "spawns"
    elif band.cpus == plan.machine.effective:
        how = "keep"
    return Treatment(how, cpus.name, tiers[band.tier], rule.unit)


def _tests(groups: Iterable[Group], kind: str, numbers: dict[str, int]) -> list[ShellTest]:
    tests = []
    for group in groups:
        match = group.rules[0].match
        names_user = match.comm is not None or match.leader_comm is not None
        if group.is_kernel != (kind == "kernel") or (group.is_kernel and names_user):
            continue  # a kernel thread has no name that comm or leaderComm speak of
        test = f'open="$open {group.id}"'
        if match.cgroup is not None:
            test = f"in_cgroup {numbers[match.cgroup]} && {test}"
        if match.leader_comm is not None:
            test = f"case $leader in {Glob.comm(match.leader_comm).as_case()}) {test} ;; esac"
        tests.append(ShellTest(group.treatment.unit, test))
    return tests


def _name_test(group: Group) -> ShellTest:
    patterns = list(dict.fromkeys(glob.as_case() for glob in group.names))
    found = f'named="$named {group.id}"'
    if len(patterns) == 1:
        test = f"case $comm in {patterns[0]}) {found} ;; esac"
    else:
        words = [f"{one} |" for one in patterns[:-1]] + [f"{patterns[-1]}) {found} ;;"]
        test = "case $comm in\n" + " \\\n".join(filled(words, "  ", "    ")) + "\n  esac"
    return ShellTest(group.treatment.unit, test)
