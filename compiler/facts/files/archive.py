"""The door for archives: tar, plain or compressed, into memory.

Nothing is extracted to disk, so no path and no link of an archive can lead to a file of the
machine we run on.  What does not look like what tar packs from a directory is refused as a whole,
because half of a machine is another machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compiler.facts.files.keep import MAX_ATTRIBUTE, MAX_FILE, is_text, kept_bytes
from compiler.facts.files.memory import ClashError, Link, MemoryFiles, Placeholder
from compiler.facts.files.stream import Stream
from compiler.facts.files.tar import Member, TarReader
from compiler.facts.partial import Note, ReadError
from compiler.facts.shown import clean

BUNDLE_NAME: Final = "tierc-bundle.json"
"""The first member of a bundle; all of a bundle is kept."""
MAX_PATH: Final = 4096
"""Bytes of a path, and of a link's target, as in the kernel (``PATH_MAX``)."""
MAX_DEPTH: Final = 64
"""Directories on a path."""
MAX_NOTES: Final = 20
"""Odd members that are named; the rest is counted."""

_PACKED: Final = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz", ".zip")


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may hold at most.

    Attributes:
        members: members, and directories that their paths imply.
        kept: bytes of contents and paths that are kept in memory.
        total: bytes of the file, and bytes when decompressed.
    """

    members: int = 200_000
    kept: int = 256 * 1024 * 1024
    total: int = 1024 * 1024 * 1024


LIMITS: Final = Limits()


@dataclass(frozen=True)
class Archive:
    """The files of an archive, and what was odd about it."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    notes: tuple[Note, ...] = ()


def read_archive(stream: Stream, limits: Limits = LIMITS) -> Archive:
    """Return the files of a tar archive that a reader could ask for.

    Links stay links.  Devices, FIFOs and archives inside the archive are left out and named.

    Raises:
        ReadError: the archive is damaged or too large, or a member has a path that is absolute,
            climbs, or is claimed by two different members.
        OSError: the file cannot be read.
    """
    return _Reading(stream, limits).run()


class _Reading:
    def __init__(self, stream: Stream, limits: Limits) -> None:
        self._tar = TarReader(stream)
        self._limits = limits
        self._files = MemoryFiles()
        self._passed_over: set[str] = set()
        self._passed_size = 0
        self._notes: list[Note] = []
        self._left_out = 0
        self._bundle = False

    def run(self) -> Archive:
        for count, member in enumerate(self._tar, 1):
            path = _path(member.name, "member", member.name)
            if count == 1:
                self._bundle = path == f"/{BUNDLE_NAME}" and member.type == "file"
            if path != "/":
                try:
                    self._add(member, path)
                except ClashError as error:
                    raise _clash(member.name, path, str(error)) from None
            elif member.type != "directory":
                raise ReadError(f"member {_shown(member.name)} has no name")
            if max(count, self._files.count) > self._limits.members:
                raise ReadError(
                    f"has more than {self._limits.members} members",
                    help="pack only what is needed: sys/devices, sys/bus/pci, sys/class and "
                    "proc/cpuinfo",
                )
            if self._files.size + self._passed_size > self._limits.kept:
                raise ReadError(
                    f"holds more than {self._limits.kept >> 20} MiB of files that could be read"
                )
        if self._left_out:
            self._notes.append(Note(f"{self._left_out} more members are left out"))
        return Archive(self._files, tuple(self._notes))

    def _add(self, member: Member, path: str) -> None:
        inner = path[1:]
        keep = MAX_FILE + 1 if self._bundle else kept_bytes(inner)
        if member.type == "directory":
            if keep or not inner.startswith(("sys/", "proc/")):
                self._files.add_directory(path)
        elif member.type == "other":
            if keep:
                self._files.add(path, Placeholder("other"))
                self._note(f"member {_shown(member.name)} is a device or FIFO and is left out")
        elif member.type == "link":
            # All are kept: what lies below one must be refused.
            _checked(member.target, "target", member.name)
            self._files.add(path, Link(member.target))
        elif member.type == "hard link":
            self._hard_link(member, path, keep)
        elif not keep:
            self._pass_over(member, path)
        else:
            self._file(member, path, keep)

    def _file(self, member: Member, path: str, keep: int) -> None:
        if member.size > MAX_FILE and is_text(path):
            self._note(
                f"member {_shown(member.name)} is larger than {MAX_FILE >> 20} MiB and is left out"
            )
            return
        # One byte more than may be read of it is kept, so that it is seen to be too long.
        data = self._tar.content(keep)
        if len(data) <= MAX_ATTRIBUTE:
            # tar packs the 4,096 bytes that sysfs states, and pads what it gets with NUL.
            data = data.rstrip(b"\0")
        self._files.add(path, data)

    def _forget(self, path: str) -> None:
        self._passed_over.add(path)
        self._passed_size += len(path)

    def _pass_over(self, member: Member, path: str) -> None:
        self._forget(path)
        parent = path.rpartition("/")[0]
        if parent and not path.startswith(("/sys/", "/proc/")):
            self._files.add_directory(parent)
        if path.endswith(_PACKED):
            self._note(
                f"member {_shown(member.name)} is an archive itself and is not looked into; "
                "unpack it and name it"
            )

    def _hard_link(self, member: Member, path: str, keep: int) -> None:
        target = _path(member.target, "hard link target of", member.name)
        if target in self._passed_over:
            if keep:
                self._note(
                    f"member {_shown(member.name)} is a hard link to one that is not read, and "
                    "is left out"
                )
            self._forget(path)
            return
        try:
            if self._files.entry(target)[0] != "file":
                raise ReadError(
                    f"member {_shown(member.name)} is a hard link to {_shown(target[1:])}, which "
                    "is not a file"
                )
            data = self._files.read(target, MAX_FILE)
        except OSError:
            raise ReadError(
                f"member {_shown(member.name)} is a hard link to {_shown(target[1:])}, which is "
                "not in the archive before it"
            ) from None
        if keep:
            self._files.add(path, data)

    def _note(self, message: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.append(Note(message))
        else:
            self._left_out += 1


def _checked(text: str, what: str, name: str) -> None:
    if not text or "\0" in text:
        raise ReadError(f"the {what} of member {_shown(name)} is empty or has NUL in it")
    if len(text.encode("utf-8", "replace")) > MAX_PATH:
        raise ReadError(f"the {what} of member {_shown(name)} is longer than {MAX_PATH} bytes")


def _path(text: str, what: str, name: str) -> str:
    """Return a path of the archive as an absolute one below its root.

    Raises:
        ReadError: it is empty, too long or deep, absolute, or climbs.
    """
    _checked(text, "path", name)
    steps = [step for step in text.split("/") if step not in ("", ".")]
    if text.startswith("/"):
        raise ReadError(
            f"{what} {_shown(text)} has an absolute path",
            help="pack it again without tar's option -P, or unpack it and name the directory",
        )
    if ".." in steps:
        raise ReadError(f"{what} {_shown(text)} climbs out of its directory by '..'")
    if len(steps) > MAX_DEPTH:
        raise ReadError(f"{what} {_shown(text)} is more than {MAX_DEPTH} directories deep")
    return "/" + "/".join(steps)


def _clash(name: str, path: str, there: str) -> ReadError:
    if there != path:
        return ReadError(
            f"member {_shown(name)} lies below {_shown(there[1:])}, which is no directory"
        )
    return ReadError(
        f"member {_shown(name)} is there twice, with different contents",
        help="pack it again; archives that were appended to are ambiguous",
    )


def _shown(text: str) -> str:
    return f"'{clean(text, 120)}'"
