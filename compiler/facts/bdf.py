"""PCI addresses: one spelling for all sources."""

from __future__ import annotations

import re
from typing import Final

_BDF: Final = re.compile(
    r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", re.ASCII | re.IGNORECASE
)


def canonical_bdf(text: str) -> str | None:
    """Return a PCI address as sysfs spells it; None if it is none.

    The domain has four digits or as many as it needs: ``nvidia-smi`` prints
    ``00000000:1B:00.0`` and NCCL ``1b:00.0`` for what sysfs calls ``0000:1b:00.0``.
    """
    match = _BDF.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    if device > 0x1F:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def bdf_key(bdf: str | None) -> tuple[int, ...]:
    """Return a PCI address as numbers, so that domain 10000 follows 000f; () for None."""
    match = _BDF.fullmatch(bdf or "")
    return tuple(int(part or "0", 16) for part in match.groups()) if match else ()
