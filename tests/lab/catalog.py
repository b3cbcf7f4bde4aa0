"""What the lab runs: guests, and the scenarios in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from tests.lab import (
    scenario_a,
    scenario_b,
    scenario_c,
    scenario_cpuset,
    scenario_d,
    scenario_f,
    scenario_stall,
    scenario_teeth,
    scenario_v,
    scenario_wait,
    verdict_cpuset,
)
from tests.lab.check import Check
from tests.lab.guest import Lab
from tests.lab.machine import FOUR, NUMA, ONE, TWO, Machine
from tests.lab.scenario import Report, Scenario
from tests.lab.session import facts_of, play


@dataclass(frozen=True)
class Outcome:
    """What came of one scenario in one guest."""

    scenario: str
    title: str
    machine: str
    report: Report


class When(IntEnum):
    """When a guest runs."""

    ALWAYS = 0
    ALL = 1
    """With ``--all``."""
    NAMED = 2
    """If its scenario is named."""


@dataclass(frozen=True)
class Guest:
    """A guest to run on each kernel.

    Attributes:
        scenarios: the names of its scenarios, of which those that are wanted run.
        machine: where.
        play: runs the wanted ones with a kernel, in an empty directory.
        seconds: about how long; the longest are begun first.
        when: it runs if no scenario is named.
    """

    scenarios: tuple[str, ...]
    machine: Machine
    play: Callable[[Lab, Path, frozenset[str], Path], list[Outcome]]
    seconds: int
    when: When = When.ALWAYS


def _together(machine: Machine, seconds: int, scenarios: Sequence[Scenario]) -> Guest:
    """Return a guest that several scenarios share."""

    def run(lab: Lab, kernel: Path, wanted: frozenset[str], work: Path) -> list[Outcome]:
        chosen = [one for one in scenarios if one.name in wanted]
        facts = facts_of(lab, kernel, machine, work / "facts")
        played = play(lab, kernel, machine, chosen, facts, work / "guest")
        return [Outcome(one.name, one.title, machine.name, report) for one, report in played]

    return Guest(tuple(one.name for one in scenarios), machine, run, seconds)


def _alone(
    name: str,
    title: str,
    machine: Machine,
    seconds: int,
    judged: Callable[[Lab, Path, Path], Sequence[Check]],
    when: When = When.ALWAYS,
) -> Guest:
    """Return a guest with one scenario that has a script of its own."""

    def run(lab: Lab, kernel: Path, wanted: frozenset[str], work: Path) -> list[Outcome]:
        return [Outcome(name, title, machine.name, Report(judged(lab, kernel, work / "guest")))]

    return Guest((name,), machine, run, seconds, when)


def _safety(lab: Lab, kernel: Path, work: Path) -> Sequence[Check]:
    return scenario_f.check_f(*scenario_f.measure(lab, kernel, work))


def _stall(lab: Lab, kernel: Path, work: Path) -> Sequence[Check]:
    return scenario_stall.check_stall(*scenario_stall.measure(lab, kernel, work))


def _verify(lab: Lab, kernel: Path, work: Path) -> Sequence[Check]:
    return scenario_v.check(*scenario_v.measure(lab, kernel, work))


def _cpuset(lab: Lab, kernel: Path, work: Path) -> Sequence[Check]:
    return verdict_cpuset.check(scenario_cpuset.measure(lab, kernel, work))


GUESTS: Final = (
    _together(
        ONE,
        60,
        [scenario_a.SCENARIO, scenario_b.SCENARIO, scenario_wait.SCENARIO, scenario_teeth.SCENARIO],
    ),
    _together(TWO, 70, [scenario_a.SCENARIO, scenario_c.SCENARIO, scenario_wait.SCENARIO]),
    _together(FOUR, 70, [scenario_a.SCENARIO, scenario_teeth.SCENARIO]),
    _together(NUMA, 70, [scenario_d.SCENARIO, scenario_wait.SCENARIO]),
    _alone("f", "what must not go wrong", scenario_f.MACHINE, 90, _safety),
    _alone("verify", "tierc verify on the node", scenario_v.MACHINE, 100, _verify, When.ALL),
    _alone("cpuset", "control groups", scenario_cpuset.MACHINE, 30, _cpuset, When.ALL),
    _alone("stall", "a real stall", scenario_f.MACHINE, 90, _stall, When.NAMED),
)
NAMES: Final = tuple(sorted({name for guest in GUESTS for name in guest.scenarios}))


def wanted(names: Sequence[str], *, everything: bool) -> frozenset[str]:
    """Return which scenarios to run: those named, else those of every run or all runs."""
    limit = When.ALL if everything else When.ALWAYS
    found = (name for guest in GUESTS if guest.when <= limit for name in guest.scenarios)
    return frozenset(names or found)
