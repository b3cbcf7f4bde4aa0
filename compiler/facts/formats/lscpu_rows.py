"""What the rows of ``lscpu -p``, ``-e`` and ``-J -e`` say of the machine."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.formats.lscpu_groups import by_number, read_cores, read_llcs, read_packages
from compiler.facts.formats.lscpu_row import COMMAND, Row, Table
from compiler.facts.partial import Note, NumaPart, Partial, ReadError


def partial_of(table: Table, file: str) -> Partial:
    """Return what a table says of the machine.

    Raises:
        ReadError: a CPU is there twice or too high, or none is online.
    """
    notes = list(table.notes)
    lines: dict[int, int | None] = {}
    for row in table.rows:
        if row.cpu in lines:
            raise ReadError(f"CPU {row.cpu} is listed twice", line=row.line)
        lines[row.cpu] = row.line
        try:
            CpuSet((row.cpu,))
        except CpuListError as error:
            raise ReadError(str(error), line=row.line) from None
    if not table.rows:
        raise ReadError("no CPU is listed", help=f"record it with: {COMMAND}")
    on, online = _online(table, notes)
    rows = sorted((row for row in table.rows if row.cpu in on), key=lambda row: row.cpu)
    everything = CpuSet(lines)
    cores, one_model = read_cores(table, rows, notes)
    return Partial(
        reader="lscpu",
        file=file,
        online=online,
        # Offline CPUs are listed beside online ones only where all that are present are.
        present=everything if online is not None and online < everything else None,
        cores=cores,
        packages=read_packages(rows, notes, one_model=one_model),
        llcs=read_llcs(table, rows, notes),
        numa=_numa(rows),
        notes=tuple(notes),
    )


# --- online ----------------------------------------------------------------------------------


def _online(table: Table, notes: list[Note]) -> tuple[CpuSet, CpuSet | None]:
    """Return the CPUs that count, and those online if that is certain."""
    rows = table.rows
    if all(row.online is not None for row in rows):
        on = CpuSet(row.cpu for row in rows if row.online)
        if not on:
            raise ReadError(
                "every CPU listed is offline: recorded with --offline", help=f"use: {COMMAND}"
            )
        return on, on
    silent = [row for row in rows if row.online is None and not _says(row)]
    off = CpuSet(row.cpu for row in silent) | CpuSet(row.cpu for row in rows if row.online is False)
    on = CpuSet(row.cpu for row in rows) - off
    if not on:
        notes.append(
            Note(
                "nothing is said of any CPU but its number, so which are online is unknown; "
                f"record it with: {COMMAND}"
            )
        )
        return CpuSet(row.cpu for row in rows), None
    if silent:
        first = min(silent, key=lambda row: (row.line or 0, row.cpu))
        cpus = CpuSet(row.cpu for row in silent)
        notes.append(
            Note(f"CPU {cpus} has no core, socket, node or cache; taken as offline", first.line)
        )
    homeless = [row for row in rows if row.cpu in on and row.online is None and row.node is None]
    if homeless and any(row.node is not None for row in rows):
        cpus = CpuSet(row.cpu for row in homeless)
        notes.append(
            Note(
                f"CPU {cpus} is in no NUMA node, as an offline CPU would be, so which are online "
                f"is unknown; record it with: {COMMAND}",
                homeless[0].line,
            )
        )
        return on, None
    return on, on


def _says(row: Row) -> bool:
    return any(value is not None for value in (row.core, row.socket, row.node, *row.caches))


def _numa(rows: Sequence[Row]) -> tuple[NumaPart, ...] | None:
    nodes = by_number(rows, lambda row: row.node)
    return tuple(NumaPart(id=node, cpus=cpus) for node, cpus in nodes) or None
