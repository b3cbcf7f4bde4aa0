"""What the guest of scenarios e and f must have printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check
from tests.lab.console import Said, cpus_seen

CPUS: Final = 4
RESEEDS: Final = 2
KILLS: Final = 4
SPIN_SECONDS: Final = 2


@dataclass(frozen=True)
class Kill:
    """A loader that is killed together with its bpftool, and what there must be afterwards.

    Attributes:
        name: what the guest calls it.
        where: the number of the call of bpftool, and the arguments of payload/killed.c: before or
            after which call of bpf(2).  Kinds: 1 reads an entry of a map, 2 writes one, 6 pins, 28
            attaches.
        state: that of sched_ext.
        seeded: whether the seed is in force.
    """

    name: str
    where: str
    state: str
    seeded: bool = False


FIRST_KILLS: Final = (
    Kill("register-pin", "1 before 6 1", "disabled"),
    Kill("register-pins", "1 before 6 6", "disabled"),
    # Attached, but not pinned yet: it goes with bpftool.
    Kill("register-attached", "1 after 28 1", "disabled"),
    # Attached in this run, hence the second call; the others find it so.
    Kill("look", "2 before 1 1", "enabled"),
    Kill("stage-fill", "2 before 2 9", "enabled"),
    Kill("publish-half", "3 before 2 4", "enabled"),
    Kill("flip", "4 before 2 1", "enabled"),
    Kill("flipped", "4 after 2 1", "enabled", seeded=True),
)
"""While no seed is in force yet."""

NO_SEED: Final = bytes(8).hex()
LEAST_FLOOR: Final = 0.05
"""Share of the machine that the tier background is promised, whoever spins above it."""


@dataclass(frozen=True)
class Setup:
    """What the guest was given, as far as the verdict needs it.

    Attributes:
        lane: the CPU of the lane.
        gone: the CPU that goes and comes.
        hog_cpus: the CPUs that the policy with the lane leaves to the hogs.
        active: by policy, what ``tierc_active`` says while its seed is in force: in slot 0, in 1.
    """

    lane: int
    gone: int
    hog_cpus: CpuSet
    active: dict[str, tuple[str, str]]


def check(console: str, setup: Setup) -> list[Check]:
    """Judge what the guest printed."""
    said = Said(console)
    return [
        *_first_load(said, setup),
        *_under_load(said, setup),
        *_rollback(said, setup),
        *_machine_changes(said, setup),
        *_ejection(said, setup),
        *_end(said, setup),
    ]


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else -1


def _keeps_off(text: str, cpu: int) -> bool:
    return bool(cpus_seen(text)) and cpu not in cpus_seen(text)


def _first_load(said: Said, setup: Setup) -> list[Check]:
    lane = setup.active["lane"]
    return [
        *(_first_kill(said[f"f first-{kill.name}"], kill, lane[0]) for kill in FIRST_KILLS),
        Check(
            said["f attached"] == f"0 enabled {lane[0]}",
            f"load.sh then puts the seed in force: {said['f attached']}",
        ),
        Check(
            said["f nothing-before"] == f"13 {lane[0]}",
            f"nothing to roll back to: {said['f nothing-before']}",
        ),
    ]


def _first_kill(left: str, kill: Kill, seed: str) -> Check:
    """Judge what a killed loader left; a map that is not there has no seed either."""
    active = {seed} if kill.seeded else {NO_SEED}
    if kill.state == "disabled":
        active.add("")
    return Check(
        left.rstrip() in {f"137 137 {kill.state} {one}".rstrip() for one in active},
        f"a loader killed at {kill.name}: {left}",
    )


def _under_load(said: Said, setup: Setup) -> list[Check]:
    lane = setup.lane
    hogs, again, reseeded = said["f hogs"], said["f hogs-again"], said["f reseeded"]
    kills = said.all(r"f kill-\d+")
    known = {f"enabled {active}" for both in setup.active.values() for active in both}
    return [
        Check(_keeps_off(hogs, lane), f"no hog on CPU {lane}: {hogs}"),
        Check(
            cpus_seen(said["f decode"]) == CpuSet([lane]),
            f"decode on CPU {lane}: {said['f decode']}",
        ),
        Check(
            reseeded.endswith("enabled")
            and _number(r"^(\d+)", reseeded) > RESEEDS
            and "reseed-failed" not in said.console,
            f"{RESEEDS} seeds exchanged under load: {reseeded}",
        ),
        Check(
            len(kills) == KILLS and set(kills) <= known,
            f"{KILLS} loaders killed, one seed or the other is in force: {', '.join(kills)}",
        ),
        Check(
            said["f killed"] == "0 enabled 0",
            f"the next loads, and leaves nothing staged: {said['f killed']}",
        ),
        Check(_keeps_off(again, lane), f"still no hog on CPU {lane}: {again}"),
    ]


def _rollback(said: Said, setup: Setup) -> list[Check]:
    back, again, well = said["f rolled-back"], said["f rolled-again"], said["f ensure-well"]
    active = again.split(" ")[1] if again.startswith("0 ") else ""
    return [
        Check(
            back.startswith(tuple(f"0 {one} " for one in setup.active["lane"]))
            and _keeps_off(back.split(" ")[-1], setup.lane),
            f"rolled back to the seed with the lane: {back}",
        ),
        Check(
            active in setup.active["open"] and setup.lane in cpus_seen(again.split(" ")[-1]),
            f"rolled back again to the one without: {again}",
        ),
        Check(
            bool(active) and well.startswith(f"0 {active} {active} ") and "nothing was" in well,
            f"--ensure has nothing to do: {well}",
        ),
    ]


def _machine_changes(said: Said, setup: Setup) -> list[Check]:
    pinned, off, back = said["f pinned"], said["f off"], said["f on"]
    return [
        Check(
            cpus_seen(pinned) == CpuSet([setup.lane]) and _number(r"disjoint=(\d+)", pinned) > 0,
            f"a hog pinned to CPU {setup.lane} runs there: {pinned}",
        ),
        Check(
            off.startswith("enabled")
            and _keeps_off(off, setup.gone)
            and _keeps_off(off, setup.lane),
            f"CPU {setup.gone} goes: {off}",
        ),
        Check(
            back.startswith("enabled") and setup.gone in cpus_seen(back),
            f"CPU {setup.gone} comes back: {back}",
        ),
    ]


def _ejection(said: Said, setup: Setup) -> list[Check]:
    everywhere = f"0-{CPUS - 1}"
    lane = setup.active["lane"]
    fallen = f"1 disabled hogs={setup.hog_cpus} decode={CpuSet([setup.lane])}"
    back = said["f ensure-back"]
    return [
        Check(
            said["f ejected"] == f"disabled hogs={everywhere}",
            f"SysRq-S has the kernel eject it: {said['f ejected']}",
        ),
        Check(
            said["f ensure-ejected"] == fallen,
            f"--ensure sets affinity instead: {said['f ensure-ejected']}",
        ),
        Check("sysrq" in said["f why"], f"it says why: {said['f why']}"),
        Check(
            said["f ensure-pause"] == f"1 disabled hog={everywhere}",
            f"in the pause it does nothing: {said['f ensure-pause']}",
        ),
        Check(
            back in {f"0 enabled {one} hogs={everywhere} decode={everywhere}" for one in lane},
            f"after the pause it attaches, and takes the affinity back: {back}",
        ),
        Check(
            _keeps_off(said["f hogs-back"], setup.lane),
            f"and no hog is on CPU {setup.lane}: {said['f hogs-back']}",
        ),
    ]


def _end(said: Said, setup: Setup) -> list[Check]:
    spun = re.match(r"([\d.]+) (\d+) ([\d.]+) (\d+) enabled$", said["e"])
    share = 0.0
    if spun:
        seconds = float(spun[3]) - float(spun[1])
        share = (int(spun[4]) - int(spun[2])) / 1e9 / (CPUS * seconds)
    return [
        Check(said["f unloaded"] == "0 disabled 0", f"unload.sh: {said['f unloaded']}"),
        Check(
            said["f loaded-again"] == f"0 enabled {setup.active['lane'][0]}",
            f"load.sh after it: {said['f loaded-again']}",
        ),
        Check(
            _keeps_off(said["f hogs-loaded"], setup.lane),
            f"no hog on CPU {setup.lane} again: {said['f hogs-loaded']}",
        ),
        Check(
            share >= LEAST_FLOOR,
            f"spinners of a higher tier leave others {LEAST_FLOOR:.0%} of the machine: {share:.1%}",
        ),
        Check(
            said["f disabled"] == "0 disabled 0",
            f"with /etc/tierc/disabled there is nothing left: {said['f disabled']}",
        ),
    ]
