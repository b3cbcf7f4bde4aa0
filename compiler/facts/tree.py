"""Bounded, read-only view of the files below a system root.

sysfs and procfs are full of links.  They are followed here by hand and inside the root: ``..``
never climbs above it, and an absolute link starts again at it, so that a snapshot or a mounted
host cannot make us read files of the machine we run on.  What is odd becomes a warning; nothing
here raises.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from compiler.cpuset import CpuListError, CpuSet

MAX_TEXT: Final = 64 * 1024
"""Bytes read of one file unless the caller asks for more; a sysfs attribute has at most 4 KiB."""
MAX_ENTRIES: Final = 20_000
"""Entries of one directory that are looked at."""
MAX_LINKS: Final = 40
"""Links followed for one path, as in the kernel (``MAXSYMLINKS``)."""
MAX_WARNINGS: Final = 64
"""Warnings kept; a machine with 1,000 odd CPUs needs no 1,000 lines."""

# What a file that is there answers when it has nothing to say: an attribute of a link that is
# down (EINVAL), a device that sleeps or left (EIO, ENODEV, ENXIO), a process that ended (ESRCH).
_NO_VALUE: Final = frozenset(
    {errno.EINVAL, errno.EIO, errno.ENODEV, errno.ENXIO, errno.ESRCH, errno.EOPNOTSUPP}
)


def clean(text: str, limit: int = 160) -> str:
    """Return a text as it may stand in a warning: escaped to ASCII and cut to ``limit``."""
    plain = "".join(
        char if " " <= char <= "~" else ascii(char)[1:-1]
        for char in text.strip(" \t\r\n\0")[: limit + 1]
    )
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


def shown(text: str) -> str:
    """Return a text from a file, quoted and short."""
    return f"'{clean(text, 60)}'"


class Tree:
    """The files below one root, by absolute POSIX path such as ``/sys/devices``."""

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root).rstrip("/")
        self._parents: dict[str, str | None] = {}
        self._steps: dict[str, tuple[bool, str | None]] = {}
        self._warnings: dict[str, None] = {}
        self._left_out = 0

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
        parent, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._walk("", path)
        if parent not in self._parents:
            self._parents[parent] = self._walk("", parent)
        above = self._parents[parent]
        return None if above is None else self._walk(above.rstrip("/"), name)

    def _walk(self, here: str, path: str) -> str | None:
        steps = path.split("/")[::-1]
        links = 0
        while steps:
            name = steps.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = here.rpartition("/")[0]
                continue
            there, target = self._step(f"{here}/{name}", last=not steps)
            if not there:
                return None
            if target is None:
                here = f"{here}/{name}"
                continue
            links += 1
            if links > MAX_LINKS:
                self.warn(f"{path}: too many links")
                return None
            if target.startswith("/"):
                here = ""
            steps += target.split("/")[::-1]
        return here or "/"

    def _step(self, path: str, *, last: bool) -> tuple[bool, str | None]:
        """Return whether ``path``, whose parent has no links, is there, and its target if a link.

        What lies in the middle of a path is remembered: hundreds of files share it.
        """
        known = self._steps.get(path)
        if known is not None:
            return known
        try:
            result: tuple[bool, str | None] = (True, os.readlink(self._root + path))
        except OSError as error:
            result = (error.errno == errno.EINVAL, None)  # EINVAL: there, and not a link
            if error.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                self._cannot("read", path, error)
        if not last:
            self._steps[path] = result
        return result

    def is_dir(self, path: str) -> bool:
        """Return whether ``path`` leads to a directory."""
        return stat.S_ISDIR(self._mode(path))

    def is_file(self, path: str) -> bool:
        """Return whether ``path`` leads to a regular file."""
        return stat.S_ISREG(self._mode(path))

    def _mode(self, path: str) -> int:
        found = self.resolve(path)
        if found is None:
            return 0
        try:
            return os.lstat(self._root + found).st_mode
        except OSError:
            return 0

    def link(self, path: str) -> str | None:
        """Return the raw text of the link at ``path``; None if there is none or it is hidden."""
        parent, _, name = path.rpartition("/")
        above = self.resolve(parent)
        if above is None:
            return None
        try:
            return os.readlink(f"{self._root}{above.rstrip('/')}/{name}")
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory; none where there is no directory."""
        found = self.resolve(path)
        if found is None:
            return ()
        result: list[str] = []
        try:
            with os.scandir(f"{self._root}{found}") as entries:
                for entry in entries:
                    if len(result) == MAX_ENTRIES:
                        self.warn(f"{path}: only the first {MAX_ENTRIES} entries are looked at")
                        break
                    result.append(entry.name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._cannot("list", path, error)
            return ()
        return tuple(sorted(result))

    def _cannot(self, do: str, path: str, error: OSError) -> None:
        self.warn(f"{path}: cannot {do}: {os.strerror(error.errno or 0).lower()}")

    # --- contents ------------------------------------------------------------------------------

    def text(self, path: str, limit: int = MAX_TEXT) -> str | None:
        """Return the text of a regular file; None if there is none, with a warning if it is odd.

        Bytes that are not UTF-8 are replaced.  A file longer than ``limit`` is not used at all:
        half a CPU list would be a wrong one.
        """
        found = self.resolve(path)
        if found is None:
            return None
        try:
            # O_NONBLOCK: a FIFO in a hostile snapshot must not block us.
            handle = os.open(
                self._root + found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._cannot("read", path, error)
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                self.warn(f"{path}: not a regular file")
                return None
            data = bytearray()
            while len(data) <= limit and (part := os.read(handle, limit + 1 - len(data))):
                data += part
        except OSError as error:
            if error.errno not in _NO_VALUE:
                self._cannot("read", path, error)
            return None
        finally:
            os.close(handle)
        if len(data) > limit:
            self.warn(f"{path}: larger than {limit} bytes, not used")
            return None
        return data.decode("utf-8", "replace")

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
