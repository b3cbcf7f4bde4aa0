"""An initial file system for a kernel, as the newc archive that it unpacks at boot."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Entry:
    """A file: its content, or the target of a link, and its mode with the type."""

    data: bytes
    mode: int


def file(data: bytes, *, executable: bool = False) -> Entry:
    """Return a regular file."""
    return Entry(data, stat.S_IFREG | (0o755 if executable else 0o644))


def link(target: str) -> Entry:
    """Return a symbolic link."""
    return Entry(target.encode(), stat.S_IFLNK | 0o777)


def directory() -> Entry:
    """Return an empty directory."""
    return Entry(b"", stat.S_IFDIR | 0o755)


def pack(files: Mapping[str, Entry]) -> bytes:
    """Return the archive.  Paths are relative; their directories are added.

    The same files give the same bytes.  It is not compressed, for an emulated CPU would have to
    undo that.
    """
    entries = dict(files)
    for path in files:
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                entries.setdefault(str(parent), directory())
    parts = [_record(number, path, entries[path]) for number, path in enumerate(sorted(entries), 1)]
    parts.append(_record(0, "TRAILER!!!", Entry(b"", 0)))
    return b"".join(parts)


def _record(inode: int, path: str, entry: Entry) -> bytes:
    """Return one file of the archive: a header of 8-digit hexadecimal fields, name, data."""
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
