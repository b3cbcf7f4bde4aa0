"""The verdict of the lab's scenarios e and f, without booting anything: each check can fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from tests.lab.scenario_f import check_f, guest_script
from tests.lab.scenario_stall import check_stall
from tests.lab.verdict_f import Setup

SETUP = Setup(
    lane=1,
    gone=3,
    hog_cpus=CpuSet.parse("2-3"),
    active={
        "lane": ("00000000aa000000", "01000000ab000000"),
        "open": ("00000000bc000000", "01000000bd000000"),
    },
)

SAFE = """\
LAB f first-register-pin 137 137 disabled \n\
LAB f first-register-pins 137 137 disabled 0000000000000000
LAB f first-register-attached 137 137 disabled 0000000000000000
LAB f first-look 137 137 enabled 0000000000000000
LAB f first-stage-fill 137 137 enabled 0000000000000000
LAB f first-publish-half 137 137 enabled 0000000000000000
LAB f first-flip 137 137 enabled 0000000000000000
LAB f first-flipped 137 137 enabled 00000000aa000000
LAB f attached 0 enabled 00000000aa000000
LAB f nothing-before 13 00000000aa000000
LAB f hogs 2:70,3:26
LAB f decode 1:8
LAB f reseeded 3 enabled
LAB f kill-0 enabled 00000000aa000000
LAB f kill-1 enabled 00000000aa000000
LAB f kill-2 enabled 00000000aa000000
LAB f kill-3 enabled 01000000bd000000
LAB f killed 0 enabled 0
LAB f hogs-again 2:40,3:56
LAB f rolled-back 0 01000000ab000000 2:40,3:56
LAB f rolled-again 0 00000000bc000000 1:30,2:30,3:36
LAB f ensure-well 0 00000000bc000000 00000000bc000000 tierc: so it is; nothing was changed
LAB f pinned 1:8 disjoint=1
LAB f off enabled 2:96
LAB f on enabled 2:50,3:46 hotplug=2
LAB f ejected disabled hogs=0-3 \n\
LAB f ensure-ejected 1 disabled hogs=2-3 decode=1 \n\
LAB f why tierc: the kernel has detached the scheduler (disabled by sysrq-S); its log says more
LAB f ensure-pause 1 disabled hog=0-3 \n\
LAB f ensure-back 0 enabled 01000000ab000000 hogs=0-3 decode=0-3 \n\
LAB f hogs-back 2:46,3:50
LAB f unloaded 0 disabled 0
LAB f loaded-again 0 enabled 00000000aa000000
LAB f hogs-loaded 2:52,3:44
LAB e 20.00 1000000000 22.00 1500000000 enabled
LAB f disabled 0 disabled 0
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A seed is in force although its loader was killed before it could publish one.
        (
            "first-look 137 137 enabled 0000000000000000",
            "first-look 137 137 enabled 00000000aa000000",
        ),
        ("first-look 137 137 enabled", "first-look 137 137 disabled"),
        ("first-look 137 137 enabled 00", "first-look 137 137 enabled \nLAB f more 00"),
        ("first-stage-fill 137 137", "first-stage-fill 0 none"),  # it was not at that point
        ("first-publish-half 137 137", "first-publish-half 137 0"),
        ("first-register-attached 137 137 disabled", "first-register-attached 137 137 enabled"),
        ("pins 137 137 disabled 0000000000000000", "pins 137 137 disabled 00000000aa000000"),
        ("first-flipped 137 137 enabled 00000000aa", "first-flipped 137 137 enabled 0000000000"),
        ("first-flip 137 137 enabled 00000000000000", "first-flip 137 137 enabled 01000000ab0000"),
        ("LAB f first-publish-half", "LAB first-publish-half"),
        ("attached 0 enabled", "attached 12 enabled"),
        ("attached 0 enabled 00000000aa", "attached 0 enabled 00000000ac"),
        ("nothing-before 13 00000000aa", "nothing-before 0 01000000ab"),
        ("f hogs 2:70", "f hogs 1:1,2:69"),
        ("f hogs 2:70,3:26", "f hogs "),
        ("decode 1:8", "decode 1:7,2:1"),
        ("reseeded 3", "reseeded 2"),
        ("LAB f reseeded 3 enabled", "LAB f reseed-failed 0\nLAB f reseeded 3 enabled"),
        ("kill-2 enabled 00000000aa", "kill-2 enabled 01000000aa"),
        ("kill-1 enabled", "kill-1 disabled"),
        ("killed 0 enabled 0", "killed 0 disabled 0"),
        ("killed 0 enabled 0", "killed 0 enabled 11"),
        ("killed 0 enabled", "killed 4 enabled"),
        ("hogs-again 2:40", "hogs-again 1:40"),
        ("rolled-back 0", "rolled-back 13"),
        ("rolled-back 0 01000000ab000000", "rolled-back 0 01000000bd000000"),
        ("rolled-back 0 01000000ab000000 2", "rolled-back 0 01000000ab000000 1"),
        ("rolled-again 0 00000000bc000000 1:30", "rolled-again 0 00000000bc000000 2:30"),
        ("ensure-well 0", "ensure-well 1"),
        ("well 0 00000000bc000000 00000000bc", "well 0 00000000bc000000 01000000bd"),
        ("nothing was changed", "seed bc is in force"),
        ("pinned 1:8", "pinned 1:7,2:1"),
        ("disjoint=1", "disjoint=0"),
        ("off enabled 2:96", "off enabled 2:90,3:6"),
        ("off enabled 2:96", "off enabled 1:6,2:90"),
        ("on enabled 2:50,3:46", "on enabled 2:96"),
        ("ejected disabled hogs=0-3", "ejected enabled hogs=0-3"),
        ("ensure-ejected 1", "ensure-ejected 0"),
        ("disabled hogs=2-3", "disabled hogs=0-3"),
        ("decode=1", "decode=0-3"),
        ("(disabled by sysrq-S)", ""),
        ("ensure-pause 1", "ensure-pause 0"),
        ("disabled hog=0-3", "disabled hog=2-3"),
        ("disabled hog=0-3", "enabled hog=0-3"),
        ("ensure-back 0", "ensure-back 10"),
        ("ensure-back 0 enabled 01000000ab", "ensure-back 0 enabled 00000000bc"),
        ("ab000000 hogs=0-3 decode", "ab000000 hogs=2-3 decode"),
        ("decode=0-3", "decode=1"),
        ("hogs-back 2:46", "hogs-back 1:46"),
        ("unloaded 0 disabled 0", "unloaded 0 disabled 3"),
        ("loaded-again 0 enabled 00000000aa", "loaded-again 0 enabled 0000000000"),
        ("hogs-loaded 2:52", "hogs-loaded 1:52"),
        # 5 % of four CPUs for two seconds are 400 ms.
        ("22.00 1500000000", "22.00 1390000000"),
        ("1500000000 enabled", "1500000000 disabled"),
        ("disabled 0 disabled 0", "disabled 0 enabled 24"),
    ],
)
def test_what_goes_wrong_is_seen(old: str, new: str) -> None:
    assert all(check.passed for check in check_f(SAFE, SETUP))
    assert SAFE.count(old) == 1
    assert sum(not check.passed for check in check_f(SAFE.replace(old, new), SETUP)) == 1


def test_a_guest_that_says_nothing_passes_no_check() -> None:
    assert not any(check.passed for check in check_f("", SETUP))


def test_the_script_is_one(tool: Callable[[str], str], tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(guest_script(SETUP))
    subprocess.run([tool("busybox"), "sh", "-n", script], check=True)


STALL = """\
LAB stall attached 0 enabled
LAB stall ejected disabled 22.63 63.29
LAB stall ensure 1 disabled decode=1 \n\
LAB stall why tierc: the kernel has detached the scheduler (runnable task stall: it waits)
LAB stall back 0 enabled 1:8
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("attached 0 enabled", "attached 10 disabled"),
        ("ejected disabled", "ejected enabled"),
        ("22.63 63.29", "22.63 52.00"),  # before the time was up
        ("22.63 63.29", "22.63 83.29"),
        ("ensure 1", "ensure 0"),
        ("decode=1", "decode=0-3"),
        ("(runnable task stall: it waits)", "(unregistered from user space)"),
        ("back 0 enabled", "back 10 disabled"),
        ("1:8", "0:1,1:7"),
    ],
)
def test_a_stall_that_goes_wrong_is_seen(old: str, new: str) -> None:
    assert all(check.passed for check in check_stall(STALL, 1))
    assert STALL.count(old) == 1
    assert sum(not check.passed for check in check_stall(STALL.replace(old, new), 1)) == 1
