"""Files that are kept in memory: an archive that was read, or a recording."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

from compiler.facts.files.source import MAX_NAMES, EntryType

Act = Literal["entry", "names", "read"]
"""What can fail: looking at an entry, listing a directory, reading a file."""


class Link(str):
    """A link; the text is its target."""

    __slots__ = ()


class Placeholder(str):
    """Something of which only the type is known: ``file`` or ``other``."""

    __slots__ = ()


_Node = bytes | Link | Placeholder


class ClashError(ValueError):
    """A path is already something else than what is to be put there."""


class MemoryFiles:
    """Files by path; a path is absolute, without ``.``, ``..`` or a slash at the end.

    Nothing in it can lead out of it: it holds no file of this machine.

    Attributes:
        count: files, links, placeholders and directories in it.
        size: bytes of their contents and paths.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._directories: dict[str, dict[str, None]] = {"/": {}}
        self._errors: dict[tuple[Act, str], int] = {}
        self.count = 0
        self.size = 0

    # --- filling -------------------------------------------------------------------------------

    def add(self, path: str, node: bytes | Link | Placeholder) -> None:
        """Put a file, a link or a placeholder at ``path``, and the directories above it.

        What is there already may be put there again.

        Raises:
            ClashError: something else is there, or above it is no directory.
        """
        there = self._nodes.get(path)
        if path in self._directories or (
            there is not None and (type(there) is not type(node) or there != node)
        ):
            raise ClashError(path)
        if there is None:
            self._above(path)
            self._nodes[path] = node
            self._counted(path, len(node))

    def add_directory(self, path: str, names: Iterable[str] = ()) -> None:
        """Put a directory at ``path``; ``names`` are in it, and more is not known of them.

        Raises:
            ClashError: something else is there, or above it.
        """
        if path in self._nodes:
            raise ClashError(path)
        if path not in self._directories:
            self._above(path)
            self._directories[path] = {}
            self._counted(path)
        self._directories[path].update(dict.fromkeys(names))

    def _above(self, path: str) -> None:
        missing = []
        parent, _, name = path.rpartition("/")
        while (parent or "/") not in self._directories:
            if parent in self._nodes:
                raise ClashError(parent)
            missing.append((parent, name))
            parent, _, name = parent.rpartition("/")
        self._directories[parent or "/"][name] = None
        for directory, child in reversed(missing):
            self._directories[directory] = {child: None}
            self._counted(directory)

    def _counted(self, path: str, size: int = 0) -> None:
        self.count += 1
        self.size += len(path) + size

    def add_error(self, act: Act, path: str, number: int) -> None:
        """Make an act on a path fail with an errno."""
        self._errors[act, path] = number

    # --- asking --------------------------------------------------------------------------------

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        """Return what is at ``path`` and, for a link, its target."""
        self._fail("entry", path)
        if path in self._directories:
            return "directory", None
        node = self._nodes.get(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Link):
            return "link", str(node)
        if isinstance(node, Placeholder):
            return ("file" if node == "file" else "other"), None
        return "file", None

    def names(self, path: str) -> list[str]:
        """Return the names in a directory."""
        self._fail("names", path)
        names = self._directories.get(path)
        if names is None:
            raise _error(errno.ENOTDIR if path in self._nodes else errno.ENOENT, path)
        return list(islice(names, MAX_NAMES + 1))

    def read(self, path: str, limit: int) -> bytes:
        """Return the content of a regular file, at most ``limit`` + 1 bytes."""
        self._fail("read", path)
        node = self._nodes.get(path)
        if isinstance(node, bytes):
            return node[: limit + 1]
        if isinstance(node, Link):
            raise _error(errno.ELOOP, path)
        if node == "other" or path in self._directories:
            raise _error(errno.EISDIR, path)
        # Of a placeholder for a file nothing was kept, which is as good as no file.
        raise _error(errno.ENOENT, path)

    def _fail(self, act: Act, path: str) -> None:
        number = self._errors.get((act, path))
        if number is not None:
            raise _error(number, path)

    # --- writing down --------------------------------------------------------------------------

    def nodes(self) -> Iterator[tuple[str, bytes | Link | Placeholder]]:
        """Yield all files, links and placeholders, by path."""
        yield from sorted(self._nodes.items())

    def directories(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield all directories and the sorted names in each, by path."""
        for path, names in sorted(self._directories.items()):
            yield path, tuple(sorted(names))

    def errors(self) -> Mapping[tuple[Act, str], int]:
        """Return what fails, and with which errno."""
        return dict(sorted(self._errors.items()))


def _error(number: int, path: str) -> OSError:
    return OSError(number, errno.errorcode.get(number, str(number)), path)
