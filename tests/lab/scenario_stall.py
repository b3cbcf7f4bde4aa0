"""The kernel's watchdog ejects the scheduler because a thread of it does not get to run.

A real-time thread that never sleeps keeps the CPU of a lane, and the thread of the lane waits there
until the kernel loses patience, after the 30 s that the scheduler asks for.  That takes long, so it
runs only if it is named; in f the scheduler is ejected at once, in another way.  From Linux
7.3 on sched_ext is left a share of a CPU beside real-time threads: that is switched off.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.lab.check import Check
from tests.lab.console import Said
from tests.lab.guest import Lab, run
from tests.lab.policy import build, facts_files
from tests.lab.scenario_f import FUNCTIONS, MACHINE, POLICIES
from tests.lab.session import LIBRARY, node_files, plan_of

TIMEOUT_S: Final = 30
"""``timeout_ms`` of the scheduler."""
LOOKS_S: Final = 20
"""How much later the watchdog may see it: it looks twice in that time."""

_SCRIPT: Final = """\
load lane --quiet
echo "LAB stall attached $? $(state)"
decode VLLM::EngineCor 900 >/dev/null &
decode=$!
usleep 500000
mount -t debugfs debugfs /sys/kernel/debug
for runtime in /sys/kernel/debug/sched/ext_server/cpu{lane}/runtime; do
  [ ! -e "$runtime" ] || echo 0 >"$runtime"
done
read -r begun _ </proc/uptime
taskset -c {lane} fifo 50 spin spinner 1 900 >/dev/null &
turns=0
until [ "$(state)" = disabled ] || [ $turns -gt 120 ]; do
  usleep 500000
  turns=$((turns + 1))
done
read -r ended _ </proc/uptime
echo "LAB stall ejected $(state) $begun $ended"
load lane --ensure --pause 900 >/tmp/said 2>&1
echo "LAB stall ensure $? $(state) decode=$(allowed $decode)"
echo "LAB stall why $(grep 'detached the scheduler' /tmp/said)"
kill $(pids spinner)
load lane --ensure --pause 0 --quiet
echo "LAB stall back $? $(state) $(seen 8 $decode)"
kill $decode
wait
dmesg | grep -iE 'sched_ext|stall'
exit 0
"""


def measure(lab: Lab, kernel: Path, work: Path) -> tuple[str, int]:
    """Run it in a guest; return what that printed, and the CPU of the lane."""
    work.mkdir(parents=True)
    facts = run(lab, kernel, MACHINE, facts_files(), work, counted=False)
    (work / "lane").mkdir()
    node = build(facts, POLICIES["lane"], work / "lane")
    lane = int(plan_of(node)["lanes"][0]["cpus"])
    script = FUNCTIONS + _SCRIPT.replace("{lane}", str(lane))
    files = {"run.sh": script.encode(), "lib.sh": LIBRARY.read_bytes(), **node_files(node, "lane")}
    return run(lab, kernel, MACHINE, files, work), lane


def check_stall(console: str, lane: int) -> list[Check]:
    """Judge what the guest printed."""
    said = Said(console)
    ejected = re.match(r"disabled ([\d.]+) ([\d.]+)$", said["stall ejected"])
    after = float(ejected[2]) - float(ejected[1]) if ejected else 0.0
    return [
        Check(said["stall attached"] == "0 enabled", f"load.sh: {said['stall attached']}"),
        Check(
            TIMEOUT_S <= after <= TIMEOUT_S + LOOKS_S,
            f"the watchdog ejects it after {TIMEOUT_S} s and more: {after:.1f} s",
        ),
        Check("stall" in said["stall why"], f"--ensure says why: {said['stall why']}"),
        Check(
            said["stall ensure"] == f"1 disabled decode={lane}",
            f"and sets affinity instead: {said['stall ensure']}",
        ),
        Check(
            said["stall back"].startswith("0 enabled")
            and said["stall back"].endswith(f" {lane}:8"),
            f"attached again after the pause, decode is on CPU {lane}: {said['stall back']}",
        ),
    ]
