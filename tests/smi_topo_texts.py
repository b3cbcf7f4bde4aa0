"""What nvidia-smi topo prints, for tests of reading it."""

from __future__ import annotations

import pytest

from compiler.facts.formats.format import Text
from compiler.facts.formats.smi_topo import FORMAT
from compiler.facts.partial import DevicePart, Partial, ReadError

HEAD = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"


def read(text: str) -> Partial:
    assert FORMAT.sniff(text)
    (partial,) = FORMAT.read(Text("topo.txt", text))
    return partial


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("topo.txt", text))
    return caught.value


def devices(partial: Partial) -> tuple[DevicePart, ...]:
    assert partial.devices is not None
    return partial.devices


def located(partial: Partial) -> list[tuple[str | None, tuple[int, ...], int | None, str]]:
    return [
        (None if d.cpus is None else str(d.cpus), d.numa, d.memory_node, d.confidence)
        for d in devices(partial)
    ]


def links(partial: Partial) -> list[tuple[int, int, str]]:
    return [(link.a, link.b, link.kind) for link in partial.links]


def messages(partial: Partial) -> list[tuple[int | None, str]]:
    return [(note.line, note.message) for note in partial.notes]
