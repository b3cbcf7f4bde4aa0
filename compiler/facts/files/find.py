"""Where in a directory or an archive the files of a machine are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from compiler.facts.files.below import FilesBelow
from compiler.facts.files.keep import is_text
from compiler.facts.files.source import Files
from compiler.facts.partial import Note
from compiler.facts.tree import Tree

MAX_DEPTH: Final = 12
"""Directories below the start that are searched."""
MAX_LOOKED_AT: Final = 50_000
"""Entries that are looked at; more of them are no collection of facts."""

_CPUS: Final = "/sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Found:
    """What was found; all paths are absolute.

    Attributes:
        systems: directories that hold ``sys/devices/system/cpu``; ``/`` is the start itself.
        topologies: directories outside of those that hold the ``nodes/`` of the AMD driver.
        texts: files outside of those that may hold text.
        notes: what was not searched.
    """

    systems: tuple[str, ...] = ()
    topologies: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def find(files: Files) -> Found:
    """Search a directory or an archive; links are not followed.

    The directory of a system is not searched further: only the texts beside its ``sys`` count.
    """
    systems: list[str] = []
    topologies: list[str] = []
    texts: list[str] = []
    notes: list[Note] = []
    left = MAX_LOOKED_AT
    queue = deque([("", 0)])
    while queue:
        path, depth = queue.popleft()
        names = _names(files, path)
        if names is None:
            notes.append(Note(f"{path or '/'} cannot be listed and is not searched"))
            continue
        is_system = "sys" in names and Tree(FilesBelow(files, path)).is_dir(_CPUS)
        if is_system:
            systems.append(path or "/")
        elif _is_topology(files, path, names):
            topologies.append(path.rpartition("/")[0] or "/")
            continue
        if len(names) > left:
            notes.append(Note(f"only the first {MAX_LOOKED_AT} files and directories are searched"))
            break
        left -= len(names)
        for name in names:
            inner = f"{path}/{name}"
            if is_text(name) and _type(files, inner) == "file":
                texts.append(inner)
            elif not is_system and depth < MAX_DEPTH and _type(files, inner) == "directory":
                queue.append((inner, depth + 1))
    return Found(tuple(systems), tuple(topologies), tuple(texts), tuple(notes[:20]))


def _is_topology(files: Files, path: str, names: list[str]) -> bool:
    return path.rpartition("/")[2] == "nodes" and any(
        name.isdigit() and _type(files, f"{path}/{name}/properties") == "file" for name in names
    )


def _names(files: Files, path: str) -> list[str] | None:
    try:
        return sorted(files.names(path or "/"))
    except OSError:
        return None


def _type(files: Files, path: str) -> str | None:
    try:
        return files.entry(path)[0]
    except OSError:
        return None
