"""Whether our sched_ext scheduler is loaded, and what its maps hold beside the seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from compiler.modes import OPS_PREFIX
from compiler.plan import NodePlan
from compiler.verify.bpftool import MapsError, dump
from compiler.verify.result import SchedulerCheck, TableCheck
from compiler.verify.seedfile import SeedFile, SeedTable
from compiler.verify.statistics import read_bands, read_end, read_threads
from compiler.verify.sysroot import DeniedError, Sysroot

_SCHED_EXT: Final = "/sys/kernel/sched_ext"
_ZERO: Final = bytes(4)
_NOTHING: Final = bytes(8)


def read_scheduler(root: Sysroot, seed: SeedFile | None) -> SchedulerCheck:
    """Return what the kernel says of sched_ext; needs no privilege.

    Where our scheduler is gone, also how it ended, if the place of its pins (``seed``) may be read.
    """
    try:
        state = root.line(f"{_SCHED_EXT}/state")
        ops = root.line(f"{_SCHED_EXT}/root/ops")
    except DeniedError:
        return SchedulerCheck(None, None, False)
    enabled = state is not None and state != "disabled"
    ours = enabled and (ops or "").startswith(OPS_PREFIX)
    end = read_end(root, seed.pins) if seed is not None and not ours else None
    return SchedulerCheck(state, (ops or None) if enabled else None, ours, end=end)


@dataclass(frozen=True, slots=True)
class MapsCheck:
    """What the maps say.

    Attributes:
        scheduler: the scheduler with slot, generation and tables added, as far as they are known.
        unreadable: why maps could not be read; empty where all could.
        abi: whether the scheduler is built for the seed's layout; None: not known.
        active: ``seed``: the seed is in force; ``other``; ``nothing``; None: not known.
        threads: rule and band by thread id, as far as the scheduler recorded them.
    """

    scheduler: SchedulerCheck
    unreadable: str = ""
    abi: bool | None = None
    active: str | None = None
    threads: Mapping[int, tuple[int | None, int]] | None = None


def check_maps(
    root: Sysroot, scheduler: SchedulerCheck, seed: SeedFile, plan: NodePlan
) -> MapsCheck:
    """Compare the pinned maps below ``root`` with the seed, by ``bpftool``.

    Nothing is written.  ``group`` and ``groupvec`` are filled on the node, so only the tables that
    a seed fills are compared.
    """
    try:
        return _Maps(root, seed, plan).check(scheduler)
    except MapsError as error:
        return MapsCheck(scheduler, unreadable=str(error))


class _Maps:
    def __init__(self, root: Sysroot, seed: SeedFile, plan: NodePlan) -> None:
        self._root = root
        self._seed = seed
        self._bands = [band.id for band in plan.bands]

    def check(self, scheduler: SchedulerCheck) -> MapsCheck:
        seed = self._seed
        pins = self._root.path(seed.pins)
        if not os.access(pins, os.X_OK):
            raise MapsError(
                f"{seed.pins} can be entered by root only"
                if os.path.lexists(pins)
                else f"{seed.pins} is not there"
            )
        if not self._root.exists(f"{seed.pins}/{seed.active}"):
            raise MapsError(f"{seed.pins}/{seed.active} is not pinned")
        abi = self._pinned("tierc_abi").get(_ZERO)
        if abi != seed.abi:
            return MapsCheck(scheduler, abi=False)
        active = self._pinned(seed.active).get(_ZERO, b"")
        if len(active) != len(_NOTHING):
            raise MapsError(f"{seed.active} holds {len(active)} bytes, not {len(_NOTHING)}")
        slot, generation = _uint(active[:4]), _uint(active[4:])
        if active == _NOTHING or slot >= len(seed.slots):
            return MapsCheck(scheduler, abi=True, active="nothing")
        tables = [table for table in seed.tables if not table.filled_here]
        found = [self._table(table, slot) for table in tables]
        checked = replace(
            scheduler,
            slot=slot,
            generation=generation,
            tables=tuple(one for one in found if one is not None),
            compared=len(tables),
        )
        state = "seed" if active == seed.slots[slot] else "other"
        return self._told(MapsCheck(checked, abi=True, active=state), generation)

    def _told(self, maps: MapsCheck, generation: int) -> MapsCheck:
        """Add what the scheduler tells of itself; where that cannot be read, the rest stands."""
        pins = self._seed.pins
        try:
            bands = read_bands(self._root, pins, self._bands, generation)
            threads = read_threads(self._root, pins, generation)
        except MapsError as error:
            return replace(maps, unreadable=str(error))
        told = replace(
            maps.scheduler, bands=bands, recorded=None if threads is None else len(threads)
        )
        return replace(maps, scheduler=told, threads=threads)

    def _table(self, table: SeedTable, slot: int) -> TableCheck | None:
        inner = self._pinned(table.outer).get(slot.to_bytes(4, "little"))
        if inner is None:
            return TableCheck(table.name, 0, len(table.entries), 0, "the slot holds no map")
        live = dump("id", str(_uint(inner)))
        return compare(table, live)

    def _pinned(self, name: str) -> dict[bytes, bytes]:
        return dump("pinned", self._root.path(f"{self._seed.pins}/{name}"))


def compare(table: SeedTable, live: Mapping[bytes, bytes]) -> TableCheck | None:
    """Return how a live table differs from the seed's; None where it does not."""
    want = table.entries
    different = sorted(key for key in want.keys() & live.keys() if want[key] != live[key])
    missing = sorted(want.keys() - live.keys())
    extra = sorted(live.keys() - want.keys())
    if not (different or missing or extra):
        return None
    first = (different or missing or extra)[0]
    meaning = table.means.get(first) or f"key {first.hex()}"
    return TableCheck(table.name, len(different), len(missing), len(extra), meaning)


def _uint(data: bytes) -> int:
    return int.from_bytes(data, "little")
