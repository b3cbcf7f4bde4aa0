"""``bpf/seed.json``, read as strictly as it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_PIN: Final = re.compile(r"(/[A-Za-z0-9_-]+)+", re.ASCII)
_MAX_ENTRIES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SeedTable:
    """What one table must hold.

    Attributes:
        name: of the table.
        outer: name of the pin of its outer map.
        filled_here: whether the node fills it, so that the seed says nothing about its content.
        entries: key -> value; of an array every key, zeros where the seed has nothing.
        means: key -> what a person reads, for the entries the seed lists.
    """

    name: str
    outer: str
    filled_here: bool
    entries: Mapping[bytes, bytes]
    means: Mapping[bytes, str]


@dataclass(frozen=True, slots=True)
class SeedFile:
    """A seed as far as live maps are compared with it.

    Attributes:
        pins: directory of the outer maps.
        abi: the 64 bytes of ``tierc_abi``.
        active: name of the map that says which slot is in force.
        slots: what that map holds when the seed is in force in slot N.
        tables: all tables.
        rules: (id, band) of the rules in it, in order.
    """

    pins: str
    abi: bytes
    active: str
    slots: tuple[bytes, ...]
    tables: tuple[SeedTable, ...]
    rules: tuple[tuple[int, int], ...]


def parse_seed(data: Mapping[str, Any]) -> SeedFile:
    """Return the seed of a ``seed.json``.

    Raises:
        ValueError: it is none; the message says what is wrong where.
    """
    active = _get(data, dict, "active")
    return SeedFile(
        pins=_text(_get(data, dict, "pins"), "outer", _PIN),
        abi=_hex(_get(data, dict, "abi"), "raw", 64),
        active=_text(active, "map", _NAME),
        slots=tuple(_hex(_object(slot), "raw", 8) for slot in _get(active, list, "slots")),
        tables=tuple(_table(_object(table)) for table in _get(data, list, "tables")),
        rules=tuple(
            (_get(rule, int, "id"), _get(rule, int, "band"))
            for rule in map(_object, _get(data, list, "rules"))
        ),
    )


def _table(data: Mapping[str, Any]) -> SeedTable:
    name = _text(data, "name", _NAME)
    key_size, value_size = _get(data, int, "keySize"), _get(data, int, "valueSize")
    entries: dict[bytes, bytes] = {}
    means: dict[bytes, str] = {}
    if data.get("type") == "array":
        count = _get(data, int, "maxEntries")
        if key_size != 4 or not 0 < count <= _MAX_ENTRIES or not 0 < value_size <= 4096:
            raise ValueError(f"table {name} is no array of at most {_MAX_ENTRIES} entries")
        zero = bytes(value_size)
        entries = {n.to_bytes(4, "little"): zero for n in range(count)}
    for row in map(_object, _get(data, list, "entries")):
        key = _hex(row, "key", key_size)
        entries[key] = _hex(row, "value", value_size)
        means[key] = _meaning(row.get("means"))
    return SeedTable(
        name=name,
        outer=_text(data, "outer", _NAME),
        filled_here=not _get(data, bool, "frozen"),
        entries=entries,
        means=means,
    )


def _meaning(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    return ", ".join(f"{key} {text}" for key, text in value.items() if key != "rules")


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object is expected in a list")
    return value


def _get(data: Mapping[str, Any], kind: type, key: str) -> Any:
    value = data.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{key} is missing or no {kind.__name__}")
    return value


def _text(data: Mapping[str, Any], key: str, form: re.Pattern[str]) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{key} is missing or not a name")
    return value


def _hex(data: Mapping[str, Any], key: str, size: int) -> bytes:
    value = data.get(key)
    if not isinstance(value, str) or not re.fullmatch(r"(?:[0-9a-f]{2})*", value, re.ASCII):
        raise ValueError(f"{key} is missing or not hexadecimal")
    if len(value) != 2 * size:
        raise ValueError(f"{key} has {len(value) // 2} bytes, not {size}")
    return bytes.fromhex(value)
