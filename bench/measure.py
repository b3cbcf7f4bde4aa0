"""Running commands by turns, each in a process of its own, and their medians."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Cost:
    """What a command took: CPU seconds (user and system) and peak memory of the process."""

    cpu: float
    peak_mib: float


def run(command: Sequence[str], *, cwd: Path, codes: Sequence[int] = (0,)) -> Cost:
    """Run a command in silence, with compiled modules as any installation has them.

    Raises:
        CalledProcessError: it ended with a code that is not among ``codes``.
    """
    # Where Python may not write them, it compiles a checkout's modules anew in each run.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with open(os.devnull, "r+b") as null:
        process = subprocess.Popen(
            list(command), cwd=cwd, env=env, stdin=null, stdout=null, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = process.stderr.read()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    if code not in codes:
        raise subprocess.CalledProcessError(code, list(command), stderr=said)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def by_turns(commands: Mapping[str, Callable[[], Cost]], runs: int) -> dict[str, Cost]:
    """Run everything ``runs`` times, by turns, and once before that does not count.

    Returns the median of each figure by itself.
    """
    if runs < 1:
        raise ValueError("no runs")
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            cost = command()
            if turn:
                costs[name].append(cost)
    return {
        name: Cost(median(c.cpu for c in rows), median(c.peak_mib for c in rows))
        for name, rows in costs.items()
    }


def count(text: str) -> int:
    """Return a number of runs, nodes or machines, as an argument gives it.

    Raises:
        ArgumentTypeError: the text is no whole number from 1 to 999,999.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to 999999")
    return int(text)
