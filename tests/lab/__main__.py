"""Runs tierc's scheduler and scripts in real kernels, and judges what they reach.

``python -m tests.lab [SCENARIO ... | --all] [--every-kernel | --kernel VERSION]``: see ``--help``.

Exit codes: 0 all checks passed, 1 one failed, 2 wrong usage, 77 the lab cannot run here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tests.lab import kernels, packages
from tests.lab.catalog import GUESTS, NAMES, Guest, Outcome, wanted
from tests.lab.guest import GuestFailed, Lab, make_lab
from tests.lab.policy import PolicyFailed
from tests.lab.scenario import Table

SKIPPED = 77


def main() -> int:
    arguments = _arguments()
    start = time.monotonic()
    try:
        cache = packages.cache_directory()
        tools = packages.prepare(cache)
        versions = arguments.kernel or kernels.KERNELS[0 if arguments.every_kernel else -1 :]
        found = kernels.prepare(cache, tools, versions, exact=bool(arguments.kernel))
    except packages.Unavailable as error:
        print(f"LAB SKIPPED, NOTHING WAS TESTED: {error}", file=sys.stderr)
        return SKIPPED
    names = wanted(arguments.scenario, everything=arguments.all)
    jobs = [
        (guest, version)
        for version in found
        for guest in GUESTS
        if names & set(guest.scenarios)
        and (not arguments.cpus or guest.machine.cpus in arguments.cpus)
    ]
    if not jobs:
        print("no guest has these scenarios and CPUs", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="tierc-lab.") as name:
        work = Path(arguments.keep or name)
        lab = make_lab(tools, work)
        outcomes = run(lab, found, jobs, names, work, arguments.jobs)
    if arguments.json:
        text = json.dumps(figures(jobs, outcomes), indent=1, ensure_ascii=False)
        Path(arguments.json).write_text(f"{text}\n")
    checks = [check for found in outcomes for one in found or () for check in one.report.checks]
    failed = sum(not check.passed for check in checks) + outcomes.count(None)
    print(
        f"lab: {len(checks)} checks in {len(jobs)} guests, {failed} failed,"
        f" {time.monotonic() - start:.0f} s"
    )
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.lab", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "scenario",
        nargs="*",
        help=f"of {', '.join(NAMES)} (default: those that measure the scheduler)",
    )
    parser.add_argument(
        "--kernel",
        action="append",
        help="this version of Linux instead of the lab's; may be repeated",
    )
    parser.add_argument("--all", action="store_true", help="all scenarios but stall")
    parser.add_argument("--every-kernel", action="store_true", help="on every kernel of the lab")
    parser.add_argument("--cpus", type=_numbers, help="only guests with so many CPUs, as 1,2")
    parser.add_argument("--jobs", type=int, default=_jobs(), help="guests at once (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write figures and checks to a file")
    parser.add_argument(
        "--keep", metavar="DIR", help="keep what guests printed in an empty directory"
    )
    arguments = parser.parse_args()
    for name in arguments.scenario:
        if name not in NAMES:
            parser.error(f"no scenario {name}; there are {', '.join(NAMES)}")
    if arguments.jobs < 1:
        parser.error("--jobs takes a number from 1 up")
    if arguments.keep:
        keep = Path(arguments.keep)
        if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            parser.error(f"--keep {keep}: not an empty directory")
        keep.mkdir(parents=True, exist_ok=True)
    return arguments


def _numbers(text: str) -> list[int]:
    """Read ``1,2``.

    Raises:
        ValueError: it has something else in it.
    """
    return [int(word) for word in text.split(",")]


def _jobs() -> int:
    """Return how many guests may run at once: each takes a CPU and a GiB and more.

    Twice as many as there are CPUs, so that the last ones do not run alone; their clocks do not
    mind.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(2 * len(os.sched_getaffinity(0)), memory // (2 << 30)))


def run(
    lab: Lab,
    images: dict[str, Path],
    jobs: Sequence[tuple[Guest, str]],
    names: frozenset[str],
    work: Path,
    at_once: int,
) -> list[list[Outcome] | None]:
    """Run all guests; print each as it ends.

    Returns:
        in the order of the jobs what came of each, None of one that failed.
    """
    outcomes: list[list[Outcome] | None] = [None] * len(jobs)
    begun: dict[Future[tuple[list[Outcome], float]], int] = {}
    with ThreadPoolExecutor(at_once) as pool:
        for number in sorted(range(len(jobs)), key=lambda one: -jobs[one][0].seconds):
            guest, version = jobs[number]
            directory = work / f"{number:02}"
            begun[pool.submit(_timed, lab, images[version], guest, names, directory)] = number
        for future in as_completed(begun):
            number = begun[future]
            guest, version = jobs[number]
            where = f"Linux {version}, {guest.machine.name}"
            try:
                found, seconds = future.result()
            except (GuestFailed, PolicyFailed) as error:
                print(
                    f"scenario {', '.join(guest.scenarios)}: {where}\n  FAILED: {error}", flush=True
                )
                continue
            outcomes[number] = found
            for one in found:
                print(f"scenario {one.scenario}: {where}: {one.title}\n{described(one)}")
            print(f"  ({seconds:.0f} s)", flush=True)
    return outcomes


def _timed(
    lab: Lab, kernel: Path, guest: Guest, names: frozenset[str], work: Path
) -> tuple[list[Outcome], float]:
    start = time.monotonic()
    return guest.play(lab, kernel, names, work), time.monotonic() - start


def described(outcome: Outcome) -> str:
    """Return what came of a scenario, indented."""
    report = outcome.report
    lines = [*(table(report.table) if report.table else ()), *report.notes]
    lines += [f"{'ok    ' if check.passed else 'FAILED'} {check.text}" for check in report.checks]
    return "\n".join(f"  {line}" for line in lines)


def table(figures: Table) -> list[str]:
    """Return figures in columns, words to the left and numbers to the right."""
    rows = [[str(cell) for cell in row] for row in (figures.columns, *figures.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(figures.columns))]
    words = [all(isinstance(row[n], str) for row in figures.rows) for n in range(len(widths))]
    return [
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ).rstrip()
        for row in rows
    ]


def figures(
    jobs: Sequence[tuple[Guest, str]], outcomes: Sequence[list[Outcome] | None]
) -> dict[str, Any]:
    """Return all that was found, for JSON; what docs/comparison.md is made from."""
    runs = []
    for (_, version), found in zip(jobs, outcomes, strict=True):
        for one in found or ():
            report = one.report
            entry: dict[str, Any] = {
                "scenario": one.scenario,
                "title": one.title,
                "kernel": version,
                "machine": one.machine,
                "notes": list(report.notes),
                "checks": [{"passed": c.passed, "text": c.text} for c in report.checks],
            }
            if report.table:
                entry["columns"] = list(report.table.columns)
                entry["rows"] = [list(row) for row in report.table.rows]
            runs.append(entry)
    return {"runs": runs}


if __name__ == "__main__":
    sys.exit(main())
