"""The members of a tar archive, one after the other, with bounds on what a header may ask for.

Written after POSIX (pax interchange format, ustar) and the description of the GNU format in the
manual of GNU tar.  The standard library's reader takes headers of any length into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from compiler.facts.files.stream import Stream
from compiler.facts.partial import ReadError
from compiler.facts.shown import clean

MemberType = Literal["file", "directory", "link", "hard link", "other"]

BLOCK: Final = 512
MAX_EXTENDED: Final = 1024 * 1024
"""Bytes of an extended header; one with a long path has about 5 KiB."""
MAX_HEADERS: Final = 600_000
"""Headers of all kinds; a member has at most three."""
_NUL_BLOCK: Final = bytes(BLOCK)

_TYPES: Final[dict[bytes, MemberType]] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "hard link",
    b"2": "link",
    b"3": "other",
    b"4": "other",
    b"5": "directory",
    b"6": "other",
    b"D": "directory",
}
_WITH_CONTENT: Final = (b"0", b"\0", b"7", b"D")


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the archive describes it; nothing of it has been checked.

    Attributes:
        name: its path, as written.
        type: what it is; ``other``: a device, a FIFO or something unheard of.
        target: of links and hard links.
        size: bytes of content that follow.
    """

    name: str
    type: MemberType
    target: str
    size: int


def is_tar(head: bytes) -> bool:
    """Return whether the first 512 bytes of a file are the header of a tar archive."""
    return len(head) == BLOCK and head != _NUL_BLOCK and _checksum_fits(head)


class TarReader:
    """Iterates over the members of an archive; each is passed before the next is looked at."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0
        self._headers = 0

    def content(self, limit: int) -> bytes:
        """Return at most the first ``limit`` bytes of the current member.

        Raises:
            ReadError: the archive ends before.
        """
        return self._take(min(limit, self._left))

    def __iter__(self) -> Iterator[Member]:
        """Yield the members.

        Raises:
            ReadError: the archive is damaged, or of a kind that is not read.
        """
        extended: dict[str, str] = {}
        while (head := self._header()) is not None:
            kind = head[156:157]
            size = _number(head[124:136], "size")
            if kind in (b"x", b"X", b"g"):
                found = _records(self._body(size))
                if kind == b"g":
                    if "path" in found or "linkpath" in found or "size" in found:
                        raise ReadError("a global header gives all members one path or size")
                else:
                    extended.update(found)
                continue
            if kind in (b"L", b"K"):
                text = self._body(size).rstrip(b"\0")
                extended["path" if kind == b"L" else "linkpath"] = _text(text)
                continue
            yield self._member(head, kind, size, extended)
            extended = {}
        if extended:
            raise ReadError("the archive ends after an extended header")
        # The rest of the last record; reading on shows whether the compressed data is whole.
        while self._stream.skip(BLOCK):
            pass

    def _member(self, head: bytes, kind: bytes, size: int, extended: dict[str, str]) -> Member:
        name = extended.get("path")
        if name is None:
            name = _text(_field(head[0:100]))
            # GNU headers have times where POSIX has the first part of the path.
            if head[257:263] == b"ustar\0" and (prefix := _field(head[345:500])):
                name = f"{_text(prefix)}/{name}"
        target = extended.get("linkpath")
        if target is None:
            target = _text(_field(head[157:257]))
        if "size" in extended:
            size = _decimal(extended["size"])
        if kind == b"S" or any(key.startswith("GNU.sparse.") for key in extended):
            raise ReadError(
                f"member {_shown(name)} is sparse", help="pack it again without tar's option -S"
            )
        if kind == b"M":
            raise ReadError("the archive has several volumes", help="join them first")
        type_ = _TYPES.get(kind, "other")
        if kind == b"\0" and name.endswith("/"):
            type_ = "directory"  # before POSIX
        if kind not in _WITH_CONTENT and kind in _TYPES:
            size = 0  # some writers state the size of what a link leads to
        self._left, self._padding = size, -size % BLOCK
        return Member(name, type_, target if type_ in ("link", "hard link") else "", size)

    # --- blocks --------------------------------------------------------------------------------

    def _header(self) -> bytes | None:
        """Return the next header; None at the end of the archive."""
        rest = self._left + self._padding
        if self._stream.skip(rest) != rest:
            raise _ends_early()
        self._left = self._padding = 0
        self._headers += 1
        if self._headers > MAX_HEADERS:
            raise ReadError(f"the archive has more than {MAX_HEADERS} headers")
        head = self._stream.read(BLOCK)
        if not head and self._headers == 1:
            raise ReadError("is empty")
        if not head or head == _NUL_BLOCK:
            return None
        if len(head) < BLOCK:
            raise _ends_early()
        if not _checksum_fits(head):
            raise ReadError(
                "the archive is damaged: a header's checksum is wrong",
                help="copy or download it again",
            )
        return head

    def _body(self, size: int) -> bytes:
        if size > MAX_EXTENDED:
            raise ReadError(f"an extended header of the archive has {size} bytes")
        self._left, self._padding = size, -size % BLOCK
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if len(data) < size:
            raise _ends_early()
        return data


def _ends_early() -> ReadError:
    return ReadError("the archive ends too early", help="copy or download it again")


def _checksum_fits(head: bytes) -> bool:
    said = _field(head[148:156]).strip(b" ")
    if not said or not set(said) <= set(b"01234567"):
        return False
    rest = head[:148] + b" " * 8 + head[156:]
    if int(said, 8) == sum(rest):
        return True
    # Some old writers added signed characters.
    return int(said, 8) == sum(rest) - 256 * sum(byte > 127 for byte in rest)


def _field(data: bytes) -> bytes:
    return data.split(b"\0", 1)[0]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _shown(name: str) -> str:
    return f"'{clean(name, 120)}'"


def _number(data: bytes, what: str) -> int:
    """Return a number of a header: octal digits, or binary as GNU writes large ones."""
    if data[0] & 0x80:
        if data[0] != 0x80 or any(data[1:4]):
            raise ReadError(f"the archive is damaged: a {what} is negative or absurd")
        return int.from_bytes(data[1:], "big")
    digits = _field(data).strip(b" ")
    if not set(digits) <= set(b"01234567"):
        raise ReadError(f"the archive is damaged: a {what} is not a number")
    return int(digits or b"0", 8)


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ReadError("the archive is damaged: an extended header's size is not a number")
    return int(text)


def _records(data: bytes) -> dict[str, str]:
    """Return the records ``length key=value\\n`` of a pax header."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at]:  # some writers pad with NUL
        space = data.find(b" ", at, at + 9)
        digits = data[at:space] if space > 0 else b""
        if not digits.isdigit():
            raise _bad_record()
        end = at + int(digits)
        record = data[space + 1 : end]
        key, equals, value = record.partition(b"=")
        if end <= space or end > len(data) or not equals or not value.endswith(b"\n"):
            raise _bad_record()
        found[_text(key)] = _text(value[:-1])
        at = end
    return found


def _bad_record() -> ReadError:
    return ReadError("the archive is damaged: an extended header cannot be read")
