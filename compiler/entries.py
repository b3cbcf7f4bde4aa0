"""Findings about entries of ``sources``, shown where the project file has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic, Span
from compiler.model.project import Project
from compiler.suggest import nearest

_BY_DEFAULT: Final = (
    "it is read where sources do not say otherwise: create it (Git keeps no empty directory), or "
    "name other places in spec.sources"
)


def entry_finding(found: Diagnostic, root: Path, project: Loaded[Project] | None) -> Diagnostic:
    """Return a finding of walking the sources, at the entry it is about.

    What is about a file below a directory, or found without a project file, stays as it is.  An
    entry that no one wrote is a default; its finding is at the document's kind.
    """
    if project is None:
        return found
    kind = project.key_span("kind")
    for place, entry in _entries(project):
        if found.span in (Span.of_file(entry), Span.of_file(PurePosixPath(entry).as_posix())):
            if place == kind and not (root / entry).exists():
                found = replace(found, help=_BY_DEFAULT)
            return replace(found, span=place, help=_help(found, root, entry))
    return found


def _entries(project: Loaded[Project]) -> Iterator[tuple[Span, str]]:
    """Yield the entries of the policy's sources with their places, in the order of the file."""
    sources = project.model.spec.sources
    for key, entries in (("intents", sources.intents), ("nodes", sources.nodes)):
        written = key in sources.model_fields_set
        for i, entry in enumerate(entries):
            route = ("spec", "sources", key, i)
            yield project.span(*route) if written else project.key_span("kind"), entry


def _help(found: Diagnostic, root: Path, entry: str) -> str:
    """Add the directory or file that was probably meant, if there is nothing by that name."""
    path = PurePosixPath(entry)
    if (
        set("*?[") & set(entry)
        or path.is_absolute()
        or ".." in path.parts
        or "\0" in entry
        or (root / path).exists()
    ):
        return found.help
    close = nearest(path.name, _names(root / path.parent))
    if not close:
        return found.help
    meant = (path.parent / close[0]).as_posix() + ("/" if entry.endswith("/") else "")
    return f'did you mean "{meant}"? {found.help}'


def _names(folder: Path) -> list[str]:
    """Return what a directory holds that can be a source; nothing where it cannot be read."""
    try:
        return [
            child.name
            for child in folder.iterdir()
            if not child.name.startswith(".")
            and (child.is_dir() or child.suffix.lower() in (".yaml", ".yml", ".json"))
        ]
    except OSError:
        return []
