"""Numbers and lists in sentences, and the order of names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_DIGITS: Final = 18
"""Digits of a number in a name that count; no name has so many."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def natural(name: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """Return a key that orders ``gpu2`` before ``gpu10``, for names of any kind.

    The digits of a name with a colon are hexadecimal (PCI addresses) and have one width: such a
    name goes by its text.
    """
    found = [(name, "")] if ":" in name else re.findall(r"([^0-9]*)([0-9]*)", name)
    return tuple((text, int(digits[:_DIGITS] or -1)) for text, digits in found), name
