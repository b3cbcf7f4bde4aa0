"""From the bytes of a file to its text."""

from __future__ import annotations

import codecs
from typing import Final

from compiler.facts.partial import ReadError

# Windows writes these: PowerShell redirects to UTF-16.
_WIDE: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decode(data: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark.

    NUL at the end is left out: tar pads with it what it packs from ``/proc``.

    Raises:
        ReadError: it is not text.
    """
    for mark, encoding in _WIDE:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                raise ReadError("is damaged UTF-16", help="save it as UTF-8") from None
    data = data.removeprefix(codecs.BOM_UTF8).rstrip(b"\0")
    if b"\0" in data:
        raise ReadError(
            "is not text but binary data",
            help="give the text that a tool printed, or a tar archive (plain, gzip, bzip2 or xz); "
            "unpack others, such as zip, first",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ReadError(
            f"byte 0x{data[error.start]:02x} is not UTF-8",
            line=data.count(b"\n", 0, error.start) + 1,
            help="record it again with LC_ALL=C, or convert it: iconv -f LATIN1 -t UTF-8 FILE",
        ) from None
    if not text.strip():
        raise ReadError("is empty", help="was the command that should have filled it run?")
    return text
