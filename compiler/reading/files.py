"""Finding and reading source files below a root, and nothing outside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from compiler.codes import reading as codes
from compiler.diagnostics import Sink, Span
from compiler.reading.document import MAX_FILE_BYTES
from compiler.reading.scalars import shorten

SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_ENTRIES: Final = 100_000


def read_bytes(root: Path, path: str, sink: Sink) -> bytes | None:
    """Return the content of the file ``path`` below ``root``; None, and a finding, if it has none.

    Never blocks: devices and pipes are refused, and at most :data:`MAX_FILE_BYTES` are read.
    """
    span = Span.of_file(path)
    where = _inside(root, path, sink)
    if where is None:
        return None
    try:
        # Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever.
        handle = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        sink.add(codes.UNREADABLE_FILE.at(span, f"{path} cannot be read: {_reason(error)}"))
        return None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            sink.add(codes.UNREADABLE_FILE.at(span, f"{path} is {what}"))
            return None
        data = _read_bounded(handle)
    except OSError as error:
        sink.add(codes.UNREADABLE_FILE.at(span, f"{path} cannot be read: {_reason(error)}"))
        return None
    finally:
        os.close(handle)
    if len(data) > MAX_FILE_BYTES:
        sink.add(
            codes.FILE_TOO_LARGE.at(
                span,
                f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB",
                help="split the file",
            )
        )
        return None
    return data


def discover(root: Path, patterns: Sequence[str], sink: Sink) -> tuple[str, ...]:
    """Return the source files that ``patterns`` name: files, and directories with all below.

    Patterns are paths relative to ``root`` with ``/`` separators; ``.`` is the root.  Below a
    directory, names that start with a dot are left out.  A file that is reachable by several
    paths (symbolic links inside the root) is returned once, by its own path if that is among
    them.  The result is sorted by code points, whatever the order of patterns and directories.
    """
    walk = _Walk(root, sink)
    for pattern in patterns:
        walk.add(pattern)
    return tuple(sorted(walk.found.values()))


class _Walk:
    def __init__(self, root: Path, sink: Sink) -> None:
        self.root = root
        self.base = os.path.realpath(root)
        self.sink = sink
        self.found: dict[str, str] = {}
        self._entries = 0

    def add(self, pattern: str) -> None:
        where = _inside(self.root, pattern, self.sink)
        if where is None:
            return
        path = PurePosixPath(pattern).as_posix()
        if os.path.isdir(where):
            self._directory(path, where)
        elif os.path.isfile(where):
            if path.lower().endswith(SUFFIXES):
                self._take(path, where)
            else:
                self.sink.add(
                    codes.NOT_A_SOURCE_FILE.at(
                        Span.of_file(path),
                        f"{path} is neither YAML nor JSON by its name",
                        help="name files that end in .yaml, .yml or .json",
                    )
                )
        else:
            special = os.path.lexists(where)
            self.sink.add(
                codes.UNREADABLE_FILE.at(
                    Span.of_file(path),
                    f"{path} is not a regular file" if special else f"{path} does not exist",
                    help="patterns are not supported: name files or directories"
                    if any(char in path for char in "*?[")
                    else "paths are relative to the root of the policy repository",
                )
            )

    def _directory(self, path: str, where: str) -> None:
        """Take what is below a directory.  ``where`` is its real path."""
        waiting = [(path, where)]
        seen = {where}
        while waiting:
            path, where = waiting.pop()
            for name in self._names(path, where):
                if name.startswith("."):
                    continue
                child = name if path == "." else f"{path}/{name}"
                entry = os.path.join(where, name)
                is_dir = os.path.isdir(entry)
                if not (is_dir or child.lower().endswith(SUFFIXES)):
                    continue
                real = _inside(self.root, child, self.sink) if os.path.islink(entry) else entry
                if real is None:
                    continue
                if not is_dir:
                    self._take(child, real)
                elif real not in seen:
                    seen.add(real)
                    waiting.append((child, real))

    def _names(self, path: str, where: str) -> Iterator[str]:
        try:
            names = sorted(os.listdir(where))
        except OSError as error:
            self.sink.add(
                codes.UNREADABLE_FILE.at(
                    Span.of_file(path), f"{path} cannot be read: {_reason(error)}"
                )
            )
            return
        for name in names:
            self._entries += 1
            if self._entries > MAX_ENTRIES:
                if self._entries == MAX_ENTRIES + 1:
                    self.sink.add(
                        codes.TOO_MANY_FILES.at(
                            Span.of_file(path),
                            f"more than {MAX_ENTRIES} files and directories",
                            help="name the directories that hold intents and node facts",
                        )
                    )
                return
            yield name

    def _take(self, path: str, real: str) -> None:
        first = self.found.get(real)
        own = os.path.relpath(real, self.base).replace(os.sep, "/")
        if first is None or path == own or (first != own and path < first):
            self.found[real] = path


def _read_bounded(handle: int) -> bytes:
    """Return the content of an open file, or one byte more than is accepted of it."""
    parts, room = [], MAX_FILE_BYTES + 1
    while room and (part := os.read(handle, room)):
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


def _inside(root: Path, path: str, sink: Sink) -> str | None:
    """Return the real path of ``path`` below ``root``; None, and a finding, if it is outside."""
    pure = PurePosixPath(path)
    problem = ""
    if not path or "\0" in path:
        problem = "is not a path"
    elif pure.is_absolute():
        problem = "is an absolute path"
    elif ".." in pure.parts:
        problem = "has a `..` step"
    else:
        try:
            base = os.path.realpath(root)
            real = os.path.realpath(os.path.join(base, path))
            if real == base or real.startswith(base.rstrip(os.sep) + os.sep):
                return real
            problem = "is a symbolic link that leads out of the policy repository"
        except (OSError, ValueError) as error:
            problem = f"cannot be followed: {_reason(error)}"
    sink.add(
        codes.PATH_OUTSIDE_ROOT.at(
            Span.of_file(path),
            f"{shorten(path, 200)!r} {problem}" if not path else f"{shorten(path, 200)} {problem}",
            help="use paths below the root of the policy repository",
        )
    )
    return None


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]
