"""``lscpu -J`` (the summary) and ``lscpu -J -e`` (a CPU a row).

Up to util-linux 2.41 ``-J -e`` prints a bare ``-`` for a number that a CPU does not have, mostly
because it is offline: that is no JSON.  Here it is what it means: nothing is said.
"""

from __future__ import annotations

import json
import re
from typing import Final

from compiler.cpuset import MAX_CPUS
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.lscpu_row import (
    COMMAND,
    Row,
    Table,
    cache_names,
    make_row,
)
from compiler.facts.formats.lscpu_rows import partial_of
from compiler.facts.formats.lscpu_summary import Entry, partial_of_summary
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.tree import shown

_START: Final = re.compile(r'\s*\{\s*"(lscpu|cpus|caches)"\s*:\s*\[')
# A string, which is left alone (one without an end to the end), or a value that is only a dash, or
# where an object starts.
_TOKEN: Final = re.compile(
    r"""("(?:[^"\\]|\\.)*+(?:"|\\?\Z))|((?<=:)\s*+)-(?=\s*[,}\]])|(\{)(?=\s*")""", re.DOTALL
)
_LINE_KEY: Final = "\0line"


def _kind(text: str) -> str | None:
    match = _START.match(text)
    return match[1] if match else None


def _load(text: Text) -> object:
    """Return the document; each object of it knows its line, each bare dash is null."""
    starts = text.text
    position, line = 0, 1

    def replaced(match: re.Match[str]) -> str:
        nonlocal position, line
        line += starts.count("\n", position, match.start())
        position = match.start()
        if match[3]:
            return f'{{"\\u0000line":{line},'
        return match[1] or f"{match[2]}null"

    repaired = _TOKEN.sub(replaced, starts)
    try:
        return json.loads(repaired)
    except json.JSONDecodeError as error:
        at = repaired.count("\n", 0, error.pos) + 1
        raise ReadError(f"not JSON: {error.msg.lower()}", line=at) from None
    except (ValueError, RecursionError) as error:
        raise ReadError(f"not JSON: {str(error).lower()}") from None


def _list(document: object, key: str) -> list[dict[str, object]]:
    rows = document.get(key) if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ReadError(f"{key} is no list of objects", help=f"record it with: {COMMAND}")
    return rows


def _text(value: object, key: str, line: int | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(value)
    raise ReadError(f"{shown(key)} is neither a number nor a text", line=line)


def _line(row: dict[str, object]) -> int | None:
    value = row.get(_LINE_KEY)
    return value if isinstance(value, int) else None


# --- the summary -----------------------------------------------------------------------------


def _read_summary(text: Text) -> tuple[Partial, ...]:
    entries: list[Entry] = []
    todo = _list(_load(text), "lscpu")[::-1]
    while todo:
        item = todo.pop()
        line = _line(item)
        key = _text(item.get("field"), "field", line) or ""
        value = _text(item.get("data"), "data", line) or ""
        if key:
            entries.append(Entry(key.strip().removesuffix(":").strip(), value.strip(), line))
        children = item.get("children")
        if children is not None:
            todo += _list({"children": children}, "children")[::-1]
    return (partial_of_summary(entries, text.name),)


# --- a CPU a row -----------------------------------------------------------------------------


def _read_cpus(text: Text) -> tuple[Partial, ...]:
    objects = _list(_load(text), "cpus")
    if len(objects) > MAX_CPUS:
        raise ReadError(f"more than {MAX_CPUS} rows, the highest number of CPUs")
    columns: dict[str, None] = {}
    for item in objects:
        columns |= dict.fromkeys(key for key in item if key != _LINE_KEY)
    by_cache = [key for key in columns if cache_names(key) is not None]
    names = tuple(name for key in by_cache for name in cache_names(key) or ())
    if "cpu" not in {key.lower() for key in columns}:
        raise ReadError("no row has a cpu", help=f"record it with: {COMMAND}")
    rows: list[Row] = []
    notes: list[Note] = []
    for item in objects:
        line = _line(item)
        cells = {
            key.lower(): _text(value, key, line) for key, value in item.items() if key != _LINE_KEY
        }
        caches: list[str] = []
        for key in by_cache:
            cell = cells.pop(key.lower(), None)
            if cell not in (None, "", "-"):
                caches += (cell or "").split(":")
        if len(caches) > len(names):
            raise ReadError(f"{len(caches)} caches, but the key names {len(names)}", line=line)
        row = make_row(cells, caches, line)
        if row is None:
            notes.append(Note("a row without a CPU number, left out", line))
        else:
            rows.append(row)
    lower = frozenset(key.lower() for key in columns if key not in by_cache)
    table = Table(columns=lower, caches=names, rows=tuple(rows), notes=tuple(notes))
    return (partial_of(table, text.name),)


def _read_caches(text: Text) -> tuple[Partial, ...]:
    raise ReadError(
        "lscpu -J -C lists caches, but not which CPUs share them",
        line=1,
        help=f"record it with: {COMMAND}",
    )


SUMMARY_FORMAT: Final = Format(
    "lscpu-json", "lscpu -J", lambda text: _kind(text) == "lscpu", _read_summary
)
CPUS_FORMAT: Final = Format(
    "lscpu-json-e", "lscpu -J -e", lambda text: _kind(text) == "cpus", _read_cpus
)
CACHES_FORMAT: Final = Format(
    "lscpu-json-caches", "lscpu -J -C", lambda text: _kind(text) == "caches", _read_caches
)
FORMATS: Final = (SUMMARY_FORMAT, CPUS_FORMAT, CACHES_FORMAT)
