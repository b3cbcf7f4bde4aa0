"""``tierc facts collect`` and ``tierc facts validate``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.commands.facts_output import (
    checked_yaml,
    completed,
    is_there,
    moved_overrides,
    parse_labels,
    replaced,
    require_parent,
    write_all,
)
from compiler.commands.messages import Messages
from compiler.commands.session import FINDINGS, OK, UsageError, fail, use_color
from compiler.decode import Loaded, decode
from compiler.diagnostics import Severity, Sink
from compiler.facts.collect import FactsError, from_sources, gather
from compiler.facts.files.bundle import write_bundle
from compiler.facts.validate import validate
from compiler.facts.validate_strict import validate_strict
from compiler.model.facts import NodeFacts
from compiler.reading.files import SUFFIXES, read_bytes
from compiler.report.text import render_text, summary
from compiler.source import SourceFile, parse_source
from compiler.words import counted


def run_collect(
    out: Path | None,
    name: str | None,
    labels: Sequence[str],
    sysroot: Path,
    *,
    force: bool,
    bundle: Path | None = None,
    tools: bool = True,
) -> int:
    """Collect facts and write them; return the exit code.

    Args:
        out: the file to write; None: standard output.
        name: the node's name; None: the host name.
        labels: ``KEY=VALUE``.
        sysroot: root of the machine's files.
        force: whether existing files are replaced.
        bundle: where what was read is kept, also if it makes no facts; None: nowhere.
        tools: whether the vendors' tools are asked, on the running machine.
    """
    try:
        pairs = parse_labels(labels)
        if out is not None and str(out) == "-":
            out = None
        if not os.path.isdir(sysroot):
            raise UsageError(f"{sysroot} is not a directory")
        old = None if out is None else replaced(out, force=force)
        if bundle is not None and is_there(bundle) and not force:
            raise UsageError(f"{bundle} exists; give --force to replace it")
        if out is not None:
            require_parent(out)
        live = sysroot.resolve() == Path("/")
        found = gather(sysroot, name=name, live=live, tools=tools, bundle=bundle is not None)
        if bundle is not None and found.bundle is not None:
            _keep(bundle, found.bundle)
        facts = from_sources(found.partials, name=name).facts
        if old is not None and name is None and old.metadata.name != facts.metadata.name:
            raise UsageError(
                f"{out} holds the facts of {old.metadata.name}, and this machine is "
                f"{facts.metadata.name}; give --name {old.metadata.name} if they are the same"
            )
        text = checked_yaml(completed(facts, old, pairs))
    except FactsError as error:
        where = "" if sysroot.resolve() == Path("/") else f"below {sysroot}: "
        return fail(f"{where}{error}")
    except UsageError as error:
        return fail(str(error))
    said = Messages()
    with said.telling():
        for warning in (*facts.spec.warnings, *moved_overrides(old, facts)):
            print(f"tierc: warning: {warning}", file=sys.stderr)
        for note in _place_notes(facts):
            print(f"tierc: note: {note}", file=sys.stderr)
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            write_all({out: text})
        except OSError as error:
            return fail(f"cannot write {out}: {(error.strerror or '').lower()}")
        with said.telling():
            print(f"{out}: facts of {facts.metadata.name}", file=sys.stderr)
    said.check()
    return OK


def _place_notes(facts: NodeFacts) -> Iterator[str]:
    """Say where a machine shows something else than what it is."""
    seen = facts.spec.virtualization
    if seen.vm:
        by = f" ({seen.hypervisor})" if seen.hypervisor else ""
        yield (
            f"{facts.metadata.name} is a virtual machine{by}: its caches, NUMA nodes and siblings "
            "are what the hypervisor shows"
        )
    if seen.container:
        yield (
            "collected inside a container: cgroups, interfaces and the kubelet's files are those "
            "the container sees; collect on the host, or give --sysroot a mount of it"
        )


def _keep(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bundle(path, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from error
    print(f"{path}: what was read, for tierc facts import", file=sys.stderr)


def run_validate(paths: Sequence[Path], color: str, *, strict: bool) -> int:
    """Check files of node facts; return the exit code.

    With ``strict`` also what is not known is reported, and warnings count as errors do.
    """
    check = validate_strict if strict else validate
    sink = Sink()
    files: dict[str, SourceFile] = {}
    foreign: list[str] = []
    checked = 0
    for path in paths:
        if not path.is_file():
            return fail(f"{path} is not a file")
        data = read_bytes(path.parent, path.name, sink)
        if data is None:
            continue
        file = parse_source(path.as_posix(), data, sink)
        files[file.path] = file
        before = checked
        for document in file.documents:
            loaded = decode(document, sink)
            if loaded is not None and isinstance(loaded.model, NodeFacts):
                check(Loaded(loaded.model, loaded.doc), sink)
                checked += 1
        if checked == before and path.suffix not in SUFFIXES:
            foreign.append(path.as_posix())
    findings = sink.sorted()
    if not checked and not findings:
        return fail(
            "no NodeFacts document in the given files; tierc facts import reads other formats"
        )
    lines = {name: file.lines for name, file in files.items()}
    text = render_text(findings, lines.get, color=use_color(color, sys.stdout))
    if text:
        print(text)
    for name in foreign:
        print(
            f"tierc: {name} cannot be used; tierc facts import reads formats other than NodeFacts",
            file=sys.stderr,
        )
    print(f"facts of {counted(checked, 'node')} checked: {summary(findings, 0)}")
    bar = Severity.WARNING if strict else Severity.ERROR
    return FINDINGS if any(found.severity >= bar for found in findings) else OK
