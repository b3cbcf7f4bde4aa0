"""What the figures of a scenario must be."""

from __future__ import annotations

from typing import Final

from tests.lab.check import Check
from tests.lab.scenario_a import HOG_SECONDS, HOGS_PER_CPU, RUN_MS, SECONDS, Outcome

LEAST_HOGS_SHARE: Final = 0.95
"""Of the CPU time that the decode loop leaves them on their CPUs."""


def check_a(outcome: Outcome, cpus: int) -> list[Check]:
    """Judge scenario a: protected and alone must be alike, and nobody may starve.

    With 4 CPUs and more, their clocks are emulated one after the other, and only the schedulers of
    one guest are compared.
    """
    results = outcome.results
    idle = results["eevdf", 0]
    checks = []
    for hogs in HOGS_PER_CPU:
        seeded, eevdf = results["seeded", hogs], results["eevdf", hogs]
        empty = results["empty", hogs]
        least, most = {1: (0.97, 1.5), 2: (0.95, 1.5)}.get(cpus, (0.0, 0.0))
        name = f"{cpus} CPUs, {hogs} hogs each"
        if least:
            checks.append(_at_least(f"{name}: steps, seeded", seeded.steps, least * idle.steps))
            checks.append(_at_most(f"{name}: p99 us, seeded", seeded.p99_us, most * idle.p99_us))
        else:
            checks.append(_at_least(f"{name}: steps, seeded", seeded.steps, eevdf.steps))
        left = HOG_SECONDS * 1000 * outcome.hog_cpus - seeded.steps * SECONDS * RUN_MS
        wanted = LEAST_HOGS_SHARE * left
        checks.append(_at_least(f"{name}: hogs' ms, seeded", seeded.hogs_ms, wanted))
        checks.append(_at_least(f"{name}: steps, no seed", empty.steps, 0.8 * eevdf.steps))
        checks.append(_at_most(f"{name}: p99 us, no seed", empty.p99_us, 1.25 * eevdf.p99_us))
    return checks


def check_scripts(console: str) -> list[Check]:
    """Judge what load.sh and unload.sh said in the guest."""
    return [
        Check(line in console, text)
        for line, text in (
            ("LAB load 0\n", "load.sh puts the seed in force"),
            ("nothing was changed\nLAB load-again 0\n", "run again it changes nothing"),
            ("LAB unload 0 disabled 0\n", "unload.sh detaches and leaves no map"),
        )
    ]


def _at_least(text: str, value: float, wanted: float) -> Check:
    return Check(value >= wanted, f"{text}: {value:.0f}, at least {wanted:.0f}")


def _at_most(text: str, value: float, wanted: float) -> Check:
    return Check(value <= wanted, f"{text}: {value:.0f}, at most {wanted:.0f}")
