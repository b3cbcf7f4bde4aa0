"""Where the interrupts of devices may be delivered, beside where the plan puts them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.tree import Tree, clean, numbered
from compiler.plan import NodePlan
from compiler.verify.result import InterruptCheck
from compiler.verify.sysroot import Sysroot

MAX_IRQS: Final = 20_000
"""Interrupts that are looked at."""
_MAX_TABLE: Final = 64 << 20
"""Bytes of ``/proc/interrupts``: 1,000 CPUs and 5,000 interrupts."""
_VIRTIO: Final = re.compile(r"virtio[0-9]+", re.ASCII)


def check_interrupts(
    root: Sysroot, plan: NodePlan, online: CpuSet, set_by_us: Collection[tuple[int, str]]
) -> tuple[InterruptCheck, ...]:
    """Return the interrupts of every device that the plan places, by device and number.

    An interrupt is right where it may be delivered to planned CPUs only; which of them is the
    kernel's choice.  One that user space may not set (the kernel manages it) is never wrong.

    Args:
        root: the node.
        plan: its plan.
        online: the CPUs that are online.
        set_by_us: number and device of those that our scripts have set in this boot.
    """
    placed = [row for row in plan.irqs if row.cpus is not None]
    if not placed:
        return ()
    finder = _Finder(Tree.of_disk(root.directory))
    found: list[InterruptCheck] = []
    for row in placed:
        planned = (row.cpus or CpuSet()) & online
        for irq in finder.numbers(row.device):
            place = f"/proc/irq/{irq}"
            allowed = finder.tree.cpus(f"{place}/smp_affinity_list")
            managed = allowed is not None and not _settable(root, f"{place}/smp_affinity_list")
            inside = allowed is None or not planned or allowed & online <= planned
            found.append(
                InterruptCheck(
                    irq=irq,
                    device=row.device,
                    action=finder.action(irq),
                    planned=planned,
                    allowed=allowed,
                    managed=managed,
                    moved=not inside and (irq, row.device) in set_by_us,
                    right=managed or inside,
                )
            )
            if len(found) >= MAX_IRQS:
                return tuple(found)
    return tuple(found)


class _Finder:
    """Finds the interrupts that devices have now, as the emitted scripts do."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._table: Mapping[int, str] | None = None

    def numbers(self, device: str) -> Iterator[int]:
        """Yield a device's interrupts: its messages; else those called after it; else its line."""
        place = f"/sys/bus/pci/devices/{device}"
        numbers = numbered(self.tree.names(f"{place}/msi_irqs"), "")
        if not numbers:
            numbers = sorted(self._called(device, place))
        if not numbers:
            line = self.tree.number(f"{place}/irq")
            numbers = [line] if line and line in self.table else []
        yield from numbers

    def action(self, irq: int) -> str:
        """Return what ``/proc/interrupts`` says of an interrupt, its handlers last."""
        return clean(self.table.get(irq, ""), 80)

    @property
    def table(self) -> Mapping[int, str]:
        """What ``/proc/interrupts`` says behind the counts, by number."""
        if self._table is None:
            self._table = dict(self._rows())
        return self._table

    def _rows(self) -> Iterator[tuple[int, str]]:
        lines = (self.tree.text("/proc/interrupts", _MAX_TABLE) or "").splitlines()
        cpus = len(lines[0].split()) if lines else 0
        for line in lines[1:]:
            number, colon, _ = line.strip().partition(":")
            if colon and number.isascii() and number.isdigit() and len(number) < 8:
                yield int(number), " ".join(line.split()[cpus + 1 :])

    def _called(self, device: str, place: str) -> Iterator[int]:
        """Yield interrupts whose text has the device's address, or what the system calls it."""
        virtio = [name for name in self.tree.names(place) if _VIRTIO.fullmatch(name)]
        calls = [*virtio]
        for below in (place, *(f"{place}/{name}" for name in virtio)):
            calls += self.tree.names(f"{below}/net")
        address = re.compile(rf"(?<![0-9a-fA-F]){re.escape(device)}(?![0-9a-fA-F])")
        starts = tuple(f"{call}{mark}" for call in calls for mark in "-:")
        for irq, text in self.table.items():
            words = [word.removesuffix(",") for word in text.split()]
            named = any(word in calls or word.startswith(starts) for word in words)
            if address.search(text) or named:
                yield irq


def _settable(root: Sysroot, path: str) -> bool:
    """Return whether root may write the file: the kernel says so by its mode."""
    try:
        return bool(os.stat(root.path(path)).st_mode & 0o200)
    except OSError:
        return True
