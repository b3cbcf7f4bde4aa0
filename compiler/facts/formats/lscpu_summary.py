"""What lscpu's summary says, whatever it is written in: text, JSON, a report that quotes it.

The summary counts; it hardly says which.  CPU lists and NUMA nodes are listed, cores only where
each has one thread, caches not at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import MAX_CPUS, CpuListError, CpuSet
from compiler.facts.formats.lscpu_row import COMMAND, another_language
from compiler.facts.partial import Note, NumaPart, Partial, ReadError
from compiler.facts.tree import clean, shown
from compiler.model.facts import Virtualization

_NODE: Final = re.compile(r"NUMA node([0-9]{1,6}) CPU\(s\)\Z", re.ASCII)
_FOREIGN_NODE: Final = re.compile(r".*NUMA.*[0-9]")
_CPU_LIST: Final = re.compile(r"[0-9]+(?:[,-][0-9]+)*\Z", re.ASCII)
_ARCH: Final = re.compile(r"[a-z0-9_]{1,20}\Z", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F,]+\Z", re.ASCII)
_HEX_ONLY: Final = re.compile(r"0x|[0-9,]*[a-fA-F]", re.ASCII)
_MASK_DIGITS: Final = 2 * MAX_CPUS // 4
_LISTS: Final = ("On-line CPU(s)", "Off-line CPU(s)")
_ONCE: Final = frozenset(
    {"Architecture", "CPU(s)", "NUMA node(s)", "Hypervisor vendor", "Virtualization type"}
    | {f"{name} {form}" for name in _LISTS for form in ("list", "mask")}
)
_STRUCTURE: Final = frozenset(
    {f"{name} {form}" for name in _LISTS for form in ("list", "mask")}
    | {"Thread(s) per core", "Core(s) per socket", "Core(s) per cluster"}
)
# Keys that some translations keep as they are.
_SAME_ABROAD: Final = frozenset({"BogoMIPS", "Socket(s)", "Stepping", "Model", "Address sizes"})
# lscpu's name of a hypervisor's vendor -> the name from other sources.
_HYPERVISORS: Final = {
    "Xen": "xen",
    "KVM": "kvm",
    "Microsoft": "hyperv",
    "VMware": "vmware",
    "Oracle": "virtualbox",
    "Innotek GmbH": "virtualbox",
    "Parallels": "parallels",
    "pHyp": "phyp",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the summary: ``key`` without its colon."""

    key: str
    value: str
    line: int | None = None


def is_list(key: str) -> bool:
    """Return whether a key's value is a CPU list, which a narrow terminal breaks anywhere."""
    return _NODE.match(key) is not None or (key in _STRUCTURE and key.startswith(_LISTS))


def says_structure(key: str) -> bool:
    """Return whether a key is one of those, in English, that only lscpu has."""
    return key in _STRUCTURE or _NODE.match(key) is not None


def is_foreign_node(key: str, value: str) -> bool:
    """Return whether this is a NUMA node's CPU list in another language."""
    return (
        _NODE.match(key) is None
        and _FOREIGN_NODE.match(key) is not None
        and _CPU_LIST.match(value) is not None
    )


def partial_of_summary(entries: Sequence[Entry], file: str, reader: str = "lscpu") -> Partial:
    """Return what the entries of one machine say.

    Raises:
        ReadError: two machines, another language, or a value without meaning.
    """
    _check_language(entries)
    given = _once(entries)
    masks = any(key.endswith(" mask") for key in given) or any(
        _NODE.match(key) and _HEX_ONLY.match(entry.value) for key, entry in given.items()
    )
    notes: list[Note] = []
    count = _number(given.get("CPU(s)"))
    online, off = (_cpus(given, name) for name in _LISTS)
    cut = masks and online is not None and not online
    if cut:
        # The kernel allows one or two CPUs only: lscpu's room for a mask is then too small for it.
        notes.append(
            Note(
                "lscpu -x cut the masks; which CPUs are online is unknown", _line(given, _LISTS[0])
            )
        )
        online = off = None
    elif online is not None and not online:
        raise ReadError("no CPU is online", line=_line(given, _LISTS[0]))
    if online is not None and count is not None and count > len(online | (off or CpuSet())):
        # lscpu lists every CPU that is present as either, so a part of a list is missing.
        notes.append(
            Note(
                f"CPU(s) is {count}, but {len(online | (off or CpuSet()))} are listed; which are "
                "online is unknown",
                _line(given, _LISTS[0]),
            )
        )
        online = off = None
    cores = _cores(entries, online)
    missing = "which CPUs share a cache" if cores else "which CPUs form a core or share a cache"
    notes.append(Note(f"lscpu's summary does not say {missing}; record as well: {COMMAND}"))
    return Partial(
        reader=reader,
        file=file,
        arch=_arch(given.get("Architecture"), notes),
        cpu_count=count if online is None else None,
        online=online,
        present=online | off if online is not None and off is not None else None,
        cores=cores,
        numa=None if cut else _numa(given, online, notes, masks=masks),
        virtualization=_virtualization(given),
        notes=tuple(notes),
    )


def _check_language(entries: Sequence[Entry]) -> None:
    """Refuse translated output: its lists would be overlooked, and a machine look empty."""
    for entry in entries:
        if is_foreign_node(entry.key, entry.value):
            raise another_language(entry.key, entry.line)
    if any(says_structure(entry.key) for entry in entries):
        return
    for entry in entries:
        if entry.key not in _SAME_ABROAD and entry.key not in _ONCE:
            raise another_language(entry.key, entry.line)
    raise ReadError("no list of CPUs and no count of cores", help=f"record it with: {COMMAND}")


def _once(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the entries that concern the whole machine, by key."""
    given: dict[str, Entry] = {}
    for entry in entries:
        if entry.key not in _ONCE and not _NODE.match(entry.key):
            continue
        before = given.setdefault(entry.key, entry)
        if before.value != entry.value:
            raise ReadError(
                f"{entry.key} is {shown(before.value)} and then {shown(entry.value)}",
                line=entry.line,
                help="keep the recording of one machine",
            )
    return given


def _line(given: dict[str, Entry], name: str) -> int | None:
    entry = given.get(f"{name} list") or given.get(f"{name} mask")
    return entry.line if entry else None


def _number(entry: Entry | None) -> int | None:
    if entry is None or entry.value in ("", "-"):
        return None
    if not _COUNT.match(entry.value):
        raise ReadError(f"{entry.key}: {shown(entry.value)} is no number", line=entry.line)
    return int(entry.value)


def _cpus(given: dict[str, Entry], name: str) -> CpuSet | None:
    as_list, as_mask = given.get(f"{name} list"), given.get(f"{name} mask")
    if as_list is not None:
        return _parsed(as_list, mask=False)
    return None if as_mask is None else _parsed(as_mask, mask=True)


def _parsed(entry: Entry, *, mask: bool) -> CpuSet:
    """Return a value's CPUs."""
    try:
        if not mask:
            return CpuSet.parse(entry.value)
        digits = entry.value.removeprefix("0x")
        if not _HEX.match(digits) or len(digits) > _MASK_DIGITS:
            raise CpuListError(f"{shown(entry.value)} is not a CPU mask")
        if "," in digits:
            return CpuSet.parse_hex_mask(digits)
        return CpuSet.from_mask(int(digits, 16))
    except CpuListError as error:
        raise ReadError(f"{entry.key}: {clean(str(error))}", line=entry.line) from None


def _arch(entry: Entry | None, notes: list[Note]) -> str | None:
    if entry is None:
        return None
    if _ARCH.match(entry.value):
        return entry.value
    notes.append(Note(f"Architecture {shown(entry.value)} is no machine name", entry.line))
    return None


def _cores(entries: Sequence[Entry], online: CpuSet | None) -> tuple[CpuSet, ...] | None:
    """Return one core a CPU where the counts leave nothing else; otherwise None.

    Each model of CPU has its own counts.  Before util-linux 2.37 threads per core is a quotient of
    CPUs and cores, rounded down: 1 on a machine with 20 CPUs on 14 cores.  So the number of cores
    counts: as many as CPUs online means one thread each.
    """
    threads, total = 0, 0
    stanza: dict[str, int] = {}
    if online is None:
        return None
    for entry in [*entries, Entry("Thread(s) per core", "0")]:
        if entry.key == "Thread(s) per core" and stanza:
            sockets = stanza.get("Cluster(s)", stanza.get("Socket(s)"))
            cores = stanza.get("Core(s) per cluster", stanza.get("Core(s) per socket"))
            if sockets is None or cores is None:
                return None
            threads = max(threads, stanza["Thread(s) per core"])
            total += cores * sockets
            stanza = {}
        if _COUNT.match(entry.value) and (stanza or entry.key == "Thread(s) per core"):
            stanza.setdefault(entry.key, int(entry.value))
    if threads != 1 or total != len(online):
        return None
    return tuple(CpuSet((cpu,)) for cpu in online)


def _numa(
    given: dict[str, Entry], online: CpuSet | None, notes: list[Note], *, masks: bool
) -> tuple[NumaPart, ...] | None:
    nodes: dict[int, CpuSet] = {}
    seen = CpuSet()
    for key, entry in given.items():
        if match := _NODE.match(key):
            cpus = _parsed(entry, mask=masks)
            nodes[int(match[1])] = cpus if online is None else cpus & online
    twice = CpuSet()
    for cpus in nodes.values():
        twice |= cpus & seen
        seen |= cpus
    if twice:
        notes.append(Note(f"CPU {twice} is in several NUMA nodes"))
    count = _number(given.get("NUMA node(s)"))
    if count is not None and nodes and count != len(nodes):
        notes.append(
            Note(
                f"NUMA node(s) is {count}, but {len(nodes)} are listed; NUMA nodes are unknown",
                given["NUMA node(s)"].line,
            )
        )
        return None
    if online is not None and nodes and (rest := online - seen):
        notes.append(Note(f"CPU {rest} is in no NUMA node"))
    return tuple(NumaPart(id=node, cpus=cpus) for node, cpus in sorted(nodes.items())) or None


def _virtualization(given: dict[str, Entry]) -> Virtualization | None:
    """Return what the hypervisor's lines say; that they are missing proves nothing."""
    kind, vendor = given.get("Virtualization type"), given.get("Hypervisor vendor")
    if kind is None:
        return None
    if kind.value == "container":
        return Virtualization(container=True)
    if kind.value not in ("full", "para"):  # "none": the control domain of Xen
        return None
    name = vendor.value if vendor else ""
    return Virtualization(
        vm=True, hypervisor=_HYPERVISORS.get(name, clean(name, 40).lower() or None)
    )
