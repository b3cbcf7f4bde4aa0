"""What a merge has to say: who supplied what, who disagrees, what is not believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from compiler.facts.partial import READERS, Partial
from compiler.facts.shown import clean
from compiler.model.facts import Source

MAX_WARNINGS: Final = 64
"""Warnings kept in the facts; a machine with 1,000 odd CPUs needs no 1,000 lines."""

FAMILIES: Final = (
    "arch",
    "cpus",
    "cores",
    "packages",
    "dies",
    "clusters",
    "kinds",
    "capacities",
    "llcs",
    "numa",
    "devices",
    "links",
    "kernel",
    "kubelet",
    "virtualization",
    "labels",
)
"""Names of what a source can supply, in the order of ``spec.sources[].facts``."""

_MAX_VALUE: Final = 160


@dataclass(frozen=True, slots=True)
class Claim:
    """What one source says of a fact: ``value`` as text."""

    reader: str
    file: str
    value: str

    def __str__(self) -> str:
        return f"{_source(self.reader, self.file)} says {self.value}"


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two sources that cannot both be right; the winner's value is in the facts.

    Attributes:
        fact: such as ``cores`` or ``gpu0 uuid``.
    """

    fact: str
    winner: Claim
    loser: Claim

    @property
    def message(self) -> str:
        """One sentence that names the fact, the winner and the loser."""
        return f"{self.fact}: {self.winner}, {self.loser}; the first counts"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that was odd in a source, or not believed by the merge.

    Attributes:
        file: the source it is about; None where it is about the node as a whole.
        line: 1-based line in that file.
        text: how ``spec.warnings`` words it: with the base name of the file in front, so that
            it does not depend on the directory in which the sources lay.
    """

    message: str
    file: str | None = None
    line: int | None = None
    text: str = ""


@dataclass(slots=True)
class Log:
    """Collects what a merge has to say."""

    disagreements: dict[Disagreement, None] = field(default_factory=dict)
    remarks: dict[Remark, None] = field(default_factory=dict)
    _supplied: dict[str, set[str]] = field(default_factory=dict)
    _first: list[str] = field(default_factory=list)

    def supplied(self, partial: Partial, family: str) -> None:
        """Record that a source's value of a family (:data:`FAMILIES`) is in the facts.

        Of several that say the same the first supplied it; but what a NodeFacts document says
        that a reader supplied stays true.
        """
        self._supplied.setdefault(partial.reader, set()).add(family)

    def disagree(
        self, fact: str, winner: Partial, value: object, loser: Partial, other: object
    ) -> None:
        """Record that two sources differ; values are shown escaped and short."""
        self.disagreements[
            Disagreement(
                fact,
                Claim(winner.reader, winner.file, clean(str(value), _MAX_VALUE) or "none"),
                Claim(loser.reader, loser.file, clean(str(other), _MAX_VALUE) or "none"),
            )
        ] = None

    def two_machines(self, one: Partial, other: Partial, message: str) -> None:
        """Record that two sources look like two machines; it is the first of the warnings."""
        names = " and ".join(base_name(partial.file) for partial in (one, other))
        self._first = [f"{names}: {message}"]

    def remark(self, message: str) -> None:
        """Record something about the node as a whole."""
        self.remarks[Remark(message, text=message)] = None

    def about(self, partial: Partial, message: str, line: int | None = None) -> None:
        """Record something about one source."""
        where = base_name(partial.file) + ("" if line is None else f":{line}")
        self.remarks[Remark(message, partial.file, line, f"{where}: {message}")] = None

    def notes(self, partial: Partial) -> None:
        """Record the notes of a source.

        Those of sysfs name their files themselves, and those of facts that were merged before
        name their sources: neither gets a file's name in front.
        """
        for note in partial.notes:
            if partial.merged or partial.reader == "sysfs":
                self.remarks[Remark(note.message, partial.file, note.line, note.message)] = None
            else:
                self.about(partial, note.message, note.line)

    def warnings(self) -> tuple[str, ...]:
        """Return all of it as ``spec.warnings`` holds it: each once, at most MAX_WARNINGS."""
        texts = dict.fromkeys(
            self._first
            + [remark.text for remark in self.remarks]
            + [_short(disagreement) for disagreement in self.disagreements]
        )
        kept = list(texts)[:MAX_WARNINGS]
        if left := len(texts) - len(kept):
            kept.append(f"{left} more warnings are left out")
        return tuple(kept)

    def sources(self) -> tuple[Source, ...]:
        """Return who supplied what, most trusted first."""
        return tuple(
            Source(reader=reader, facts=tuple(f for f in FAMILIES if f in self._supplied[reader]))
            for reader in READERS
            if reader in self._supplied
        )


def base_name(file: str) -> str:
    """Return the name of a source without the directories in front of it.

    >>> base_name("nodes/a.tgz!root/machineinfo.json")
    'a.tgz!machineinfo.json'
    """
    head, mark, member = file.partition("!")
    return PurePosixPath(head).name + mark + PurePosixPath(member).name


def _short(found: Disagreement) -> str:
    winner, loser = (
        Claim(c.reader, base_name(c.file), c.value) for c in (found.winner, found.loser)
    )
    return Disagreement(found.fact, winner, loser).message


def _source(reader: str, file: str) -> str:
    return reader if file in (reader, "") else f"{reader} ({file})"
