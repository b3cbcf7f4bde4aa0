"""The log of a fleet: what the pods of ``tierc facts daemonset`` print.

A pod prints the files of its node as a tar.gz in base64, cut into lines::

    tierc-facts1 NODE SHA256 NUMBER COUNT DATA

SHA256 is that of the archive, NUMBER counts from 1 to COUNT.  Every line says whose it is, so
lines of many pods may be mixed, and may have anything in front that tools put there: names of
pods, times.  A pod that could not collect prints ``tierc-facts1 NODE error TEXT``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import re
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.facts.bundling import read_bundle
from compiler.facts.files.archive import Limits, read_archive
from compiler.facts.files.bundle import is_bundle
from compiler.facts.files.stream import Stream
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.shown import clean, shown
from compiler.model.texts import is_node_name

WIDTH: Final = 3000
"""Characters of DATA in every line but the last of an archive."""
_MAX_LINES: Final = 10_000
_LIMITS: Final = Limits(members=200_000, kept=64 * 1024 * 1024, total=256 * 1024 * 1024)
_LINE: Final = re.compile(
    r"tierc-facts1 (?P<node>[A-Za-z0-9.-]{1,253}) (?P<sum>[0-9a-f]{64}) "
    r"(?P<number>[1-9][0-9]{0,5}) (?P<count>[1-9][0-9]{0,5}) (?P<data>[A-Za-z0-9+/=]*)"
)
_ERROR: Final = re.compile(r"tierc-facts1 (?P<node>[A-Za-z0-9.?-]{1,253}) error (?P<text>.*)")
_SNIFFED: Final = re.compile(rf"{_LINE.pattern}|tierc-facts1 [A-Za-z0-9.?-]{{1,253}} error ")
_SHOWN: Final = 5
_WHOLE: Final = (
    "print whole logs, pod by pod: `kubectl logs --tail=-1 POD`; with a selector kubectl prints "
    "only the last 10 lines of each"
)


@dataclass(slots=True)
class _Run:
    """The lines of one archive of one node.

    Attributes:
        line, last: where its first and last line are in the log.
        parts: data by number.
    """

    node: str
    sum: str
    count: int
    line: int
    last: int
    parts: dict[int, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.parts) == self.count

    @property
    def missing(self) -> list[int]:
        return [number for number in range(1, self.count + 1) if number not in self.parts]


def _sniff(text: str) -> bool:
    return _SNIFFED.search(text) is not None


def _read(text: Text) -> tuple[Partial, ...]:
    """Return the facts of every node in the log, in order of name.

    Of several collections of one node the last complete one counts.
    """
    runs, errors = _runs(text.text)
    chosen: dict[str, _Run] = {}
    broken: dict[str, _Run] = {}
    for run in sorted(runs, key=lambda one: one.last):
        (chosen if run.is_complete else broken)[run.node] = run
    failed = {node: found for node, found in errors.items() if node not in chosen}
    if failed:
        node, (line, message) = min(failed.items())
        raise ReadError(
            f"node {clean(node, 80)} could not collect: {message}",
            line=line,
            help="repair it, or leave the node out of the log",
        )
    lacking = [run for node, run in sorted(broken.items()) if node not in chosen]
    if lacking:
        raise _incomplete(lacking)
    result: list[Partial] = []
    for node, run in sorted(chosen.items()):
        notes: tuple[Note, ...] = ()
        if node in broken and broken[node].last > run.last:
            notes = (Note(f"a later collection of {node} is incomplete", broken[node].line),)
        result += _node(text.name, run, notes)
    return tuple(result)


def _runs(text: str) -> tuple[list[_Run], dict[str, tuple[int, str]]]:
    runs: dict[tuple[str, str], _Run] = {}
    errors: dict[str, tuple[int, str]] = {}
    for at, line in enumerate(text.split("\n"), 1):
        if "tierc-facts1 " not in line:
            continue
        match = _LINE.search(line)
        if match is None:
            if (error := _ERROR.search(line)) is not None:
                errors[error["node"]] = (at, clean(error["text"]))
            continue
        _add(runs, match, at)
    return list(runs.values()), errors


def _add(runs: dict[tuple[str, str], _Run], match: re.Match[str], at: int) -> None:
    node, total = match["node"], match["sum"]
    number, count, data = int(match["number"]), int(match["count"]), match["data"]
    if not is_node_name(node):
        raise ReadError(f"{shown(node)} is no node name", line=at)
    if count > _MAX_LINES or number > count:
        raise ReadError(f"line {number} of {count} of node {node} cannot be", line=at)
    if number < count and len(data) != WIDTH:
        raise ReadError(
            f"line {number} of {count} of node {node} is cut: it has {len(data)} characters of "
            f"data, not {WIDTH}",
            line=at,
            help="the log was wrapped or shortened on its way; print it with `kubectl logs` "
            "into a file",
        )
    run = runs.setdefault((node, total), _Run(node, total, count, at, at))
    if run.count != count or run.parts.get(number, data) != data:
        raise ReadError(
            f"line {number} of node {node} is there twice, with different contents",
            line=at,
            help=_WHOLE,
        )
    run.parts[number] = data
    run.last = at


def _incomplete(lacking: list[_Run]) -> ReadError:
    said = []
    for run in lacking[:_SHOWN]:
        missing = run.missing
        count = len(missing)
        which = f"line {_ranges(missing)} is" if count == 1 else f"{count} lines are"
        more = "" if count == 1 else f" ({_ranges(missing)})"
        said.append(f"of node {run.node} {which} missing of {run.count}{more}")
    if len(lacking) > _SHOWN:
        said.append(f"{len(lacking) - _SHOWN} more nodes are incomplete")
    return ReadError("; ".join(said), line=lacking[0].line, help=_WHOLE)


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]
    return ",".join(texts[:_SHOWN]) + (",..." if len(texts) > _SHOWN else "")


def _node(name: str, run: _Run, notes: tuple[Note, ...]) -> list[Partial]:
    try:
        packed = base64.b64decode(
            "".join(run.parts[number] for number in range(1, run.count + 1)), validate=True
        )
    except binascii.Error:
        packed = b""
    if hashlib.sha256(packed).hexdigest() != run.sum:
        raise ReadError(
            f"the data of node {run.node} are damaged: their SHA-256 is not the one that was "
            "printed with them",
            line=run.line,
            help=_WHOLE,
        )
    try:
        archive = read_archive(Stream(io.BytesIO(packed), limit=_LIMITS.total), _LIMITS)
        if not is_bundle(archive.files):
            raise ReadError("what was printed is no bundle")
        partials = read_bundle(archive.files)
    except ReadError as error:
        raise ReadError(
            f"node {run.node}: {error.message}", line=run.line, help=error.help
        ) from None
    file = f"{name}!{run.node}"
    named = [replace(one, node=run.node, file=file) for one in partials]
    if named:
        named[0] = replace(named[0], notes=(*notes, *archive.notes, *named[0].notes))
    return named


FORMAT: Final = Format(
    "fleet-log", "the log of `tierc facts daemonset` pods (kubectl logs)", _sniff, _read
)
"""What the collector's pods print, of one node or of many."""
