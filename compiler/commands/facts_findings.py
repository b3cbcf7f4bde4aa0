"""What ``tierc facts import`` has to say of its sources: short, however much there is."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.codes import sources as codes
from compiler.commands.session import use_color
from compiler.diagnostics import Code, Diagnostic, Related, Sink, Span
from compiler.facts.decode import decode
from compiler.facts.importing import NodeError, Source
from compiler.facts.merge import Merged
from compiler.facts.partial import ReadError
from compiler.report.text import render_text, summary
from compiler.words import counted

MAX_TOLD: Final = 20
"""Warnings printed of one node; the facts keep more of them."""
STDIN: Final = "-"

_SHOWN_NODES: Final = 5
_OBJECTS: Final = frozenset({"dra", "labels", "node", "nrt"})
"""Readers of Kubernetes objects.  A list of them names nodes that nobody collected from, such as
virtual ones and those that run Windows."""


def add_error(sink: Sink, code: Code, span: Span, error: ReadError) -> None:
    """Report a source that cannot be used."""
    sink.add(code.at(span, error.message, help=error.help))


def span_of(path: str, line: int | None) -> Span:
    """Return the place of a line; of the first one where the file as a whole is meant."""
    return Span(path, line or 1, 1, line or 1, 1)


@dataclass(slots=True)
class NodeFindings:
    """Collects what is to be said of each node; said of several nodes it is said once."""

    _findings: dict[tuple[str, str], Diagnostic] = field(default_factory=dict)
    _nodes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _first: set[str] = field(default_factory=set)
    _last: set[str] = field(default_factory=set)

    def merged(self, merged: Merged, sources: Sequence[Source]) -> None:
        """Add disagreements and remarks of one node, at the sources they are about."""
        argument = {one.file: s.name for s in reversed(sources) for one in s.partials}

        def place(file: str | None, line: int | None = None) -> Span:
            return _place(argument.get(file or "", sources[0].name), file or "", line)

        node = merged.facts.metadata.name
        if (two := merged.two) is not None:
            first = codes.SOURCES_DISAGREE.at(
                place(two.other.file),
                two.message,
                related=[Related(place(two.one.file), "the one")],
                help="leave out the files of the other machine, or import those of each machine "
                "under its own name",
            )
            self._add(first, node)
            self._first.add(first.message)
        for found in merged.disagreements:
            self._add(
                codes.SOURCES_DISAGREE.at(
                    place(found.loser.file),
                    found.message,
                    related=[Related(place(found.winner.file), "this source counts")],
                ),
                node,
            )
        for remark in merged.remarks:
            finding = codes.SOURCE_NOTE.at(place(remark.file, remark.line), remark.message)
            self._add(finding, node)

    def warn(self, node: str, span: Span, message: str) -> None:
        """Add a remark about what is written."""
        self._add(codes.SOURCE_NOTE.at(span, message), node)

    def _add(self, finding: Diagnostic, node: str) -> None:
        key = finding.code, finding.message
        self._findings.setdefault(key, finding)
        self._nodes.setdefault(key, []).append(node)

    def tell(self, sink: Sink) -> None:
        """Report it all, of each node at most :data:`MAX_TOLD`; the others are counted."""
        several = len({node for nodes in self._nodes.values() for node in nodes}) > 1
        told: Counter[str] = Counter()
        left: list[Diagnostic] = []
        for key, finding in self._findings.items():
            nodes = sorted(set(self._nodes[key]))
            if all(told[node] >= MAX_TOLD for node in nodes):
                left.append(finding)
                continue
            told.update(nodes)
            sink.add(replace(finding, nodes=tuple(nodes) if several else ()))
        if left:
            message = (
                f"{counted(len(left), 'more warning')}; the facts keep up to 64 of each node in "
                "`warnings`"
            )
            self._last.add(message)
            sink.add(codes.SOURCE_NOTE.at(Span.of_file(left[0].span.path), message))

    def ordered(self, findings: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return findings as they are, but what puts all others in doubt first, counts last."""
        return sorted(findings, key=lambda one: self._rank(one.message))

    def _rank(self, message: str) -> int:
        return 0 if message in self._first else 2 if message in self._last else 1


def tell_failures(
    sink: Sink, failures: Mapping[str | None, tuple[NodeError, Sequence[Source]]], *, others: bool
) -> None:
    """Report the nodes that have no facts.

    A node that only Kubernetes objects tell of is left out with a warning where ``others`` have
    facts: a list of all nodes is given for its labels.  Everything else is an error.
    """
    reasons: dict[tuple[bool, str], list[str | None]] = {}
    for node, (error, sources) in failures.items():
        readers = {one.reader for source in sources for one in source.partials}
        left_out = others and node is not None and readers <= _OBJECTS
        reasons.setdefault((left_out, "" if left_out else error.reason), []).append(node)
    for (left_out, _), nodes in reasons.items():
        error, sources = failures[nodes[0]]
        span = Span.of_file(error.sources[0])
        named = tuple(node for node in nodes if node is not None)
        if left_out:
            found = codes.SOURCE_NOTE.at(
                span,
                f"no facts of {_some(named)}: nothing but Kubernetes objects tells of "
                f"{'it' if len(named) == 1 else 'them'}",
                help="collect there as well, or go on without",
            )
            sink.add(found)
            continue
        message = error.message if len(nodes) == 1 else f"nodes {_some(named)}: {error.reason}"
        sink.add(codes.NO_CPU_SOURCE.at(span, message, help=error.help))
        if len(nodes) == 1:
            _tell_notes(sink, sources)  # they may say why


def _some(nodes: Sequence[str]) -> str:
    named = ", ".join(nodes[:_SHOWN_NODES])
    rest = len(nodes) - _SHOWN_NODES
    return named if rest <= 0 else f"{named} and {rest} more"


def _tell_notes(sink: Sink, sources: Sequence[Source]) -> None:
    notes = [
        (source.name, partial.file, note)
        for source in sources
        for partial in source.partials
        for note in partial.notes
    ]
    for name, file, note in notes[:MAX_TOLD]:
        sink.add(codes.SOURCE_NOTE.at(_place(name, file, note.line), note.message))


def _place(source: str, file: str, line: int | None) -> Span:
    """Return the place of something in a source, whose parts are ``source!part``."""
    if file == source or file.startswith(f"{source}!"):
        return span_of(file, line)
    return span_of(source, None)


def print_findings(sink: Sink, said: NodeFindings, color: str) -> None:
    """Print what was found, with the lines it is about."""
    findings = said.ordered(sink.sorted())
    if not findings:
        return
    cache: dict[str, Sequence[str] | None] = {}

    def lines_of(path: str) -> Sequence[str] | None:
        if path not in cache:
            cache[path] = _lines(path)
        return cache[path]

    print(render_text(findings, lines_of, color=use_color(color, sys.stderr)), file=sys.stderr)
    print(summary(findings, 0), file=sys.stderr)


def _lines(path: str) -> Sequence[str] | None:
    """Return the lines of a text that was read; None of anything else."""
    if path == STDIN or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return decode(file.read(8 << 20)).splitlines()
    except (OSError, ReadError):
        return None
