"""hwloc XML for tests of reading it, an element at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.hwloc import HWLOC
from compiler.facts.partial import Partial, ReadError

FIXTURES = Path(__file__).parent / "fixtures" / "hwloc"
DIRECTORIES = (
    "hwloc-xml",
    "hwloc-x86-xml",
    "prrte-xml",
    "hwloc-xml-parser",
    "mpibind-xml",
    "flux-sched-xml",
    "pyhwloc-xml",
)


def read(text: str) -> Partial:
    assert HWLOC.sniff(text)
    (partial,) = HWLOC.read(Text("f.xml", text))
    return partial


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        HWLOC.read(Text("f.xml", text))
    return caught.value


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def notes(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


def obj(kind: str, mask: int | str | None = None, /, *inside: str, **attributes: object) -> str:
    """An object; ``mask`` is its cpuset."""
    if mask is not None:
        shown = f"0x{mask:08x}" if isinstance(mask, int) else mask
        attributes = {"cpuset": shown, "complete_cpuset": shown} | attributes
    words = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<object type="{kind}"{words}>{"".join(inside)}</object>'


def info(name: str, value: object) -> str:
    return f'<info name="{name}" value="{value}"/>'


def pu(*numbers: int) -> str:
    return "".join(obj("PU", 1 << number, os_index=number) for number in numbers)


def core(*numbers: int) -> str:
    return obj("Core", sum(1 << number for number in numbers), pu(*numbers))


def numa(number: int, mask: int, *inside: str, **attributes: object) -> str:
    return obj("NUMANode", mask, *inside, os_index=number, **attributes)


def topology(*machine: str, mask: int = 0xF, after: str = "", version: str = "2.0", **more) -> str:
    inside = obj("Machine", mask, *machine, os_index=0, **more)
    return f'<topology version="{version}">{inside}{after}</topology>'


def cpukind(mask: int, efficiency: int | None = None, **infos: object) -> str:
    forced = "" if efficiency is None else f' forced_efficiency="{efficiency}"'
    rows = "".join(info(name, value) for name, value in infos.items())
    return f'<cpukind cpuset="0x{mask:08x}"{forced}>{rows}</cpukind>'


FOUR = (core(0), core(1), core(2), core(3))
