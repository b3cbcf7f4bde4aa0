"""Scenarios e and f: what must not go wrong while the scheduler runs.

One guest with several CPUs and more hogs than these: a lane that others are kept out of, seeds
exchanged under load, loaders killed at any point, a CPU that goes and comes, threads pinned outside
their domain, and threads of the highest tier that never sleep.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from tests.lab.check import Check
from tests.lab.guest import Lab, run
from tests.lab.machine import Machine
from tests.lab.policy import build, facts_files
from tests.lab.scenario_a import POLICY

CPUS: Final = 4
MACHINE: Final = Machine("4 CPUs", CPUS, counted=False)
RESEEDS: Final = 6
KILLS: Final = 6

_LANE: Final = POLICY.replace(
    "  protect: [all]\n", "  protect: [all]\n  lane: {cores: {min: 1, max: 1}, share: guarded}\n"
)

_SCRIPT: Final = """\
load() { sh "/lab/$1/bpf/load.sh" --object /lab/tierc.bpf.o --quiet; }
state() { cat /sys/kernel/sched_ext/state; }
counter() { # NUMBER: the sum over all CPUs
  bpftool map lookup pinned /sys/fs/bpf/tierc_counters key "$1" 0 0 0 |
    sed -n 's/.*"value": //p' | awk '{ n += $1 } END { print n + 0 }'
}
seen() { # PIDS: on which CPUs they are, looked at 20 times
  files=
  for pid in $1; do files="$files /proc/$pid/stat"; done
  n=0
  while [ $n -lt 20 ]; do
    cat $files
    usleep 50000
    n=$((n + 1))
  done | sed 's/.*) //' | awk '
    { times[$37]++ }
    END { for (cpu in times) { printf "%s%s:%s", sep, cpu, times[cpu]; sep = "," } }'
}
load lane
echo "LAB f attached $? $(state)"

work hogs hog 12 900 >/dev/null &
hogs=$!
work decode VLLM::EngineCor 900 >/dev/null &
decode=$!
sleep 1
children=$(grep -l '^PPid:[^0-9]*'"$hogs"'$' /proc/[0-9]*/status | sed 's/[^0-9]//g')
echo "LAB f hogs $(seen "$children")"
echo "LAB f decode $(seen "$decode")"

n=0
while [ $n -lt {reseeds} ]; do
  load open && load lane || echo "LAB f reseed-failed $n"
  n=$((n + 2))
done
echo "LAB f reseeded $(counter 0) $(state)"

n=0
while [ $n -lt {kills} ]; do
  if [ $((n % 2)) = 0 ]; then which=open; else which=lane; fi
  sh "/lab/$which/bpf/load.sh" --object /lab/tierc.bpf.o --quiet &
  loader=$!
  usleep $((n * 250000))
  kill -9 $loader 2>/dev/null
  wait $loader 2>/dev/null
  n=$((n + 1))
done
load lane
echo "LAB f killed $? $(state) $(ls /sys/fs/bpf/tierc_stage 2>/dev/null | wc -l)"
echo "LAB f hogs-again $(seen "$children")"

first=${children%%[!0-9]*}
taskset -pc {lane} "$first" >/dev/null
sleep 1
echo "LAB f pinned $(seen "$first") disjoint=$(counter 1)"
taskset -pc 0-{last} "$first" >/dev/null

echo 0 >/sys/devices/system/cpu/cpu{last}/online
sleep 1
echo "LAB f off $(state) $(seen "$children")"
echo 1 >/sys/devices/system/cpu/cpu{last}/online
sleep 1
echo "LAB f on $(state) $(seen "$children") hotplug=$(counter 4)"
kill $children $decode $hogs 2>/dev/null
wait

load open
work hogs VLLM::EngineCor {cpus} 6 >/dev/null &
work hogs hog {cpus} 5 >/tmp/hogs
echo "LAB e $(cat /tmp/hogs) $(state)"
wait
sh /lab/lane/bpf/unload.sh --quiet
echo "LAB f unloaded $? $(state) $(ls /sys/fs/bpf | wc -l)"
dmesg | grep -iE 'sched_ext|stall|rcu|BUG|WARN'
exit 0
"""


def measure(lab: Lab, kernel: Path, work: Path) -> tuple[str, int]:
    """Run the scenarios; return what the guest printed, and the CPU of the lane."""
    work.mkdir(parents=True)
    facts = run(lab, kernel, MACHINE, facts_files(), work)
    files: dict[str, bytes] = {}
    lane = -1
    for name, policy in (("lane", _LANE), ("open", POLICY)):
        (work / name).mkdir()
        node = build(facts, policy, work / name)
        for path in sorted(node.rglob("*")):
            if path.is_file():
                files[f"{name}/{path.relative_to(node)}"] = path.read_bytes()
        if name == "lane":
            lane = int(json.loads((node / "plan.json").read_text())["lanes"][0]["cpus"])
    script = _SCRIPT
    for key, value in (
        ("reseeds", RESEEDS),
        ("kills", KILLS),
        ("lane", lane),
        ("last", CPUS - 1 if lane != CPUS - 1 else CPUS - 2),
        ("cpus", CPUS),
    ):
        script = script.replace("{" + key + "}", str(value))
    files["run.sh"] = script.encode()
    return run(lab, kernel, MACHINE, files, work), lane


def check_f(console: str, lane: int) -> list[Check]:
    """Judge what the guest printed."""
    gone = CPUS - 1 if lane != CPUS - 1 else CPUS - 2

    def line(name: str) -> str:
        found = re.search(rf"^LAB {name} (.*)$", console, re.M)
        return found[1] if found else ""

    def cpus(text: str) -> set[int]:
        return {int(cpu) for cpu in re.findall(r"(\d+):", text)}

    def number(pattern: str, text: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else -1

    hogs, again, off = line("f hogs"), line("f hogs-again"), line("f off")
    spun = number(r"hogs_cpu_ms=(\d+)", line("e"))
    return [
        Check(line("f attached") == "0 enabled", "load.sh attaches the scheduler"),
        Check(bool(cpus(hogs)) and lane not in cpus(hogs), f"no hog on CPU {lane}: {hogs}"),
        Check(cpus(line("f decode")) == {lane}, f"decode on CPU {lane}: {line('f decode')}"),
        Check(
            line("f reseeded").endswith("enabled")
            and number(r"^(\d+)", line("f reseeded")) >= RESEEDS
            and "reseed-failed" not in console,
            f"{RESEEDS} seeds exchanged under load: {line('f reseeded')}",
        ),
        Check(line("f killed") == "0 enabled 0", f"{KILLS} loaders killed: {line('f killed')}"),
        Check(bool(cpus(again)) and lane not in cpus(again), f"still no hog there: {again}"),
        Check(
            cpus(line("f pinned")) == {lane} and number(r"disjoint=(\d+)", line("f pinned")) > 0,
            f"a hog pinned to CPU {lane} runs there: {line('f pinned')}",
        ),
        Check(
            off.startswith("enabled") and gone not in cpus(off) and lane not in cpus(off),
            f"CPU {gone} goes: {off}",
        ),
        Check(
            line("f on").startswith("enabled") and gone in cpus(line("f on")),
            f"CPU {gone} comes back: {line('f on')}",
        ),
        Check(
            spun >= 0.05 * CPUS * 5000 and line("e").endswith("enabled"),
            f"spinners of the highest tier leave others 5 %: {spun} of {CPUS * 5000} ms",
        ),
        Check(line("f unloaded") == "0 disabled 0", f"unload.sh: {line('f unloaded')}"),
    ]
