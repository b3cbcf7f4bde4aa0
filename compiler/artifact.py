"""What a target hands back: files as data, and the canonical way to write JSON.

Nothing here touches a disk; :mod:`compiler.tree` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_COMPONENT: Final = 255
"""Longest name of one file or directory in bytes (NAME_MAX of every common Linux filesystem)."""

MAX_PATH: Final = 1024
"""Longest artifact path in bytes: far below PATH_MAX (4096), so any output directory fits."""

FILE_MODE: Final = 0o644
SCRIPT_MODE: Final = 0o755

_COMPONENT: Final = re.compile(r"[A-Za-z0-9._@+][A-Za-z0-9._@+-]*", re.ASCII)


def check_path(path: str) -> str:
    """Return ``path`` when it may name an artifact.

    That is: relative, ``/`` between components, components of ``A-Z a-z 0-9 . _ @ + -`` that are
    neither ``.`` nor ``..`` and do not start with ``-`` (no tool takes one for an option), each of
    at most :data:`MAX_COMPONENT` bytes, :data:`MAX_PATH` in all.

    Raises:
        ValueError: it is not; the message quotes the path.
    """
    if len(path) > MAX_PATH:
        raise ValueError(f"artifact path {path[:40]!r}... is longer than {MAX_PATH} bytes")
    if path.startswith("/"):
        raise ValueError(f"artifact path {path!r} is absolute")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"artifact path {path!r} has an empty, '.' or '..' component")
        if not _COMPONENT.fullmatch(part):
            raise ValueError(f"artifact path {path!r} has a component outside [A-Za-z0-9._@+-]")
        if len(part) > MAX_COMPONENT:
            raise ValueError(f"artifact path {path!r} has a name over {MAX_COMPONENT} bytes")
    return path


@dataclass(frozen=True, slots=True)
class Artifact:
    """One output file.

    Attributes:
        path: where, relative to the output directory; see :func:`check_path`.
        data: every byte of it.
        mode: permission bits, :data:`FILE_MODE` or :data:`SCRIPT_MODE`.  Other modes do not
            survive Git, which keeps one executable bit.

    Raises:
        ValueError: the path or the mode is none of these.
    """

    path: str
    data: bytes
    mode: int = FILE_MODE

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.mode not in (FILE_MODE, SCRIPT_MODE):
            raise ValueError(f"artifact {self.path!r} has mode {self.mode:o}, not 644 or 755")


def canonical_json(value: object) -> bytes:
    """Return the one JSON form of ``value``.

    Keys sorted, indented by two spaces, ASCII only, newline at the end; tuples become lists.

    Raises:
        ValueError: it holds NaN or an infinity, which are no JSON, or refers to itself.
        TypeError: it holds something else than mappings with text keys, lists, tuples, text,
            numbers, booleans and None.  Keys that are not text are refused rather than turned
            into text, because ``{1: a, "1": b}`` would then lose one.
    """
    _check_keys(value, set())
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False)
    return text.encode("ascii") + b"\n"


def _check_keys(value: object, above: set[int]) -> None:
    items: Iterable[object]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"JSON key {key!r} is not text")
        items = value.values()
    elif isinstance(value, list | tuple):
        items = value
    else:
        return
    if id(value) in above:
        raise ValueError("value refers to itself")
    above.add(id(value))
    for item in items:
        _check_keys(item, above)
    above.remove(id(value))


def json_artifact(path: str, value: object) -> Artifact:
    """Return ``value`` in canonical JSON at ``path``; raises as :func:`canonical_json` does."""
    return Artifact(path, canonical_json(value))


def text_artifact(path: str, text: str) -> Artifact:
    """Return ``text`` in UTF-8 at ``path``, ending in exactly one newline.

    Raises:
        ValueError: the text holds a carriage return or NUL, which no line-oriented format we
            write allows, or a lone surrogate.
    """
    return Artifact(path, _lines(path, text))


def script_artifact(path: str, text: str) -> Artifact:
    """Return an executable script at ``path``.

    Raises:
        ValueError: as :func:`text_artifact`, or the text does not start with ``#!``.
    """
    if not text.startswith("#!"):
        raise ValueError(f"script {path!r} does not start with '#!'")
    return Artifact(path, _lines(path, text), SCRIPT_MODE)


def _lines(path: str, text: str) -> bytes:
    for char in ("\r", "\0"):
        if char in text:
            raise ValueError(f"text of {path!r} holds {char!r}")
    return text.rstrip("\n").encode() + b"\n"


def ordered(artifacts: Iterable[Artifact]) -> tuple[Artifact, ...]:
    """Return the artifacts sorted by path.

    Raises:
        ValueError: two have one path, or one is the directory of another.
    """
    result = tuple(sorted(artifacts, key=lambda a: a.path))
    paths: set[str] = set()
    for artifact in result:
        if artifact.path in paths:
            raise ValueError(f"two artifacts are called {artifact.path!r}")
        paths.add(artifact.path)
    for path in sorted(paths):
        for parent in parents(path):
            if parent in paths:
                raise ValueError(f"artifact {parent!r} is also the directory of {path!r}")
    return result


def parents(path: str) -> tuple[str, ...]:
    """Return the directories above ``path``, outermost first: ``a/b/c`` gives ``a``, ``a/b``."""
    parts = path.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts)))
