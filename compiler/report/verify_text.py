"""A node beside its plan, as text for people: the answer first, then what is wrong, worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compiler.diagnostics import Severity
from compiler.report.cells import printable
from compiler.report.table import table
from compiler.verify import Finding, Verification
from compiler.words import counted, listed

_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_GREEN: Final = "\x1b[1;32m"
_TINTS: Final = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.INFO: "\x1b[1;36m",
}
_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_NAMES: Final = 48
"""Characters of a unit's name in the table of units."""


def render_verify_text(result: Verification, *, color: bool) -> str:
    """Return the report.

    Args:
        result: what was found.
        color: whether to colour with ANSI sequences; nothing else in the text is a control
            character but the line ends: names of threads may hold anything and are escaped.
    """
    blocks = [_head(result, color), *_summary(result), *_bands(result), *_threads_listed(result)]
    blocks += [_finding(found, color) for found in result.findings]
    return "\n".join(blocks)


def _head(result: Verification, color: bool) -> str:
    errors = sum(found.severity is Severity.ERROR for found in result.findings)
    warnings = sum(found.severity is Severity.WARNING for found in result.findings)
    notes = len(result.findings) - errors - warnings
    counts = [
        counted(number, noun)
        for number, noun in ((errors, "error"), (warnings, "warning"), (notes, "note"))
        if number
    ]
    if errors:
        verdict = _paint("differs from its plan", _TINTS[Severity.ERROR], color)
    else:
        verdict = _paint("matches its plan", _GREEN, color)
    tail = f": {', '.join(counts)}" if counts else ""
    return f"{printable(result.directory)}: the node {verdict}{tail}\n"


def _summary(result: Verification) -> Iterator[str]:
    rows = [
        ("mode", f"{result.mode}, files of {listed(result.targets) or 'no target'}"),
        ("enforced", _enforced(result)),
        ("machine", _machine(result)),
        ("recorded", _recorded(result)),
        ("scheduler", _scheduler(result)),
    ]
    if result.machine.cpus != "other":
        rows += [("threads", _threads(result)), ("interrupts", _interrupts(result))]
    yield "".join(f"{line}\n" for line in table([(a, printable(b)) for a, b in rows if b]))
    if units := [unit for unit in result.units if unit.threads]:
        yield _table(
            ("unit", "tier", "CPUs", "threads", "right", "different", "skipped", "not set"),
            [
                (
                    _cut(printable(unit.name)),
                    unit.tier,
                    str(unit.cpus),
                    *_numbers(unit.threads, unit.right, unit.different, unit.skipped, unit.alone),
                )
                for unit in units
            ],
        )
    if result.lanes and result.machine.cpus != "other":
        # Under a scheduler affinity does not tell who may be where.
        seen = result.enforcer != "scheduler"
        yield _table(
            ("lane", "tier", "CPUs", "share", "own", "others may" if seen else "", "others now"),
            [
                (
                    printable(lane.name),
                    lane.tier,
                    str(lane.cpus),
                    lane.share,
                    str(lane.own),
                    str(lane.may) if seen else "",
                    str(lane.now),
                )
                for lane in result.lanes
            ],
        )


def _threads_listed(result: Verification) -> Iterator[str]:
    """Yield every thread that has a rule, where that was asked for."""
    if result.matched:
        yield _table(
            ("thread", "name", "unit", "rule", "band", "", "allowed", "planned", "cpuset"),
            [
                (
                    f"{row.pid}/{row.tid}",
                    printable(row.comm),
                    _cut(printable(row.unit)),
                    *_numbers(row.rule, row.band),
                    row.kind,
                    str(row.allowed),
                    str(row.planned) or "none",
                    printable(row.cpuset or ""),
                )
                for row in result.matched
            ],
        )


def _bands(result: Verification) -> Iterator[str]:
    """Yield the statistics of the bands that had anything; times in seconds and milliseconds."""
    rows = [one for one in result.scheduler.bands or () if one.judged or one.runs]
    if rows:
        yield _table(
            ("band", "judged", "run s", "runs", "mean wait ms", "max wait ms", "preempts"),
            [
                (
                    *_numbers(one.band, one.judged),
                    f"{one.run_ns / 1e9:.3f}",
                    str(one.runs),
                    f"{one.wait_ns / max(one.runs, 1) / 1e6:.3f}",
                    f"{one.wait_max_ns / 1e6:.3f}",
                    str(one.preempts),
                )
                for one in rows
            ],
        )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return "".join(f"{line}\n" for line in table([head, *rows]))


def _numbers(*numbers: int) -> Iterator[str]:
    return map(str, numbers)


def _cut(name: str) -> str:
    return name if len(name) <= _NAMES else name[: _NAMES - 3] + "..."


def _enforced(result: Verification) -> str:
    what = {"affinity": "CPU affinity", "scheduler": "a scheduler", "nothing": "nothing"}
    return f"{what[result.enforcer]} ({result.why})"


def _machine(result: Verification) -> str:
    words = {
        "planned": f"as planned, CPUs {result.machine.online}",
        "fewer": f"as planned, but only CPUs {result.machine.online} are online",
        "other": "another one than planned",
    }
    devices = {"planned": "; devices as planned", "other": "; other devices", "unknown": ""}
    return words[result.machine.cpus] + devices[result.machine.devices]


def _recorded(result: Verification) -> str:
    return ", ".join(
        f"{target} {'cannot be read' if count is None else count or 'nothing'}"
        for target, count in sorted(result.recorded.items())
    )


def _scheduler(result: Verification) -> str:
    seen = result.scheduler
    if seen.state is None:
        return "the kernel has no sched_ext"
    if seen.ops is None:
        return f"none, sched_ext is {seen.state}"
    text = f"{seen.ops} ({seen.state})"
    if seen.slot is not None:
        text += f", slot {seen.slot}, generation {seen.generation}"
    if seen.tables is not None:
        same = seen.compared - len(seen.tables)
        text += f", {same} of {seen.compared} tables as in the seed"
    return text


def _threads(result: Verification) -> str:
    seen = result.threads
    parts = [
        f"{seen.matched} have a rule",
        f"{seen.unmatched} of users have none",
        f"{seen.kernel_unmatched} of the kernel have none",
    ]
    if seen.undecided:
        parts.append(f"{seen.undecided} undecided")
    if seen.unreadable:
        parts.append(f"{seen.unreadable} unreadable")
    processes = "1 process" if seen.processes == 1 else f"{seen.processes} processes"
    return f"{seen.threads} in {processes}: {', '.join(parts)}"


def _interrupts(result: Verification) -> str:
    rows = result.interrupts
    if not rows:
        return ""
    wrong = sum(not row.right for row in rows)
    managed = sum(row.managed for row in rows)
    text = f"{len(rows)} of planned devices, {wrong} elsewhere"
    return f"{text}, {managed} managed by the kernel" if managed else text


def _finding(found: Finding, color: bool) -> str:
    head = _paint(f"{_WORDS[found.severity]}[{found.code.id}]", _TINTS[found.severity], color)
    lines = [head + _paint(f": {printable(found.message)}", _BOLD, color)]
    lines += [f"  {printable(row)}" for row in found.rows]
    if found.more:
        lines.append(f"  and {found.more} more" if found.rows else "")
    if found.help:
        lines.append(f"  = help: {printable(found.help)}")
    return "".join(f"{line}\n" for line in lines if line)


def _paint(text: str, tint: str, color: bool) -> str:
    return f"{tint}{text}{_RESET}" if color else text
