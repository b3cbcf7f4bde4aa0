"""``lscpu -p`` (comma-separated, for programs) and ``lscpu -e`` (columns, for people)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from compiler.cpuset import MAX_CPUS
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.lscpu_row import (
    COLUMNS,
    COMMAND,
    Row,
    Table,
    cache_names,
    make_row,
)
from compiler.facts.formats.lscpu_rows import partial_of
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.tree import shown

_P_HEADER: Final = re.compile(r"^# ?([A-Za-z][A-Za-z0-9%,:]*)\r?$", re.MULTILINE)
# Numbers with the empty field that stands before the caches: -p without its comments.
_P_ROW: Final = re.compile(r"[0-9]+,[0-9]+,[0-9]*,[0-9]*,,[0-9]+(,[0-9]+)+\r?$", re.ASCII)
_FIRST_LINES: Final = 40
_CACHE_HEADER: Final = ("NAME", "ONE-SIZE")


# --- -p --------------------------------------------------------------------------------------


def _p_columns(text: str) -> tuple[int, list[str]] | None:
    """Return where the header is (line, from 1) and its columns."""
    for match in _P_HEADER.finditer(text):
        columns = match[1].split(",")
        if len(columns) > 1 and _are_columns([one for one in columns if one]):
            return text.count("\n", 0, match.start()) + 1, columns
    return None


def _are_columns(names: Sequence[str]) -> bool:
    lower = [name.lower() for name in names]
    return "cpu" in lower and all(
        name in COLUMNS or cache_names(name) is not None for name in lower
    )


def _sniff_p(text: str) -> bool:
    return _p_columns(text) is not None or _is_bare(text)


def _is_bare(text: str) -> bool:
    """Return whether every line is one of ``-p`` without its comments."""
    if not _P_ROW.match(text.lstrip().partition("\n")[0]):
        return False
    return all(_P_ROW.match(line) for line in text.split("\n") if line.strip())


def _read_p(text: Text) -> tuple[Partial, ...]:
    header = _p_columns(text.text)
    if header is None:
        raise ReadError(
            "lscpu -p without its comment lines, which name the columns",
            line=1,
            help=f"record it as it is: {COMMAND}",
        )
    at, columns = header
    rows: list[Row] = []
    notes: list[Note] = []
    layout = _Layout(columns)
    for line, raw in enumerate(text.text.split("\n"), start=1):
        body = raw.strip()
        if line <= at or not body or body.startswith("#"):
            continue
        _add(rows, notes, make_row(*layout.cells(body, line), line), line)
    return (partial_of(_table(columns, layout.caches, rows, notes), text.name),)


def _add(rows: list[Row], notes: list[Note], row: Row | None, line: int) -> None:
    if len(rows) == MAX_CPUS or len(notes) == MAX_CPUS:
        raise ReadError(f"more than {MAX_CPUS} rows, the highest number of CPUs", line=line)
    if row is None:
        notes.append(
            Note("a row without a CPU number, as lscpu prints for some offline CPUs", line)
        )
    else:
        rows.append(row)


def _flat_caches(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for column in columns for name in cache_names(column) or ())


class _Layout:
    """The columns of ``-p``.

    The caches are one column ``L1d:L1i:L2``, or columns of their own, at the end, behind an empty
    one; then a row is shorter where a CPU lacks one.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.caches = _flat_caches(columns)
        self._names = [
            None if cache_names(column) is not None else column.lower() for column in columns
        ]
        self._first = self._names.index(None) if None in self._names else len(columns)
        tail = self._names[self._first :]
        self._spread = len(tail) > 1 and not any(tail)

    def cells(self, body: str, line: int) -> tuple[Mapping[str, str | None], list[str]]:
        """Return a row's cells by column, and its caches."""
        fields = [field.strip() for field in body.split(",")]
        count = len(self._names)
        if len(fields) != count and not (self._spread and self._first <= len(fields) < count):
            raise ReadError(
                f"{len(fields)} fields, but the header names {count} columns",
                line=line,
                help="the recording is damaged; record it again",
            )
        cells: dict[str, str | None] = {}
        caches: list[str] = []
        for name, field in zip(self._names, fields, strict=False):
            if name is not None:
                cells[name] = field
            elif self._spread or field:
                caches += field.split(":")
        return cells, _fitting(caches if any(caches) else [], len(self.caches), line)


def _fitting(caches: list[str], count: int, line: int) -> list[str]:
    if len(caches) > count:
        raise ReadError(f"{len(caches)} caches, but the header names {count}", line=line)
    return caches


def _table(
    columns: Sequence[str], caches: tuple[str, ...], rows: Sequence[Row], notes: Sequence[Note]
) -> Table:
    lower = frozenset(column.lower() for column in columns if cache_names(column) is None)
    return Table(columns=lower, caches=caches, rows=tuple(rows), notes=tuple(notes))


# --- -e --------------------------------------------------------------------------------------


def _e_header(text: str) -> tuple[int, list[str]] | None:
    for line, raw in enumerate(text.split("\n", _FIRST_LINES)[:_FIRST_LINES], start=1):
        columns = raw.split()
        if len(columns) > 1 and _are_columns(columns) and raw.strip()[0] != "#":
            upper = [one for one in columns if cache_names(one) is None]
            if all(one == one.upper() for one in upper):
                return line, columns
    return None


def _c_header(text: str) -> int | None:
    for line, raw in enumerate(text.split("\n", _FIRST_LINES)[:_FIRST_LINES], start=1):
        if tuple(raw.split()[:2]) == _CACHE_HEADER:
            return line
    return None


def _read_e(text: Text) -> tuple[Partial, ...]:
    header = _e_header(text.text)
    if header is None:
        raise ReadError("no line names the columns, CPU among them", help=f"record: {COMMAND}")
    at, columns = header
    rows: list[Row] = []
    notes: list[Note] = []
    caches = _flat_caches(columns)
    names = [None if cache_names(column) is not None else column.lower() for column in columns]
    for line, raw in enumerate(text.text.split("\n"), start=1):
        if line <= at:
            continue
        fields = raw.split()
        if not fields:
            if rows:
                break
            continue
        if len(fields) != len(columns):
            raise ReadError(
                f"{shown(raw)} has {len(fields)} fields, but the header names {len(columns)} "
                "columns",
                line=line,
                help="leave only the table, and every row of it whole",
            )
        cells: dict[str, str | None] = {}
        own: list[str] = []
        for name, field in zip(names, fields, strict=True):
            if name is not None:
                cells[name] = field
            elif field != "-":
                own += field.split(":")
        _add(rows, notes, make_row(cells, _fitting(own, len(caches), line), line), line)
    return (partial_of(_table(columns, caches, rows, notes), text.name),)


def _read_c(text: Text) -> tuple[Partial, ...]:
    raise ReadError(
        "lscpu -C lists caches, but not which CPUs share them",
        line=_c_header(text.text),
        help=f"record it with: {COMMAND}",
    )


P_FORMAT: Final = Format("lscpu-p", "lscpu -p", _sniff_p, _read_p)
E_FORMAT: Final = Format("lscpu-e", "lscpu -e", lambda text: _e_header(text) is not None, _read_e)
C_FORMAT: Final = Format(
    "lscpu-caches", "lscpu -C", lambda text: _c_header(text) is not None, _read_c
)
FORMATS: Final = (P_FORMAT, E_FORMAT, C_FORMAT)
