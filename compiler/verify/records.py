"""What the emitted scripts have recorded as changed on the node, in this boot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.verify.sysroot import DeniedError, Sysroot

STATE: Final = "/var/lib/tierc"
ACTING: Final = ("cpuset", "irq", "taskset")
"""Targets whose scripts record what they change."""
_MAX_STATE: Final = 16 << 20
_IRQ_FIELDS: Final = 7
"""Of a line: number, device, name; CPUs at first, written, before, asked for."""


def read_records(root: Sysroot, targets: Sequence[str]) -> dict[str, list[str] | None]:
    """Return the lines of each target's record; None where it cannot be read, empty without one.

    A record of an earlier boot is empty: nothing of what it says outlives a boot.
    """
    try:
        boot = root.line("/proc/sys/kernel/random/boot_id")
    except DeniedError:
        boot = None
    found: dict[str, list[str] | None] = {}
    for target in ACTING:
        if target not in targets:
            continue
        try:
            data = root.read(f"{STATE}/{target}/state", _MAX_STATE)
        except DeniedError:
            found[target] = None
            continue
        header, *lines = (data or b"").decode("utf-8", "replace").splitlines() or [""]
        mine = header.split(" ")[1:] == [boot or "-"]
        found[target] = [line for line in lines if line.strip()] if mine else []
    return found


def set_interrupts(lines: Sequence[str] | None) -> frozenset[tuple[int, str]]:
    """Return the interrupts, number and device, that ``irq/apply.sh`` has set."""
    rows = [line.split() for line in lines or ()]
    return frozenset(
        (int(row[0]), row[1])
        for row in rows
        if len(row) == _IRQ_FIELDS and row[0].isascii() and row[0].isdigit() and len(row[0]) < 10
    )
