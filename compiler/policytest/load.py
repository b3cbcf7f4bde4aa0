"""Reading tests and the files they name."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from compiler.codes import policytest as codes
from compiler.decode import KINDS, Loaded, check_unique, decode
from compiler.diagnostics import Diagnostic, Sink
from compiler.model.facts import NodeFacts
from compiler.model.policytest import PolicyTest
from compiler.policy import Policy
from compiler.project import (
    PROJECT_FILE,
    SNAPSHOT_SUFFIX,
    Place,
    is_test_file,
    policy_entries,
)
from compiler.select import selects
from compiler.source import Document, SourceFile, discover, read_source

_ALLOWED: Final = ("PolicyTest", "NodeFacts")


@dataclass(frozen=True)
class Suite:
    """The tests of a policy repository.

    Attributes:
        root: directory of the repository.
        tests: in order of file and line.
        unread: tests that could not be decoded.
        files: files that hold only tests and fixtures, by path.
        facts: per file named under ``facts``, its nodes.
        findings: what is wrong with the documents.
    """

    root: Path
    tests: tuple[Loaded[PolicyTest], ...] = ()
    unread: tuple[Document, ...] = ()
    files: Mapping[str, SourceFile] = field(default_factory=dict)
    facts: Mapping[str, tuple[Loaded[NodeFacts], ...]] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    @property
    def test_files(self) -> Mapping[str, SourceFile]:
        """The files that hold a test."""
        paths = {*(test.doc.path for test in self.tests), *(doc.path for doc in self.unread)}
        return {path: file for path, file in self.files.items() if path in paths}

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of a file of tests or fixtures, for reports."""
        file = self.files.get(path)
        return file.lines if file is not None else None


def load_tests(place: Place, policy: Policy) -> Suite:
    """Read the tests: those among the documents of the policy, and those in ``sources.tests``."""
    sink = Sink()
    files = _test_files(place, policy, sink)
    documents = [*policy.test_documents, *(d for f in files.values() for d in f.documents)]
    fixtures: dict[str, list[Loaded[NodeFacts]]] = {path: [] for path in files}
    tests: list[Loaded[PolicyTest]] = []
    unread: list[Document] = []
    for document in documents:
        if document.kind in KINDS and document.kind not in _ALLOWED:
            sink.add(
                codes.FOREIGN_DOCUMENT.at(
                    document.span("kind"),
                    f"{document.kind} among the tests: it is not part of the policy",
                    help="move it to a directory of sources.intents, or remove it",
                )
            )
            continue
        one = decode(document, sink)
        if one is None:
            unread += [document] if document.kind == "PolicyTest" else []
            continue
        if isinstance(one.model, PolicyTest):
            tests.append(Loaded(one.model, document))
        elif isinstance(one.model, NodeFacts):
            fixtures[document.path].append(Loaded(one.model, document))
    check_unique(tests, sink)
    tests.sort(key=lambda test: test.key_span("kind"))
    reader = _Fixtures(place.root, policy, files, fixtures)
    for test in tests:
        reader.read_for(test, sink)
        _check_snapshot(test, sink)
    return Suite(
        root=place.root,
        tests=tuple(tests),
        unread=tuple(unread),
        files=reader.files,
        facts={path: tuple(nodes) for path, nodes in reader.nodes.items()},
        findings=sink.sorted(),
    )


def nodes_of(test: Loaded[PolicyTest], nodes: Sequence[Loaded[NodeFacts]]) -> tuple[str, ...]:
    """Return the names of the nodes that a test selects."""
    return tuple(
        node.name
        for node in nodes
        if selects(test.model.spec.nodes, node.name, node.model.metadata.labels)
    )


def facts_paths(test: Loaded[PolicyTest]) -> tuple[str, ...]:
    """Return the files under ``facts``, relative to the repository, each once."""
    return tuple(dict.fromkeys(beside(test.doc, path) for path in test.model.spec.facts))


def beside(document: Document, path: str) -> str:
    """Return a path that is relative to the file of a document, relative to the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document.path), path))


def _test_files(place: Place, policy: Policy, sink: Sink) -> dict[str, SourceFile]:
    sources = policy.project.spec.sources
    entries: Sequence[str] = sources.tests
    if "tests" not in sources.model_fields_set:  # nobody said that there are any
        entries = [entry for entry in entries if (place.root / entry).exists()]
    owned = policy_entries(place.root, policy.project, policy.project_doc is not None)
    files: dict[str, SourceFile] = {}
    for path in discover(place.root, entries, sink):
        if path == PROJECT_FILE or path.endswith(SNAPSHOT_SUFFIX):
            continue
        if (
            is_test_file(path, owned, entries)
            and (file := read_source(place.root, path, sink)) is not None
        ):
            files[path] = file
    return files


class _Fixtures:
    """Nodes in the files that tests name, each file read once."""

    def __init__(
        self,
        root: Path,
        policy: Policy,
        files: Mapping[str, SourceFile],
        nodes: Mapping[str, Sequence[Loaded[NodeFacts]]],
    ) -> None:
        self.root = root
        self.policy = policy
        self.files = dict(files)
        self.nodes: dict[str, Sequence[Loaded[NodeFacts]]] = dict(nodes)
        self.problems: dict[str, str] = {}

    def read_for(self, test: Loaded[PolicyTest], sink: Sink) -> None:
        """Read what a test names; report what cannot be used, at the test's line."""
        nodes: list[Loaded[NodeFacts]] = []
        seen: set[str] = set()
        for i, written in enumerate(test.model.spec.facts):
            path = beside(test.doc, written)
            if path not in self.nodes:
                self._read(path)
            problem = self.problems.get(path, "")
            if not problem and not self.nodes[path]:
                problem = f"{path} holds no NodeFacts that can be read"
            if problem:
                sink.add(
                    codes.FACTS_UNUSABLE.at(
                        test.span("spec", "facts", i),
                        problem,
                        help="paths are relative to the file of the test",
                    )
                )
            elif path not in seen:
                nodes += self.nodes[path]
            seen.add(path)
        check_unique(nodes, sink)

    def _read(self, path: str) -> None:
        self.nodes[path] = ()
        known = self.policy.files.get(path)
        found = Sink()
        file = known if known is not None else read_source(self.root, path, found)
        if file is None:
            self.problems[path] = next(iter(found)).message
            return
        self.files[path] = file
        nodes = [d for d in file.documents if d.kind == "NodeFacts"]
        decoded = [cast("Loaded[NodeFacts] | None", decode(d, found)) for d in nodes]
        self.nodes[path] = [one for one in decoded if one is not None]
        if found.has_errors:
            first = next(d for d in found.sorted())
            self.problems[path] = f"{first.span}: {first.message}"


def _check_snapshot(test: Loaded[PolicyTest], sink: Sink) -> None:
    snapshot = test.model.spec.snapshot
    if snapshot is not None and beside(test.doc, snapshot).startswith("../"):
        sink.add(
            codes.SNAPSHOT_OUTSIDE.at(
                test.span("spec", "snapshot"),
                f"{snapshot} lies outside the policy repository",
                help="paths are relative to the file of the test",
            )
        )
