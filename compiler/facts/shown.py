"""How a text from a file may stand in a message."""

from __future__ import annotations


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
