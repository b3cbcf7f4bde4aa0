"""Scenario a: a decode loop against hogs on every CPU, with and without tierc.

The loop sleeps 2 ms and runs 0.3 ms, as one that waits for a GPU; the hogs run all the time.  In
one guest: the kernel's own scheduler (EEVDF), CPU affinity by tierc's taskset script, tierc's
scheduler without a seed, and with the seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.guest import Lab, run
from tests.lab.policy import build, facts_files

POLICY: Final = """\
apiVersion: tierc.dev/v1alpha1
kind: Project
metadata: {name: lab}
spec:
  sources: {intents: [intents/], nodes: [nodes/]}
  enforce: [{mode: sched_ext}]
  targets: {taskset: {}, bpf: {}}
---
apiVersion: tierc.dev/v1alpha1
kind: Intent
metadata: {name: decode}
spec:
  workload: {match: [{comm: "VLLM::EngineCor"}]}
  protect: [all]
---
apiVersion: tierc.dev/v1alpha1
kind: Intent
metadata: {name: batch}
spec:
  workload: {match: [{comm: "hog*"}]}
  demote: background
"""

HOGS_PER_CPU: Final = (4, 8)
SECONDS: Final = 3
"""How long the loop is looked at."""
HOG_SECONDS: Final = SECONDS + 1.5
RUN_MS: Final = 0.3
"""CPU time of a step, as in payload/work.c."""

_SCRIPT: Final = """\
loop() { # NAME HOGS
  if [ "$2" -gt 0 ]; then
    work hogs hog "$2" {hog_seconds} >/tmp/hogs &
    hogs=$!
    sleep 1
  fi
  echo "LAB a $1 hogs=$2 $(work decode VLLM::EngineCor {seconds})"
  if [ "$2" -gt 0 ]; then
    wait $hogs
    echo "LAB a-hogs $1 hogs=$2 $(cat /tmp/hogs)"
  fi
}
loop eevdf 0
for n in {hogs}; do loop eevdf $n; done
sh /lab/node/taskset/apply.sh --watch 1 --quiet >/dev/null 2>&1 &
applier=$!
for n in {hogs}; do loop taskset $n; done
kill $applier
wait $applier
sh /lab/node/taskset/revert.sh --quiet
mkdir /sys/fs/bpf/tierc_link
bpftool struct_ops register /lab/tierc.bpf.o /sys/fs/bpf/tierc_link >/dev/null 2>&1 || true
[ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || exit 1
loop empty 0
for n in {hogs}; do loop empty $n; done
sh /lab/node/bpf/load.sh --object /lab/tierc.bpf.o
echo "LAB load $?"
loop seeded 0
for n in {hogs}; do loop seeded $n; done
sh /lab/node/bpf/load.sh --object /lab/tierc.bpf.o
echo "LAB load-again $?"
sh /lab/node/bpf/unload.sh
echo "LAB unload $? $(cat /sys/kernel/sched_ext/state) $(ls /sys/fs/bpf | wc -l)"
dmesg | grep -i sched_ext
exit 0
"""

_LINE: Final = re.compile(
    r"^LAB a (\w+) hogs=(\d+) steps_per_s=([\d.]+) p50_us=(\d+) p99_us=(\d+) max_us=(\d+)", re.M
)
_HOGS: Final = re.compile(r"^LAB a-hogs (\w+) hogs=(\d+) hogs_cpu_ms=(\d+) least_ms=(\d+)", re.M)


@dataclass(frozen=True)
class Figures:
    """What a decode loop reached.

    Attributes:
        steps: per second of the guest.
        p50_us: median of how late it woke.
        p99_us: 99th percentile of that.
        hogs_ms: CPU time that all hogs together got; 0 without.
        least_ms: CPU time of the hog that got least.
    """

    steps: float
    p50_us: int
    p99_us: int
    hogs_ms: int
    least_ms: int


Results = Mapping[tuple[str, int], Figures]
"""By scheduler and hogs on each CPU."""


@dataclass(frozen=True)
class Outcome:
    """What a guest did.

    Attributes:
        results: its figures.
        hog_cpus: how many CPUs the plan allows the hogs: not those kept for node software.
        console: all it printed.
    """

    results: Results
    hog_cpus: int
    console: str


def measure(lab: Lab, kernel: Path, cpus: int, work: Path) -> Outcome:
    """Run the scenario in a guest."""
    work.mkdir(parents=True)
    (work / "policy").mkdir()
    node = build(run(lab, kernel, cpus, facts_files(), work), POLICY, work / "policy")
    hogs = " ".join(str(each * cpus) for each in HOGS_PER_CPU)
    script = _SCRIPT.replace("{hogs}", hogs).replace("{seconds}", str(SECONDS))
    files = {"run.sh": script.replace("{hog_seconds}", str(HOG_SECONDS)).encode()}
    for path in sorted(node.rglob("*")):
        if path.is_file():
            files[f"node/{path.relative_to(node)}"] = path.read_bytes()
    text = run(lab, kernel, cpus, files, work)
    plan = json.loads((node / "plan.json").read_text())
    (batch,) = (unit for unit in plan["units"] if unit["intent"] == "batch")
    return Outcome(figures(text, cpus), len(CpuSet.parse(batch["cpus"])), text)


def figures(text: str, cpus: int) -> Results:
    """Read the figures that a guest printed."""
    hogs = {(m[1], int(m[2])): (int(m[3]), int(m[4])) for m in _HOGS.finditer(text)}
    return {
        (m[1], int(m[2]) // cpus): Figures(
            float(m[3]), int(m[4]), int(m[5]), *hogs.get((m[1], int(m[2])), (0, 0))
        )
        for m in _LINE.finditer(text)
    }
