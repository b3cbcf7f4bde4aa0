"""What a comparison amounts to: findings, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from compiler.codes import verify as codes
from compiler.cpuset import CpuSet
from compiler.diagnostics import Code, Severity
from compiler.plan import NodePlan
from compiler.verify.census import Census
from compiler.verify.machine import MachineCheck
from compiler.verify.records import STATE
from compiler.verify.result import (
    Finding,
    InterruptCheck,
    UnusedRule,
)
from compiler.words import counted

SHOWN: Final = 8
"""Rows of one finding."""

_AGAIN: Final = "collect the facts of this node again and build anew"


def finding(
    code: Code,
    message: str,
    rows: Sequence[str] = (),
    *,
    help: str = "",
    severity: Severity | None = None,
    total: int | None = None,
) -> Finding:
    """Return a finding with the first of its rows.

    ``total`` is how many rows there are where they are not all given.
    """
    shown = tuple(rows[:SHOWN])
    count = len(rows) if total is None else total
    return Finding(
        code=code,
        severity=code.severity if severity is None else severity,
        message=message,
        rows=shown,
        more=max(0, count - len(shown)),
        help=help,
    )


def worst_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of reports; those of one kind stay as they are."""
    return tuple(sorted(found, key=lambda f: (-f.severity, f.code.id)))


def shown_cpus(cpus: CpuSet) -> str:
    """Return CPUs for a sentence."""
    return str(cpus) or "none"


# --- the machine ------------------------------------------------------------------------------


def of_machine(machine: MachineCheck, plan: NodePlan) -> Iterator[Finding]:
    """Yield where the machine is not the planned one."""
    if machine.cpus == "other":
        yield finding(
            codes.OTHER_MACHINE,
            "the CPUs of this machine are not those of the plan; nothing else is compared",
            machine.differences,
            help=_AGAIN,
        )
    elif machine.cpus == "fewer":
        gone = plan.machine.online - machine.online
        yield finding(
            codes.FEWER_CPUS,
            f"planned CPUs {gone} are offline; all else is as planned",
            [
                f"lane {lane.name}: of its CPUs {lane.cpus}, "
                f"{lane.cpus & machine.online or 'none'} can be used"
                for lane in plan.lanes
                if lane.cpus & gone
            ],
            help=_AGAIN,
            severity=Severity.ERROR
            if any(not lane.cpus & machine.online for lane in plan.lanes)
            else None,
        )
    if machine.devices == "other":
        yield finding(
            codes.OTHER_DEVICES,
            "the GPUs or network devices are not those of the plan",
            machine.device_differences,
            help=_AGAIN,
        )


def of_state(
    switch: str | None,
    recorded: dict[str, int | None],
    plan: NodePlan,
    machine: MachineCheck,
) -> Iterator[Finding]:
    """Yield what the kill switch, if it is set, and the records of earlier runs say."""
    if switch is not None:
        yield finding(
            codes.DISABLED,
            f"{switch} exists: nothing of the plan is applied",
            help=f"remove {switch} to let the plan act",
        )
    for target, count in sorted(recorded.items()):
        if count is None:
            yield finding(
                codes.UNCHECKED,
                f"what {target} changed cannot be read in {STATE}/{target}",
                help="run tierc verify as root",
                severity=Severity.INFO,
            )
        elif count and (switch or machine.cpus == "other" or plan.mode == "observe"):
            why = "the plan is for another machine"
            if switch:
                why = f"{switch} exists"
            elif machine.cpus != "other":
                why = "the plan's mode is observe"
            mild = plan.mode == "observe" and not switch and machine.cpus != "other"
            yield finding(
                codes.NOT_PUT_BACK,
                f"{target} has {counted(count, 'recorded change')} that it has not put back, "
                f"though {why}",
                help=f"run {target}/revert.sh as root",
                severity=Severity.WARNING if mild else None,
            )


# --- rules ------------------------------------------------------------------------------------


def of_rules(census: Census, plan: NodePlan) -> Iterator[Finding]:
    """Yield protected units without any thread, and all rules without."""
    unused: dict[str, list[UnusedRule]] = {}
    for rule in census.unused:
        unused.setdefault(rule.unit, []).append(rule)
    threads = {unit.name: unit.threads for unit in census.units}
    silent: set[str] = set()
    for unit in plan.units:
        rules = unused.get(unit.name, [])
        if not rules or threads[unit.name] or unit.effect not in ("protect", "needed"):
            continue
        silent.add(unit.name)
        known = all(rule.reason.startswith(("the name exists", "late-bound")) for rule in rules)
        yield finding(
            codes.NO_THREAD,
            f"no thread matches {unit.name}, which is {_effect(unit.effect)}",
            [_unused(rule) for rule in rules],
            severity=Severity.INFO if known else None,
            help="is it running? compare its threads' names (ps -eLo comm) with these rules",
        )
    rest = [rule for rule in census.unused if rule.unit not in silent]
    if rest:
        other = "other " if silent else ""
        have = "has" if len(rest) == 1 else "have"
        yield finding(
            codes.RULE_UNUSED,
            f"{counted(len(rest), f'{other}rule')} {have} no thread",
            list(_by_reason(rest)),
        )


def _by_reason(rules: Sequence[UnusedRule]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[UnusedRule]] = {}
    for rule in rules:
        groups.setdefault((rule.unit, rule.reason), []).append(rule)
    for (unit, _), group in groups.items():
        if len(group) == 1:
            yield f"{unit}: {_unused(group[0])}"
            continue
        ids = CpuSet(rule.rule for rule in group)  # written as a list of CPUs is: 0-3,7
        why = f" ({group[0].reason})" if group[0].reason else ""
        yield f"{unit}: rules {ids}, the first {group[0].match}{why}"


def _effect(effect: str) -> str:
    return "protected" if effect == "protect" else "needed by a protected path"


def _unused(rule: UnusedRule) -> str:
    why = f" ({rule.reason})" if rule.reason else ""
    return f"rule {rule.rule}: {rule.match}{why}"


# --- interrupts -------------------------------------------------------------------------------


def of_interrupts(found: Sequence[InterruptCheck], *, enforced: bool) -> Iterator[Finding]:
    """Yield the devices whose interrupts may go elsewhere."""
    devices: dict[str, list[InterruptCheck]] = {}
    for one in found:
        if not one.right:
            devices.setdefault(one.device, []).append(one)
    for device, rows in sorted(devices.items()):
        yield finding(
            codes.IRQ,
            f"{counted(len(rows), 'interrupt')} of {device} may go to other CPUs than "
            f"{rows[0].planned}",
            [_interrupt(row) for row in rows],
            severity=None if enforced else Severity.INFO,
            help="run irq/apply.sh as root, and keep irqbalance off them" if enforced else "",
        )
    unread = [one for one in found if one.allowed is None]
    if unread:
        yield finding(
            codes.UNCHECKED,
            f"{counted(len(unread), 'interrupt')} could not be read",
            [_interrupt(row) for row in unread],
            help="run tierc verify on the host, with its /proc",
        )


def _interrupt(row: InterruptCheck) -> str:
    name = f" {row.action}" if row.action else ""
    allowed = "unknown" if row.allowed is None else shown_cpus(row.allowed)
    moved = "; irq/apply.sh had set it" if row.moved else ""
    return f"irq {row.irq}{name}: allowed {allowed}, planned {row.planned}{moved}"
