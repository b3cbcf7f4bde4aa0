"""The bench of facts: its machine is what it says, and its figures are computed right."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.facts import AIM, Result, Run, measure, middle, report
from bench.machine import build
from compiler.cpuset import CpuSet
from compiler.facts.host import read_host
from compiler.facts.tree import Tree
from tests.sysfs_builder import MemoryBuilder


def test_the_machine_has_384_cpus() -> None:
    b = MemoryBuilder()
    build(b)
    host = read_host(Tree(b.files), live=False)
    assert host.notes == ()
    assert host.online == CpuSet(range(384))
    assert host.arch == "x86_64"
    assert host.cores is not None
    assert set(host.cores) == {CpuSet((cpu, cpu + 192)) for cpu in range(192)}
    assert host.llcs is not None
    assert [str(llc.cpus) for llc in host.llcs[:2]] == ["0-7,192-199", "8-15,200-207"]
    assert len(host.llcs) == 24
    assert [str(node.cpus) for node in host.numa or ()] == ["0-95,192-287", "96-191,288-383"]
    devices = host.devices or ()
    assert [sum(1 for one in devices if one.type == kind) for kind in ("gpu", "nic")] == [8, 10]


def test_medians_are_of_each_figure() -> None:
    runs = [
        Run(cpu=3.0, peak_mib=10, start=1.0, read=0.5),
        Run(cpu=1.0, peak_mib=30, start=1.0, read=0.7),
        Run(cpu=2.0, peak_mib=20, start=4.0, read=0.6),
    ]
    assert middle(runs) == Run(cpu=2.0, peak_mib=20, start=1.0, read=0.6, write=0.0)
    with pytest.raises(ValueError, match="no runs"):
        middle([])


def test_ratios_and_the_verdict() -> None:
    lstopo = Run(cpu=0.1, peak_mib=18)
    fast = Result(Run(cpu=0.5, peak_mib=36, start=0.4, read=0.09), lstopo)
    assert fast.ratio == pytest.approx(0.9)
    assert fast.whole_ratio == pytest.approx(5)
    text = report(fast, 9, 23_513)
    assert "23513 files; median CPU time (user + system) of 9 alternated runs" in text
    assert "reading / lstopo: 0.90 (aim: below 2, reached)" in text
    slow = Result(Run(cpu=0.7, peak_mib=36, start=0.4, read=AIM * 0.1), lstopo)
    assert "2.00 (aim: below 2, missed)" in report(slow, 9, 1)


def test_a_process_is_measured_by_itself() -> None:
    busy = "n = 0\nwhile n < 3_000_000: n += 1\nprint('x' * 100_000)"
    used, out = measure([sys.executable, "-c", busy])
    assert out == "x" * 100_000 + "\n"
    idle, _ = measure([sys.executable, "-c", ""])
    assert used.cpu > idle.cpu > 0
    assert 1 < idle.peak_mib < 1000
    with pytest.raises(subprocess.CalledProcessError):
        measure([sys.executable, "-c", "raise SystemExit(3)"])
