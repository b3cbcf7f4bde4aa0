"""Bytes of a file that may be compressed, without end to what they may claim to hold."""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import Final, Protocol

from compiler.facts.partial import ReadError

_CHUNK: Final = 64 * 1024
_XZ_MEMORY: Final = 128 * 1024 * 1024  # xz -9 asks for 65 MiB

_GZIP: Final = b"\x1f\x8b\x08"
_BZIP2: Final = b"BZh"
_XZ: Final = b"\xfd7zXZ\x00"
_FOREIGN: Final = (
    (b"\x28\xb5\x2f\xfd", "zstd", "unpack it first: zstd -d FILE"),
    (b"PK\x03\x04", "a zip archive", "unpack it first: unzip FILE -d DIR, and name DIR"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first, and name the directory"),
    (b"\x1f\x9d", "compressed by compress(1)", "unpack it first: uncompress FILE"),
    (b"\x04\x22\x4d\x18", "lz4", "unpack it first: lz4 -d FILE"),
)


class Raw(Protocol):
    """What bytes come from: a file that was opened for reading, without text decoding."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most ``size`` bytes; none at the end."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's object with the interface that those of bz2 and lzma share."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class Stream:
    """Reads a file and decompresses it on the way if it is gzip, bzip2 or xz.

    Only what is asked for is decompressed, in pieces of bounded size.

    Attributes:
        packing: ``gzip``, ``bzip2``, ``xz``, or empty.
    """

    def __init__(self, raw: Raw, *, limit: int) -> None:
        """Look at the first bytes.

        Args:
            raw: the file.
            limit: bytes that may be read, and bytes that may come out, before it is refused.

        Raises:
            ReadError: the file is packed in another way.
            OSError: the file cannot be read.
        """
        self._raw = raw
        self._limit = limit
        self._read = 0
        self._made = 0
        self._input = b""
        self._buffer = bytearray()
        self._done = False
        self._decompressor: _Decompressor | None = None
        while len(self._input) < 6 and (more := self._more()):
            self._input += more
        head = self._input
        for magic, what, help_ in _FOREIGN:
            if head.startswith(magic):
                raise ReadError(f"is {what}, which cannot be read", help=help_)
        self.packing = ""
        if head.startswith(_GZIP):
            self.packing, self._magic = "gzip", _GZIP
        elif head.startswith(_BZIP2) and head[3:4].isdigit():
            self.packing, self._magic = "bzip2", _BZIP2
        elif head.startswith(_XZ):
            self.packing, self._magic = "xz", _XZ
        if self.packing:
            self._decompressor = self._new()

    def peek(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end, and leave them to be read.

        Raises:
            ReadError: the data is damaged or too long.
            OSError: the file cannot be read.
        """
        while len(self._buffer) < size and self._fill():
            pass
        return bytes(self._buffer[:size])

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer at the end; raises like :meth:`peek`."""
        result = self.peek(size)
        del self._buffer[: len(result)]
        return result

    def skip(self, size: int) -> int:
        """Pass over the next ``size`` bytes and return how many there were."""
        left = size
        while left > 0:
            if not self._buffer and not self._fill():
                break
            step = min(left, len(self._buffer))
            del self._buffer[:step]
            left -= step
        return size - left

    # --- inside --------------------------------------------------------------------------------

    def _more(self) -> bytes:
        data = self._raw.read(_CHUNK) or b""
        self._read += len(data)
        if self._read > self._limit:
            raise self._too_long()
        return data

    def _fill(self) -> bool:
        """Add some bytes to the buffer; False at the end."""
        while not self._done:
            made = self._input if self._decompressor is None else self._piece()
            if self._decompressor is None:
                self._input = b""
                made = made or self._more()
                self._done = not made
            if made:
                self._made += len(made)
                if self._made > self._limit:
                    raise self._too_long()
                self._buffer += made
                return True
        return False

    def _piece(self) -> bytes:
        """Decompress one piece; it may be empty."""
        one = self._decompressor
        assert one is not None
        if one.eof:
            self._next(one.unused_data)
            return b""
        data, self._input = self._input, b""
        try:
            made = one.decompress(data, _CHUNK)
            if made or one.eof:
                return made
            # Nothing more comes from what it has.
            data = self._more()
            if not data:
                raise ReadError(
                    f"the {self.packing} data ends too early", help="copy or download it again"
                )
            return one.decompress(data, _CHUNK)
        except lzma.LZMAError as error:
            raise self._damaged("emory" in str(error)) from None
        except (zlib.error, OSError, EOFError, ValueError) as error:
            # bz2 raises OSError and ValueError without an errno; those of reading have one.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise self._damaged() from None

    def _next(self, rest: bytes) -> None:
        """Go on after the end of one compressed stream: padding, another stream, or the end."""
        rest = rest.lstrip(b"\0")
        while len(rest) < len(self._magic) and (more := self._more()):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            self._done = True
        elif rest.startswith(self._magic):
            self._input = rest
            self._decompressor = self._new()
        else:
            raise ReadError(
                f"there is something else after the {self.packing} data",
                help="copy or download it again",
            )

    def _new(self) -> _Decompressor:
        if self.packing == "gzip":
            return _Gzip()
        if self.packing == "bzip2":
            return bz2.BZ2Decompressor()
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def _damaged(self, memory: bool = False) -> ReadError:
        if memory:
            return ReadError(
                f"decompressing the {self.packing} data takes more than "
                f"{_XZ_MEMORY >> 20} MiB of memory",
                help="pack it again with default settings",
            )
        return ReadError(f"the {self.packing} data is damaged", help="copy or download it again")

    def _too_long(self) -> ReadError:
        return ReadError(
            f"holds more than {self._limit >> 20} MiB",
            help="pack only what is needed: sys/devices, sys/bus/pci, sys/class and proc/cpuinfo",
        )
