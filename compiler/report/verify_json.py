"""A node beside its plan, as JSON for programs; ``docs/verify.md`` says what the fields mean.

The format has a version.  Fields may be added without changing it; none is removed or changes
its meaning.
"""

from __future__ import annotations

import json
from typing import Any, Final

from compiler.diagnostics import Severity
from compiler.verify import (
    Finding,
    InterruptCheck,
    LaneCount,
    Row,
    SchedulerCheck,
    User,
    Verification,
)

VERSION: Final = 1


def render_verify_json(result: Verification) -> str:
    """Return the comparison as one JSON object and a line end; CPUs are kernel lists."""
    machine, threads = result.machine, result.threads
    document = {
        "version": VERSION,
        "directory": _text(result.directory),
        "matches": result.worst() is not Severity.ERROR,
        "summary": {
            "errors": _count(result, Severity.ERROR),
            "warnings": _count(result, Severity.WARNING),
            "infos": _count(result, Severity.INFO),
        },
        "mode": result.mode,
        "targets": list(result.targets),
        "enforcer": result.enforcer,
        "why": _text(result.why),
        "disabled": result.disabled,
        "recorded": dict(sorted(result.recorded.items())),
        "machine": {
            "cpus": machine.cpus,
            "online": str(machine.online),
            "differences": list(machine.differences),
            "devices": machine.devices,
            "deviceDifferences": list(machine.device_differences),
        },
        "threads": {
            "processes": threads.processes,
            "threads": threads.threads,
            "matched": threads.matched,
            "unmatched": threads.unmatched,
            "kernelUnmatched": threads.kernel_unmatched,
            "undecided": threads.undecided,
            "unreadable": threads.unreadable,
        },
        "units": [
            {
                "name": unit.name,
                "tier": unit.tier,
                "lane": unit.lane,
                "cpus": str(unit.cpus),
                "threads": unit.threads,
                "right": unit.right,
                "different": unit.different,
                "skipped": unit.skipped,
                "alone": unit.alone,
            }
            for unit in result.units
        ],
        "different": [_row(row) for row in result.rows],
        "differentLeftOut": result.rows_left_out,
        "matched": None if result.matched is None else [_row(row) for row in result.matched],
        "lanes": [_lane(lane) for lane in result.lanes],
        "unmatched": [_user(user) for user in result.users],
        "unusedRules": [
            {"rule": one.rule, "unit": one.unit, "match": one.match, "reason": one.reason or None}
            for one in result.unused
        ],
        "interrupts": [_interrupt(row) for row in result.interrupts],
        "scheduler": _scheduler(result.scheduler),
        "findings": [_finding(found) for found in result.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _text(text: str) -> str:
    """Return a text with every byte that is not UTF-8 as U+FFFD: JSON has no such bytes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _count(result: Verification, severity: Severity) -> int:
    return sum(found.severity is severity for found in result.findings)


def _row(row: Row) -> dict[str, Any]:
    return {
        "pid": row.pid,
        "tid": row.tid,
        "comm": _text(row.comm),
        "unit": row.unit,
        "rule": row.rule,
        "band": row.band,
        "kind": row.kind,
        "allowed": str(row.allowed),
        "planned": str(row.planned),
        "cpuset": None if row.cpuset is None else _text(row.cpuset),
    }


def _user(user: User) -> dict[str, Any]:
    return {
        "pid": user.pid,
        "tid": user.tid,
        "comm": _text(user.comm),
        "unit": user.unit,
        "cpuSeconds": user.cpu_seconds,
        "cpu": user.cpu,
        "running": user.running,
    }


def _lane(lane: LaneCount) -> dict[str, Any]:
    return {
        "name": lane.name,
        "tier": lane.tier,
        "cpus": str(lane.cpus),
        "share": lane.share,
        "own": lane.own,
        "foreignMay": lane.may,
        "foreignNow": lane.now,
        "foreign": [_user(user) for user in lane.worst],
    }


def _interrupt(row: InterruptCheck) -> dict[str, Any]:
    return {
        "irq": row.irq,
        "device": row.device,
        "action": row.action,
        "planned": str(row.planned),
        "allowed": None if row.allowed is None else str(row.allowed),
        "managed": row.managed,
        "moved": row.moved,
        "right": row.right,
    }


def _scheduler(seen: SchedulerCheck) -> dict[str, Any]:
    return {
        "state": seen.state,
        "ops": seen.ops,
        "ours": seen.ours,
        "slot": seen.slot,
        "generation": seen.generation,
        "compared": seen.compared,
        "recordedThreads": seen.recorded,
        "end": None
        if seen.end is None
        else {"kind": seen.end.kind, "reason": seen.end.reason, "message": seen.end.message},
        "bands": None
        if seen.bands is None
        else [
            {
                "band": one.band,
                "judged": one.judged,
                "runNs": one.run_ns,
                "runs": one.runs,
                "waitNs": one.wait_ns,
                "waitMaxNs": one.wait_max_ns,
                "preempts": one.preempts,
            }
            for one in seen.bands
        ],
        "tables": None
        if seen.tables is None
        else [
            {
                "name": one.name,
                "different": one.different,
                "missing": one.missing,
                "extra": one.extra,
                "example": one.example,
            }
            for one in seen.tables
        ],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "code": found.code.id,
        "name": found.code.name,
        "severity": found.severity.label,
        "message": _text(found.message),
        "rows": [_text(row) for row in found.rows],
        "more": found.more,
        "help": _text(found.help) or None,
    }
