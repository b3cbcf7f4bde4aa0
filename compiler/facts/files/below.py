"""A part of a tree of files, as a tree of its own."""

from __future__ import annotations

from compiler.facts.files.source import EntryType, Files


class FilesBelow:
    """The files below one directory of others; ``root`` has no link in it."""

    __slots__ = ("_files", "_root")

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root.rstrip("/")

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        """Return what is at ``path`` and, for a link, its target."""
        return self._files.entry(self._at(path))

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        return self._files.names(self._at(path))

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a regular file, at most ``limit`` + 1 bytes."""
        return self._files.read(self._at(path), limit)

    def _at(self, path: str) -> str:
        return f"{self._root}{path}" if path != "/" else self._root or "/"
