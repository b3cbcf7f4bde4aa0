"""What the commands that look at node facts share: from a file, or from the policy by name."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from compiler.commands.session import UsageError, require_node, use_color
from compiler.decode import decode
from compiler.diagnostics import Severity, Sink
from compiler.model.facts import NodeFacts
from compiler.policy import Policy
from compiler.project import NothingToCheckError, load, locate
from compiler.reading.document import MAX_FILE_BYTES
from compiler.reading.files import SUFFIXES, read_bytes
from compiler.report.text import render_text
from compiler.source import parse_source

STDIN = "-"


@dataclass(frozen=True)
class Found:
    """Facts, and the policy they were found in where they were asked for by a node's name."""

    facts: NodeFacts
    policy: Policy | None = None
    root: Path = Path()
    """Of the policy."""
    findings: Sink = field(default_factory=Sink)
    """Of reading the policy."""
    file: Path | None = None
    """Where the facts are written; None: standard input."""


def read_facts(word: str, project: Path, color: str) -> NodeFacts:
    """Return the facts that a word on the command line names.

    Args:
        word: a file with one NodeFacts document, ``-`` for the standard input, or else the name
            of a node of the policy.
        project: where the policy is.
        color: of the findings, which are printed where a file is broken.

    Raises:
        UsageError: there are none, or they cannot be used.
    """
    return find_facts(word, project, color).facts


def find_facts(word: str, project: Path, color: str) -> Found:
    """Return the facts that a word names, as :func:`read_facts`, and where they were found.

    Raises:
        UsageError: there are none, or they cannot be used.
    """
    if word == STDIN:
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"the standard input is larger than {MAX_FILE_BYTES // 2**20} MiB")
        return Found(_of_text("stdin", data, Sink(), color))
    path = Path(word)
    if path.exists():
        if path.is_dir():
            raise UsageError(f"{word} is a directory; name a file of facts, or a node")
        sink = Sink()
        found = read_bytes(path.parent, path.name, sink)
        return Found(_of_text(path.as_posix(), found, sink, color), file=path)
    if os.sep in word or path.suffix in SUFFIXES:
        raise UsageError(f"{word} does not exist")
    return _of_policy(word, project)


def _of_text(name: str, data: bytes | None, sink: Sink, color: str) -> NodeFacts:
    models: list[NodeFacts] = []
    lines = None
    if data is not None:
        file = parse_source(name, data, sink)
        lines = file.lines
        decoded = [decode(document, sink) for document in file.documents]
        models = [d.model for d in decoded if d is not None and isinstance(d.model, NodeFacts)]
    errors = [finding for finding in sink.sorted() if finding.severity is Severity.ERROR]
    if errors:
        text = render_text(errors, lambda _: lines, color=use_color(color, sys.stderr))
        print(text, file=sys.stderr)
        other = name != "stdin" and Path(name).suffix not in SUFFIXES
        hint = "; tierc facts import reads formats other than NodeFacts" if other else ""
        raise UsageError(f"{name} cannot be used{hint}")
    if not models:
        raise UsageError(f"{name} holds no NodeFacts; tierc facts import reads other formats")
    if len(models) > 1:
        names = ", ".join(sorted(model.metadata.name for model in models)[:5])
        raise UsageError(f"{name} holds the facts of several nodes ({names}); give one at a time")
    return models[0]


def _of_policy(name: str, project: Path) -> Found:
    sink = Sink()
    try:
        place = locate([project])
        policy = load(place, sink)
    except NothingToCheckError as error:
        raise UsageError(f"there is no file {name}, and {error}") from error
    names = [node.name for node in policy.nodes]
    require_node(name, names, sink.sorted())
    node = next(node for node in policy.nodes if node.name == name)
    return Found(node.model, policy, place.root, sink, place.root / node.span().path)
