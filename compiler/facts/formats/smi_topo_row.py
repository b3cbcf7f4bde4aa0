"""Split a row of ``nvidia-smi topo -m`` into cells, whatever became of its tabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.facts.formats.smi_topo_text import LINK, Header, Row, is_gpu

_LIST: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*\Z|N/A\Z|-1\Z", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9/]{0,15}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cells:
    """A row.

    Attributes:
        links: one word for each device of the header; None: it cannot be told which is whose.
        tail: text by affinity column; None: the same.  NICs have none.
    """

    links: tuple[str, ...] | None
    tail: dict[str, str] | None


_NOTHING: Final = Cells(None, None)


def split_row(row: Row, header: Header) -> Cells:
    """Return the cells of a row; parts that are not certain are None."""
    readings = [_split(text, row.label, header) for text in row.texts]
    if len(readings) == 1:
        return readings[0]
    # Put together from pieces: only what comes out in one way, without an unknown word.
    at = header.labels.index(row.label)
    certain = [
        one
        for one in readings
        if one.links is not None
        and one.tail is not None
        and one.links[at] == "X"
        and all(map(LINK.match, one.links))
    ]
    return certain[0] if certain and all(one == certain[0] for one in certain) else _NOTHING


def _split(text: str, label: str, header: Header) -> Cells:
    tail = header.tail if is_gpu(label) else ()
    if "\t" in text.strip():
        cells = [cell.strip() for cell in text.lstrip().split("\t")][1:]
        found = _tabbed(cells, len(header.labels), tail)
        if found is not None:
            return found
    return _words(text.split()[1:], len(header.labels), tail)


# --- with tabs ---------------------------------------------------------------------------------


def _tabbed(cells: Sequence[str], count: int, tail: tuple[str, ...]) -> Cells | None:
    links, rest = tuple(cells[:count]), list(cells[count:])
    if len(links) < count or not all(_WORD.match(link) for link in links):
        return None
    if not tail:
        return Cells(links, {}) if not any(rest) else None
    values = _aligned(rest, len(tail))
    if values is None or not all(not value or _LIST.match(value) for value in values):
        return Cells(links, None)
    return Cells(links, dict(zip(tail, values, strict=True)))


def _aligned(rest: list[str], count: int) -> list[str] | None:
    """Return the affinity cells.

    The printer puts a second tab after a short CPU list and before the GPU NUMA ID, while an
    affinity that is empty is two tabs as well: what tells them apart is how many there are.
    """
    if len(rest) <= count:  # an editor took the tabs at the end
        return rest + [""] * (count - len(rest))
    every_other = rest[0::2]
    if len(every_other) == count and not any(rest[1::2]):
        return every_other
    if count == 3 and len(rest) == 4 and not rest[2]:
        return [rest[0], rest[1], rest[3]]
    if not any(rest[count:]):
        return rest[:count]
    return None


# --- with spaces -------------------------------------------------------------------------------


def _words(cells: Sequence[str], count: int, tail: tuple[str, ...]) -> Cells:
    """Return cells from words, of which an empty cell is none.

    Counting must come out exactly.  Else the words that can only be links are counted from the
    left and those that can only be affinities from the right, and what does not come out then
    either is not used: one word too few may be missing anywhere.
    """
    if len(cells) == count + len(tail):
        links, values = tuple(cells[:count]), list(cells[count:])
        if all(map(_WORD.match, links)) and all(map(_LIST.match, values)):
            return Cells(links, dict(zip(tail, values, strict=True)))
    at = len(cells)
    while at and _LIST.match(cells[at - 1]):
        at -= 1
    found, values = tuple(cells[:at]), list(cells[at:])
    exact = len(found) == count and all(map(LINK.match, found))
    told: dict[str, str] | None = None
    if len(values) == len(tail):
        told = dict(zip(tail, values, strict=True))
    elif exact and not values:
        told = {}
    return Cells(found if exact else None, told)
