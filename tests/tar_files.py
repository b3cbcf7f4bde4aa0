"""Archives for tests of reading them, an entry at a time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterable

import pytest

from compiler.facts.files.archive import Archive, Limits, read_archive
from compiler.facts.files.stream import Stream
from compiler.facts.partial import ReadError

CPU = "sys/devices/system/cpu"
SMALL = Limits(members=100, kept=1 << 20, total=4 << 20)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def entry(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target), b""


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE, linkname=target), b""


def tar(
    members: Iterable[tuple[str | tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for member, data in members:
            info = entry(member) if isinstance(member, str) else member
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read(data: bytes, limits: Limits = SMALL) -> Archive:
    return read_archive(Stream(io.BytesIO(data), limit=limits.total), limits)


def read_or_refused(data: bytes) -> Archive:
    """Read an archive; one that is refused, with a message as it must be, is as an empty one."""
    try:
        return read(data)
    except ReadError:
        refusal(data)
        return Archive()


def refusal(data: bytes, limits: Limits = SMALL) -> str:
    with pytest.raises(ReadError) as caught:
        read(data, limits)
    message = caught.value.message
    assert message.isprintable()
    assert not message.endswith(".")
    return message


MACHINE = tar(
    [
        (f"m/{CPU}/online", b"0-3\n"),
        (f"m/{CPU}/cpu0/topology/core_id", b"0\n"),
        link(f"m/{CPU}/cpu0/node0", "../../node/node0"),
        (entry("m/sys/devices/system/node/node0", type=tarfile.DIRTYPE, mode=0o755), b""),
        ("m/proc/cpuinfo", b"processor : 0\n" * 400),
        ("m/lscpu.txt", b"Architecture: x86_64\n"),
    ]
)


def raw_header(name: bytes = b"x", size: bytes = b"0", kind: bytes = b"0") -> bytes:
    head = bytearray(512)
    head[0:100] = name.ljust(100, b"\0")
    head[100:108] = b"0000644\0"
    head[124:136] = size.ljust(12, b"\0")
    head[156:157] = kind
    head[257:265] = b"ustar\x0000"
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)
