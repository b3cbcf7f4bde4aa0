"""The lab's own parts, without booting anything."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab import packages
from tests.lab.initramfs import directory, file, link, pack
from tests.lab.scenario_a import HOGS_PER_CPU, Figures, Outcome, figures
from tests.lab.scenario_f import check_f
from tests.lab.verdict import check_a, check_scripts


def test_the_archive_unpacks(tool: Callable[[str], str], tmp_path: Path) -> None:
    files = {
        "bin/run": file(b"#!/bin/sh\n", executable=True),
        "a/b/odd": file(b"12345"),
        "lib64": link("lib"),
        "proc": directory(),
    }
    data = pack(files)
    assert data == pack(dict(reversed(files.items())))
    subprocess.run(
        [tool("busybox"), "cpio", "-i"],
        input=gzip.decompress(data),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (tmp_path / "bin/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a/b/odd").read_bytes() == b"12345"
    assert (tmp_path / "lib64").readlink() == Path("lib")
    assert not list((tmp_path / "proc").iterdir())


CONSOLE = """\
LAB a eevdf hogs=0 steps_per_s=415.4 p50_us=66 p99_us=1318 max_us=1628 cpu=0
LAB a eevdf hogs=8 steps_per_s=272.2 p50_us=72 p99_us=8916 max_us=8951 cpu=0
LAB a-hogs eevdf hogs=8 hogs_cpu_ms=4181 least_ms=1043
"""


def test_figures_are_read() -> None:
    assert figures(CONSOLE, 2) == {
        ("eevdf", 0): Figures(415.4, 66, 1318, 0, 0),
        ("eevdf", 4): Figures(272.2, 72, 8916, 4181, 1043),
    }


GOOD = Figures(steps=414, p50_us=100, p99_us=123, hogs_ms=4062, least_ms=900)
EEVDF = Figures(steps=270, p50_us=70, p99_us=8900, hogs_ms=4184, least_ms=900)
IDLE = Figures(steps=415, p50_us=66, p99_us=1318, hogs_ms=0, least_ms=0)


def outcome(**changed: float) -> Outcome:
    """One CPU, everything as it should be but for what is changed of the seeded runs."""
    seeded = dataclasses.replace(GOOD, **changed)
    results = {("eevdf", 0): IDLE}
    for hogs in HOGS_PER_CPU:
        results |= {("eevdf", hogs): EEVDF, ("empty", hogs): GOOD, ("seeded", hogs): seeded}
    return Outcome(results, 1, "")


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({}, 0),
        ({"steps": 400.0}, 2),  # under 97 % of the idle machine's
        ({"p99_us": 2000}, 2),
        ({"hogs_ms": 3800}, 2),  # under 95 % of what is left
    ],
)
def test_figures_are_judged(changed: dict[str, float], fails: int) -> None:
    assert sum(not check.passed for check in check_a(outcome(**changed), 1)) == fails


def test_scripts_are_judged() -> None:
    good = "\nLAB load 0\nx; nothing was changed\nLAB load-again 0\nLAB unload 0 disabled 0\n"
    assert all(check.passed for check in check_scripts(good))
    assert not any(check.passed for check in check_scripts(good.replace(" 0\n", " 1\n")))


SAFE = """\
LAB f attached 0 enabled
LAB f hogs 2:180
LAB f decode 1:20
LAB f reseeded 7 enabled
LAB f killed 0 enabled 0
LAB f hogs-again 2:170,0:10
LAB f pinned 1:20 disjoint=1
LAB f off enabled 2:180
LAB f on enabled 2:90,3:90 hotplug=2
LAB e hogs_cpu_ms=1200 least_ms=300 enabled
LAB f unloaded 0 disabled 0
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f hogs 2:180", "f hogs 1:1,2:179"),
        ("decode 1:20", "decode 1:19,2:1"),
        ("reseeded 7", "reseeded 5"),
        ("killed 0 enabled 0", "killed 0 disabled 0"),
        ("hogs-again 2:170,0:10", "hogs-again 1:180"),
        ("disjoint=1", "disjoint=0"),
        ("off enabled 2:180", "off enabled 2:90,3:90"),
        ("on enabled 2:90,3:90", "on enabled 2:180"),
        ("hogs_cpu_ms=1200", "hogs_cpu_ms=500"),
        ("unloaded 0 disabled 0", "unloaded 0 disabled 3"),
    ],
)
def test_what_goes_wrong_is_seen(old: str, new: str) -> None:
    assert all(check.passed for check in check_f(SAFE, 1))
    assert old in SAFE
    assert sum(not check.passed for check in check_f(SAFE.replace(old, new), 1)) == 1


LISTING = """\
linux-binary-6.19.14+deb13-cloud-amd64 - Binary for Linux 6.19.14 (signed)
linux-binary-unsigned-7.3.4+deb13-cloud-amd64 - Linux 7.3.4 (unsigned kernel image)
linux-binary-7.10.1+deb13-cloud-amd64 - Linux 7.10.1 for x86-64 cloud (kernel image)
linux-binary-7.9.2+deb13-cloud-amd64 - Linux 7.9.2 for x86-64 cloud (kernel image)
"""


def test_a_kernel_that_is_gone_gives_way_to_the_newest() -> None:
    assert packages.choose_kernels(LISTING) == [
        "linux-binary-6.19.14+deb13-cloud-amd64",
        "linux-binary-7.10.1+deb13-cloud-amd64",
    ]
    with pytest.raises(packages.Unavailable):
        packages.choose_kernels("")


def test_the_loads_compile(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not installed")
    source = Path(__file__).parent / "lab" / "payload" / "work.c"
    program = tmp_path / "work"
    subprocess.run([gcc, "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", program], check=True)
    done = subprocess.run(
        [program, "hogs", "hog", "2", "0.1"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("hogs_cpu_ms=")
    assert subprocess.run([program], capture_output=True, check=False).returncode == 2
