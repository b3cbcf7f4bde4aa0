"""Bounded, read-only view of the files below a system root.

The files are those of a directory, an archive or a recording (:mod:`compiler.facts.files`).

sysfs and procfs are full of links.  They are followed here by hand and inside the root: ``..``
never climbs above it, and an absolute link starts again at it, so that a snapshot or a mounted
host cannot make us read files of the machine we run on.  What is odd becomes a warning; nothing
here raises.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.source import MAX_NAMES, EntryType, Files
from compiler.facts.shown import clean, shown

__all__ = ["MAX_LINKS", "MAX_TEXT", "MAX_WARNINGS", "Tree", "clean", "numbered", "shown"]

MAX_TEXT: Final = 64 * 1024
"""Bytes read of one file unless the caller asks for more; a sysfs attribute has at most 4 KiB."""
MAX_LINKS: Final = 40
"""Links followed for one path, as in the kernel (``MAXSYMLINKS``)."""
MAX_WARNINGS: Final = 64
"""Warnings kept; a machine with 1,000 odd CPUs needs no 1,000 lines."""

_NO_NAMES: Final = frozenset({"", ".", ".."})
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
# What a file that is there answers when it has nothing to say: an attribute of a link that is
# down (EINVAL), a device that sleeps or left (EIO, ENODEV, ENXIO), a process that ended (ESRCH).
_NO_VALUE: Final = frozenset(
    {errno.EINVAL, errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESRCH, errno.EOPNOTSUPP}
)


class Tree:
    """The files below one root, by absolute POSIX path such as ``/sys/devices``."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._parents: dict[str, str | None] = {}
        self._steps: dict[str, tuple[EntryType | None, str | None]] = {}
        self._warnings: dict[str, None] = {}
        self._left_out = 0

    @classmethod
    def of_disk(cls, root: Path) -> Tree:
        """Return the tree of the files below a directory of this machine."""
        return cls(DiskFiles(root))

    def warn(self, message: str) -> None:
        """Record a warning; at most :data:`MAX_WARNINGS` are kept, the rest is counted."""
        if message in self._warnings:
            return
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings[message] = None
        else:
            self._left_out += 1

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd so far, in the order in which it was met, each once."""
        if not self._left_out:
            return tuple(self._warnings)
        return (*self._warnings, f"{self._left_out} more warnings are left out")

    # --- paths ---------------------------------------------------------------------------------

    def resolve(self, path: str) -> str | None:
        """Return where ``path`` leads inside the root, without links; None if nothing is there."""
        found = self._find(path)
        return None if found is None else found[0]

    def _find(self, path: str) -> tuple[str, EntryType] | None:
        """Return where ``path`` leads, and what is there."""
        parent, _, name = path.rpartition("/")
        if name in _NO_NAMES:
            return self._walk("", path)
        above = self._parent(parent)
        return None if above is None else self._walk(above, name)

    def _parent(self, path: str) -> str | None:
        """Return where a directory is, without links and without a slash at the end.

        It is remembered: hundreds of files share it.
        """
        if path in self._parents:
            return self._parents[path]
        found = self._walk("", path)
        above = None if found is None else found[0].rstrip("/")
        self._parents[path] = above
        return above

    def _walk(self, here: str, path: str) -> tuple[str, EntryType] | None:
        steps = path.split("/")[::-1]
        links = 0
        last: EntryType = "directory"
        while steps:
            name = steps.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here, last = here.rpartition("/")[0], "directory"
                continue
            kind, target = self._step(f"{here}/{name}", last=not steps)
            if kind is None:
                return None
            if target is None:
                here, last = f"{here}/{name}", kind
                continue
            links += 1
            if links > MAX_LINKS:
                self.warn(f"{path}: too many links")
                return None
            if target.startswith("/"):
                here = ""
            steps += target.split("/")[::-1]
        return here or "/", last

    def _step(self, path: str, *, last: bool) -> tuple[EntryType | None, str | None]:
        """Return what is at ``path``, whose parent has no links, and its target if a link.

        What lies in the middle of a path is remembered: many paths lead through it.
        """
        known = self._steps.get(path)
        if known is not None:
            return known
        result: tuple[EntryType | None, str | None] = (None, None)
        try:
            result = self._files.entry(path)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._cannot("read", path, error)
        if not last:
            self._steps[path] = result
        return result

    def is_dir(self, path: str) -> bool:
        """Return whether ``path`` leads to a directory."""
        found = self._find(path)
        return found is not None and found[1] == "directory"

    def is_file(self, path: str) -> bool:
        """Return whether ``path`` leads to a regular file."""
        found = self._find(path)
        return found is not None and found[1] == "file"

    def link(self, path: str) -> str | None:
        """Return the raw text of the link at ``path``; None if there is none or it is hidden."""
        parent, _, name = path.rpartition("/")
        above = self._parent(parent)
        if above is None or name in _NO_NAMES:
            return None
        try:
            return self._files.entry(f"{above}/{name}")[1]
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory; none where there is no directory."""
        found = self.resolve(path)
        if found is None:
            return ()
        try:
            result = self._files.names(found)
        except OSError as error:
            if error.errno not in _ABSENT:
                self._cannot("list", path, error)
            return ()
        if len(result) > MAX_NAMES:
            self.warn(f"{path}: only {MAX_NAMES} of its entries are looked at")
        return tuple(sorted(result)[:MAX_NAMES])

    def _cannot(self, do: str, path: str, error: OSError) -> None:
        self.warn(f"{path}: cannot {do}: {os.strerror(error.errno or 0).lower()}")

    # --- contents ------------------------------------------------------------------------------

    def text(self, path: str, limit: int = MAX_TEXT) -> str | None:
        """Return the text of a regular file; None if there is none, with a warning if it is odd.

        Bytes that are not UTF-8 are replaced.  A file longer than ``limit`` is not used at all:
        half a CPU list would be a wrong one.
        """
        try:
            data = self._read(path, limit)
        except OSError as error:
            if error.errno == errno.EISDIR:
                self.warn(f"{path}: not a regular file")
            elif error.errno not in _ABSENT and error.errno not in _NO_VALUE:
                self._cannot("read", path, error)
            return None
        if data is None:
            return None
        if len(data) > limit:
            self.warn(f"{path}: larger than {limit} bytes, not used")
            return None
        return data.decode("utf-8", "replace")

    def _read(self, path: str, limit: int) -> bytes | None:
        parent, _, name = path.rpartition("/")
        if name not in _NO_NAMES:
            above = self._parent(parent)
            if above is None:
                return None
            try:
                # Attributes are hardly ever links, so none is asked for before.
                return self._files.read(f"{above}/{name}", limit)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        found = self.resolve(path)
        return None if found is None else self._files.read(found, limit)

    def line(self, path: str) -> str | None:
        """Return a one-line attribute without white space and NUL around it."""
        text = self.text(path)
        return None if text is None else text.strip(" \t\r\n\0")

    def number(self, path: str) -> int | None:
        """Return a decimal attribute; junk is a warning and None."""
        text = self.line(path)
        if text is None or text == "":
            return None
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            self.warn(f"{path}: {shown(text)} is not a number")
            return None
        return int(text)

    def hexadecimal(self, path: str) -> int | None:
        """Return an attribute such as ``0x10de``; junk is a warning and None."""
        text = self.line(path)
        if text is None or text == "":
            return None
        digits = text.lower().removeprefix("0x")
        if not digits or len(digits) > 16 or not set(digits) <= set("0123456789abcdef"):
            self.warn(f"{path}: {shown(text)} is not a hexadecimal number")
            return None
        return int(digits, 16)

    def cpus(self, path: str, mask: str | None = None) -> CpuSet | None:
        """Return the CPU list at ``path``, else the hexadecimal mask at ``mask``.

        An empty file is the empty set, a missing one None.  Junk is a warning and None.
        """
        found = self._cpus(path, CpuSet.parse)
        if found is None and mask is not None:
            return self._cpus(mask, CpuSet.parse_hex_mask)
        return found

    def _cpus(self, path: str, parse: Callable[[str], CpuSet]) -> CpuSet | None:
        text = self.text(path)
        if text is None:
            return None
        try:
            return parse(text)
        except CpuListError as error:
            self.warn(f"{path}: {clean(str(error))}")
            return None


def numbered(names: Iterable[str], prefix: str) -> list[int]:
    """Return the sorted numbers of names such as ``cpu12``; other names are left out."""
    found = []
    for name in names:
        digits = name.removeprefix(prefix)
        if name.startswith(prefix) and digits.isascii() and digits.isdigit() and len(digits) < 8:
            found.append(int(digits))
    return sorted(found)
