"""What a command tells while it works, where the work must not depend on anybody reading it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Messages:
    """Messages on the standard streams that may fail: a reader has gone (``| head -1``), no space.

    The command goes on, and :meth:`check` at its end says what was lost.
    """

    def __init__(self) -> None:
        self._lost: OSError | None = None

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Run statements that only print; what they cannot write is lost, and remembered."""
        try:
            yield
        except OSError as error:
            if error.filename is not None:  # a file of somebody's, no stream
                raise
            self._lost = self._lost or error

    def check(self) -> None:
        """Write out what is still buffered.

        Raises:
            OSError: the first error of what was lost.  The command's exit code is then not 0.
        """
        with self.telling():
            sys.stdout.flush()
        if self._lost is not None:
            raise self._lost
