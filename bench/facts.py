"""How long tierc takes to read a 384-CPU machine, against `lstopo --of xml` on the same files.

Run from the root of the repository: ``python -m bench.facts [RUNS]``.  See bench/README.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

AIM = 2.0
"""Reading may take this many times what lstopo takes."""


@dataclass(frozen=True)
class Run:
    """CPU seconds (user and system) and peak memory of one process.

    Attributes:
        start: of these, until the interpreter and the modules are loaded.
        read: reading the files and merging.
        write: writing the document.
    """

    cpu: float
    peak_mib: float
    start: float = 0.0
    read: float = 0.0
    write: float = 0.0


@dataclass(frozen=True)
class Result:
    """Medians of alternated runs."""

    ours: Run
    lstopo: Run

    @property
    def ratio(self) -> float:
        """CPU time of reading over that of lstopo, whose start is in it."""
        return self.ours.read / self.lstopo.cpu

    @property
    def whole_ratio(self) -> float:
        """CPU time of the whole process over that of lstopo."""
        return self.ours.cpu / self.lstopo.cpu


def middle(runs: Sequence[Run]) -> Run:
    """Return the median of each figure by itself."""
    if not runs:
        raise ValueError("no runs")
    return Run(*(median(getattr(run, name) for run in runs) for name in Run.__annotations__))


def report(result: Result, runs: int, files: int) -> str:
    """Return the lines that are printed."""
    ours, other = result.ours, result.lstopo
    verdict = "reached" if result.ratio < AIM else "missed"
    return "\n".join(
        (
            f"384 CPUs, {files} files; median CPU time (user + system) of {runs} alternated runs",
            f"lstopo --of xml          {other.cpu * 1000:7.1f} ms, peak {other.peak_mib:6.1f} MiB",
            f"tierc: start of Python   {ours.start * 1000:7.1f} ms",
            f"tierc: reading           {ours.read * 1000:7.1f} ms",
            f"tierc: writing YAML      {ours.write * 1000:7.1f} ms",
            f"tierc: whole process     {ours.cpu * 1000:7.1f} ms, peak {ours.peak_mib:6.1f} MiB",
            f"reading / lstopo: {result.ratio:.2f} (aim: below {AIM:g}, {verdict}); "
            f"whole process / lstopo: {result.whole_ratio:.2f}",
        )
    )


def measure(command: Sequence[str]) -> tuple[Run, str]:
    """Run a command in a process of its own; return what it used, and what it printed."""
    read_end, write_end = os.pipe()
    pid = os.posix_spawnp(
        command[0],
        list(command),
        {**os.environ, "LC_ALL": "C", "HWLOC_THISSYSTEM": "0"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, write_end, 1),
            (os.POSIX_SPAWN_CLOSE, read_end),
            (os.POSIX_SPAWN_CLOSE, write_end),
        ],
    )
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as pipe:
        out = pipe.read()
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), list(command))
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024), out


def child(root: str) -> None:
    """Read the machine once and print what each part took."""
    from compiler.facts.collect import collect  # noqa: PLC0415 (a part of the start)
    from compiler.facts.write import facts_yaml  # noqa: PLC0415

    start = time.process_time()
    facts = collect(Path(root), name="box", live=False)
    read = time.process_time()
    text = facts_yaml(facts)
    write = time.process_time()
    print(json.dumps([start, read - start, write - read, str(facts.spec.cpus.online)]))
    assert text


def compare(root: Path, lstopo: str, runs: int) -> Result:
    """Measure both by turns; the first run of each only warms the page cache."""
    ours, theirs = [], []
    for number in range(runs + 1):
        mine, out = measure([sys.executable, "-m", "bench.facts", "--child", str(root)])
        start, read, write, online = json.loads(out)
        other, xml = measure([lstopo, "--if", "fsroot", "-i", str(root), "--of", "xml"])
        cpus = len(re.findall(r'type="PU"', xml))
        if (online, cpus) != ("0-383", 384):
            raise SystemExit(f"not the same machine: tierc {online}, lstopo {cpus} PUs")
        if number:
            ours.append(Run(mine.cpu, mine.peak_mib, start, read, write))
            theirs.append(other)
    return Result(middle(ours), middle(theirs))


def main(arguments: Sequence[str]) -> int:
    """Measure and print; exit code 1 when the aim is missed."""
    if arguments[:1] == ["--child"]:
        child(arguments[1])
        return 0
    runs = int(arguments[0]) if arguments else 15
    lstopo = shutil.which("lstopo-no-graphics")
    if lstopo is None:
        print("lstopo-no-graphics is not installed (Debian: hwloc)", file=sys.stderr)
        return 2
    # Not in the children that are measured.
    from bench.machine import build  # noqa: PLC0415
    from tests.sysfs_builder import SysfsBuilder  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        build(SysfsBuilder(root))
        files = sum(len(names) for _, _, names in os.walk(root))
        result = compare(root, lstopo, runs)
    print(report(result, runs, files))
    return 0 if result.ratio < AIM else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
