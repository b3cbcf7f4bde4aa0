"""The map ABI of ``bpf/tierc_maps.h`` in Python: geometry of the tables and packing of records.

The header is the law; a test compiles it and compares every number here with what the compiler
says.  All packing is little-endian, without padding, names filled up with zero bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from compiler.cpuset import CpuSet

ABI_MAGIC: Final = 0x43524954
ABI_VERSION: Final = 1

SLOTS: Final = 2
MAX_RULES: Final = 256
MAX_BANDS: Final = 64
MAX_CPUS: Final = 1024
MAX_GROUPS: Final = 256
MAX_GROUP_CGROUPS: Final = 4096
COMM_LEN: Final = 16
CGROUP_NAME_LEN: Final = 64
CGROUP_DEPTH: Final = 8
CGROUP_WALK: Final = 128
LEVEL_DEEPER: Final = CGROUP_DEPTH + 1

KIND_USER: Final = 0
KIND_KERNEL: Final = 1

DIM_COMM: Final = 0
DIM_LEADER: Final = 1
DIM_KIND: Final = 2
DIM_LEVEL: Final = 3
DIM_GROUP: Final = 4
DIM_CGROUP: Final = 5
DIMS: Final = DIM_CGROUP + CGROUP_DEPTH + 1

DIMENSION_NAMES: Final = (
    "comm",
    "leader",
    "kind",
    "level",
    "group",
    "cgroup anywhere",
    *(f"cgroup depth {depth}" for depth in range(1, CGROUP_DEPTH + 1)),
)

BAND_FLAGS: Final = {"preempt": 1 << 0, "hard": 1 << 1, "soft": 1 << 2, "idle-core": 1 << 3}

VEC_SIZE: Final = MAX_RULES // 8
COMM_KEY_SIZE: Final = 4 + COMM_LEN
CGROUP_KEY_SIZE: Final = 4 + CGROUP_NAME_LEN
BAND_SIZE: Final = 8 + 4 + 4 + 2 + 2 + 4 + MAX_CPUS // 8
HEAD_SIZE: Final = 16
ACTIVE_SIZE: Final = 8

MAP_PREFIX: Final = "tierc_"
MAP_ACTIVE: Final = "tierc_active"
MAP_ABI: Final = "tierc_abi"

F_NO_PREALLOC: Final = 1

MapType = Literal["lpm_trie", "hash", "array"]


@dataclass(frozen=True, slots=True)
class Table:
    """Geometry of one inner map; sizes in bytes.

    Attributes:
        frozen: whether user space may not change it any more once it is filled.
    """

    name: str
    type: MapType
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    frozen: bool = True

    @property
    def outer(self) -> str:
        """Name and pin of the outer map, whose slots hold the inner ones."""
        return MAP_PREFIX + self.name

    @property
    def inner(self) -> str:
        """Name of an inner map in listings; the dot keeps it apart from the outer one."""
        return f"tierc.{self.name}"


TABLES: Final = (
    Table("comm", "lpm_trie", COMM_KEY_SIZE, VEC_SIZE, MAX_RULES, F_NO_PREALLOC),
    Table("leader", "lpm_trie", COMM_KEY_SIZE, VEC_SIZE, MAX_RULES, F_NO_PREALLOC),
    Table("cgroup", "hash", CGROUP_KEY_SIZE, VEC_SIZE, MAX_RULES * CGROUP_DEPTH, F_NO_PREALLOC),
    Table("kind", "array", 4, VEC_SIZE, 2),
    Table("level", "array", 4, VEC_SIZE, LEVEL_DEEPER + 1),
    Table("dontcare", "array", 4, VEC_SIZE, DIMS),
    Table("rules", "array", 4, 4, MAX_RULES),
    Table("bands", "array", 4, BAND_SIZE, MAX_BANDS),
    Table("head", "array", 4, HEAD_SIZE, 1),
    Table("group", "hash", 8, 4, MAX_GROUP_CGROUPS, F_NO_PREALLOC, frozen=False),
    Table("groupvec", "array", 4, VEC_SIZE, MAX_GROUPS, frozen=False),
)

ABI_FIELDS: Final = {
    "magic": ABI_MAGIC,
    "version": ABI_VERSION,
    "vecSize": VEC_SIZE,
    "commKeySize": COMM_KEY_SIZE,
    "cgroupKeySize": CGROUP_KEY_SIZE,
    "bandSize": BAND_SIZE,
    "headSize": HEAD_SIZE,
    "activeSize": ACTIVE_SIZE,
    "slots": SLOTS,
    "maxRules": MAX_RULES,
    "maxBands": MAX_BANDS,
    "maxCpus": MAX_CPUS,
    "maxGroups": MAX_GROUPS,
    "cgroupDepth": CGROUP_DEPTH,
    "cgroupWalk": CGROUP_WALK,
    "dims": DIMS,
}
"""What the one entry of ``tierc_abi`` holds, in the order of its fields."""


def pack_uint(value: int, size: int, what: str) -> bytes:
    """Return a number in ``size`` bytes.

    Raises:
        ValueError: it does not fit; the message names ``what``.
    """
    if not 0 <= value < 1 << (8 * size):
        raise ValueError(f"{what} {value} does not fit in {8 * size} bits")
    return value.to_bytes(size, "little")


def pack_index(index: int) -> bytes:
    """Return the key of an array map."""
    return pack_uint(index, 4, "index")


def pack_vec(rules: int) -> bytes:
    """Return a set of rules, given as a mask (bit N is rule N), as ``struct tierc_vec``."""
    return pack_uint(rules, VEC_SIZE, "rule set")


def pack_comm_key(name: bytes, *, exact: bool) -> bytes:
    """Return a ``struct tierc_comm_key`` for one name, or for all names that start with it.

    Raises:
        ValueError: the name has a NUL or more than 15 bytes.
    """
    if b"\0" in name or len(name) >= COMM_LEN:
        raise ValueError(f"{name!r} is no name of at most {COMM_LEN - 1} bytes")
    bits = 8 * (len(name) + exact)
    return pack_uint(bits, 4, "prefix") + name.ljust(COMM_LEN, b"\0")


def pack_cgroup_key(depth: int, name: bytes) -> bytes:
    """Return a ``struct tierc_cgroup_key``; depth 0 is any.

    Raises:
        ValueError: the depth has no dimension, or the name is empty, has a NUL or more than 63
            bytes.
    """
    if not 0 <= depth <= CGROUP_DEPTH:
        raise ValueError(f"cgroup depth {depth} is outside 0-{CGROUP_DEPTH}")
    if not name or b"\0" in name or len(name) >= CGROUP_NAME_LEN:
        raise ValueError(f"{name!r} is no cgroup name of 1-{CGROUP_NAME_LEN - 1} bytes")
    return pack_uint(depth, 4, "depth") + name.ljust(CGROUP_NAME_LEN, b"\0")


def pack_band(
    *,
    slice_ns: int,
    weight: int,
    floor: int,
    tier: int,
    order: int,
    flags: Iterable[str],
    cpus: CpuSet,
) -> bytes:
    """Return a ``struct tierc_band``.

    Raises:
        ValueError: a number does not fit, or a CPU is not below 1,024.
        KeyError: a flag is none of :data:`BAND_FLAGS`.
    """
    words = cpus.words(64, MAX_CPUS // 64)
    return b"".join(
        (
            pack_uint(slice_ns, 8, "slice"),
            pack_uint(weight, 4, "weight"),
            pack_uint(floor, 4, "floor"),
            pack_uint(tier, 2, "tier"),
            pack_uint(order, 2, "order"),
            pack_uint(sum(BAND_FLAGS[flag] for flag in set(flags)), 4, "flags"),
            *(pack_uint(word, 8, "CPU word") for word in words),
        )
    )


def pack_head(*, n_rules: int, n_bands: int, default_band: int, seed: int) -> bytes:
    """Return a ``struct tierc_head``."""
    return b"".join(pack_uint(n, 4, "head field") for n in (n_rules, n_bands, default_band, seed))


def pack_active(slot: int, generation: int) -> bytes:
    """Return a ``struct tierc_active``.

    Raises:
        ValueError: the slot does not exist.
    """
    if not 0 <= slot < SLOTS:
        raise ValueError(f"slot {slot} is outside 0-{SLOTS - 1}")
    return pack_uint(slot, 4, "slot") + pack_uint(generation, 4, "generation")


def pack_abi() -> bytes:
    """Return the ``struct tierc_abi`` of this version."""
    return b"".join(pack_uint(value, 4, name) for name, value in ABI_FIELDS.items())
