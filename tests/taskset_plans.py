"""Plans for tests of the taskset target, built by hand, and what sysfs says read anew.

The sysfs reader shares nothing with the compiler or the emitted scripts.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text, device_digest, digest
from compiler.plan import (
    Band,
    Condition,
    Lane,
    LeftOut,
    Machine,
    Mode,
    NodePlan,
    Rule,
    Tier,
    Unit,
)
from targets.taskset import TARGET

FIRST, SECOND, ALL = 0, 1, 2
"""Bands of :func:`plan`: the first CPU, the second, every CPU."""


def cpus(text: str) -> set[int]:
    """Read a CPU list."""
    result: set[int] = set()
    for item in filter(None, text.strip().split(",")):
        first, _, last = item.partition("-")
        result |= set(range(int(first), int(last or first) + 1))
    return result


def mask(text: str) -> set[int]:
    """Read a sysfs mask: hexadecimal words of 32 bits, highest first."""
    value = int("".join(word.rjust(8, "0") for word in text.strip().split(",")), 16)
    return {bit for bit in range(value.bit_length()) if value >> bit & 1}


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip(" \n\0")
    except OSError:
        return None


def _set(directory: Path, listed: str, masked: str) -> set[int] | None:
    if text := _read(directory / listed):
        return cpus(text)
    if text := _read(directory / masked):
        return mask(text)
    return None


def read_machine(base: Path) -> tuple[set[int], list[set[int]], list[set[int]]]:
    """Return online CPUs, cores and last-level caches of a ``devices/system/cpu`` directory."""
    ids = sorted(int(p.name[3:]) for p in base.glob("cpu[0-9]*") if p.name[3:].isdigit())
    listed = _read(base / "online")
    online = cpus(listed) if listed else {c for c in ids if (base / f"cpu{c}/topology").is_dir()}
    cores: list[set[int]] = []
    caches: list[set[int]] = []
    for cpu in sorted(online):
        topology = base / f"cpu{cpu}/topology"
        siblings = _set(topology, "core_cpus_list", "core_cpus") or _set(
            topology, "thread_siblings_list", "thread_siblings"
        )
        core = (siblings or {cpu}) & online
        if core not in cores:
            cores.append(core)
        best: tuple[int, set[int]] | None = None
        for index in sorted((base / f"cpu{cpu}/cache").glob("index*")):
            shared = _set(index, "shared_cpu_list", "shared_cpu_map")
            if _read(index / "type") in (None, "Instruction") or shared is None:
                continue
            level = int(_read(index / "level") or 0)
            if best is None or level > best[0]:
                best = (level, shared & online)
        if best is not None and best[1] not in caches:
            caches.append(best[1])
    return online, cores, caches


def machine(
    online: Iterable[int],
    cores: Iterable[Iterable[int]],
    llcs: Iterable[Iterable[int]],
    arch: str | None = None,
) -> Machine:
    """Return the machine of a plan, every CPU effective."""
    cpu_set = CpuSet(online)
    return Machine(
        arch=arch or platform.machine(),
        online=cpu_set,
        effective=cpu_set,
        isolated=CpuSet(),
        cores=tuple(sorted((CpuSet(c) for c in cores), key=lambda s: s.lowest)),
        llcs=tuple(sorted((CpuSet(c) for c in llcs), key=lambda s: s.lowest)),
    )


def this_machine() -> Machine:
    """Return the machine the test runs on."""
    return machine(*read_machine(Path("/sys/devices/system/cpu")))


def two_cpus() -> tuple[int, int]:
    """Return the two lowest CPUs this process may use."""
    first, second = sorted(os.sched_getaffinity(0))[:2]
    return first, second


def rule(id_: int, band: int, unit: str | None = None, spawns: bool = False, **match: str) -> Rule:
    """Return a rule; the keywords are fields of its condition."""
    return Rule(
        id=id_, unit=unit or f"unit-{id_}", band=band, match=Condition(**match), spawns=spawns
    )


def plan(
    rules: Sequence[Rule],
    *,
    on: Machine | None = None,
    bands: Sequence[tuple[str, int]] | None = None,
    mode: Mode = "fallback",
    lane: str = "serving",
    left_out: Sequence[LeftOut] = (),
) -> NodePlan:
    """Return a plan; ``bands`` are (CPUs, fewest), by default FIRST, SECOND and ALL."""
    on = on or this_machine()
    if bands is None:
        first, second = two_cpus()
        bands = [(str(first), 1), (str(second), 1), (str(on.effective), 1)]
    shapes = [
        Band(
            id=number,
            tier=number % 2,
            order=0,
            cpus=CpuSet.parse(text),
            min_cpus=fewest,
            hard=True,
            prefer_idle_core=False,
        )
        for number, (text, fewest) in enumerate(bands)
    ]
    units = {
        r.unit: Unit(
            name=r.unit,
            intent=r.unit.split("/")[0],
            stage=None,
            tier=shapes[r.band].tier if r.band < len(shapes) else 0,
            order=0,
            effect="protect",
            lane=lane if r.band == FIRST else None,
            cpus=shapes[r.band].cpus if r.band < len(shapes) else CpuSet(),
            band=r.band,
        )
        for r in rules
    }
    return NodePlan(
        mode=mode,
        fingerprint=digest(cpu_text(on.arch, on.online, on.cores, on.llcs)),
        device_fingerprint=device_digest(on.gpus, on.nics),
        machine=on,
        housekeeping=CpuSet(),
        shared=on.effective,
        leftovers=CpuSet(),
        tiers=tuple(
            Tier(id=i, name=n, slice_ns=3_000_000, weight=100, floor=0, preempt=False)
            for i, n in enumerate(("latency", "background"))
        ),
        default_band=len(shapes) - 1,
        bands=tuple(shapes),
        rules=tuple(rules),
        units=tuple(units.values()),
        lanes=(
            Lane(
                name=lane,
                cpus=shapes[0].cpus,
                cores=1,
                min_cores=1,
                max_cores=1,
                share="guarded",
                tier=0,
                intents=(lane,),
                prefer=(),
                require=(),
            ),
        ),
        degradations=(),
        left_out={"taskset": tuple(left_out)} if left_out else {},
    )


def write_scripts(node_plan: NodePlan, directory: Path) -> Path:
    """Emit the scripts of a plan; return the directory they are in."""
    for artifact in TARGET.emit(node_plan):
        path = directory / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
        path.chmod(artifact.mode)
    return directory / "taskset"
