"""Remembering everything that was looked at, so that it can be looked at again elsewhere."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from compiler.facts.files.memory import Act, ClashError, Link, MemoryFiles, Placeholder
from compiler.facts.files.source import EntryType, Files

MAX_RECORDED: Final = 64 * 1024 * 1024
"""Bytes of contents that a recording keeps; a machine of 8,192 CPUs has about half of it."""

_What = TypeVar("_What")
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class RecordingFiles:
    """Passes every question on to other files and remembers the answer.

    A reader that asks :meth:`recorded` the same questions gets the same answers, failures
    included.  That something is not there is remembered by not being there.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._entries: dict[str, tuple[EntryType, str | None]] = {}
        self._names: dict[str, list[str]] = {}
        self._contents: dict[str, bytes] = {}
        self._errors: dict[tuple[Act, str], int] = {}
        self._size = 0

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        """Return what is at ``path`` and, for a link, its target."""
        try:
            found = self._files.entry(path)
        except OSError as error:
            self._failed("entry", path, error)
            raise
        self._entries[path] = found
        return found

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        try:
            found = self._files.names(path)
        except OSError as error:
            self._failed("names", path, error)
            raise
        self._names[path] = list(found)
        return found

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a regular file, at most ``limit`` + 1 bytes."""
        try:
            data = self._files.read(path, limit)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self.entry(path)
            else:
                self._failed("read", path, error)
            raise
        kept = self._contents.get(path)
        if kept is None or len(data) > len(kept):
            self._size += len(data) - len(kept or b"")
            if self._size > MAX_RECORDED:
                # Fail here as the recording will: what was read must be what can be read again.
                self._contents.pop(path, None)
                self._errors["read", path] = errno.EFBIG
                raise OSError(errno.EFBIG, "the recording is full", path)
            self._contents[path] = data
        return data

    def _failed(self, act: Act, path: str, error: OSError) -> None:
        if error.errno is not None and error.errno not in _ABSENT:
            self._errors[act, path] = error.errno

    def recorded(self) -> MemoryFiles:
        """Return what was looked at so far."""
        result = MemoryFiles()
        for path in sorted(self._names):
            _put(result.add_directory, path, sorted(self._names[path]))
        for path, data in sorted(self._contents.items()):
            _put(result.add, path, data)
        for path, (kind, target) in sorted(self._entries.items()):
            if kind == "directory":
                _put(result.add_directory, path, ())
            elif target is not None:
                _put(result.add, path, Link(target))
            elif path not in self._contents:
                _put(result.add, path, Placeholder(kind))
        for (act, path), number in sorted(self._errors.items()):
            result.add_error(act, path, number)
        return result


def _put(add: Callable[[str, _What], None], path: str, what: _What) -> None:
    # What changed its type while it was looked at stays what it was at first.
    with suppress(ClashError):
        add(path, what)
