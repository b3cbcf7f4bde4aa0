"""Names as the kernel keeps them: bytes, and for threads at most 15 of them."""

from __future__ import annotations

from typing import Final

from compiler.patterns.errors import PatternError

COMM_BYTES: Final = 15
"""Bytes the kernel keeps of a thread's name: TASK_COMM_LEN is 16 with the final NUL."""


def name_bytes(name: str | bytes) -> bytes:
    """Return the bytes of a name: UTF-8, with undecodable bytes as :func:`os.fsdecode` has them.

    Characters that have no bytes (other lone surrogates) become ``?``: no real name has them.
    """
    if isinstance(name, bytes):
        return name
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "replace")


def truncate_comm(name: str) -> str:
    """Cut a name to the 15 bytes the kernel keeps, never inside a character.

    The kernel itself cuts between bytes; a half character could not be written in a policy, so
    the result may be up to three bytes shorter than 15.
    """
    data = name_bytes(name)
    end = COMM_BYTES
    if len(data) <= end:
        return name
    while end > 0 and data[end] & 0xC0 == 0x80:  # a UTF-8 continuation byte
        end -= 1
    return data[:end].decode("utf-8", "surrogateescape")


def check_characters(text: str, what: str) -> None:
    """Refuse what no pattern may hold: control characters and lone surrogates.

    Raises:
        PatternError: naming the character and its place.
    """
    for offset, char in enumerate(text):
        if char < " " or char == "\x7f":
            raise PatternError(f"control character U+{ord(char):04X} in a {what}", offset)
        if "\ud800" <= char <= "\udfff":
            raise PatternError(f"lone surrogate U+{ord(char):04X} in a {what}", offset)
