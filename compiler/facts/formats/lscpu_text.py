"""``lscpu`` as people paste it: the summary as text."""

from __future__ import annotations

import re
from typing import Final

from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.lscpu_summary import (
    Entry,
    is_foreign_node,
    is_list,
    partial_of_summary,
)
from compiler.facts.partial import Partial

_COLON: Final = re.compile("[:\uff1a]")  # Chinese has a wide one
_MAX_KEY: Final = 90
_STRUCTURE: Final = re.compile(
    r"^[ \t]*(?:O(?:n|ff)-line CPU\(s\) (?:list|mask)|Thread\(s\) per core"
    r"|Core\(s\) per (?:socket|cluster)|NUMA node[0-9]{1,6} CPU\(s\)):",
    re.ASCII | re.MULTILINE,
)
_FIRST_LINES: Final = 200
_MORE: Final = re.compile(r"\s*([0-9][0-9,-]*|[,-][0-9][0-9,-]*)\s*\Z", re.ASCII)
_BY_OTHERS: Final = ("CPU sysfs topology (clusters",)
_DOCUMENT: Final = ("{", "[", "<", "---")
# Lines that are the same in every language, at least two of which make a summary of lscpu.
_NEUTRAL: Final = (
    re.compile(r"(?:x86_64|i[3-6]86|aarch64|armv[5-8]l|ppc64(?:le)?|s390x|riscv64|sw_64)\Z"),
    re.compile(r"(?:Little|Big) Endian\Z"),
    re.compile(r"(?:32-bit, )?64-bit\Z"),
)


def entries_of(text: str, first: int = 1) -> list[Entry]:
    """Return the ``key: value`` lines; ``first`` is the number of the first line.

    A CPU list that a narrow terminal broke is put together again.
    """
    found: list[Entry] = []
    rest: list[str] = []  # of the last entry's value

    def put_together() -> None:
        if rest:
            last = found.pop()
            found.append(Entry(last.key, last.value + "".join(rest), last.line))
            rest.clear()

    in_list = False
    for line, raw in enumerate(text.split("\n"), start=first):
        if in_list and (more := _MORE.match(raw)):
            rest.append(more[1])
            continue
        put_together()
        colon = _COLON.search(raw, 0, _MAX_KEY)
        key = " ".join(raw[: colon.start()].split()) if colon else ""
        in_list = False
        if colon and key[:1].isalpha():
            found.append(Entry(key, raw[colon.end() :].strip(), line))
            in_list = is_list(key)
    put_together()
    return found


def _sniff(text: str) -> bool:
    if text.lstrip().startswith(_DOCUMENT) or any(mark in text for mark in _BY_OTHERS):
        return False
    if _STRUCTURE.search(text):
        return True
    return _is_foreign(entries_of("\n".join(text.split("\n", _FIRST_LINES)[:_FIRST_LINES])))


def _is_foreign(entries: list[Entry]) -> bool:
    """Return whether this is a summary in another language: it is claimed, to be refused."""
    kinds: set[object] = set()
    nodes = set()
    for entry in entries:
        kinds |= {pattern for pattern in _NEUTRAL if pattern.match(entry.value)}
        if entry.key == "BogoMIPS":
            kinds.add("BogoMIPS")
        if is_foreign_node(entry.key, entry.value):
            kinds.add("NUMA")
            nodes.add(entry.key)
    return len(kinds) > 1 or len(nodes) > 1


def _read(text: Text) -> tuple[Partial, ...]:
    return (partial_of_summary(entries_of(text.text), text.name),)


FORMAT: Final = Format("lscpu-text", "lscpu", _sniff, _read)
