"""What a tree of files can be asked, wherever it is kept."""

from __future__ import annotations

from typing import Final, Literal, Protocol

EntryType = Literal["file", "directory", "link", "other"]

MAX_NAMES: Final = 20_000
"""Names of one directory that are looked at."""


class Files(Protocol):
    """Read-only files by absolute POSIX path without ``.``, ``..`` or a trailing slash.

    Nothing here follows links: :class:`compiler.facts.tree.Tree` does, inside the root.  The root
    itself is ``/``.  Failures are ``OSError`` with the errno the kernel would give; what is not
    there is ``FileNotFoundError`` or ``NotADirectoryError``.
    """

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        """Return what is at ``path`` and, for a link, its target.

        Raises:
            OSError: nothing is there, or it cannot be looked at.
        """

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, in any order, at most :data:`MAX_NAMES` + 1 of them.

        One name more than :data:`MAX_NAMES` tells the caller that there are more.

        Raises:
            OSError: there is no directory, or it cannot be listed.
        """

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a regular file, at most ``limit`` + 1 bytes.

        One byte more than ``limit`` tells the caller that the file is longer.

        Raises:
            OSError: there is no regular file, or it cannot be read.  ``ELOOP``: it is a link,
                ``EISDIR``: it is neither a link nor a regular file.
        """
