"""Scenarios e and f: what must not go wrong while the scheduler runs.

One guest with several CPUs and more hogs than these: loaders killed at any point, the first of them
while no seed is in force yet; a lane that others are kept out of; seeds exchanged under load and
rolled back; a CPU that goes and comes; threads pinned outside their domain; the scheduler ejected
by the kernel, with the affinity that a timer sets meanwhile; unloading, and the kill switch; and
threads of the highest tier that never sleep.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check
from tests.lab.guest import Lab, run
from tests.lab.machine import Machine
from tests.lab.policy import build, facts_files
from tests.lab.scenario_a import GUARDED, POLICY
from tests.lab.session import LIBRARY, node_files, plan_of
from tests.lab.verdict_f import CPUS, FIRST_KILLS, KILLS, RESEEDS, SPIN_SECONDS, Setup, check

MACHINE: Final = Machine("4 CPUs", CPUS, quick_turns=False)

POLICIES: Final = {
    "lane": GUARDED,
    "open": POLICY,
}
"""The second keeps nobody off the lane of the first."""

FUNCTIONS: Final = """\
. /lab/lib.sh
load() { # POLICY OPTION...
  which=$1
  shift
  sh "/lab/$which/bpf/load.sh" --object /lab/tierc.bpf.o "$@"
}
begin() { # POLICY: sets $loader
  sh "/lab/$1/bpf/load.sh" --object /lab/tierc.bpf.o --quiet &
  loader=$!
}
state() { cat /sys/kernel/sched_ext/state; }
active() { # in hexadecimal, as it lies in memory
  bpftool -j map dump pinned /sys/fs/bpf/tierc_active |
    sed -n 's/.*"value":[[]\\([^]]*\\)[]].*/\\1/p' | sed 's/0x//g; s/[", ]//g'
}
allowed() { # PIDS: the CPUs they may use
  for pid in "$@"; do sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$pid/status"; done |
    sort -u | tr '\\n' ' '
}
used() { # PIDS: seconds since boot, and their CPU time in nanoseconds
  read -r up _ </proc/uptime
  n=0
  for pid in "$@"; do
    read -r ran _ <"/proc/$pid/schedstat" && n=$((n + ran))
  done
  echo "$up $n"
}
# An emulated CPU that works slows down the others: where it does not matter, the loads are stopped.
rest() { kill -STOP $children $decode; }
go_on() { kill -CONT $children $decode; }
await() { # STATE
  turns=0
  until [ "$(state)" = "$1" ] || [ $turns -gt 50 ]; do
    usleep 100000
    turns=$((turns + 1))
  done
}
"""

_SCRIPT: Final = """\
mkdir /tmp/first
cat >/tmp/first/bpftool <<'END'
#!/bin/sh
read -r call when what number </tmp/first/where
read -r n </tmp/first/calls
n=$((n + 1))
echo $n >/tmp/first/calls
[ $n = $call ] || exec /bin/bpftool "$@"
killed $when $what $number /bin/bpftool "$@"
echo $? >/tmp/first/code
kill -9 "$(cut -d ' ' -f 1 /var/lib/tierc/bpf/lock)"
END
chmod +x /tmp/first/bpftool
while read -r name state where; do
  echo "$where" >/tmp/first/where
  echo 0 >/tmp/first/calls
  echo none >/tmp/first/code
  PATH=/tmp/first:$PATH sh /lab/lane/bpf/load.sh --object /lab/tierc.bpf.o --quiet </dev/null
  code=$?
  await $state
  echo "LAB f first-$name $code $(cat /tmp/first/code) $(state) $(active)"
done <<'END'
{first_kills}
END
load lane --quiet
echo "LAB f attached $? $(state) $(active)"
load lane --rollback
echo "LAB f nothing-before $? $(active)"

spin hog 12 900 >/dev/null &
hogs=$!
decode VLLM::EngineCor 900 >/dev/null &
decode=$!
usleep 500000
children=$(grep -l '^PPid:[^0-9]*'"$hogs"'$' /proc/[0-9]*/status | tr -dc '0-9\\n')
first=$(echo $children)
first=${first%% *}
echo "LAB f hogs $(seen 8 $children)"
echo "LAB f decode $(seen 8 $decode)"

n=0
while [ $n -lt {reseeds} ]; do
  load open --quiet && load lane --quiet || echo "LAB f reseed-failed $n"
  n=$((n + 2))
done
echo "LAB f reseeded $(counter 0) $(state)"

n=0
while [ $n -lt {kills} ]; do
  if [ $((n % 2)) = 0 ]; then which=open; else which=lane; fi
  begin $which
  usleep $((n * 900000))
  kill -9 $loader 2>/dev/null
  wait $loader 2>/dev/null
  echo "LAB f kill-$n $(state) $(active)"
  n=$((n + 1))
done
load lane --quiet
echo "LAB f killed $? $(state) $(ls /sys/fs/bpf/tierc_stage 2>/dev/null | wc -l)"
echo "LAB f hogs-again $(seen 8 $children)"

rest
load open --quiet
load open --rollback --quiet
go_on
echo "LAB f rolled-back $? $(active) $(seen 8 $children)"
load open --rollback --quiet
echo "LAB f rolled-again $? $(active) $(seen 8 $children)"
rest
before=$(active)
load open --ensure >/tmp/said
echo "LAB f ensure-well $? $before $(active) $(cat /tmp/said)"
load lane --quiet
go_on

taskset -pc {lane} "$first" >/dev/null
usleep 500000
echo "LAB f pinned $(seen 8 $first) disjoint=$(counter 1)"
taskset -pc {all} "$first" >/dev/null

echo 0 >/sys/devices/system/cpu/cpu{last}/online
usleep 500000
echo "LAB f off $(state) $(seen 8 $children)"
echo 1 >/sys/devices/system/cpu/cpu{last}/online
usleep 500000
echo "LAB f on $(state) $(seen 8 $children) hotplug=$(counter 4)"

rest
echo S >/proc/sysrq-trigger
await disabled
echo "LAB f ejected $(state) hogs=$(allowed $children)"
load lane --ensure --pause 900 >/tmp/said 2>&1
echo "LAB f ensure-ejected $? $(state) hogs=$(allowed $children)decode=$(allowed $decode)"
echo "LAB f why $(grep 'detached the scheduler' /tmp/said)"
taskset -pc {all} "$first" >/dev/null
load lane --ensure --pause 900
echo "LAB f ensure-pause $? $(state) hog=$(allowed $first)"
sleep 1
load lane --ensure --pause 1 --quiet
echo "LAB f ensure-back $? $(state) $(active) hogs=$(allowed $children)decode=$(allowed $decode)"
go_on
echo "LAB f hogs-back $(seen 8 $children)"

rest
sh /lab/lane/bpf/unload.sh --quiet
echo "LAB f unloaded $? $(state) $(ls /sys/fs/bpf | wc -l)"
load lane --quiet
echo "LAB f loaded-again $? $(state) $(active)"
go_on
echo "LAB f hogs-loaded $(seen 8 $children)"
kill $children $decode $hogs 2>/dev/null
wait

load open --quiet
spin VLLM::EngineCor {cpus} 900 >/dev/null &
spin hog {cpus} 900 >/dev/null &
usleep 500000
spinners=$(pids VLLM::EngineCor)
hogs=$(pids hog)
before=$(used $hogs)
sleep {spin}
echo "LAB e $before $(used $hogs) $(state)"
kill $spinners $hogs
wait

mkdir -p /etc/tierc
: >/etc/tierc/disabled
load open --ensure 2>/dev/null
echo "LAB f disabled $? $(state) $(ls /sys/fs/bpf | wc -l)"
dmesg | grep -iE 'sched_ext|stall|rcu|BUG|WARN'
exit 0
"""


def measure(lab: Lab, kernel: Path, work: Path) -> tuple[str, Setup]:
    """Run the scenarios; return what the guest printed, and what it was given."""
    work.mkdir(parents=True)
    facts = run(lab, kernel, MACHINE, facts_files(), work, counted=False)
    nodes = {}
    for name, policy in POLICIES.items():
        (work / name).mkdir()
        nodes[name] = build(facts, policy, work / name)
    setup = setup_of(nodes)
    files = {"run.sh": guest_script(setup).encode(), "lib.sh": LIBRARY.read_bytes()}
    for name, node in nodes.items():
        files |= node_files(node, name)
    return run(lab, kernel, MACHINE, files, work), setup


def check_f(console: str, setup: Setup) -> list[Check]:
    """Judge what the guest printed."""
    return check(console, setup)


def setup_of(nodes: dict[str, Path]) -> Setup:
    """Read what the verdict needs from the compiled policies."""
    plan = plan_of(nodes["lane"])
    lane = int(plan["lanes"][0]["cpus"])
    (batch,) = (unit for unit in plan["units"] if unit["intent"] == "batch")
    active = {}
    for name, node in nodes.items():
        slots = json.loads((node / "bpf" / "seed.json").read_text())["active"]["slots"]
        active[name] = (slots[0]["raw"], slots[1]["raw"])
    gone = CPUS - 1 if lane != CPUS - 1 else CPUS - 2
    return Setup(lane, gone, CpuSet.parse(batch["cpus"]), active)


def guest_script(setup: Setup) -> str:
    """Return what runs in the guest."""
    script = FUNCTIONS + _SCRIPT
    for key, value in (
        ("reseeds", RESEEDS),
        ("kills", KILLS),
        ("first_kills", "\n".join(f"{one.name} {one.state} {one.where}" for one in FIRST_KILLS)),
        ("lane", setup.lane),
        ("last", setup.gone),
        ("all", f"0-{CPUS - 1}"),
        ("cpus", CPUS),
        ("spin", SPIN_SECONDS),
    ):
        script = script.replace("{" + key + "}", str(value))
    return script
