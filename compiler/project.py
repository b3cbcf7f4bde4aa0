"""Finding and reading a policy repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar, cast

from compiler.codes import resolution as codes
from compiler.decode import KINDS, Loaded, check_unique, decode
from compiler.diagnostics import Related, Sink, Span
from compiler.entries import entry_finding
from compiler.facts.validate import validate
from compiler.model.base import Model
from compiler.model.demand import Demand
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.model.ladder import TierLadder
from compiler.model.policytest import PolicyTest
from compiler.model.profile import EngineProfile
from compiler.model.project import Project
from compiler.policy import Ladder, Policy
from compiler.profiles import Profiles, builtin_groups, builtin_ladder
from compiler.source import Document, SourceFile, discover, read_source

PROJECT_FILE: Final = "tierc.yaml"
_OTHER_NAMES: Final = ("tierc.yml", "tierc.json")
SNAPSHOT_SUFFIX: Final = ".plan.json"
"""Ends the names of plans that tests compare with; such files are no documents."""
_PLACES_KEPT: Final = 2
"""Steps down to which places of clean node facts are kept: names, and the parts of ``spec``."""
M = TypeVar("M", bound=Model)


class NothingToCheckError(Exception):
    """The given place holds no document; the message says where was looked."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a command was pointed at.

    Attributes:
        root: directory of the policy repository; paths in reports are relative to it.
        only: files the user named, relative to ``root``: they are read besides what the project
            file says, and findings elsewhere are not reported.  None: everything.
    """

    root: Path
    only: tuple[str, ...] | None = None


def locate(paths: Sequence[Path]) -> Place:
    """Turn command-line paths into a place.

    A directory is a policy repository, or a directory of one: the nearest ``tierc.yaml`` in it or
    above it says where documents are.  Without one, ``intents/`` and ``nodes/`` in the directory
    are read.  Files are judged in the repository they belong to.

    Raises:
        NothingToCheckError: a path does not exist, is no policy repository, or paths are mixed.
    """
    for path in paths:
        if not path.exists():
            raise NothingToCheckError(f"{path} does not exist")
    if len(paths) == 1 and paths[0].is_dir():
        return Place(_repository(paths[0]))
    if any(path.is_dir() for path in paths):
        raise NothingToCheckError("give one directory, or one or more files")
    absolute = [Path(os.path.abspath(path)) for path in paths]
    root = project_root(absolute[0].parent) or absolute[0].parent
    outside = [path for path in absolute if not path.is_relative_to(root)]
    if outside:
        raise NothingToCheckError(f"{outside[0]} is not in the same policy repository, {root}")
    return Place(root, tuple(path.relative_to(root).as_posix() for path in absolute))


def _repository(folder: Path) -> Path:
    if (folder / PROJECT_FILE).is_file():
        return folder
    if any((folder / entry).exists() for entry in _default_sources()):
        return folder
    above = project_root(Path(os.path.abspath(folder)))
    if above is None:
        raise NothingToCheckError(
            f"{folder} is no policy repository: it has neither {PROJECT_FILE} nor "
            f"{' nor '.join(_default_sources())}; tierc init makes one"
        )
    return Path(os.path.relpath(above)) if not folder.is_absolute() else above


def project_root(start: Path) -> Path | None:
    """Return the nearest directory with a project file, from ``start`` up to a Git root."""
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
        if (folder / ".git").exists():
            return None
    return None


def _without_project(root: Path, sink: Sink) -> None:
    """Report that there is no project file, or those that are meant to be and are passed over."""
    others = [name for name in _OTHER_NAMES if (root / name).is_file()]
    for name in others:
        sink.add(
            codes.NO_PROJECT.at(
                Span.of_file(name),
                f"{name} is not read: the project file is called {PROJECT_FILE}",
                help=f"rename it to {PROJECT_FILE}",
            )
        )
    if not others:
        sink.add(
            codes.WITHOUT_PROJECT.at(
                Span.of_file(PROJECT_FILE),
                f"there is no {PROJECT_FILE}: options have their defaults, nodes are only observed",
                help="write one, even if that is what you want; was it removed, bring it back",
            )
        )


def load(place: Place, sink: Sink) -> Policy:
    """Read and decode every document of the place.

    Raises:
        NothingToCheckError: there is no document at all.
    """
    files: dict[str, SourceFile] = {}
    lost: set[str] = set()
    project_file = (
        _read(place.root, PROJECT_FILE, lost, sink)
        if (place.root / PROJECT_FILE).exists()
        else None
    )
    project: Loaded[Project] | None = None
    beside: list[Loaded[Model]] = []
    test_documents: list[Document] = []
    if project_file is not None:
        files[PROJECT_FILE] = project_file
        beside = _decoded(_policy_documents(project_file), lost, sink)
        found = [d for d in beside if _is(d, Project)]
        if found:
            project = cast("Loaded[Project]", found[0])
            beside.remove(found[0])
        test_documents += _test_documents(project_file)
    elif place.only is None:
        _without_project(place.root, sink)
    options = project.model if project is not None else _default_project()
    if project_file is not None and project is None and not sink.has_errors:
        sink.add(
            codes.NO_PROJECT.at(
                Span.of_file(PROJECT_FILE),
                f"{PROJECT_FILE} holds no Project document",
                help="write one there, and move other documents below intents/ and nodes/",
            )
        )
    wanted = policy_entries(place.root, options, project_file is not None)
    tests = options.spec.sources.tests
    walk = Sink()
    found_paths = discover(place.root, wanted, walk)
    if walk.has_errors:
        lost.add("")
    sink.extend(walk.map(lambda d: entry_finding(d, place.root, project)))
    paths = (
        *(
            path
            for path in found_paths
            if not (path.endswith(SNAPSHOT_SUFFIX) or is_test_file(path, wanted, tests))
        ),
        *(path for path in place.only or () if not is_test_file(path, wanted, tests)),
    )
    loaded = beside
    for path in sorted(set(paths) - {PROJECT_FILE}):
        before = len(sink)
        file = _read(place.root, path, lost, sink)
        if file is not None:
            files[path] = file
            loaded += _decoded(_policy_documents(file), lost, sink)
            test_documents += _test_documents(file)
            _report_empty(file, before, sink)
            if len(sink) == before:
                _forget_places(file)
    if not any(file.documents for file in files.values()) and not sink.has_errors:
        raise NothingToCheckError(f"no document found in {place.root}")
    check_unique(loaded, sink)
    _one_project(project, loaded, sink)
    ladder = _one_ladder(loaded, sink)
    nodes = _of(loaded, NodeFacts)
    for node in nodes:
        validate(node, sink)
    intents = _of(loaded, Intent)
    if nodes and not intents and not lost and place.only is None:
        sink.add(
            codes.WITHOUT_INTENTS.at(
                Span.of_file(PROJECT_FILE),
                "there is no intent here: nothing is protected on any node",
                help="write one, or bring back what was removed; files end in .yaml, .yml or .json",
            )
        )
    return Policy(
        project=options,
        project_doc=project.doc if project is not None else None,
        files=files,
        intents=intents,
        profiles=Profiles({profile.name: profile for profile in _of(loaded, EngineProfile)}),
        groups=builtin_groups(),
        ladder=Ladder(ladder.model.spec.tiers),
        ladder_doc=ladder,
        demands=_of(loaded, Demand),
        nodes=nodes,
        test_documents=tuple(test_documents),
        lost=frozenset(lost),
    )


def policy_entries(root: Path, project: Project, written: bool) -> tuple[str, ...]:
    """Return the files and directories that hold the policy.

    Without a project file these are the usual directories, as far as they are there.
    """
    entries = (*project.spec.sources.intents, *project.spec.sources.nodes)
    return entries if written else tuple(e for e in entries if (root / e).exists())


def _default_sources() -> tuple[str, ...]:
    sources = _default_project().spec.sources
    return (*sources.intents, *sources.nodes)


def _forget_places(file: SourceFile) -> None:
    """Give back the memory of places in node facts, of which a fleet has many."""
    for document in file.documents:
        if document.kind == NodeFacts.__name__:
            document.forget_places(_PLACES_KEPT)


def _report_empty(file: SourceFile, before: int, sink: Sink) -> None:
    """Warn about an empty source: what it said before is not in force any more.

    One that holds comments is left alone: somebody commented the documents out.
    """
    blank = all(line.strip() in ("", "---", "...") for line in file.lines)
    if blank and not file.documents and len(sink) == before:
        sink.add(
            codes.EMPTY_SOURCE.at(
                Span.of_file(file.path),
                f"{file.path} holds no document",
                help="remove the file, or restore what it said",
            )
        )


def is_test_file(path: str, policy: Sequence[str], tests: Sequence[str]) -> bool:
    """Return whether a file is among the tests rather than the policy.

    The narrower of the two entries that hold it decides; the policy has what both name.
    """
    return _depth(path, tests) > _depth(path, policy)


def _depth(path: str, entries: Sequence[str]) -> int:
    """Return how many components the narrowest entry that holds the path has, -1 for none."""
    parts = PurePosixPath(path).parts
    depths = [
        len(wanted)
        for wanted in (PurePosixPath(entry).parts for entry in entries)
        if parts[: len(wanted)] == wanted
    ]
    return max(depths, default=-1)


def _default_project() -> Project:
    return Project.model_validate({"apiVersion": "tierc.dev/v1alpha1", "kind": "Project"})


def _policy_documents(file: SourceFile) -> list[Document]:
    return [d for d in file.documents if d.kind != PolicyTest.__name__]


def _test_documents(file: SourceFile) -> list[Document]:
    return [d for d in file.documents if d.kind == PolicyTest.__name__]


def _read(root: Path, path: str, lost: set[str], sink: Sink) -> SourceFile | None:
    """Read a file; where that fails, documents of any kind may be lost with it."""
    own = Sink()
    file = read_source(root, path, own)
    if file is None or own.has_errors:
        lost.add("")
    sink.extend(own)
    return file


def _decoded(documents: Sequence[Document], lost: set[str], sink: Sink) -> list[Loaded[Model]]:
    out: list[Loaded[Model]] = []
    for document in documents:
        one = decode(document, sink)
        if one is not None:
            out.append(cast("Loaded[Model]", one))
        else:
            lost.add(document.kind if document.kind is not None and document.kind in KINDS else "")
    return out


def _is(loaded: Loaded[Model], kind: type[Model]) -> bool:
    return isinstance(loaded.model, kind)


def _of(loaded: Sequence[Loaded[Model]], kind: type[M]) -> tuple[Loaded[M], ...]:
    """Return the documents of a kind by name; of two with one name (reported) the first."""
    found: dict[str, Loaded[M]] = {}
    for one in loaded:
        if isinstance(one.model, kind):
            found.setdefault(one.name, cast("Loaded[M]", one))
    return tuple(found[name] for name in sorted(found))


def _one_project(
    project: Loaded[Project] | None, loaded: Sequence[Loaded[Model]], sink: Sink
) -> None:
    for other in loaded:
        if _is(other, Project):
            related = [Related(project.key_span("kind"), "the project is here")] if project else []
            second = other.doc.path == PROJECT_FILE
            sink.add(
                codes.SECOND_PROJECT.at(
                    other.key_span("kind"),
                    f"{PROJECT_FILE} has a second Project document"
                    if second
                    else f"a Project document belongs into {PROJECT_FILE} at the root",
                    related=related,
                    help="join the two" if second else "move it there, or remove it",
                )
            )


def _one_ladder(loaded: Sequence[Loaded[Model]], sink: Sink) -> Loaded[TierLadder]:
    ladders = [cast("Loaded[TierLadder]", one) for one in loaded if _is(one, TierLadder)]
    for other in ladders[1:]:
        sink.add(
            codes.SECOND_PROJECT.at(
                other.key_span("kind"),
                "a policy has one TierLadder",
                related=[Related(ladders[0].key_span("kind"), "the first is here")],
                help="remove one",
            )
        )
    return ladders[0] if ladders else builtin_ladder()
