"""Opening what a user names: a file, a device, or a pipe as the shell makes for ``<(command)``."""

from __future__ import annotations

import io
import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compiler.facts.files.stream import Raw
from compiler.facts.partial import ReadError

_WAIT_S: Final = 5.0
"""How long a named pipe may be without a writer."""
_STEP_S: Final = 0.05
_CHUNK: Final = 64 * 1024


class _Pipe:
    """A pipe whose first bytes were read to see whether there is a writer."""

    def __init__(self, first: bytes, rest: io.FileIO) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int, /) -> bytes | None:
        if self._first:
            given, self._first = self._first[:size], self._first[size:]
            return given
        return self._rest.read(size)


@contextmanager
def opened(path: Path, *, wait_s: float = _WAIT_S) -> Iterator[Raw]:
    """Open a path for reading.

    A pipe is read to its end, however long its writer takes; but one that nobody opens for writing
    (a FIFO that a glob caught) does not block.

    Args:
        path: what to read.
        wait_s: how long to wait for a writer.

    Raises:
        OSError: it cannot be opened.
        ReadError: nobody writes to the pipe.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with io.FileIO(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode):
            first = _first(fd, wait_s)
            os.set_blocking(fd, True)
            yield _Pipe(first, file)
            return
        if not stat.S_ISREG(mode):
            os.set_blocking(fd, True)
        yield file


def _first(fd: int, wait_s: float) -> bytes:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:  # there is a writer, which has not written yet
            select.select([fd], [], [])
            return os.read(fd, _CHUNK)
        if data:
            return data
        if time.monotonic() >= deadline:
            raise ReadError(
                "is a pipe that nobody writes to",
                help="leave it out, or start what should write to it first",
            )
        time.sleep(_STEP_S)
