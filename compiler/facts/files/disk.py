"""Files below a directory of this machine."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from compiler.facts.files.source import MAX_NAMES, EntryType

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DiskFiles:
    """The files below ``root``; opening one never follows a link, blocks or leaves a trace."""

    __slots__ = ("_root",)

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root).rstrip("/")

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        """Return what is at ``path`` and, for a link, its target."""
        mode = os.lstat(self._root + path).st_mode
        if stat.S_ISDIR(mode):
            return "directory", None
        if stat.S_ISREG(mode):
            return "file", None
        if stat.S_ISLNK(mode):
            return "link", os.readlink(self._root + path)
        return "other", None

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        result: list[str] = []
        with os.scandir(self._root + path) as entries:
            for entry in entries:
                result.append(entry.name)
                if len(result) > MAX_NAMES:
                    break
        return result

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a regular file, at most ``limit`` + 1 bytes."""
        try:
            # O_NONBLOCK: a FIFO in a hostile snapshot must not block us.
            handle = os.open(self._root + path, _FLAGS)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket
                raise _not_a_file(path) from None
            raise
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _not_a_file(path)
            # procfs gives a file in pieces, and sysfs states no true size: read until nothing
            # comes.
            data = os.read(handle, limit + 1)
            while data and len(data) <= limit and (more := os.read(handle, limit + 1 - len(data))):
                data += more
            return data
        finally:
            os.close(handle)


def _not_a_file(path: str) -> OSError:
    return OSError(errno.EISDIR, "not a regular file", path)
