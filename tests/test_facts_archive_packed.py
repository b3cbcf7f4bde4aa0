"""Archives that are compressed, and read in little memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from compiler.facts.files.archive import read_archive
from compiler.facts.files.stream import Stream
from compiler.facts.files.tar import MAX_EXTENDED
from compiler.facts.partial import ReadError
from tests.tar_files import (
    CPU,
    MACHINE,
    PACKERS,
    SMALL,
    raw_header,
)


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz"])
def test_streams_in_a_row_and_padding(packing: str) -> None:
    pack = PACKERS[packing]
    data = pack(b"one ") + bytes(8) + pack(b"two ") + pack(b"") + pack(b"three") + bytes(512)
    assert Stream(io.BytesIO(data), limit=1000).read(99) == b"one two three"
    with pytest.raises(ReadError, match="something else after"):
        Stream(io.BytesIO(data + b"junk"), limit=1000).read(99)


class Trickle(io.RawIOBase):
    """Gives one byte at a time, as a slow pipe may."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        self._at += 1
        return self._data[self._at - 1 : self._at]


@pytest.mark.parametrize("packing", PACKERS)
def test_pipes_give_less_than_asked(packing: str) -> None:
    data = PACKERS[packing](MACHINE)
    archive = read_archive(Stream(Trickle(data), limit=SMALL.total), SMALL)
    assert archive.files.read(f"/m/{CPU}/online", 9) == b"0-3\n"


def test_a_stream_is_read_in_pieces_of_any_size() -> None:
    text = bytes(range(256)) * 1000
    for packing, pack in PACKERS.items():
        stream = Stream(io.BytesIO(pack(b"-" + text)[0:] if packing != "plain" else b"-" + text),
                        limit=1 << 20)  # fmt: skip
        assert stream.peek(3) == b"-\x00\x01"
        assert stream.read(1) == b"-"
        assert stream.skip(1000) == 1000
        rest = b"".join(iter(lambda one=stream: one.read(777), b""))
        assert rest == text[1000:]
        assert stream.skip(5) == 0


BOMB = """
import io, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]) << 20,) * 2)
from compiler.facts.files.archive import Limits, read_archive
from compiler.facts.files.stream import Stream
from compiler.facts.partial import ReadError
try:
    with open(sys.argv[1], "rb", buffering=0) as raw:
        limit = int(sys.argv[3]) << 20
        read_archive(Stream(raw, limit=limit), Limits(total=limit))
except ReadError as error:
    print("refused:", error.message)
else:
    print("read")
"""


def in_little_memory(path: Path, mib: int = 160, total: int = 1024) -> str:
    """Read an archive in a process that may use ``mib`` MiB of address space."""
    done = subprocess.run(
        [sys.executable, "-c", BOMB, str(path), str(mib), str(total)],
        capture_output=True, text=True, check=False, timeout=300,
        cwd=Path(__file__).resolve().parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repeated(path: Path, packing: str, head: bytes, mib: int) -> Path:
    """Write an archive that is a header and that many MiB of zeros."""
    pieces = [head, *([bytes(1 << 20)] * mib)]
    if packing == "gzip":
        with gzip.open(path, "wb", 1) as out:
            out.writelines(pieces)
    elif packing == "bzip2":
        with bz2.open(path, "wb", 1) as out:
            out.writelines(pieces)
    else:
        with lzma.open(path, "wb", preset=0) as out:
            out.writelines(pieces)
    return path


def test_a_gibibyte_of_zeros_takes_no_memory(tmp_path: Path) -> None:
    head = raw_header(f"{CPU}/online".encode(), b"%o" % (1 << 30))
    path = repeated(tmp_path / "bomb", "gzip", head, 1025)
    assert path.stat().st_size < 6 << 20
    assert in_little_memory(path) == "refused: holds more than 1024 MiB"


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_of_a_gibibyte_is_not_read(tmp_path: Path, kind: bytes) -> None:
    head = raw_header(b"p", b"%o" % (1 << 30), kind)
    path = repeated(tmp_path / "bomb", "gzip", head, 1)
    assert "extended header of the archive has 1073741824 bytes" in in_little_memory(path)
    assert MAX_EXTENDED <= 1 << 20


@pytest.mark.parametrize("packing", ["bzip2", "xz"])
def test_bombs_of_other_packers(tmp_path: Path, packing: str) -> None:
    head = raw_header(b"proc/cpuinfo", b"%o" % (1 << 30))
    path = repeated(tmp_path / "bomb", packing, head, 70)
    assert in_little_memory(path, total=64) == "refused: holds more than 64 MiB"


def test_an_xz_dictionary_larger_than_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(
        lzma.compress(MACHINE, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}])
    )
    # The block header after the 12 bytes of the stream's: its own size, flags, then the filter:
    # LZMA2 (0x21), one byte of properties, the dictionary size in steps of powers of two.
    length = (packed[12] + 1) * 4
    at = packed.index(b"\x21\x01") + 2
    packed[at] = 34  # 512 MiB
    crc = zlib.crc32(packed[12 : 12 + length - 4])
    packed[12 + length - 4 : 12 + length] = crc.to_bytes(4, "little")
    path = tmp_path / "big.xz"
    path.write_bytes(packed)
    assert "takes more than 128 MiB of memory" in in_little_memory(path)
