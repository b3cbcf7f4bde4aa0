"""What the lab runs: guests, and the scenarios in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab import scenario_a, scenario_cpuset, scenario_f, scenario_teeth, verdict_cpuset
from tests.lab.guest import Lab
from tests.lab.machine import FOUR, ONE, TWO, Machine
from tests.lab.scenario import Report, Scenario
from tests.lab.session import facts_of, play


@dataclass(frozen=True)
class Outcome:
    """What came of one scenario in one guest."""

    scenario: str
    title: str
    machine: str
    report: Report


@dataclass(frozen=True)
class Guest:
    """A guest to run on each kernel.

    Attributes:
        scenarios: the names of its scenarios, of which those that are wanted run.
        machine: where.
        play: runs the wanted ones with a kernel, in an empty directory.
        seconds: about how long; the longest are begun first.
    """

    scenarios: tuple[str, ...]
    machine: Machine
    play: Callable[[Lab, Path, frozenset[str], Path], list[Outcome]]
    seconds: int


def _together(machine: Machine, seconds: int, scenarios: Sequence[Scenario]) -> Guest:
    """Return a guest that several scenarios share."""

    def run(lab: Lab, kernel: Path, wanted: frozenset[str], work: Path) -> list[Outcome]:
        chosen = [one for one in scenarios if one.name in wanted]
        facts = facts_of(lab, kernel, machine, work / "facts")
        played = play(lab, kernel, machine, chosen, facts, work / "guest")
        return [Outcome(one.name, one.title, machine.name, report) for one, report in played]

    return Guest(tuple(one.name for one in scenarios), machine, run, seconds)


def _safety(lab: Lab, kernel: Path, wanted: frozenset[str], work: Path) -> list[Outcome]:
    console, lane = scenario_f.measure(lab, kernel, work / "guest")
    report = Report(scenario_f.check_f(console, lane))
    return [Outcome("f", "what must not go wrong", scenario_f.MACHINE.name, report)]


def _cpuset(lab: Lab, kernel: Path, wanted: frozenset[str], work: Path) -> list[Outcome]:
    console = scenario_cpuset.measure(lab, kernel, work / "guest")
    report = Report(verdict_cpuset.check(console))
    title = "control groups by the cpuset target"
    return [Outcome("cpuset", title, scenario_cpuset.MACHINE.name, report)]


GUESTS: Final = (
    _together(ONE, 60, [scenario_a.SCENARIO, scenario_teeth.SCENARIO]),
    _together(TWO, 60, [scenario_a.SCENARIO]),
    _together(FOUR, 70, [scenario_a.SCENARIO, scenario_teeth.SCENARIO]),
    Guest(("f",), scenario_f.MACHINE, _safety, 60),
    Guest(("cpuset",), scenario_cpuset.MACHINE, _cpuset, 30),
)
NAMES: Final = tuple(sorted({name for guest in GUESTS for name in guest.scenarios}))
