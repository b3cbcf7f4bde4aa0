"""A row of ``lscpu -p``, ``-e`` or ``-J -e``: what is said of one CPU.

The numbers are lscpu's own.  Read from its source (util-linux, sys-utils/lscpu*.c):

- CORE and SOCKET are counted from 0 *for each model of CPU*: on GB10 CPU 0 (Cortex-A725) and CPU 5
  (Cortex-X925) are both core 0.  Only caches that they share tell siblings from namesakes.
- NODE is the kernel's number.
- A cache is one object a level, type and number; a CPU without one has an empty place in old
  versions, and no place at all since 2.37, so that what follows moves up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.facts.partial import LSCPU, Note, ReadError
from compiler.facts.tree import shown

COMMAND: Final = f"LC_ALL=C {LSCPU}"
"""It in English; messages about cells propose it."""
COLUMNS: Final = frozenset(
    {
        "address",
        "bogomips",
        "book",
        "cache",
        "cluster",
        "configured",
        "core",
        "cpu",
        "drawer",
        "maxmhz",
        "mhz",
        "minmhz",
        "modelname",
        "node",
        "online",
        "polarization",
        "scalmhz%",
        "socket",
    }
)
"""Names of columns, lower case; the cache column is mostly named by its caches."""

_CACHE: Final = re.compile(r"L([1-9])([di]?)\Z", re.ASCII | re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}\Z", re.ASCII)
_NONE: Final = frozenset({"", "-"})
_ONLINE: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


@dataclass(frozen=True, slots=True)
class Row:
    """What is said of one CPU; None: nothing.

    ``caches`` has a number for each of the table's caches, or is shorter: then it is not known
    which are missing.
    """

    cpu: int
    line: int | None = None
    core: int | None = None
    socket: int | None = None
    node: int | None = None
    online: bool | None = None
    caches: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """All rows.

    Attributes:
        columns: the columns there are, lower case.
        caches: names such as L1d, L1i, L2, in the order of each row's numbers.
    """

    columns: frozenset[str]
    caches: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...] = ()


def another_language(what: str, line: int | None) -> ReadError:
    """Return the error for output that lscpu translated."""
    return ReadError(
        f"{shown(what)} is not English: recorded in another language",
        line=line,
        help=f"record it with LC_ALL=C: {COMMAND}",
    )


def cache_names(column: str) -> tuple[str, ...] | None:
    """Return the caches that a column such as ``L1d:L1i:L2`` or ``L3`` is named by, if it is."""
    names = column.split(":")
    return tuple(names) if all(_CACHE.match(name) for name in names) else None


def number(text: str | None, column: str, line: int | None) -> int | None:
    """Return a cell's number; None where it has none (``-``, empty, negative).

    Raises:
        ReadError: it is no number.
    """
    if text is None or text in _NONE:
        return None
    if not _NUMBER.match(text):
        raise ReadError(
            f"{shown(text)} in column {column.upper()} is no number",
            line=line,
            help=f"is a line damaged or cut? record it again: {COMMAND}",
        )
    value = int(text)
    return value if value >= 0 else None


def make_row(
    cells: Mapping[str, str | None], caches: Sequence[str], line: int | None
) -> Row | None:
    """Return a row from its cells by lower-case column; None where it names no CPU.

    Args:
        cells: text by column; ``cache`` is not looked at.
        caches: the texts of the row's caches.
        line: where the row is.

    Raises:
        ReadError: a cell has no meaning.
    """
    cpu = number(cells.get("cpu"), "cpu", line)
    if cpu is None:
        return None
    socket = cells.get("socket")
    if socket is None or socket in _NONE:
        # On Arm machines without ACPI the socket is called a cluster; it is the same number.
        socket = cells.get("cluster")
    state = cells.get("online")
    online = None
    if state is not None and state not in _NONE:
        online = _ONLINE.get(state.lower())
        if online is None:
            raise another_language(state, line)
    return Row(
        cpu=cpu,
        line=line,
        core=number(cells.get("core"), "core", line),
        socket=number(socket, "socket", line),
        node=number(cells.get("node"), "node", line),
        online=online,
        caches=tuple(number(text, "cache", line) for text in caches),
    )


def level(name: str) -> int:
    """Return a cache's level from its name, one of those :func:`cache_names` returns."""
    return int(name[1])


def holds_data(name: str) -> bool:
    """Return whether a cache is not for instructions only."""
    return not name.lower().endswith("i")
