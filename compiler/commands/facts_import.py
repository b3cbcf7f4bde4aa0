"""``tierc facts import``: facts from the files people have."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.codes import sources as codes
from compiler.commands.facts_findings import (
    STDIN,
    NodeFindings,
    add_error,
    print_findings,
    span_of,
    tell_failures,
)
from compiler.commands.facts_output import (
    checked_yaml,
    completed,
    moved_overrides,
    parse_labels,
    replaced,
    require_parent,
    write_all,
)
from compiler.commands.session import FINDINGS, OK, UsageError, fail
from compiler.diagnostics import Sink, Span
from compiler.facts.importing import NodeError, Source, UnclearNodesError, by_node, merge_node
from compiler.facts.merge import Merged
from compiler.facts.partial import ReadError, UnknownFormatError
from compiler.facts.sniff import read_path
from compiler.model.facts import Overrides
from compiler.model.texts import is_node_name
from compiler.words import counted

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class _Job:
    """What one call is to do, as the user gave it."""

    paths: tuple[Path, ...]
    out: Path | None
    is_directory: bool
    name: str | None
    labels: Mapping[str, str]
    force: bool


def run_import(
    files: Sequence[Path],
    out: str | None,
    name: str | None,
    labels: Sequence[str],
    color: str,
    *,
    force: bool,
) -> int:
    """Read files, merge what they say of each node, write the facts; return the exit code.

    Args:
        files: what to read; ``-`` is the standard input.
        out: a file, or a directory if it is one or ends in a slash; None or ``-``: standard output.
        name: the node's name.
        labels: ``KEY=VALUE`` for every node.
        color: ``auto``, ``always`` or ``never``.
        force: whether existing files are replaced.
    """
    sink, said = Sink(), NodeFindings()
    try:
        if out == "":
            raise UsageError("--out is empty; name a file or a directory")
        if out == STDIN:
            out = None
        if name is not None and not is_node_name(name):
            raise UsageError(
                f"--name {name!r} is not a node name: lower-case letters, digits, '-' and '.', at "
                "most 253"
            )
        is_directory = out is not None and (out.endswith("/") or os.path.isdir(out))
        job = _Job(
            paths=tuple(dict.fromkeys(files)),
            out=None if out is None else Path(out),
            is_directory=is_directory,
            name=name,
            labels=parse_labels(labels),
            force=force,
        )
        merged = _merged(job, sink, said)
        if sink.has_errors:
            said.tell(sink)
            print_findings(sink, said, color)
            print("nothing written", file=sys.stderr)
            return FINDINGS
        targets = _targets(job, merged)
        texts = [
            (path, _text(job, path, one, said)) for path, one in zip(targets, merged, strict=True)
        ]
    except UsageError as error:
        return fail(str(error))
    if job.out is not None:
        try:
            write_all({path: text for path, text in texts if path is not None})
        except OSError as error:
            place = f" {error.filename}" if error.filename else f" {job.out}"
            return fail(f"nothing written: cannot write{place}: {(error.strerror or '').lower()}")
    said.tell(sink)
    print_findings(sink, said, color)
    if job.out is None:
        sys.stdout.write("---\n".join(text for _, text in texts))
    for path, one in zip(targets, merged, strict=True):
        if path is not None:
            print(f"{path}: facts of {one.facts.metadata.name}", file=sys.stderr)
    return OK


def _merged(job: _Job, sink: Sink, said: NodeFindings) -> list[Merged]:
    """Return the facts of each node, and tell what has to be said about them."""
    sources = [source for path in job.paths if (source := _source(path, sink)) is not None]
    if sink.has_errors:
        return []
    result: list[Merged] = []
    try:
        groups = by_node(sources, name=job.name)
    except UnclearNodesError as error:
        add_error(sink, codes.NODES_UNCLEAR, Span.of_file(error.source), error)
        return []
    failures: dict[str | None, tuple[NodeError, Sequence[Source]]] = {}
    for node, group in groups.items():
        try:
            one = merge_node(node, group, fallback=_fallback(job))
        except NodeError as error:
            failures[node] = error, group
            continue
        result.append(one)
        said.merged(one, group)
    tell_failures(sink, failures, others=bool(result) and job.name is None)
    return result


def _source(path: Path, sink: Sink) -> Source | None:
    name = STDIN if str(path) == STDIN else path.as_posix()
    try:
        readings = read_path(path, name)
    except ReadError as error:
        code = (
            codes.UNKNOWN_FORMAT
            if isinstance(error, UnknownFormatError)
            else codes.UNREADABLE_SOURCE
        )
        add_error(sink, code, span_of(name, error.line), error)
        return None
    return Source(name, tuple(one for reading in readings for one in reading.partials))


def _fallback(job: _Job) -> str | None:
    """Return the name that the output file gives."""
    if job.out is None or job.is_directory:
        return None
    stem = job.out.stem
    return stem if is_node_name(stem) else None


def _targets(job: _Job, merged: Sequence[Merged]) -> list[Path | None]:
    """Return the file of each node; None: standard output.

    Raises:
        UsageError: several nodes would go into one file, or its directory is not there.
    """
    if job.out is None:
        return [None for _ in merged]
    if not job.is_directory and len(merged) == 1:
        require_parent(job.out)
        return [job.out]
    if not job.is_directory and (job.out.suffix in _SUFFIXES or os.path.exists(job.out)):
        raise UsageError(
            f"{job.out} is one file, and the sources are of {counted(len(merged), 'node')}; give "
            "a directory, as in -o nodes/"
        )
    return [job.out / f"{one.facts.metadata.name}.yaml" for one in merged]


def _text(job: _Job, path: Path | None, merged: Merged, said: NodeFindings) -> str:
    """Return the document of one node, and tell what changes the meaning of what is kept.

    Raises:
        UsageError: the file may not be replaced, or the document would not be read.
    """
    name = merged.facts.metadata.name
    old = None if path is None else replaced(path, force=job.force)
    if old is not None and job.name is None and old.metadata.name != name:
        raise UsageError(
            f"{path} holds the facts of {old.metadata.name}, and the sources are of {name}; give "
            f"--name {old.metadata.name} if they are the same"
        )
    for warning in moved_overrides(old, merged.facts):
        said.warn(name, Span.of_file(str(path)), warning)
    theirs = merged.facts.spec.overrides
    kept = Overrides() if old is None else old.spec.overrides
    if Overrides() not in (theirs, kept) and theirs != kept:
        said.warn(
            name,
            Span.of_file(str(path)),
            "overrides: those of this file are kept, and those of the sources are left out",
        )
    try:
        return checked_yaml(completed(merged.facts, old, job.labels))
    except UsageError as error:
        raise UsageError(f"node {name}: {error}") from error
