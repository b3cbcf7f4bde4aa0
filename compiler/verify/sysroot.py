"""Files of the node that is verified: bounded reads that do not follow a link at the end.

``/proc`` has tens of thousands of small files, so this is as thin as it can be.  What is gone when
it is read is normal and never an error.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

MAX_FILE: Final = 1 << 20
"""Bytes of one file that are used at most; what is longer is not used at all."""

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV})
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def text_of(data: bytes) -> str:
    """Return a name as text: UTF-8 whatever the locale, other bytes as surrogates."""
    return data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """Return the bytes of what :func:`text_of` returned."""
    return text.encode("utf-8", "surrogateescape")


class DeniedError(Exception):
    """Something is there and cannot be read; the message says why, in lower case."""


class Sysroot:
    """The files below one directory, by absolute path such as ``/proc/1/stat``."""

    __slots__ = ("_root", "directory", "live")

    def __init__(self, root: Path) -> None:
        self.directory: Final = root
        """The root as it was given."""
        self._root = os.fsencode(os.path.abspath(root)).rstrip(b"/")
        self.live: Final = self._root == b""
        """Whether this is the running machine."""

    def path(self, path: str) -> str:
        """Return the real path of a file of the node."""
        return os.fsdecode(self._root + bytes_of(path))

    def read(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        """Return a regular file; None where none is there, or none any more.

        Raises:
            DeniedError: it cannot be read, is longer than ``limit``, or is no regular file.
        """
        try:
            handle = os.open(self._root + bytes_of(path), _FLAGS)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise DeniedError(_why(error)) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise DeniedError("not a regular file")
            data = os.read(handle, min(limit, 65536) + 1)
            while data and len(data) <= limit and (more := os.read(handle, limit + 1 - len(data))):
                data += more
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise DeniedError(_why(error)) from error
        finally:
            os.close(handle)
        if len(data) > limit:
            raise DeniedError(f"longer than {limit} bytes")
        return data

    def record(self, path: str) -> bytes | None:
        """Return a file that the kernel gives whole at the first read, such as ``/proc/1/stat``.

        Half the system calls of :meth:`read`, for what is read once for each thread.

        Raises:
            DeniedError: it cannot be read, or is longer than 64 KiB.
        """
        try:
            handle = os.open(self._root + bytes_of(path), _FLAGS)
            try:
                data = os.read(handle, 65537)
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise DeniedError(_why(error)) from error
        if len(data) > 65536:
            raise DeniedError("longer than 65536 bytes")
        return data

    def line(self, path: str) -> str | None:
        """Return a one-line file without white space around it; None where none is there.

        Raises:
            DeniedError: as :meth:`read`.
        """
        data = self.read(path, 65536)
        return None if data is None else text_of(data).strip(" \t\r\n\0")

    def numbers(self, path: str, limit: int) -> list[int]:
        """Return the names in a directory that are numbers, in order, at most ``limit`` + 1.

        None at all where there is no such directory.

        Raises:
            DeniedError: it cannot be listed.
        """
        found: list[int] = []
        try:
            with os.scandir(self._root + bytes_of(path)) as entries:
                for entry in entries:
                    name = entry.name
                    if name.isdigit() and len(name) < 10:
                        found.append(int(name))
                        if len(found) > limit:
                            break
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise DeniedError(_why(error)) from error
        return sorted(found)

    def directories(self, path: str) -> list[str]:
        """Return the names of the directories in a directory, links not among them, sorted.

        Raises:
            DeniedError: it cannot be listed.
        """
        try:
            with os.scandir(self._root + bytes_of(path)) as entries:
                return sorted(
                    text_of(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)
                )
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise DeniedError(_why(error)) from error

    def exists(self, path: str) -> bool:
        """Return whether anything is there; what cannot be seen is not."""
        return os.path.lexists(self._root + bytes_of(path))


def _why(error: OSError) -> str:
    return re.sub(r"\s+", " ", os.strerror(error.errno or 0)).lower()
