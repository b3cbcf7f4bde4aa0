"""The lab's judgement of threads that must not be forgotten; the guests run in the lab only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.lab import scenario_wait
from tests.lab.check import Check
from tests.lab.machine import FOUR, NUMA, ONE, TWO, Machine
from tests.lab.scenario import Result

PLANS: Final[Mapping[str, Any]] = {
    "lane": {"units": [{"intent": "batch", "cpus": "2-3,6-7"}]},
    "wait": {},
}
SAID: Final = {
    ONE: """\
LAB wait first times=100 p50_us=90 p99_us=140 max_us=180
LAB wait second times=100 p50_us=400 p99_us=500 max_us=600
LAB wait long times=10 p50_us=50 p99_us=60 max_us=70
LAB wait floor hogs_cpu_ms=90 least_ms=90
""",
    TWO: """\
LAB wait spinner hogs_cpu_ms=2960 least_ms=2960
LAB wait pinned hogs_cpu_ms=3 least_ms=3
LAB wait hogs hogs_cpu_ms=2990 least_ms=980
""",
    NUMA: """\
LAB wait late hogs_cpu_ms=1000 least_ms=100
LAB wait hotplug 0-7 hogs_cpu_ms=3600 least_ms=210
""",
}


def judge(machine: Machine, console: str) -> list[Check]:
    return list(scenario_wait.judge(Result(console, PLANS, machine)).checks)


@pytest.mark.parametrize("machine", SAID, ids=lambda machine: machine.name)
def test_a_guest_where_all_holds_passes(machine: Machine) -> None:
    checks = judge(machine, SAID[machine])
    assert len(checks) >= 3
    assert [check.text for check in checks if not check.passed] == []


@pytest.mark.parametrize(
    ("machine", "old", "new", "text"),
    [
        (ONE, "second times=100", "second times=2", "meetings of two tiers"),
        (ONE, "p99_us=140", "p99_us=2100", "that the higher tier woke late"),
        (ONE, "p99_us=500", "p99_us=10001", "that the lower tier woke late"),
        (ONE, "max_us=70", "max_us=4000", "had run on its floor"),
        (ONE, "hogs_cpu_ms=90", "hogs_cpu_ms=5", "ms of the lower one"),
        (TWO, "spinner hogs_cpu_ms=2960", "spinner hogs_cpu_ms=2900", "spinner of a higher tier"),
        (TWO, "pinned hogs_cpu_ms=3", "pinned hogs_cpu_ms=0", "that CPU only"),
        (TWO, "hogs hogs_cpu_ms=2990", "hogs hogs_cpu_ms=1500", "the other CPU meanwhile"),
        (NUMA, "late hogs_cpu_ms=1000", "late hogs_cpu_ms=1900", "which came later"),
        (NUMA, "hotplug 0-7 ", "hotplug 0-3,5-7 ", "first CPU of a cache is back"),
        (NUMA, "least_ms=210", "least_ms=60", "the hog that had least meanwhile"),
    ],
)
def test_each_figure_counts(machine: Machine, old: str, new: str, text: str) -> None:
    assert SAID[machine].count(old) == 1
    failed = [c.text for c in judge(machine, SAID[machine].replace(old, new)) if not c.passed]
    assert len(failed) == 1
    assert text in failed[0]


@pytest.mark.parametrize("machine", SAID, ids=lambda machine: machine.name)
def test_a_line_that_is_missing_fails(machine: Machine) -> None:
    for line in SAID[machine].splitlines(keepends=True):
        checks = judge(machine, SAID[machine].replace(line, ""))
        assert [check.passed for check in checks] == [False]
        assert "printed less than it should" in checks[0].text


def test_every_guest_has_a_policy() -> None:
    for machine in (ONE, TWO, FOUR, NUMA):
        for step in scenario_wait.steps(machine):
            assert step.policy in scenario_wait.SCENARIO.policies
