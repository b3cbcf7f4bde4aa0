"""Scenario a: a decode loop against hogs on every CPU, with and without tierc.

The loop sleeps 2 ms and runs 0.3 ms, as one that waits for a GPU; the hogs run all the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check, at_least, at_most
from tests.lab.guest import TURN_US
from tests.lab.machine import Machine
from tests.lab.policy import BATCH, ENGINE, intent, project
from tests.lab.scenario import Phase, Report, Result, Scenario, Step, Table

POLICY: Final = project() + intent("decode", ENGINE, "protect: [all]") + BATCH
GUARDED: Final = (
    project()
    + intent("decode", ENGINE, "protect: [all]", "lane: {cores: {min: 1, max: 1}, share: guarded}")
    + BATCH
)
"""The same with a lane that batch work is kept out of."""

HOGS_PER_CPU: Final = (4, 8)
SECONDS: Final = 1.5
"""How long the loop is looked at."""
DELAY: Final = 0.2
"""How long the hogs run before."""
HOG_SECONDS: Final = DELAY + SECONDS + 0.1
RUN_MS: Final = 0.3
"""CPU time of a step, as in payload/decode.c."""
LEAST_HOGS_SHARE: Final = 0.95
"""Of the CPU time that the decode loop leaves them on their CPUs."""

LOOP: Final = """\
hold
[ {hogs} = 0 ] || spin hog {hogs} {hog_seconds} >/tmp/hogs &
hogs=$!
decode VLLM::EngineCor {seconds} {delay} >/tmp/decode &
decode=$!
usleep 100000
{before}
go
wait $decode
echo "LAB {name} hogs={hogs} $(cat /tmp/decode)"
[ {hogs} = 0 ] || { wait $hogs; echo "LAB {name}-hogs hogs={hogs} $(cat /tmp/hogs)"; }
"""

ALONE: Final = {1: (0.97, 1.5), 2: (0.95, 1.5)}
"""By number of CPUs, of what a loop does alone: the least steps, and the most p99."""

_NAMES: Final = {
    Phase.EEVDF: "eevdf",
    Phase.STATIC: "static",
    Phase.EMPTY: "empty",
    Phase.SEEDED: "seeded",
}
_LINE: Final = re.compile(
    r"^LAB (\w+) (\S+) hogs=(\d+) steps_per_s=([\d.]+) p50_us=(\d+) p99_us=(\d+) ", re.M
)
_HOGS: Final = re.compile(
    r"^LAB (\w+) (\S+)-hogs hogs=(\d+) hogs_cpu_ms=(\d+) least_ms=(\d+)", re.M
)


@dataclass(frozen=True)
class Figures:
    """What a decode loop reached.

    Attributes:
        steps: per second of the guest.
        p50_us: median of how late it woke.
        p99_us: 99th percentile of that.
        hogs_ms: CPU time that all hogs together got; 0 without.
        least_ms: CPU time of the hog that got least.
    """

    steps: float
    p50_us: int
    p99_us: int
    hogs_ms: int
    least_ms: int


Results = Mapping[tuple[str, int], Figures]
"""By scheduler and hogs on each CPU."""


def loop(name: str, hogs: int, before: str = "") -> str:
    """Return a script that runs the loop against hogs; ``before`` is run while all wait."""
    script = LOOP.replace("{name}", name).replace("{hogs}", str(hogs)).replace("{before}", before)
    times = {"seconds": SECONDS, "delay": DELAY, "hog_seconds": HOG_SECONDS}
    for word, value in times.items():
        script = script.replace(f"{{{word}}}", str(value))
    return script


def steps(machine: Machine) -> Sequence[Step]:
    """Return the loop alone, and every scheduler with every number of hogs."""
    found = [Step(Phase.EEVDF, loop("a eevdf", 0))]
    for phase, name in _NAMES.items():
        before = "static $POLICY" if phase is Phase.STATIC else ""
        for each in HOGS_PER_CPU:
            script = loop(f"a {name}", each * machine.cpus, before)
            found.append(Step(phase, script, "decode"))
    return found


def figures(console: str, scenario: str, cpus: int) -> Results:
    """Read the figures that a scenario's loops printed."""
    hogs = {
        (m[2], int(m[3])): (int(m[4]), int(m[5]))
        for m in _HOGS.finditer(console)
        if m[1] == scenario
    }
    return {
        (m[2], int(m[3]) // cpus): Figures(
            float(m[4]), int(m[5]), int(m[6]), *hogs.get((m[2], int(m[3])), (0, 0))
        )
        for m in _LINE.finditer(console)
        if m[1] == scenario
    }


def judge(result: Result) -> Report:
    """Judge: protected and alone must be alike, and nobody may starve."""
    results = figures(result.console, "a", result.machine.cpus)
    wanted = [("eevdf", 0), *((name, hogs) for name in _NAMES.values() for hogs in HOGS_PER_CPU)]
    missing = [f"{name}, {hogs} hogs each" for name, hogs in wanted if (name, hogs) not in results]
    if missing:
        return Report([Check(False, f"no figures: {'; '.join(missing)}")])
    (batch,) = (unit for unit in result.plans["decode"]["units"] if unit["intent"] == "batch")
    hog_cpus = len(CpuSet.parse(batch["cpus"]))
    checks = [
        check for hogs in HOGS_PER_CPU for check in check_a(results, result.machine, hogs, hog_cpus)
    ]
    rows = [
        (name, hogs, one.steps, one.p50_us, one.p99_us, one.hogs_ms, one.least_ms)
        for (name, hogs), one in results.items()
    ]
    columns = ("scheduler", "hogs", "steps/s", "p50 us", "p99 us", "hogs ms", "least ms")
    return Report(checks, Table(columns, rows))


def check_a(results: Results, machine: Machine, hogs: int, hog_cpus: int) -> list[Check]:
    """Judge the runs with so many hogs on each CPU.

    With 4 CPUs and more, their clocks are emulated one after the other, and only the schedulers of
    one guest are compared.

    Args:
        results: of one guest.
        machine: the guest.
        hogs: on each CPU.
        hog_cpus: how many CPUs the plan leaves the hogs: not those kept for node software.
    """
    seeded, eevdf, empty = (results[name, hogs] for name in ("seeded", "eevdf", "empty"))
    name = f"{hogs} hogs each"
    if machine.cpus in ALONE:
        checks = protected(name, seeded, results["eevdf", 0], machine)
    else:
        checks = [
            at_least(f"{name}: steps, seeded", seeded.steps, eevdf.steps),
            at_most(f"{name}: p99 us, seeded", seeded.p99_us, eevdf.p99_us),
        ]
    left = HOG_SECONDS * 1000 * hog_cpus - seeded.steps * SECONDS * RUN_MS
    return [
        *checks,
        at_least(f"{name}: hogs' ms, seeded", seeded.hogs_ms, LEAST_HOGS_SHARE * left),
        at_least(f"{name}: steps, no seed", empty.steps, 0.8 * eevdf.steps),
        at_most(f"{name}: p99 us, no seed", empty.p99_us, 1.25 * eevdf.p99_us),
    ]


def protected(name: str, seeded: Figures, alone: Figures, machine: Machine) -> list[Check]:
    """Judge a protected loop by what it does when nothing else runs."""
    least, most = ALONE[machine.cpus]
    # What the emulation itself may add, where CPUs take turns.
    turn = TURN_US if machine.cpus > 1 else 0
    return [
        at_least(f"{name}: steps, seeded", seeded.steps, least * alone.steps),
        at_most(f"{name}: p99 us, seeded", seeded.p99_us, most * alone.p99_us + turn),
    ]


SCENARIO: Final = Scenario(
    "a", "a decode loop and hogs on every CPU", {"decode": POLICY}, steps, judge
)
