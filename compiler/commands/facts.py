"""``tierc facts collect`` and ``tierc facts validate``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from compiler.commands.session import FINDINGS, OK, fail, use_color
from compiler.decode import Loaded, decode
from compiler.diagnostics import Severity, Sink
from compiler.facts.collect import FactsError, collect
from compiler.facts.validate import validate
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from compiler.reading.files import read_bytes
from compiler.report.text import render_text, summary
from compiler.source import SourceFile, parse_source, read_source


def run_collect(
    out: Path | None, name: str | None, labels: Sequence[str], sysroot: Path, *, force: bool
) -> int:
    """Collect facts and write them; return the exit code."""
    pairs: dict[str, str] = {}
    for label in labels:
        key, eq, value = label.partition("=")
        if not eq or not key:
            return fail(f"--label {label!r} is not KEY=VALUE")
        if pairs.setdefault(key, value) != value:
            return fail(f"--label {key} is given twice, as {pairs[key]!r} and {value!r}")
    if not sysroot.is_dir():
        return fail(f"{sysroot} is not a directory")
    if out is not None and out.exists() and not force:
        return fail(f"{out} exists; give --force to replace it (labels and overrides are kept)")
    old = _existing(out) if out is not None and out.exists() else None
    if out is not None and out.exists() and old is None:
        return fail(f"{out} is not a NodeFacts document; move it away first")
    try:
        facts = collect(sysroot, name=name, live=sysroot.resolve() == Path("/"))
    except FactsError as error:
        return fail(str(error))
    if old is not None and name is None and old.metadata.name != facts.metadata.name:
        return fail(
            f"{out} holds the facts of {old.metadata.name}, and this machine is "
            f"{facts.metadata.name}; give --name {old.metadata.name} if they are the same"
        )
    text = facts_yaml(_with(facts, old, pairs))
    problem = _reread(text)
    if problem is not None:
        return fail(problem)
    for warning in facts.spec.warnings:
        print(f"tierc: warning: {warning}", file=sys.stderr)
    if out is None:
        sys.stdout.write(text)
        return OK
    try:
        _replace(out, text)
    except OSError as error:
        return fail(f"cannot write {out}: {error.strerror}")
    print(f"{out}: facts of {facts.metadata.name}", file=sys.stderr)
    return OK


def _with(facts: NodeFacts, old: NodeFacts | None, labels: Mapping[str, str]) -> NodeFacts:
    """Add labels, and what people wrote into the file that is replaced."""
    kept = old.metadata.labels if old is not None else {}
    meta = facts.metadata.model_copy(update={"labels": {**kept, **labels}})
    spec = facts.spec
    if old is not None:
        spec = spec.model_copy(update={"overrides": old.spec.overrides})
    return facts.model_copy(update={"metadata": meta, "spec": spec})


def _existing(path: Path) -> NodeFacts | None:
    sink = Sink()
    file = read_source(path.absolute().parent, path.name, sink)
    found = [decode(d, sink) for d in file.documents] if file is not None else []
    if len(found) == 1 and found[0] is not None and isinstance(found[0].model, NodeFacts):
        return found[0].model
    return None


def _reread(text: str) -> str | None:
    """Return what is wrong with the document as a reader sees it, such as a bad label."""
    sink = Sink()
    for document in parse_source("facts.yaml", text.encode(), sink).documents:
        decode(document, sink)
    first = next((d for d in sink.sorted() if d.severity is Severity.ERROR), None)
    return f"{first.message}; {first.help}" if first is not None else None


def _replace(path: Path, text: str) -> None:
    """Write a file in one step: a reader sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def run_validate(paths: Sequence[Path], color: str) -> int:
    """Check files of node facts; return the exit code."""
    sink = Sink()
    files: dict[str, SourceFile] = {}
    checked = 0
    for path in paths:
        if not path.is_file():
            return fail(f"{path} is not a file")
        data = read_bytes(path.parent, path.name, sink)
        if data is None:
            continue
        file = parse_source(path.as_posix(), data, sink)
        files[file.path] = file
        for document in file.documents:
            loaded = decode(document, sink)
            if loaded is not None and isinstance(loaded.model, NodeFacts):
                validate(Loaded(loaded.model, loaded.doc), sink)
                checked += 1
    findings = sink.sorted()
    if not checked and not findings:
        return fail("no NodeFacts document in the given files")
    lines = {name: file.lines for name, file in files.items()}
    text = render_text(findings, lines.get, color=use_color(color, sys.stdout))
    if text:
        print(text)
    print(f"{checked} node facts checked: {summary(findings, 0)}")
    return FINDINGS if sink.has_errors else OK
