"""Pinned BPF maps, read by ``bpftool``.  Nothing is written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.facts.gather.tools import ask_tools

TIMEOUT_S: Final = 10.0
"""How long one call may take."""
_SBIN: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")


class MapsError(Exception):
    """A map cannot be read; the message says why."""


def dump(*which: str) -> dict[bytes, bytes]:
    """Return the entries of a map, named as bpftool wants it; empty slots of outer maps left out.

    Raises:
        MapsError: it cannot be read.
    """
    (text,) = _ask([("map", "dump", *which)])
    try:
        return parse_dump(text)
    except ValueError as error:
        raise MapsError(f"bpftool map dump: {error}") from error


def per_cpu(path: str, keys: Sequence[bytes]) -> list[list[bytes]]:
    """Return the values of some keys of a pinned per-CPU map, one value a CPU.

    Raises:
        MapsError: it cannot be read.
    """
    calls = [("map", "lookup", "pinned", path, "key", "hex", *key.hex(" ").split()) for key in keys]
    try:
        return [parse_per_cpu(text) for text in _ask(calls)]
    except ValueError as error:
        raise MapsError(f"bpftool map lookup: {error}") from error


def _ask(calls: Sequence[tuple[str, ...]]) -> list[str]:
    tools = [("bpftool", "-j", *call) for call in calls]
    outputs = ask_tools(timeout_s=TIMEOUT_S, which=_which, tools=tools)
    if len(outputs) < len(calls):
        raise MapsError("bpftool is not installed")
    texts = []
    for call, output in zip(calls, outputs, strict=True):
        if output.text is None:
            raise MapsError(f"bpftool {call[0]} {call[1]}: {output.error}")
        texts.append(output.text)
    return texts


def parse_dump(text: str) -> dict[bytes, bytes]:
    """Return the entries of what ``bpftool -j map dump`` printed.

    Raises:
        ValueError: the text is none.
    """
    rows = _json(text)
    if not isinstance(rows, list):
        raise ValueError("its output is no list of entries")
    found: dict[bytes, bytes] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise ValueError("its output has an entry that is no object")
        if isinstance(row.get("value"), list):
            found[_bytes(row, "key")] = _bytes(row, "value")
    return found


def parse_per_cpu(text: str) -> list[bytes]:
    """Return the values of what ``bpftool -j map lookup`` printed of a per-CPU map.

    Raises:
        ValueError: the text is none.
    """
    row = _json(text)
    values = row.get("values") if isinstance(row, dict) else None
    if not isinstance(values, list) or not all(isinstance(one, dict) for one in values):
        raise ValueError("its output has no value for each CPU")
    return [_bytes(one, "value") for one in values]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("its output is not JSON") from None


def _bytes(row: Mapping[str, Any], key: str) -> bytes:
    words = row.get(key)
    try:
        return bytes(int(word, 16) for word in words or ())
    except (TypeError, ValueError):
        raise ValueError(f"its output has a {key} that is no list of bytes") from None


def _which(name: str, *, path: str) -> str | None:
    """Look where only root's PATH does, too: that is where bpftool is."""
    return shutil.which(name, path=os.pathsep.join((path, *_SBIN)))
