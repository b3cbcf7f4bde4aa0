"""``seed.json``: a seed for people to review, and all of it for programs.

The readable part of an entry is decoded from its bytes, never taken from the plan, so what a
reviewer reads is what the kernel gets.
"""

from __future__ import annotations

from typing import Final

from compiler.cpuset import CpuSet
from compiler.plan import NodePlan
from targets.bpf.batch import PIN_DIR, STAGE_DIR
from targets.bpf.domains import NAME
from targets.bpf.layout import (
    ABI_FIELDS,
    BAND_FLAGS,
    DIMENSION_NAMES,
    KIND_KERNEL,
    KIND_USER,
    LEVEL_DEEPER,
    MAP_ACTIVE,
    SLOTS,
    TABLES,
    Table,
    pack_abi,
    pack_active,
)
from targets.bpf.seed import Seed

_KIND_NAMES: Final = {KIND_USER: "user", KIND_KERNEL: "kernel"}


def seed_document(plan: NodePlan, seed: Seed) -> dict[str, object]:
    """Return the content of ``seed.json``.

    ``rules``, the unit names beside them and ``leftOut``, what the seed does not say of the plan,
    come from the plan, everything under ``tables`` from the seed's bytes.
    """
    return {
        "abi": {"fields": dict(ABI_FIELDS), "raw": pack_abi().hex()},
        "seed": seed.number,
        "pins": {"outer": PIN_DIR, "stage": STAGE_DIR},
        "active": {
            "map": MAP_ACTIVE,
            "slots": [
                {
                    "slot": slot,
                    "generation": seed.generation(slot),
                    "raw": pack_active(slot, seed.generation(slot)).hex(),
                }
                for slot in range(SLOTS)
            ],
        },
        "rules": [
            {
                "id": rule.id,
                "unit": rule.unit,
                "band": rule.band,
                "match": rule.match.model_dump(mode="json", by_alias=True, exclude_none=True),
            }
            for rule in plan.rules
        ],
        "leftOut": [row.message for row in plan.left_out.get(NAME, ())],
        "tables": [_table(table, plan, seed) for table in TABLES],
    }


def _table(table: Table, plan: NodePlan, seed: Seed) -> dict[str, object]:
    return {
        "name": table.name,
        "outer": table.outer,
        "inner": table.inner,
        "type": table.type,
        "keySize": table.key_size,
        "valueSize": table.value_size,
        "maxEntries": table.max_entries,
        "flags": table.flags,
        "frozen": table.frozen,
        "entries": [
            {
                "key": key.hex(),
                "value": value.hex(),
                "means": _means(table.name, key, value, plan),
            }
            for key, value in seed.tables[table.name]
        ],
    }


def _means(table: str, key: bytes, value: bytes, plan: NodePlan) -> dict[str, object]:
    if table in ("comm", "leader"):
        return _name(key) | {"rules": _rules(value)}
    index = _uint(key[:4])
    if table == "cgroup":
        name = _text(key[4:].rstrip(b"\0"))
        return {"depth": index or "any", "name": name, "rules": _rules(value)}
    if table == "kind":
        return {"kind": _KIND_NAMES[index], "rules": _rules(value)}
    if table == "level":
        level = f"{index} and more" if index == LEVEL_DEEPER else index
        return {"components": level, "rules": _rules(value)}
    if table == "dontcare":
        return {"dimension": DIMENSION_NAMES[index], "rules": _rules(value)}
    if table == "rules":
        return {"rule": index, "band": _uint(value)}
    if table == "bands":
        return {"band": index} | _band(value, plan)
    if table == "head":
        names = ("rules", "bands", "defaultBand", "seed")
        return {name: _uint(value[4 * n : 4 * n + 4]) for n, name in enumerate(names)}
    raise ValueError(f"table {table} is filled on the node, not in a seed")


def _name(key: bytes) -> dict[str, object]:
    length = _uint(key[:4]) // 8
    covered = key[4 : 4 + length]
    if covered.endswith(b"\0"):
        return {"name": _text(covered[:-1])}
    return {"startsWith": _text(covered)}


def _band(value: bytes, plan: NodePlan) -> dict[str, object]:
    tier = _uint(value[16:18])
    names = {known.id: known.name for known in plan.tiers}
    flags = _uint(value[20:24])
    return {
        "sliceNs": _uint(value[0:8]),
        "weight": _uint(value[8:12]),
        "floor": _uint(value[12:16]),
        "tier": tier,
        "tierName": names[tier],
        "order": _uint(value[18:20]),
        "flags": [name for name, bit in BAND_FLAGS.items() if flags & bit],
        "cpus": str(CpuSet.from_mask(_uint(value[24:]))),
    }


def _rules(value: bytes) -> str:
    """Return a rule set in list form, such as ``0-3,7``; it reads like a CPU list."""
    return str(CpuSet.from_mask(_uint(value)))


def _uint(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
