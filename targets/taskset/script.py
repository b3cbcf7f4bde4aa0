"""What the scripts say, as data for their templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.fingerprint import cpu_text, digest
from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import LeftOut, NodePlan, Rule
from targets.shell import shown

NAME: Final = "taskset"


@dataclass(frozen=True, slots=True)
class ProcessTest:
    """The shell command that opens one rule for a process."""

    unit: str
    test: str


@dataclass(frozen=True, slots=True)
class NameTest:
    """The ``case`` pattern of one rule's threads."""

    id: int
    unit: str
    pattern: str


def apply_data(plan: NodePlan) -> dict[str, object]:
    """Return the values of the template ``apply.sh.j2``.

    Raises:
        ValueError: the plan's fingerprint is not that of its machine, or a rule needs a late-bound
            selector or a band that is not there.
    """
    machine = plan.machine
    planned = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(planned) != plan.fingerprint:
        raise ValueError("the plan's fingerprint is not that of its machine")
    late = [rule.id for rule in plan.rules if rule.match.pods is not None]
    if late:
        raise ValueError(f"rules {late} select pods, which a script cannot")
    rules = sorted(plan.rules, key=lambda rule: rule.id)
    cgroups = sorted({r.match.cgroup for r in rules if r.match.cgroup is not None})
    numbers = {text: number for number, text in enumerate(cgroups)}
    names = [NameTest(r.id, r.unit, Glob.comm(n).as_case()) for r in rules if (n := _name(r))]
    table = rules_table(plan, rules)
    return {
        "mode": plan.mode,
        "lanes": plan.lanes,
        "left_out": [f"{shown(one.unit or 'node')}: {one.message}" for one in _left_out(plan)],
        "headings": table[0],
        "rules_table": _lines(table[1:]),
        "cgroup_texts": [(number, text) for text, number in numbers.items()],
        "cgroups_table": _lines(f"{n} {Glob.cgroup(text).as_ere()}" for text, n in numbers.items()),
        "cmdlines_table": _lines(
            f"{rule.id} {CmdlineRegex.parse(rule.match.cmdline).as_ere()}"
            for rule in rules
            if rule.match.cmdline is not None
        ),
        "any_name": [rule.id for rule in rules if _name(rule) is None],
        "by_cmdline": [rule.id for rule in rules if rule.match.cmdline is not None],
        "processes": [
            (kind, tests) for kind in ("user", "kernel") if (tests := _tests(rules, kind, numbers))
        ],
        "names": sorted({test.pattern for test in names}),
        "named": names,
        "fingerprint": plan.fingerprint,
        "planned": planned.removesuffix("\n"),
    }


def rules_table(plan: NodePlan, rules: Sequence[Rule]) -> list[str]:
    """Return the rules as aligned lines behind a line of headings.

    *how* is ``spawns`` where children would inherit the affinity, ``keep`` where the band is
    every effective CPU (so that there is nothing to set), else ``move``.

    Raises:
        ValueError: a rule has a band, or a band a tier, that the plan lacks.
    """
    bands = {band.id: band for band in plan.bands}
    tiers = {tier.id: tier.name for tier in plan.tiers}
    units = {unit.name: unit for unit in plan.units}
    rows = [("# rule", "how", "CPUs", "min", "tier", "lane", "intent", "unit")]
    for rule in rules:
        band = bands.get(rule.band)
        if band is None or band.tier not in tiers:
            raise ValueError(f"rule {rule.id} has band {rule.band}, which the plan lacks")
        how = "spawns" if rule.spawns else "keep" if band.cpus == plan.machine.effective else "move"
        unit = units.get(rule.unit)
        rows.append(
            (
                str(rule.id),
                how,
                str(band.cpus) or "-",
                str(max(band.min_cpus, 1)),
                shown(tiers[band.tier]),
                shown((unit and unit.lane) or ""),
                shown((unit and unit.intent) or ""),
                shown(rule.unit),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _tests(rules: Iterable[Rule], kind: str, numbers: dict[str, int]) -> list[ProcessTest]:
    tests = []
    for rule in rules:
        match = rule.match
        is_kernel = match.kthread is not None
        names_user = match.comm is not None or match.leader_comm is not None
        if is_kernel != (kind == "kernel") or (is_kernel and names_user):
            continue  # a kernel thread has no name that comm or leaderComm speak of
        test = f'open="$open {rule.id}"'
        if match.cgroup is not None:
            test = f"in_cgroup {numbers[match.cgroup]} && {test}"
        if match.leader_comm is not None:
            test = f"case $leader in {Glob.comm(match.leader_comm).as_case()}) {test} ;; esac"
        tests.append(ProcessTest(rule.unit, test))
    return tests


def _name(rule: Rule) -> str | None:
    """Return the glob on the thread's own name; ``*`` needs no look at it."""
    text = rule.match.kthread if rule.match.kthread is not None else rule.match.comm
    return None if text is None or Glob.comm(text).matches_all else text


def _left_out(plan: NodePlan) -> list[LeftOut]:
    return sorted(plan.left_out.get(NAME, ()), key=lambda one: (one.rules, one.message))


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)
