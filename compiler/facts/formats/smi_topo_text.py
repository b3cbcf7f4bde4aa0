"""Find the table of ``nvidia-smi topo -m`` in a text that people pasted."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from compiler.facts.partial import ReadError

CPU, NUMA, MEMORY = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
MAX_LABELS: Final = 512
"""GPUs and NICs of one table; the largest machines have some 50."""

LINK: Final = re.compile(r"(?:X|PIX|PXB|PHB|NODE|SYS|SOC|NV[0-9]{1,3})\Z", re.ASCII)
_GPU: Final = re.compile(r"GPU[0-9]{1,4}\Z", re.ASCII)
_NUMBERED: Final = re.compile(r"(?:GPU|NIC)[0-9]{1,4}\Z", re.ASCII)
_LABEL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z", re.ASCII)
# What a narrow terminal leaves of a header, and of a row: letters of link words and lists.
_HEADER_PIECE: Final = re.compile(r"[A-Za-z0-9_. \t-]+\Z", re.ASCII)
_ROW_PIECE: Final = re.compile(
    r"[ABCDEHINOPSVXY0-9,/ -]*[ABCDEHINOPSVXY0-9,][ABCDEHINOPSVXY0-9,/ -]*\Z", re.ASCII
)

_COLUMNS: Final = re.compile(rf"{CPU}|{NUMA}|{MEMORY}".replace(" ", r"\s+"))
_LEGEND: Final = re.compile(r"\s*(NIC[0-9]{1,4})\s*:\s*(\S{1,64})\s*\Z", re.ASCII)

# Colours and the underline of the header.  Terminals, pagers and log viewers show the escape
# character as such, as ^[ or as its picture, or lose it.
_ANSI: Final = re.compile(
    "(?:\x1b|\\^\\[|␛)?\\[[0-9;]{0,12}m|\x1b\\[[0-?]{0,16}[@-~]|\x1b[()][0-9A-B]"
)
_ODD: Final = str.maketrans(
    dict.fromkeys("\u00a0\u2007\u2009\u202f", " ")
    | dict.fromkeys("\u2010\u2011\u2012\u2013", "-")
    | dict.fromkeys("\u200b\ufeff\x00", "")
)

_MAX_WRAPS: Final = 12
_MAX_SEAMS: Final = 6
_MAX_STRANGERS: Final = 8


@dataclass(frozen=True, slots=True)
class Header:
    """The columns: devices, and which of the affinity columns follow them."""

    labels: tuple[str, ...]
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row; ``texts`` are the ways in which a wrapped one may be put together again."""

    label: str
    line: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The table.

    Attributes:
        line: 1-based line of the header.
        strangers: rows of devices that the header does not have: label and line.
        names: kernel name by label, from the NIC legend.
    """

    header: Header
    line: int
    rows: tuple[Row, ...]
    strangers: tuple[tuple[str, int], ...]
    names: dict[str, str]


def is_gpu(label: str) -> bool:
    """Return whether a label is a GPU's."""
    return _GPU.match(label) is not None


def has_table(text: str) -> bool:
    """Return whether a text has such a table; cheap."""
    if "GPU" not in text or "X" not in text:
        return False
    return any(True for _ in _starts(_plain(text)))


def find_table(text: str) -> Table:
    """Return the only table of a text.

    Raises:
        ReadError: there is none, there are several, or its header cannot be read.
    """
    lines = _plain(text)
    found = list(_starts(lines))
    if not found:
        raise ReadError("no table of nvidia-smi topo -m")
    # The matrices of `topo -p2p` have the same form but no affinity columns.
    full = [spot for spot in found if "Affinity" in " ".join(lines[spot[0] : spot[1]])] or found
    if len(full) > 1:
        raise ReadError(
            f"a second table of nvidia-smi topo -m (the first is in line {full[0][0] + 1})",
            line=full[1][0] + 1,
            help="import each machine's table as a file of its own",
        )
    start, first = full[0]
    header = _header([x for x in lines[start:first] if x.strip()], start + 1)
    rows, strangers, end = _rows(lines, first, header)
    names = {m.group(1): m.group(2) for m in map(_LEGEND.match, lines[end:]) if m}
    return Table(header, start + 1, rows, strangers, names)


def _plain(text: str) -> list[str]:
    return [line.rstrip("\r") for line in _ANSI.sub("", text).translate(_ODD).split("\n")]


def _starts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield for every table the indexes of its header and of its first row."""
    start, label = -1, ""
    for index, line in enumerate(lines):
        if start >= 0 and _row_label(line) is not None:
            if index - start <= _MAX_WRAPS:
                yield start, index
            start = -1
            continue
        first = line.split(maxsplit=1)[:1]
        if not first:
            continue
        if _GPU.match(first[0]) and _may_be_header(line):
            if start < 0 or first[0] == label or index - start > _MAX_WRAPS:
                start, label = index, first[0]
        elif not _HEADER_PIECE.match(line):
            start = -1


def _may_be_header(line: str) -> bool:
    words = line.split()
    return (
        0 < len(words) <= MAX_LABELS + 7
        and all(_LABEL.match(word) for word in words)
        and not any(LINK.match(word) for word in words)
    )


def _row_label(line: str, known: Set[str] = frozenset()) -> str | None:
    """Return the first word of a row: a label and then how it is connected.

    Of a known label any cell may be the first whose word is known.
    """
    words = line.split(maxsplit=2)
    if len(words) < 2 or not _LABEL.match(words[0]):
        return None
    cells = words[1:2] if words[0] not in known else line.split()[1:]
    return words[0] if any(map(LINK.match, cells)) else None


# --- header ------------------------------------------------------------------------------------


def _header(lines: Sequence[str], number: int) -> Header:
    readings = [_columns(text) for text in joined(lines)]
    usable = sorted({(r.labels, r.tail) for r in readings if isinstance(r, Header)})
    if len(usable) == 1:
        return Header(*usable[0])
    reasons = [r for r in readings if isinstance(r, str)]
    raise ReadError(
        reasons[0] if reasons else "a header that is broken across lines in the middle of a name",
        line=number,
        help="write the table to a file: nvidia-smi topo -m > topo.txt",
    )


def _columns(text: str) -> Header | str:
    """Return the columns, or what is wrong."""
    first = _COLUMNS.search(text)
    labels = text[: first.start() if first else len(text)].split()
    rest = text[first.start() :] if first else ""
    tail = [" ".join(column.split()) for column in _COLUMNS.findall(rest)]
    if left := _COLUMNS.sub(" ", rest).split():
        return f"unknown column '{' '.join(left)[:60]}'"
    if tail != [column for column in (CPU, NUMA, MEMORY) if column in tail]:
        return "affinity columns in an unknown order"
    if any(not _NUMBERED.match(x) and not re.search(r"\A[a-z].*[0-9]", x) for x in labels):
        return "a column that is neither a GPU nor a NIC"
    if len(set(labels)) < len(labels):
        return "a device has two columns"
    if len(labels) > MAX_LABELS:
        return f"more than {MAX_LABELS} devices"
    for kind in ("GPU", "NIC"):
        numbers = [int(x[3:]) for x in labels if _NUMBERED.match(x) and x.startswith(kind)]
        if numbers != sorted(numbers):
            return f"columns of {kind}s are not in ascending order"
    return Header(tuple(labels), tuple(tail))


# --- rows --------------------------------------------------------------------------------------


def _rows(
    lines: Sequence[str], start: int, header: Header
) -> tuple[tuple[Row, ...], tuple[tuple[str, int], ...], int]:
    """Return the rows, rows of unknown devices, and the index after the table."""
    known = set(header.labels)
    rows: dict[str, Row] = {}
    strangers: list[tuple[str, int]] = []
    index = start
    while index < len(lines):
        label = _row_label(lines[index], known)
        if label is None:
            if lines[index].strip():
                break
            index += 1
            continue
        parts, line = [lines[index]], index + 1
        index += 1
        while (more := _next(lines, index)) < len(lines) and _continues(lines[more], known):
            # A blank line in between may be a piece too: the gap between two columns.
            parts += [*([" "] if more > index else []), lines[more]]
            index = more + 1
        if label in rows:
            raise ReadError(
                f"a second row of {label} (the first is in line {rows[label].line})",
                line=line,
                help="import each machine's table as a file of its own",
            )
        if label in known:
            rows[label] = Row(label, line, tuple(joined(parts)))
        elif _NUMBERED.match(label) and len(strangers) < _MAX_STRANGERS:
            strangers.append((label, line))
    return tuple(rows.values()), tuple(strangers), index


def _next(lines: Sequence[str], index: int) -> int:
    """Return the index of the next line that is not blank."""
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index


def _continues(line: str, known: Set[str]) -> bool:
    """Return whether a line below a row can only be the rest of it."""
    return _ROW_PIECE.match(line) is not None and line.split(maxsplit=1)[0] not in known


def joined(parts: Sequence[str]) -> list[str]:
    """Return the texts that a narrow terminal may have broken into these lines.

    A break beside a blank is one between words; any other may be inside a word or not.  None if
    there are too many such.
    """
    seams = [
        ("", " ") if before[-1:].strip() and after[:1].strip() else (" ",)
        for before, after in itertools.pairwise(parts)
    ]
    if len(parts) > _MAX_WRAPS or sum(map(len, seams)) - len(seams) > _MAX_SEAMS:
        return []
    return [
        parts[0] + "".join(seam + part for seam, part in zip(chosen, parts[1:], strict=True))
        for chosen in itertools.product(*seams)
    ]
