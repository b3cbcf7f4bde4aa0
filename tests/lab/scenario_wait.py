"""Scenario wait: threads that must not be forgotten.

On one CPU, one that wakes while the CPU changes to another thread.  On two, one that may run on
one CPU only, where a higher tier never sleeps, while its like run elsewhere.  On two NUMA nodes,
threads of a band beside others of their tier that came later, and those that wait at a cache of
which a CPU goes and comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check, at_least, at_most
from tests.lab.console import Said, number
from tests.lab.machine import NUMA, Machine
from tests.lab.policy import BATCH, ENGINE, intent, project
from tests.lab.scenario import Phase, Report, Result, Scenario, Step

POLICY: Final = (
    project()
    + intent("first", ENGINE, "protect: [{path: all, tier: latency}]")
    + intent("second", '{match: [{comm: "second"}]}', "protect: [{path: all, tier: interactive}]")
    + BATCH
)

LANE: Final = (
    project()
    + intent("decode", ENGINE, "protect: [all]", "lane: {cores: 1, share: guarded}")
    + BATCH
    + intent("late", '{match: [{comm: "late"}]}', "demote: background", "above: [batch]")
)
"""A lane that others are kept out of: so their bands have queues of their own."""

MEET_US: Final = 10_000
"""How often two threads of two tiers wake in one interrupt."""
SECOND_US: Final = 3000
"""How long the one of the lower tier runs then, that was woken before the other."""
SECONDS: Final = 1.0
MOST_LATE_US: Final = 700
"""How late the one of the higher tier may wake; a tick is 4 ms."""
LONG_US: Final = 108_000
LONG_RUN_US: Final = 100_000
"""A thread that runs so long that the tier below has saved up its floor, and then sleeps for longer
than a tick."""
LONG_SECONDS: Final = 1.1
LEAST_FLOOR_MS: Final = 50
"""5 % of the time, about."""
PINNED_SECONDS: Final = 3.0
LEAST_PINNED_MS: Final = 1
"""What a thread gets that waits: it is run once it has done so for 2 s."""
MOST_TAKEN: Final = 0.02
"""Of a CPU's time, what that may cost the higher tier."""
LATE_HOGS: Final = 8
BEFORE: Final = 0.4
TOGETHER: Final = 0.5
"""How long hogs run alone, and then beside as many of another band of their tier."""
MOST_LATE_SHARE: Final = 65
"""What these may take then, in percent: half would be fair."""
HOTPLUG_HOGS: Final = 16
LEAST_SHARE: Final = 70
"""Of a fair share, in percent, of the hog that gets least."""

_MEET: Final = f"""\
hold
spin hog 2 {SECONDS + 0.1} >/tmp/hogs &
hogs=$!
meet second {MEET_US} 0 {SECOND_US} {SECONDS} >/tmp/second &
second=$!
meet VLLM::EngineCor {MEET_US} 5 300 {SECONDS} >/tmp/first &
first=$!
usleep 100000
go
wait $first $second $hogs
echo "LAB wait first $(cat /tmp/first)"
echo "LAB wait second $(cat /tmp/second)"
echo "LAB wait beside $(cat /tmp/hogs)"
"""
_FLOOR: Final = f"""\
hold
spin hog 1 {LONG_SECONDS + 0.1} >/tmp/hogs &
hogs=$!
meet VLLM::EngineCor {LONG_US} 0 {LONG_RUN_US} {LONG_SECONDS} >/tmp/long &
long=$!
usleep 100000
go
wait $long $hogs
echo "LAB wait long $(cat /tmp/long)"
echo "LAB wait floor $(cat /tmp/hogs)"
"""
_PINNED: Final = f"""\
hold
taskset 1 spin VLLM::EngineCor 1 {PINNED_SECONDS} >/tmp/spinner &
taskset 1 spin hog 1 {PINNED_SECONDS} >/tmp/pinned &
spin hog 3 {PINNED_SECONDS} >/tmp/hogs &
usleep 100000
go
wait
echo "LAB wait spinner $(cat /tmp/spinner)"
echo "LAB wait pinned $(cat /tmp/pinned)"
echo "LAB wait hogs $(cat /tmp/hogs)"
"""
_TURNS: Final = f"""\
spin hog {LATE_HOGS} {BEFORE + TOGETHER + 0.3} >/dev/null &
hogs=$!
usleep {BEFORE * 1e6:.0f}
rm -f /tmp/start
echo "LAB wait late $(spin late {LATE_HOGS} {TOGETHER})"
wait $hogs
"""
# CPU 4 is the first one of the second cache.
_HOTPLUG: Final = f"""\
echo 0 >/sys/devices/system/cpu/cpu4/online
hold
spin hog {HOTPLUG_HOGS} 1 >/tmp/hogs &
hogs=$!
usleep 100000
go
usleep 300000
echo 1 >/sys/devices/system/cpu/cpu4/online
wait $hogs
echo "LAB wait hotplug $(cat /sys/devices/system/cpu/online) $(cat /tmp/hogs)"
"""


def steps(machine: Machine) -> Sequence[Step]:
    """Return what fits the machine."""
    if machine is NUMA:
        return [Step(Phase.SEEDED, _TURNS + _HOTPLUG, "lane")]
    return [Step(Phase.SEEDED, _MEET + _FLOOR if machine.cpus == 1 else _PINNED, "wait")]


def judge(result: Result) -> Report:
    """Judge how late, and how much."""
    try:
        said = Said(result.console)
        if result.machine is NUMA:
            return Report(_check_numa(said, result.plans["lane"]))
        return Report(_check_one(said) if result.machine.cpus == 1 else _check_two(said))
    except ValueError as error:
        return Report([Check(False, f"the guest printed less than it should: {error}")])


def _check_one(said: Said) -> list[Check]:
    first, second = said.line("wait first"), said.line("wait second")
    return [
        at_least("meetings of two tiers", number(second, "times"), 0.8 * SECONDS * 1e6 / MEET_US),
        at_most("p99 us that the higher tier woke late", number(first, "p99_us"), MOST_LATE_US),
        at_most(
            "p99 us that the lower tier woke late, for it lets the other go first",
            number(second, "p99_us"),
            MEET_US,
        ),
        at_most(
            "us at most that a higher tier woke late after the lower one had run on its floor",
            number(said.line("wait long"), "max_us"),
            MOST_LATE_US,
        ),
        at_least(
            "ms of the lower one meanwhile",
            number(said.line("wait floor"), "hogs_cpu_ms"),
            LEAST_FLOOR_MS,
        ),
    ]


def _check_two(said: Said) -> list[Check]:
    spinner, pinned, hogs = (
        number(said.line(f"wait {name}"), "hogs_cpu_ms") for name in ("spinner", "pinned", "hogs")
    )
    whole = 1000 * PINNED_SECONDS
    return [
        at_least("ms of the spinner of a higher tier", spinner, (1 - MOST_TAKEN) * whole),
        at_least("ms of a hog that may run on that CPU only", pinned, LEAST_PINNED_MS),
        Check(hogs > whole / 2, f"other hogs run on the other CPU meanwhile: {hogs:.0f} ms"),
    ]


def _check_numa(said: Said, plan: Mapping[str, Any]) -> list[Check]:
    (batch,) = (unit for unit in plan["units"] if unit["intent"] == "batch")
    cpus = len(CpuSet.parse(batch["cpus"]))
    late, hotplug = said.line("wait late"), said.line("wait hotplug")
    least, total = (number(hotplug, name) for name in ("least_ms", "hogs_cpu_ms"))
    return [
        at_most(
            "percent of the CPU time that as many hogs of the same tier took which came later",
            100 * number(late, "hogs_cpu_ms") / (1000 * TOGETHER * cpus),
            MOST_LATE_SHARE,
        ),
        Check(hotplug.startswith("0-7 "), f"the first CPU of a cache is back: {hotplug}"),
        at_least(
            "percent of a fair share of the hog that had least meanwhile",
            100 * HOTPLUG_HOGS * least / max(1, total),
            LEAST_SHARE,
        ),
    ]


SCENARIO: Final = Scenario(
    "wait", "threads that must not be forgotten", {"wait": POLICY, "lane": LANE}, steps, judge
)
