"""What pictures of machines say, whatever the format: titles, lists of CPUs, devices, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from compiler.cpuset import CpuSet, union
from compiler.facts.write import cpu_list
from compiler.picture.machine import Box, CoreRow, DeviceMark, Level, Machine, Mark, MemoryNodes

Form = Literal["cpus", "by", "plus", "stride"]
"""How CPUs are written: each a core, neighbours, threads apart, every n-th."""

LEVELS: Final[dict[Level, str]] = {
    "package": "package",
    "die": "die",
    "numa": "NUMA",
    "llc": "cache",
    "machine": "machine",
}
_UNKNOWN: Final[dict[Level, str]] = {
    "package": "package unknown",
    "die": "die unknown",
    "numa": "in no NUMA node",
    "llc": "cache unknown",
    "machine": "cores",
}
MARKS: Final[dict[Mark, str]] = {
    "i": "isolated",
    "n": "nohz_full",
    "x": "not allowed",
    "k": "the kubelet's",
}


def chain(box: Box) -> tuple[Box, ...]:
    """Return a box and what it holds alone, down to where there are several or cores."""
    found = [box]
    while len(found[-1].boxes) == 1 and not found[-1].devices:
        found.append(found[-1].boxes[0])
    return tuple(found)


def titles(boxes: Iterable[Box]) -> list[str]:
    """Return what each of nested boxes is called."""
    return [_title(box) for box in boxes]


def _title(box: Box) -> str:
    if not box.ids:
        return _UNKNOWN[box.level]
    word = LEVELS[box.level]
    if box.level == "llc" and box.cache_level is not None:
        word = f"L{box.cache_level}"
    many = len(box.ids) > 1
    plural = {"package": "packages", "cache": "caches"}.get(word, word) if many else word
    text = f"{plural} {id_list(box.ids)}"
    if box.size_kib is not None:
        text += f" {size(box.size_kib)}"
    if box.memory_mib is not None:
        text += f" {size(box.memory_mib * 1024)}"
    if box.part:
        text += " (part)"
    return f"{text}, one core each" if many else text


def id_list(ids: Sequence[int]) -> str:
    """Return numbers as ranges, ascending: ``0-3,8``."""
    out: list[list[int]] = []
    for number in sorted(ids):
        if out and number == out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def size(kib: int) -> str:
    """Return an amount of memory in the largest unit that leaves a whole or readable number."""
    for unit, factor in (("TiB", 1 << 30), ("GiB", 1 << 20), ("MiB", 1 << 10)):
        if kib >= factor:
            return (
                f"{kib / factor:.3g} {unit}" if kib < 1000 * factor else f"{kib // factor} {unit}"
            )
    return f"{kib} KiB"


def row_form(row: CoreRow) -> Form | None:
    """Return how the cores of a row can be written in short; None: only one by one."""
    if row.smt == 1:
        return "cpus"
    cpus = list(union(row.cores))
    apart = len(row.cores) == 1 and cpus[-1] - cpus[0] >= row.smt  # no neighbours: 11 + 59
    if not apart and all(
        tuple(core) == tuple(cpus[i * row.smt : (i + 1) * row.smt])
        for i, core in enumerate(row.cores)
    ):
        return "by"
    if list(zip(*_planes(row), strict=True)) == [tuple(core) for core in row.cores]:
        return "plus"
    return None


def _planes(row: CoreRow) -> list[CpuSet]:
    return [CpuSet(plane) for plane in zip(*row.cores, strict=True)]


def row_text(row: CoreRow) -> str:
    """Return the CPUs of a row in short: ``0-7``, ``0-15 by 2`` or ``0-7 + 64-71``."""
    form = row_form(row)
    if form == "cpus":
        return cpu_list(union(row.cores))
    if form == "by":
        return f"{cpu_list(union(row.cores))} by {row.smt}"
    if form == "plus":
        return " + ".join(cpu_list(plane) for plane in _planes(row))
    return " ".join(core_text(core) for core in row.cores)


def core_text(core: CpuSet) -> str:
    """Return the threads of one core: ``0+64``."""
    return "+".join(map(str, core))


def lanes_text(row: CoreRow) -> str:
    """Return the lanes of a row, ``[A]``, ``[A,B]`` or for each thread ``[A/-]``; or nothing."""
    each = [",".join(one) or "-" for one in row.lanes]
    if set(each) == {"-"}:
        return ""
    return f"[{each[0] if len(set(each)) == 1 else '/'.join(each)}]"


def marks_text(row: CoreRow, *, words: bool = False) -> str:
    """Return the marks of a row, ``ik`` or for each thread ``i/-``; or nothing.

    With ``words`` they are spelled out: ``isolated, the kubelet's``.
    """
    if words:
        each = [", ".join(MARKS[mark] for mark in one) or "-" for one in row.marks]
    else:
        each = ["".join(one) or "-" for one in row.marks]
    if set(each) == {"-"}:
        return ""
    return each[0] if len(set(each)) == 1 else "/".join(each)


def kind_text(row: CoreRow, machine: Machine) -> str:
    """Return the kind of a row's cores; nothing where all cores of the machine are alike."""
    if all(one.kind == "standard" for one in machine.rows()):
        return "" if row.capacity is None else f"capacity {row.capacity}"
    return row.kind if row.capacity is None else f"{row.kind} {row.capacity}"


def device_words(device: DeviceMark, box: Box | None) -> list[str]:
    """Return what is said of a device: its name and address, then what else is known.

    ``box`` is where it is drawn; None: apart from all CPUs, or near several boxes.
    """
    words = [device.id]
    if device.bdf is not None:
        words.append(device.bdf)
    if device.near is not None and not device.near:
        where = "" if device.numa is None else f" on NUMA {device.numa}"
        words.append(f"near no CPU{where}")
    elif device.near is not None and (box is None or device.near != box.cpus):
        words.append(f"near CPU {cpu_list(device.near)}")
    if device.confidence not in ("measured", "unknown"):
        words.append(f"({device.confidence})")
    if device.near is not None and device.confidence == "unknown":
        words.append("(not said how it is known)")
    words += device.names
    if device.model is not None:
        words.append(device.model)
    if device.instances:
        words.append(f"in {device.instances} instances")
    return words


def memory_text(nodes: MemoryNodes) -> str:
    """Return what NUMA nodes without CPUs are."""
    role = {"gpu-memory": "GPU memory", "unknown": ""}.get(nodes.role, nodes.role)
    if nodes.memory_mib is None:
        words = [role or "nothing known"]
    elif nodes.memory_mib == 0:
        words = ["empty", f"({role})" if role else ""]
    else:
        each = "each" if len(nodes.ids) > 1 else ""
        words = [size(nodes.memory_mib * 1024), each, role]
    return f"NUMA {id_list(nodes.ids)}: {' '.join(word for word in words if word)}"


def legend(machine: Machine, forms: Iterable[Form]) -> list[tuple[str, str]]:
    """Return a sign and its meaning for each sign that is used.

    Args:
        machine: the picture.
        forms: how CPUs are written in it.
    """
    used = set(forms)
    sets = [*(key.lane.cpus for key in machine.lanes), *(pool.cpus for pool in machine.pools)]
    if any(":" in cpu_list(cpus) for cpus in sets):
        used.add("stride")
    lines: list[tuple[str, str]] = []
    if "plus" in used:
        lines.append(("A + B", "the n-th CPUs of each are threads of one core"))
    if "by" in used:
        lines.append(("A-B by N", "each N neighbours are threads of one core"))
    if "stride" in used:
        lines.append(("A-B:N/M", "the first N of every M CPUs from A to B"))
    marked = (machine.isolated, machine.nohz_full, machine.not_allowed, machine.kubelet)
    for (mark, word), cpus in zip(MARKS.items(), marked, strict=True):
        if cpus:
            lines.append((mark, f"{word}: {cpu_list(cpus)}"))
    for key in machine.lanes:
        detail = f", {key.lane.detail}" if key.lane.detail else ""
        lines.append(
            (f"[{key.letter}]", f"{key.lane.name}: {cpu_list(key.lane.cpus) or 'no CPU'}{detail}")
        )
    return lines


def placement_words(machine: Machine) -> list[tuple[str, str]]:
    """Return a word and a text each of what else is planned on a machine, and what is not met."""
    return [
        *(("no lane", f"{cpu_list(pool.cpus)}: {pool.name}") for pool in machine.pools),
        *(("note", note) for note in machine.notes),
    ]
