"""Scenario d: two NUMA nodes with a cache each, a GPU at the second, two threads a core.

A decode loop has a lane at the GPU, and hogs run everywhere else.  tierc sees where the GPU is in
facts that were read in the guest; what is checked against is what the guest's kernel says itself.
The same guest shows whole idle cores for those who ask, soft domains, that threads get alike
whichever cache they began at, and the scheduler's record of threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check, at_least, at_most
from tests.lab.console import Said, number, times_on
from tests.lab.machine import Machine
from tests.lab.policy import BATCH, ENGINE, intent, project
from tests.lab.recorded import check_recorded
from tests.lab.scenario import Phase, Report, Result, Scenario, Step, Table

_GPU: Final = (
    project()
    + BATCH
    + intent(
        "decode",
        ENGINE,
        "protect: [all]",
        "prefer: [gpu-local]",
        "lane: {cores: 1, share: guarded}",
    )
    + intent(
        "known",
        '{match: [{leaderComm: boss}, {cgroup: "lab/**"}, {kthread: "rcu_*"}]}',
        "keep: normal",
    )
)
"""A lane at the GPU, and threads that are told by everything a seed can ask for."""
_CORES: Final = (
    project()
    + BATCH
    + intent(
        "decode",
        ENGINE,
        "protect: [all]",
        "require: [gpu-local]",
        "prefer: [whole-cores]",
        "lane: {cores: 2, share: guarded}",
    )
    + intent(
        "roam", '{match: [{comm: "roam*"}]}', "protect: [all]", "lane: {cores: 1, share: open}"
    )
    + intent("top", '{match: [{comm: "top"}]}', "protect: [{path: all, tier: critical}]")
)
"""A lane whose threads want cores of their own, and one that is open: a soft domain."""

SECONDS: Final = 0.6
HOGS: Final = 10
ROUNDS: Final = 30
MOST_SHARED: Final = 0.1
"""Of the rounds in which two threads that want a core each had one for both."""
ROAM_SECONDS: Final = 0.3
MOST_LATE_MS: Final = 1.0
"""How late the slowest hundredth of steps wake whose soft domain a higher tier has (a tick: 4)."""

_WANDER: Final = f"""\
hold
place spin hog {HOGS} {SECONDS + 0.1} >/tmp/hogs &
hogs=$!
place steps VLLM::EngineCor {SECONDS} >/tmp/decode &
decode=$!
usleep 50000
go
wait $decode
wait $hogs
echo "LAB d %s-decode $(cat /tmp/decode)"
echo "LAB d %s-hogs $(cat /tmp/hogs)"
"""
_DEVICE: Final = """\
for device in /sys/bus/pci/devices/*; do
  read -r class <"$device/class"
  case $class in
  0x03*) echo "LAB d gpu numa=$(cat "$device/numa_node") cpus=$(cat "$device/local_cpulist")" ;;
  esac
done
"""
_PAIR: Final = f"""\
echo "LAB d %s-pair $(place pair VLLM::EngineCor {ROUNDS})"
"""
_ROAM: Final = f"""\
for n in 2 4; do
  hold
  place spin roam $n {ROAM_SECONDS} >/tmp/roam &
  roam=$!
  usleep 50000
  go
  wait $roam
  echo "LAB d roam-$n $(cat /tmp/roam)"
done
hold
place spin hog 6 {ROAM_SECONDS + 0.1} >/dev/null &
hogs=$!
place spin roam 4 {ROAM_SECONDS} >/tmp/roam &
roam=$!
usleep 50000
go
wait $roam
wait $hogs
echo "LAB d roam-busy $(cat /tmp/roam)"
"""
_WAKE: Final = f"""\
hold
place spin hog 8 {ROAM_SECONDS + 0.1} >/dev/null &
hogs=$!
taskset c place spin top 2 {ROAM_SECONDS + 0.1} >/tmp/spinners &
spinners=$!
place steps roam {ROAM_SECONDS} >/tmp/roam &
roam=$!
usleep 50000
go
wait $roam
wait $spinners
wait $hogs
echo "LAB d wake-roam $(cat /tmp/roam)"
echo "LAB d wake-spinners $(cat /tmp/spinners)"
"""
_RECORD: Final = """\
knob() { # FLAGS
  bpftool map update pinned /sys/fs/bpf/tierc_knobs key 0 0 0 0 value "$1" 0 0 0 0 0 0 0
}
recorded() { # STATE
  bpftool -j map dump pinned /sys/fs/bpf/tierc_threads | sed "s/^/LAB d recorded-$1 /"
}
start() { # NAME CGROUP: a thread of that name that runs at times
  place tick "$1" 30 &
  started="$started $!"
  [ -z "$2" ] || echo $! >"/sys/fs/cgroup/$2/cgroup.procs"
}
mkdir -p /sys/fs/cgroup/lab/inner /sys/fs/cgroup/other
started=
start VLLM::EngineCor
start VLLM::EngineCo
start hog
start hog/7
start hoh
start VLLM::EngineCor lab
start hog lab/inner
start worker lab/inner
start worker lab
start worker other
start boss
place team boss worker 30 &
started="$started $!"
usleep 100000
recorded before
knob 1
usleep 300000
recorded on
for process in /proc/[0-9]*; do
  read -r leader <"$process/comm" || continue
  read -r stat <"$process/stat" || continue
  set -- ${stat##*) }
  flags=$7
  while read -r line; do
    case $line in 0::*) cgroup=${line#0::} ;; esac
  done <"$process/cgroup"
  for thread in "$process"/task/*; do
    read -r comm <"$thread/comm" || continue
    echo "LAB d thread ${thread##*/} $((flags >> 21 & 1))|$comm|$leader|$cgroup"
  done
done 2>/dev/null
echo "LAB d asked $started"
knob 0
start late
usleep 100000
recorded off
echo "LAB d late $!"
kill $started
wait
"""


def steps(machine: Machine) -> Sequence[Step]:
    """Return the steps."""
    return [
        Step(Phase.EEVDF, _DEVICE + _WANDER.replace("%s", "eevdf") + _PAIR.replace("%s", "eevdf")),
        Step(Phase.SEEDED, _WANDER.replace("%s", "seeded") + _RECORD, "gpu"),
        Step(Phase.SEEDED, _PAIR.replace("%s", "seeded") + _ROAM + _WAKE, "cores"),
    ]


def judge(result: Result) -> Report:
    """Judge against what the guest's kernel says of its GPU and its cores."""
    said = Said(result.console)
    gpu = re.match(r"numa=(\d+) cpus=([\d,-]+)$", said["d gpu"])
    if gpu is None:
        return Report([Check(False, "the guest has no GPU on a NUMA node")])
    try:
        pair = said.line("d eevdf-pair")
        return Report(
            [
                *_check_lane(said, result.plans["gpu"], int(gpu[1]), CpuSet.parse(gpu[2])),
                *_check_cores(said, result.plans["cores"], CpuSet.parse(gpu[2])),
                *check_recorded(said, result.plans["gpu"]),
            ],
            _figures(said),
            [
                f"under EEVDF the pair shared a core in {number(pair, 'same_core'):.0f} of "
                f"{number(pair, 'together'):.0f} rounds"
            ],
        )
    except ValueError as error:
        return Report([Check(False, f"the guest printed less than it should: {error}")])


def _check_lane(said: Said, plan: Mapping[str, Any], node: int, near: CpuSet) -> list[Check]:
    """Judge who ran where with the lane at the GPU."""
    lane = _unit_cpus(plan, "decode")
    decode, hogs = (times_on(said.line(f"d seeded-{name}")) for name in ("decode", "hogs"))
    free = _unit_cpus(plan, "batch")
    llcs = [CpuSet.parse(text) & free for text in plan["machine"]["llcs"]]
    times, total_ms = sum(hogs.values()), number(said.line("d seeded-hogs"), "cpu_ms")
    least = min(sum(hogs.get(cpu, 0) for cpu in llc) / len(llc) for llc in llcs if llc)
    return [
        Check(
            node == 1 and len(lane) == 2 and lane <= near,
            f"the lane is a core on node 1, where the GPU is: CPUs {lane} of {near}",
        ),
        Check(_only(decode, lane), f"decode ran on the lane only: {_text(decode)}"),
        Check(_all(hogs, free), f"hogs ran on all of {free} and nowhere else: {_text(hogs)}"),
        Check(
            not free & lane and all(llc & free for llc in llcs),
            f"these are CPUs of each cache, and none of the lane: {free}",
        ),
        at_least(
            "percent of its share that the cache with the fewest hogs' time had",
            100 * least * len(free) / max(1, times),
            80,
        ),
        at_least(
            "percent of a fair share that the hog with the least time had",
            100 * HOGS * number(said.line("d seeded-hogs"), "least_ms") / max(1, total_ms),
            85,
        ),
    ]


def _check_cores(said: Said, plan: Mapping[str, Any], near: CpuSet) -> list[Check]:
    """Judge the lane that asks for whole idle cores, and the soft domain."""
    decode, roam = _unit_cpus(plan, "decode"), _unit_cpus(plan, "roam")
    pair = said.line("d seeded-pair")
    few, many, busy = (said.line(f"d roam-{name}") for name in ("2", "4", "busy"))
    spinners = said.line("d wake-spinners")
    inside = sum(times for cpu, times in times_on(few).items() if cpu in roam)
    outside = [cpu for cpu in times_on(many) if cpu not in roam]
    full = 4 * ROAM_SECONDS * 1000
    return [
        Check(
            decode <= near and _only(times_on(pair), decode),
            f"the pair ran at the GPU, on {decode}: {_text(times_on(pair))}",
        ),
        at_least("rounds in which both of the pair ran", number(pair, "together"), 0.9 * ROUNDS),
        # Not none: the kernel's own threads run on the other core for moments.
        at_most(
            "rounds in which they shared a core", number(pair, "same_core"), MOST_SHARED * ROUNDS
        ),
        # Not all: whoever finds the domain busy at first comes back when its time slice ends.
        at_least(
            f"percent of their time that 2 threads were in their soft domain {roam}",
            100 * inside / max(1, sum(times_on(few).values())),
            90,
        ),
        Check(bool(outside), f"4 threads leave it: {_text(times_on(many))}"),
        at_least("CPU time of these 4, ms", number(many, "cpu_ms"), 0.95 * full),
        at_least("the same beside hogs, ms", number(busy, "cpu_ms"), 0.9 * full),
        at_most(
            "p99 us of steps whose soft domain a higher tier has, while hogs run elsewhere",
            number(said.line("d wake-roam"), "p99_us"),
            MOST_LATE_MS * 1000,
        ),
        Check(
            _only(times_on(spinners), roam)
            and number(spinners, "least_ms") > 0.85 * 1000 * (ROAM_SECONDS + 0.1),
            f"that tier has {roam} but for floors: {_text(times_on(spinners))}",
        ),
    ]


def _figures(said: Said) -> Table:
    rows = []
    for name in ("eevdf", "seeded"):
        decode, hogs = said.line(f"d {name}-decode"), said.line(f"d {name}-hogs")
        steps, late = (number(decode, word) for word in ("steps_per_s", "p99_us"))
        seen = number(hogs, "cpu_ms"), number(hogs, "least_ms")
        rows.append((name, steps, late, *seen, _text(times_on(decode)), _text(times_on(hogs))))
    columns = ("scheduler", "steps/s", "p99 us", "hogs ms", "least ms", "decode on", "hogs on")
    return Table(columns, rows)


def _unit_cpus(plan: Mapping[str, Any], intent: str) -> CpuSet:
    (unit,) = (unit for unit in plan["units"] if unit["intent"] == intent)
    return CpuSet.parse(unit["cpus"])


def _only(seen: Mapping[int, int], cpus: CpuSet) -> bool:
    return bool(seen) and all(cpu in cpus for cpu in seen)


def _all(seen: Mapping[int, int], cpus: CpuSet) -> bool:
    return bool(cpus) and sorted(seen) == list(cpus)


def _text(seen: Mapping[int, int]) -> str:
    return ",".join(f"{cpu}:{times}" for cpu, times in seen.items())


SCENARIO: Final = Scenario(
    "d", "two NUMA nodes and a GPU", {"gpu": _GPU, "cores": _CORES}, steps, judge
)
