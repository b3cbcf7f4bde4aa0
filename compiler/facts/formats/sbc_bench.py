"""The topology part of an sbc-bench report: a table of CPUs with core types, then ``lscpu``.

The table's CLUSTER is the package id of sysfs, and its core types come from the model registers of
Arm cores (MIDR).  On x86 they are guesses from other sources, and are not used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.lscpu_summary import partial_of_summary, says_structure
from compiler.facts.formats.lscpu_text import entries_of
from compiler.facts.partial import KindPart, Note, Partial, ReadError
from compiler.facts.tree import clean, shown
from compiler.model.facts import CoreKind

_TITLE: Final = "CPU sysfs topology (clusters"
_HEADER: Final = re.compile(r"CPU\s+cluster\s+policy\s+speed\s+speed\s+core type\s*\Z")
_ROW: Final = re.compile(
    r"\s*([0-9]{1,9})\s+(-?[0-9]{1,9}|-)\s+\S+\s+(?:[0-9]+|-)\s+([0-9]{1,9}|-)\s+(\S.*?)\s*\Z",
    re.ASCII,
)
_ARM_REVISION: Final = re.compile(r"(\S.*?) / r[0-9]+p[0-9]+\Z", re.ASCII)
_RANKS: Final[tuple[CoreKind, ...]] = ("performance", "efficiency", "lowpower")
_FIGURE: Final = "cpufreq/scaling_max_freq (MHz)"


@dataclass(frozen=True, slots=True)
class _Row:
    cpu: int
    line: int
    package: int | None
    speed: int | None
    model: str | None


def _sniff(text: str) -> bool:
    return _TITLE in text


def _read(text: Text) -> tuple[Partial, ...]:
    lines = text.text.split("\n")
    at = next((i for i, line in enumerate(lines) if _HEADER.match(line.strip())), None)
    if at is None:
        raise ReadError("the table of CPUs has no header", help="keep the report as it is")
    rows, end = _rows(lines, at + 1)
    base = _summary(lines, end, text.name)
    listed = CpuSet(row.cpu for row in rows)
    online = base.online
    notes = list(base.notes)
    if online is not None and not online <= listed:
        notes.append(
            Note(f"CPU {online - listed} is online, but not in the table of core types", at + 1)
        )
    if online is not None:
        # The rows of offline CPUs repeat what the row before says.
        rows = [row for row in rows if row.cpu in online]
    complete = online is None or online <= listed
    return (
        replace(
            base,
            packages=_packages(rows) if complete else None,
            kinds=_kinds(rows, notes) if complete else None,
            notes=tuple(notes),
        ),
    )


def _rows(lines: Sequence[str], start: int) -> tuple[list[_Row], int]:
    """Return the table's rows, and the index of the line after it."""
    rows: list[_Row] = []
    seen: set[int] = set()
    for index in range(start, len(lines)):
        if not lines[index].strip():
            break
        match = _ROW.match(lines[index])
        if match is None:
            raise ReadError(f"{shown(lines[index])} is no row of the table of CPUs", line=index + 1)
        cpu = int(match[1])
        if cpu in seen:
            raise ReadError(f"CPU {cpu} is listed twice", line=index + 1)
        seen.add(cpu)
        try:
            CpuSet((cpu,))
        except CpuListError as error:
            raise ReadError(str(error), line=index + 1) from None
        arm = _ARM_REVISION.match(match[4])
        rows.append(
            _Row(
                cpu=cpu,
                line=index + 1,
                package=int(match[2]) if match[2].isdigit() else None,
                speed=int(match[3]) if match[3] != "-" else None,
                model=clean(arm[1], 80) if arm else None,
            )
        )
    else:
        index = len(lines)
    if not rows:
        raise ReadError("the table of CPUs is empty", line=start)
    return rows, index


def _summary(lines: Sequence[str], start: int, name: str) -> Partial:
    """Return what the report's ``lscpu`` says: the first paragraph that is one."""
    first = start
    while first < len(lines):
        last = first
        while last < len(lines) and lines[last].strip():
            last += 1
        entries = entries_of("\n".join(lines[first:last]), first + 1)
        if any(says_structure(entry.key) for entry in entries):
            return partial_of_summary(entries, name, "sbc-bench")
        first = last + 1
    return Partial(
        reader="sbc-bench",
        file=name,
        notes=(Note("no lscpu output follows the table; which CPUs are online is unknown"),),
    )


def _packages(rows: Sequence[_Row]) -> tuple[tuple[int, CpuSet], ...] | None:
    found: dict[int, list[int]] = {}
    for row in rows:
        if row.package is not None:
            found.setdefault(row.package, []).append(row.cpu)
    return tuple((package, CpuSet(cpus)) for package, cpus in sorted(found.items())) or None


def _kinds(rows: Sequence[_Row], notes: list[Note]) -> tuple[KindPart, ...] | None:
    """Return the kinds of core, fastest first; () if all are of one model.

    One model is one kind, whatever the clocks: GB10's are sold with several.
    """
    models: dict[str, list[_Row]] = {}
    for row in rows:
        if row.model is not None:
            models.setdefault(row.model, []).append(row)
    if sum(map(len, models.values())) < len(rows):
        return None
    if len(models) == 1:
        return ()
    best = {
        model: max((row.speed for row in group if row.speed is not None), default=0)
        for model, group in models.items()
    }
    if 0 in best.values() or len(set(best.values())) < len(best):
        both = " and ".join(sorted(models))
        notes.append(
            Note(
                f"cores are {both}, but the maximum speeds do not say which are faster; kinds of "
                "core are unknown",
                rows[0].line,
            )
        )
        return None
    ranked = sorted(models, key=lambda model: -best[model])
    parts: list[KindPart] = []
    for rank, kind in enumerate(_RANKS):
        # From the third on all are low-power.
        names = ranked[rank:] if rank == len(_RANKS) - 1 else ranked[rank : rank + 1]
        if names:
            parts.append(
                KindPart(
                    name=kind,
                    cpus=CpuSet(row.cpu for model in names for row in models[model]),
                    evidence="midr",
                    model=", ".join(names),
                    figure=_FIGURE,
                    value=best[names[0]],
                )
            )
    return tuple(parts)


FORMAT: Final = Format("sbc-bench", "sbc-bench report", _sniff, _read)
