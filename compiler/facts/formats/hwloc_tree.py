"""hwloc's XML as objects with their CPU sets: one form of the versions 1, 2 and 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import MAX_CPUS, CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.xml import Element, parse_xml
from compiler.facts.partial import ReadError
from compiler.facts.shown import clean, shown

_WORD: Final = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.ASCII | re.IGNORECASE)
_INFINITE: Final = "0xf...f"
_VERSION: Final = re.compile(r"([0-9]{1,3})(?:\.[0-9]{1,3})*", re.ASCII)
_CACHE: Final = re.compile(r"L([1-5])(i?)Cache", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_UNKNOWN_INDEX: Final = 0xFFFFFFFF
"""``HWLOC_UNKNOWN_INDEX``, which is how an unsigned -1 is written."""


@dataclass(slots=True, eq=False)
class Obj:
    """An object of the topology.

    Attributes:
        kind: its type in the words of version 2; all data and unified caches are ``Cache``.
        element: what the file has.
        parent: the object that it stands in; None for the root.
        mask: its CPU set, bit by bit; negative: with all CPUs from some one on; None: not given.
        os_index: the number that the operating system gives it; None: unknown.
        level: of a cache, 1 to 5; else 0.
    """

    kind: str
    element: Element
    parent: Obj | None
    mask: int | None
    os_index: int | None
    level: int = 0

    def ancestors(self) -> Iterator[Obj]:
        """Yield the parent, its parent, and so on."""
        here = self.parent
        while here is not None:
            yield here
            here = here.parent

    def info(self, name: str) -> str | None:
        """Return the first ``<info>`` of that name directly in this object, unless it is blank."""
        return info(self.element, name)


@dataclass(frozen=True, eq=False)
class Topology:
    """A file.

    Attributes:
        version: 1, 2 or 3.
        root: the ``<topology>`` element.
        machine: the machine.
        objects: all objects, in the order of the file.
    """

    version: int
    root: Element
    machine: Obj
    objects: tuple[Obj, ...]

    def of(self, kind: str) -> list[Obj]:
        """Return the objects of that kind, in the order of the file."""
        return [one for one in self.objects if one.kind == kind]

    def info(self, name: str) -> str | None:
        """Return what the file says of the whole machine.

        Version 3 says it of the topology, earlier ones of the machine.
        """
        return self.machine.info(name) or info(self.root, name)

    def backends(self) -> frozenset[str]:
        """Return what hwloc had asked, such as ``Linux`` or ``x86``."""
        return frozenset(
            row.get("value") or ""
            for where in (self.machine.element, self.root)
            for row in where.all("info")
            if row.get("name") == "Backend"
        )


def read_topology(text: Text) -> Topology:
    """Read a file.

    Raises:
        ReadError: it is no XML, no topology of a known version, or one of several machines.
    """
    root = parse_xml(text)
    if root.tag != "topology":
        raise ReadError(f"<{clean(root.tag, 60)}> is not hwloc's <topology>", line=root.line)
    version = _version(root)
    objects: list[Obj] = []
    stack: list[tuple[Element, Obj | None]] = [
        (element, None) for element in reversed(list(root.all("object")))
    ]
    while stack:
        element, parent = stack.pop()
        here = _object(element, parent)
        objects.append(here)
        stack += [(child, here) for child in reversed(list(element.all("object")))]
    machines = [one for one in objects if one.kind in ("Machine", "System")]
    if not machines:
        raise ReadError("hwloc XML without a Machine", line=root.line)
    if len(machines) > 1:
        raise ReadError(
            "hwloc XML of several machines",
            line=machines[1].element.line,
            help="write one file on each machine: lstopo --of xml FILE",
        )
    return Topology(version, root, machines[0], tuple(objects))


def read_mask(element: Element, name: str) -> int | None:
    """Return a CPU set as a number; negative: all CPUs from some one on; None: not given.

    hwloc writes 32-bit words, the highest first; an empty word is zero, and a first word
    ``0xf...f`` stands for all higher ones.

    Raises:
        ReadError: it is malformed, or has a CPU at or above :data:`MAX_CPUS`.
    """
    text = element.get(name)
    if text is None:
        return None
    words = text.split(",", MAX_CPUS // 32 + 2)
    mask = 0
    if words[0] == _INFINITE:
        mask = -1
        del words[0]
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None and (word or len(words) == 1):
            raise ReadError(
                f"{name}: {shown(word)} is not a 32-bit word of a CPU mask", line=element.line
            )
        mask = mask << 32 | (int(match.group(1), 16) if match else 0)
    if mask.bit_length() > MAX_CPUS:
        raise ReadError(f"{name} names a CPU outside 0-{MAX_CPUS - 1}", line=element.line)
    return mask


def cut(mask: int | None, online: CpuSet | None) -> CpuSet | None:
    """Return a mask as the CPUs of it that are online; None: unknown.

    Where nothing is known of online CPUs it is the mask, if that has an end.
    """
    if mask is None or (online is None and mask < 0):
        return None
    return CpuSet.from_mask(mask if online is None else mask & online.mask)


def read_number(element: Element, name: str) -> int | None:
    """Return a number that is not negative; None: not given, or something else."""
    text = element.get(name) or ""
    return int(text) if _NUMBER.fullmatch(text) else None


def info(element: Element, name: str) -> str | None:
    """Return the value of the first ``<info>`` of that name in an element, unless it is blank."""
    for row in element.all("info"):
        if row.get("name") == name:
            return row.get("value") or None
    return None


def _version(root: Element) -> int:
    text = root.get("version")
    if text is None:
        return 1
    match = _VERSION.fullmatch(text)
    version = int(match.group(1)) if match else 0
    if not 1 <= version <= 3:
        raise ReadError(
            f"hwloc XML of version {shown(text)} is not known",
            line=root.line,
            help="versions 1, 2 and 3 are; write the file with: lstopo --of xml FILE",
        )
    return version


def _object(element: Element, parent: Obj | None) -> Obj:
    kind, level = element.get("type") or "", 0
    if match := _CACHE.fullmatch(kind):
        kind, level = "InstructionCache" if match.group(2) else "Cache", int(match.group(1))
    elif kind == "Cache":
        level = read_number(element, "depth") or 0
        if element.get("cache_type") == "2" or not 1 <= level <= 5:
            kind = "InstructionCache"
    elif kind == "Socket":
        kind = "Package"
    index = read_number(element, "os_index")
    return Obj(
        kind=kind,
        element=element,
        parent=parent,
        mask=read_mask(element, "cpuset"),
        os_index=None if index is None or index >= _UNKNOWN_INDEX else index,
        level=level,
    )
