"""Runs tierc's scheduler, or its bounds on control groups, in real kernels.

``python -m tests.lab [--cpus N,N] [--safety | --cpuset] [--kernel VERSION]``

Exit codes: 0 all checks passed, 1 one failed, 2 wrong usage, 77 the lab cannot run here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.lab import packages, scenario_cpuset, scenario_f, verdict_cpuset
from tests.lab.check import Check
from tests.lab.guest import GuestFailed, make_lab
from tests.lab.scenario_a import Results, measure
from tests.lab.verdict import check_a, check_scripts


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.lab", description=__doc__.splitlines()[0])
    parser.add_argument("--cpus", default="1,2", help="guests' CPUs (default 1,2)")
    parser.add_argument("--kernel", help="its version (default: the oldest of the lab)")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--safety", action="store_true", help="scenarios e and f instead of a")
    other.add_argument("--cpuset", action="store_true", help="the cpuset target instead")
    arguments = parser.parse_args()
    try:
        counts = [int(word) for word in arguments.cpus.split(",")]
    except ValueError:
        parser.error("--cpus takes numbers, as 1,2")
    if not all(1 <= count <= 16 for count in counts):
        parser.error("--cpus takes numbers from 1 to 16")
    start = time.monotonic()
    try:
        tools = packages.prepare(packages.cache_directory())
    except packages.Unavailable as error:
        print(f"LAB SKIPPED, NOTHING WAS TESTED: {error}", file=sys.stderr)
        return 77
    kernels = tools.kernels()
    version = arguments.kernel or next(iter(kernels))
    if version not in kernels:
        parser.error(f"no kernel {version}; there are {', '.join(kernels)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tierc-lab.") as name:
        work = Path(name)
        lab = make_lab(tools, work)
        for cpus in () if arguments.safety or arguments.cpuset else counts:
            print(f"scenario a: Linux {version}, {cpus} CPUs", flush=True)
            try:
                outcome = measure(lab, kernels[version], cpus, work / f"a{cpus}")
            except GuestFailed as error:
                print(f"  FAILED: the guest did not end well:\n{error}")
                failed += 1
                continue
            print(table(outcome.results))
            failed += show([*check_a(outcome, cpus), *check_scripts(outcome.console)])
        if arguments.safety:
            print(f"scenarios e and f: Linux {version}, {scenario_f.CPUS} CPUs", flush=True)
            try:
                console, lane = scenario_f.measure(lab, kernels[version], work / "f")
                failed += show(scenario_f.check_f(console, lane))
            except GuestFailed as error:
                print(f"  FAILED: the guest did not end well:\n{error}")
                failed += 1
        if arguments.cpuset:
            print(f"cpuset target: Linux {version}, {scenario_cpuset.CPUS} CPUs", flush=True)
            try:
                console = scenario_cpuset.measure(lab, kernels[version], work / "cpuset")
                failed += show(verdict_cpuset.check(console))
            except GuestFailed as error:
                print(f"  FAILED: the guest did not end well:\n{error}")
                failed += 1
    print(f"lab: {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


def table(results: Results) -> str:
    """Return the figures as a table."""
    lines = ["  scheduler  hogs  steps/s  p50 us  p99 us  hogs ms  least ms"]
    for (scheduler, hogs), one in results.items():
        lines.append(
            f"  {scheduler:<9}  {hogs:4}  {one.steps:7.1f}  {one.p50_us:6}  {one.p99_us:6}"
            f"  {one.hogs_ms:7}  {one.least_ms:8}"
        )
    return "\n".join(lines)


def show(checks: list[Check]) -> int:
    """Print the checks; return how many failed."""
    for check in checks:
        print(f"  {'ok    ' if check.passed else 'FAILED'} {check.text}")
    return sum(not check.passed for check in checks)


if __name__ == "__main__":
    sys.exit(main())
