"""What the NVIDIA driver shows of its GPUs without a tool: /proc/driver/nvidia/gpus."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from compiler.facts.bdf import canonical_bdf
from compiler.facts.tree import Tree, clean

_GPUS: Final = "/proc/driver/nvidia/gpus"
_NODE: Final = re.compile(r"^Node:\s*([0-9]{1,5})\s*$", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """One GPU; None is unknown.

    Attributes:
        uuid: hidden from plain users by some versions of the driver.
        memory_node: the NUMA node that is its memory (Grace machines).
    """

    model: str | None = None
    uuid: str | None = None
    memory_node: int | None = None


def read_nvidia(tree: Tree) -> Mapping[str, NvidiaGpu]:
    """Return the GPUs by canonical PCI address."""
    found: dict[str, NvidiaGpu] = {}
    for name in tree.names(_GPUS):
        bdf = canonical_bdf(name)
        if bdf is None:
            continue
        fields = _fields(tree.text(f"{_GPUS}/{name}/information") or "")
        node = _NODE.search(tree.text(f"{_GPUS}/{name}/numa_status") or "")
        found[bdf] = NvidiaGpu(
            fields.get("Model"), fields.get("GPU UUID"), int(node[1]) if node else None
        )
    return found


def _fields(text: str) -> Mapping[str, str]:
    """Return the fields of ``information``; what the driver masks with ``?`` is left out."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        value = clean(value, 80)
        if colon and value and "?" not in value:
            found[key.strip()] = value
    return found
