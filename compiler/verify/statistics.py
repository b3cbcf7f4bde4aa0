"""What our scheduler tells of itself: the maps of ``bpf/tierc_state.h``.

They are not part of the seed's layout, and another scheduler on the same layout need not have them:
what is not pinned is unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from compiler.verify.bpftool import MapsError, dump, per_cpu
from compiler.verify.result import BandStatistics, SchedulerEnd
from compiler.verify.sysroot import Sysroot

MAP_STATS: Final = "tierc_stats"
MAP_THREADS: Final = "tierc_threads"
MAP_EXIT: Final = "tierc_exit"
NO_RULE: Final = 256
"""``TIERC_MAX_RULES``: the rule of a thread that none has."""
STAT: Final = struct.Struct("<IIQQQQQ")
"""``struct tierc_stat``: generation, judged, run_ns, runs, wait_ns, wait_max_ns, preempts."""
THREAD: Final = struct.Struct("<IIII")
"""``struct tierc_thread``: generation, rule, band, cpu."""
EXIT: Final = struct.Struct("<IIQ64s128s")
"""``struct tierc_exit``: kind, reserved, code, reason, message."""


def read_bands(
    root: Sysroot, pins: str, bands: Sequence[int], generation: int
) -> tuple[BandStatistics, ...] | None:
    """Return the statistics of bands since a generation came into force; None where there are none.

    Raises:
        MapsError: they cannot be read, or are laid out otherwise.
    """
    if not root.exists(f"{pins}/{MAP_STATS}"):
        return None
    keys = [band.to_bytes(4, "little") for band in bands]
    values = per_cpu(root.path(f"{pins}/{MAP_STATS}"), keys)
    return tuple(_band(band, rows, generation) for band, rows in zip(bands, values, strict=True))


def _band(band: int, rows: Sequence[bytes], generation: int) -> BandStatistics:
    judged = run_ns = runs = wait_ns = wait_max_ns = preempts = 0
    for row in rows:
        of, *numbers = _unpack(STAT, row, MAP_STATS)
        if of != generation:
            continue  # of an earlier policy: it counts as zero
        judged += numbers[0]
        run_ns += numbers[1]
        runs += numbers[2]
        wait_ns += numbers[3]
        wait_max_ns = max(wait_max_ns, numbers[4])
        preempts += numbers[5]
    return BandStatistics(band, judged, run_ns, runs, wait_ns, wait_max_ns, preempts)


def read_threads(
    root: Sysroot, pins: str, generation: int
) -> dict[int, tuple[int | None, int]] | None:
    """Return rule and band of the threads that the scheduler recorded, by thread id.

    None where it has no such map.  Empty where recording is off, which it is unless asked for.

    Raises:
        MapsError: it cannot be read, or is laid out otherwise.
    """
    if not root.exists(f"{pins}/{MAP_THREADS}"):
        return None
    found: dict[int, tuple[int | None, int]] = {}
    for key, value in dump("pinned", root.path(f"{pins}/{MAP_THREADS}")).items():
        of, rule, band, _ = _unpack(THREAD, value, MAP_THREADS)
        if of == generation:
            found[int.from_bytes(key, "little")] = (None if rule == NO_RULE else rule, band)
    return found


def read_end(root: Sysroot, pins: str) -> SchedulerEnd | None:
    """Return how our scheduler ended last; None where it did not, or that cannot be read."""
    if not root.exists(f"{pins}/{MAP_EXIT}"):
        return None
    try:
        value = dump("pinned", root.path(f"{pins}/{MAP_EXIT}")).get(bytes(4), b"")
        kind, _, _, reason, message = _unpack(EXIT, value, MAP_EXIT)
    except MapsError:
        return None
    return SchedulerEnd(kind, _text(reason), _text(message)) if kind else None


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _unpack(record: struct.Struct, data: bytes, name: str) -> tuple[Any, ...]:
    if len(data) != record.size:
        raise MapsError(f"{name} has values of {len(data)} bytes, not {record.size}")
    return record.unpack(data)
