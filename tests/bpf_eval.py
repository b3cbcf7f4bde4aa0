"""Seeds read and evaluated as a scheduler in the kernel would, and first match done directly.

Nothing here comes from ``targets.bpf``: offsets and rules are those of ``bpf/tierc_maps.h``,
written down a second time, so that a mistake there does not cancel out.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.cpuset import CpuSet
from compiler.patterns import Glob
from compiler.plan import Condition, NodePlan

Entries = dict[bytes, bytes]
Dump = Mapping[str, Mapping[bytes, bytes]]
"""Entries by table; an array's missing entries are zero."""


# --- seeds as data ---------------------------------------------------------------------------


@dataclass
class Staged:
    """One map that a stage batch makes."""

    geometry: dict[str, str]
    entries: Entries = field(default_factory=dict)
    frozen: bool = False


_CREATE = re.compile(
    r"map create (?P<path>\S+) type (?P<type>\S+) key (?P<key>\d+) value (?P<value>\d+)"
    r" entries (?P<entries>\d+) name (?P<name>\S+) flags (?P<flags>\d+)"
)
_UPDATE = re.compile(
    r"map update pinned (\S+) key hex ((?:[0-9a-f]{2} ?)+) value hex ((?:[0-9a-f]{2} ?)+)"
)
_FREEZE = re.compile(r"map freeze pinned (\S+)")


def read_stage(text: str) -> dict[str, Staged]:
    """Read a stage batch: path -> map.  Any line that is not understood is an error."""
    maps: dict[str, Staged] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if match := _CREATE.fullmatch(line):
            assert match["path"] not in maps
            maps[match["path"]] = Staged(match.groupdict())
        elif match := _UPDATE.fullmatch(line):
            one = maps[match[1]]
            assert not one.frozen
            key = bytes.fromhex(match[2])
            assert key not in one.entries
            one.entries[key] = bytes.fromhex(match[3])
        elif match := _FREEZE.fullmatch(line):
            maps[match[1]].frozen = True
        else:
            raise AssertionError(f"not understood: {line!r}")
    return maps


def dump_of_stage(text: str) -> dict[str, Entries]:
    """Return the content a stage batch leads to, by table."""
    return {path.rsplit("/", 1)[1]: one.entries for path, one in read_stage(text).items()}


def dump_of_document(document: bytes) -> dict[str, Entries]:
    """Return the content ``seed.json`` states, by table."""
    data: Any = json.loads(document)
    return {
        table["name"]: {
            bytes.fromhex(entry["key"]): bytes.fromhex(entry["value"]) for entry in table["entries"]
        }
        for table in data["tables"]
    }


# --- the kernel's side -----------------------------------------------------------------------


@dataclass(frozen=True)
class Thread:
    comm: bytes
    leader: bytes = b"init"
    cgroup: tuple[bytes, ...] = ()
    kernel: bool = False
    rubbish: bytes = b""
    """What is left behind the NUL of a name in ``task_struct.comm``."""


@dataclass(frozen=True)
class BandRecord:
    slice_ns: int
    weight: int
    floor: int
    tier: int
    order: int
    flags: int
    cpus: CpuSet


def lpm_lookup(entries: Mapping[bytes, bytes], bits: int, data: bytes) -> bytes | None:
    """Return the value of the longest entry that is a prefix of the first ``bits`` of data."""
    best: tuple[int, bytes] | None = None
    wanted = int.from_bytes(data, "big")
    width = 8 * len(data)
    for key, value in entries.items():
        (length,) = struct.unpack_from("<I", key)
        if length > bits:
            continue
        stored = int.from_bytes(key[4:], "big")
        if stored >> (width - length) == wanted >> (width - length) and (
            best is None or length > best[0]
        ):
            best = length, value
    return None if best is None else best[1]


def vec(value: bytes | None) -> int:
    """Return a struct tierc_vec as a mask; a miss is the empty set."""
    if value is None:
        return 0
    words = struct.unpack("<4Q", value)
    return sum(word << (64 * n) for n, word in enumerate(words))


def _index(entries: Mapping[bytes, bytes], index: int, size: int = 32) -> bytes:
    """Look up an array map, whose every entry exists."""
    return entries.get(struct.pack("<I", index), bytes(size))


def _comm_field(name: bytes, rubbish: bytes) -> bytes:
    return (name + b"\0" + rubbish)[:16].ljust(16, b"\0")


def _cgroup(entries: Mapping[bytes, bytes], depth: int, name: bytes) -> int:
    if len(name) > 63:
        return 0
    return vec(entries.get(struct.pack("<I64s", depth, name)))


def lookup_rule(dump: Dump, thread: Thread) -> int | None:
    """Return the rule a thread gets, None when no rule has it."""
    path = thread.cgroup
    match = [0] * 14
    match[0] = vec(lpm_lookup(dump["comm"], 128, _comm_field(thread.comm, thread.rubbish)))
    match[1] = vec(lpm_lookup(dump["leader"], 128, _comm_field(thread.leader, thread.rubbish)))
    match[2] = vec(_index(dump["kind"], int(thread.kernel)))
    match[3] = vec(_index(dump["level"], min(len(path), 9)))
    match[4] = 0  # groups are filled at run time
    for name in path[:128]:
        match[5] |= _cgroup(dump["cgroup"], 0, name)
    for depth, name in enumerate(path[:8], 1):
        match[5 + depth] = _cgroup(dump["cgroup"], depth, name)
    fits = (1 << 256) - 1
    for dimension, rules in enumerate(match):
        fits &= rules | vec(_index(dump["dontcare"], dimension))
    return (fits & -fits).bit_length() - 1 if fits else None


def lookup_band(dump: Dump, thread: Thread) -> int:
    """Return the number of the band a thread gets."""
    rule = lookup_rule(dump, thread)
    n_rules, n_bands, default_band, _ = struct.unpack("<4I", _index(dump["head"], 0, 16))
    if rule is None:
        number = default_band
    else:
        assert rule < n_rules
        (number,) = struct.unpack("<I", _index(dump["rules"], rule, 4))
    assert number < n_bands
    return int(number)


def read_band(dump: Dump, number: int) -> BandRecord:
    """Return a band's record."""
    slice_ns, weight, floor, tier, order, flags, *words = struct.unpack(
        "<QIIHHI16Q", _index(dump["bands"], number, 152)
    )
    cpus = CpuSet.from_mask(sum(word << (64 * n) for n, word in enumerate(words)))
    return BandRecord(slice_ns, weight, floor, tier, order, flags, cpus)


# --- the compiler's side ---------------------------------------------------------------------


def fits(match: Condition, thread: Thread) -> bool:
    """Tell whether a condition has a thread (design: kthread matches kernel threads only, the
    other fields never do)."""
    others = (match.comm, match.leader_comm, match.cgroup)
    if match.kthread is not None:
        alone = all(other is None for other in others)
        return thread.kernel and alone and Glob.comm(match.kthread).matches(thread.comm)
    if thread.kernel:
        return False
    if match.comm is not None and not Glob.comm(match.comm).matches(thread.comm):
        return False
    if match.leader_comm is not None and not Glob.comm(match.leader_comm).matches(thread.leader):
        return False
    path = b"/".join(thread.cgroup)
    return match.cgroup is None or Glob.cgroup(match.cgroup).matches(path)


def first_match(plan: NodePlan, thread: Thread) -> int | None:
    """Return the id of the first rule that has a thread."""
    return next((rule.id for rule in plan.rules if fits(rule.match, thread)), None)


def expected_band(plan: NodePlan, number: int) -> BandRecord:
    """Return what a band's record must say."""
    band = next(band for band in plan.bands if band.id == number)
    tier = next(tier for tier in plan.tiers if tier.id == band.tier)
    others = [
        cpu
        for lane in plan.lanes
        for cpu in lane.cpus
        if cpu not in band.cpus
        and (lane.share == "exclusive" or (lane.share == "guarded" and lane.tier < band.tier))
    ]
    narrow = band.cpus != plan.machine.effective
    hard = band.hard or (narrow and bool(others))
    soft = narrow and not hard
    return BandRecord(
        slice_ns=tier.slice_ns,
        weight=tier.weight,
        floor=tier.floor,
        tier=band.tier,
        order=band.order,
        flags=tier.preempt + 2 * hard + 4 * soft + 8 * band.prefer_idle_core,
        cpus=band.cpus,
    )


def check(dump: Dump, plan: NodePlan, threads: Iterable[Thread]) -> None:
    """Assert that the maps give every thread the rule and the band that the plan does."""
    bands = {rule.id: rule.band for rule in plan.rules}
    for thread in threads:
        rule = first_match(plan, thread)
        assert lookup_rule(dump, thread) == rule, thread
        number = plan.default_band if rule is None else bands[rule]
        assert lookup_band(dump, thread) == number, thread
        assert read_band(dump, number) == expected_band(plan, number), number
    for band in plan.bands:
        assert read_band(dump, band.id) == expected_band(plan, band.id), band.id
