"""What the scripts say, as data for their templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.fingerprint import DEVICE_FORMAT, cpu_text, device_digest, device_text, digest
from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import LeftOut, NodePlan, Rule
from targets.shell import filled
from targets.taskset.cpulists import CpuList, cpu_lists
from targets.taskset.groups import Group, How, Treatment, grouped
from targets.taskset.table import aligned, rules_table

NAME: Final = "taskset"


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
    machine = plan.machine
    planned = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(planned) != plan.fingerprint:
        raise ValueError("the plan's fingerprint is not that of its machine")
    if device_digest(machine.gpus, machine.nics) != plan.device_fingerprint:
        raise ValueError("the plan's device fingerprint is not that of its machine")
    devices = "" if plan.device_fingerprint is None else device_text(machine.gpus, machine.nics)
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
    left_out = _left_out(plan)
    return {
        "mode": plan.mode,
        "lanes": plan.lanes,
        "left_out": [one.message for one in left_out],
        "left_out_parts": _parts(len(left_out)),
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
        "fingerprint": plan.fingerprint,
        "planned": planned.removesuffix("\n"),
        "device_format": DEVICE_FORMAT,
        "planned_devices": devices.removesuffix("\n"),
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


def _left_out(plan: NodePlan) -> Sequence[LeftOut]:
    return sorted(plan.left_out.get(NAME, ()), key=lambda one: (one.rules, one.message))


def _parts(count: int) -> str:
    if count == 0:
        return ""
    return "1 part of the policy is" if count == 1 else f"{count} parts of the policy are"
