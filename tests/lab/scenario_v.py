"""`tierc verify` in a guest whose node is as planned, and then in one way after another is not.

The guest has a Python of its own with what tierc needs (tests.lab.interpreter), and runs the real
command as root on its own /proc, /sys and maps.  One process imports tierc once and is forked for
every run, since importing takes most of the time of an emulated CPU.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from compiler.cpuset import CpuSet
from tests.lab.check import Check
from tests.lab.guest import Lab, run
from tests.lab.interpreter import HOME, interpreter
from tests.lab.machine import NUMA
from tests.lab.policy import BATCH, ENGINE, build, intent, project
from tests.lab.session import facts_of, node_files

MACHINE: Final = dataclasses.replace(
    NUMA,
    # On the line of the graphics card, with a driver in the kernel: so that has an interrupt.
    topology=(*NUMA.topology, "-device", "pci-serial,bus=far,addr=5"),
    quick_turns=False,
)

POLICY: Final = (
    project(targets="taskset: {}, irq: {}, bpf: {}")
    + intent(
        "decode",
        ENGINE,
        "protect: [all]",
        "require: [gpu-local]",
        "lane: {cores: 1, share: guarded}",
        "irqs: lane",
    )
    + intent("front", "{match: [{leaderComm: boss}]}", "protect: [{path: all, tier: system}]")
    + BATCH
)
_OTHER: Final = POLICY.replace('comm: "hog*"', 'comm: "pig*"')
"""Another seed for the same machine."""

_SERVER: Final = """\
import os
import sys

from compiler.__main__ import main

main(["verify", "/lab/policy", "--format", "json=/dev/null"])  # so that all is imported
while True:
    with open("/tmp/ask") as ask:
        words = ask.read().split()
    if not words:
        break
    child = os.fork()
    if not child:
        with open("/tmp/said", "w") as said:
            os.dup2(said.fileno(), 1)
        os._exit(main(words))
    with open("/tmp/answer", "w") as answer:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answer)
"""

_SCRIPT: Final = """\
# What starts many programs is kept on one CPU: to wake another each time takes an emulated machine
# very long.
export PYTHONHOME=/{home}
mkfifo /tmp/ask /tmp/answer
taskset 1 /{home}/bin/python3 /lab/server.py &
verify() { # CASE OPTION...: one line with the exit code and the report
  name=$1
  shift
  echo verify /lab/policy --format json "$@" >/tmp/ask
  read -r code </tmp/answer
  echo "LAB v $name $code $(tr -d '\\n' </tmp/said)"
}
load() {
  taskset 1 sh "$1/bpf/load.sh" --object /lab/tierc.bpf.o --quiet || echo "LAB load failed: $1"
}

sleep 9999 >/dev/ttyS1 & # its driver has the interrupt while it is open
load /lab/policy
taskset 1 sh /lab/policy/irq/apply.sh --quiet
echo "LAB irq apply $?"
bpftool map update pinned /sys/fs/bpf/tierc_knobs key 0 0 0 0 value 1 0 0 0 0 0 0 0
place tick VLLM::EngineCor 9999 &
place tick VLLM::EngineCor 9999 &
place tick hog/0 9999 &
hog=$!
place tick hog/1 9999 &
place tick hog/2 9999 &
place team boss worker 9999 &
boss=$!
sleep 1
verify planned --all

taskset -p {lane_mask} $hog >/dev/null
verify pinned
taskset -p ff $hog >/dev/null

kill $boss
wait $boss
verify nobody --fail-on warning

irq=$(cat /sys/bus/pci/devices/{gpu}/irq)
was=$(cat /proc/irq/$irq/smp_affinity_list)
echo 0 >/proc/irq/$irq/smp_affinity_list
verify interrupt
echo "$was" >/proc/irq/$irq/smp_affinity_list

echo 0 >/sys/devices/system/cpu/cpu{last}/online
verify offline --fail-on warning
echo 1 >/sys/devices/system/cpu/cpu{last}/online

touch /etc/tierc/disabled 2>/dev/null || { mkdir -p /etc/tierc; touch /etc/tierc/disabled; }
verify disabled
rm /etc/tierc/disabled

load /lab/other
verify other
load /lab/policy
verify again

cp -r /lab/policy /tmp/changed
sed -i '/bands key hex 00 00 00 00 /s/ value hex ../ value hex 01/' /tmp/changed/bpf/stage.batch
load /tmp/changed
verify changed
load /lab/policy

echo S >/proc/sysrq-trigger
sleep 1
verify ejected
taskset 1 sh /lab/policy/taskset/apply.sh --quiet
echo "LAB taskset apply $?"
verify affinity
echo >/tmp/ask
exit 0
"""


def measure(
    lab: Lab, kernel: Path, work: Path, facts: str | None = None
) -> tuple[str, Mapping[str, Any]]:
    """Run it in a guest; return what that printed, and the plan that it is compared with.

    Args:
        lab: what guests are made of.
        kernel: which.
        work: a directory to make and to work in.
        facts: what a guest with the machine of scenario d printed as its facts; none: one is
            booted.  The serial card that is here besides is no device that facts tell of.
    """
    work.mkdir(parents=True)
    if facts is None:
        facts = facts_of(lab, kernel, MACHINE, work / "facts")
    for name in ("policy", "other"):
        (work / name).mkdir()
    node, other = build(facts, POLICY, work / "policy"), build(facts, _OTHER, work / "other")
    plan: Mapping[str, Any] = json.loads((node / "plan.json").read_text())
    files = {**node_files(node, "policy"), **node_files(other, "other")}
    (lane,) = plan["lanes"]
    mask = sum(1 << cpu for cpu in CpuSet.parse(lane["cpus"]))
    words = {
        "home": HOME,
        "gpu": plan["machine"]["gpus"][0],
        "last": str(MACHINE.cpus - 1),
        "lane_mask": f"{mask:x}",
    }
    script = _SCRIPT
    for word, value in words.items():
        script = script.replace(f"{{{word}}}", value)
    files["run.sh"] = script.encode()
    files["server.py"] = _SERVER.encode()
    python = interpreter(work, "verify", str(node), "--format", "json")
    with_python = dataclasses.replace(lab, common={**lab.common, **python})
    return run(with_python, kernel, MACHINE, files, work), plan


@dataclasses.dataclass(frozen=True)
class Case:
    """What a run must find, beside its exit code.

    Attributes:
        name: of the run.
        what: in words.
        code: its exit code.
        finding: code and severity of what must be among its findings, if anything.
        says: what that finding's message or rows must hold.
        absent: codes that must not be among them.
    """

    name: str
    what: str
    code: int
    finding: tuple[str, str] | None = None
    says: str = ""
    absent: tuple[str, ...] = ()


_RIGHT: Final = ("TRC720", "TRC721", "TRC722", "TRC725", "TRC726", "TRC732", "TRC733", "TRC735")
_RIGHT_MAPS: Final = ("TRC734", "TRC736", "TRC738")
CASES: Final = (
    Case("planned", "a node as planned", 0, absent=(*_RIGHT, *_RIGHT_MAPS, "TRC730", "TRC731")),
    Case("pinned", "a thread pinned outside its CPUs", 1, ("TRC726", "error"), "hog/0"),
    Case("nobody", "a protected unit without a thread", 1, ("TRC730", "warning"), "front"),
    Case("interrupt", "an interrupt elsewhere", 1, ("TRC732", "error"), "10"),
    Case("offline", "a CPU offline", 1, ("TRC721", "warning"), "7", absent=("TRC738",)),
    Case("disabled", "the kill switch, and all is still there", 1, ("TRC733", "error"), "disabled"),
    Case("other", "another seed in force", 1, ("TRC735", "error"), "not this seed's"),
    Case("again", "the right seed again", 0, absent=(*_RIGHT, *_RIGHT_MAPS)),
    Case("changed", "a seed changed by hand", 1, ("TRC735", "error"), "other content"),
    Case("ejected", "the scheduler ejected by the kernel", 1, ("TRC733", "error"), "it ended"),
    Case("affinity", "affinity instead", 1, ("TRC733", "error"), absent=("TRC725", "TRC726")),
)
THREADS: Final = {"decode": 2, "front": 2, "batch": 3}
"""Of each intent, as the script starts them; ``boss`` has a thread."""


def check(console: str, plan: Mapping[str, Any]) -> list[Check]:
    """Judge the reports."""
    reports = {
        name: (int(code), json.loads(text))
        for name, code, text in re.findall(r"^LAB v (\w+) (\d+) (\{.*\})$", console, re.M)
    }
    checks = [
        Check(f"LAB {script} apply 0\n" in console, f"{script}/apply.sh ends well")
        for script in ("irq", "taskset")
    ]
    for case in CASES:
        if case.name in reports:
            checks.append(_check_case(case, *reports[case.name]))
        else:
            checks.append(Check(False, f"{case.what}: no report"))
    if {"planned", "interrupt", "affinity"} <= reports.keys():
        checks += _check_planned(reports["planned"][1], plan)
        moved = _only(reports["interrupt"][1]["interrupts"])
        checks.append(
            Check(
                moved.get("moved") is True and moved.get("allowed") == "0",
                f"that the interrupt was set by irq/apply.sh is known: {moved.get('allowed')}",
            )
        )
        units = reports["affinity"][1]["units"]
        right = {unit["name"]: unit["right"] for unit in units if unit["threads"]}
        checks.append(
            Check(
                sorted(right.values()) == sorted(THREADS[name] for name in ("decode", "batch")),
                f"taskset/apply.sh puts every thread on its CPUs: {right}",
            )
        )
    return checks


def _check_case(case: Case, code: int, report: Mapping[str, Any]) -> Check:
    found = {
        (one["code"], one["severity"]): "\n".join((one["message"], *one["rows"]))
        for one in report["findings"]
    }
    codes = sorted({code for code, _ in found})
    good = code == case.code and not set(codes) & set(case.absent)
    if case.finding is not None:
        good = good and case.finding in found and case.says in found[case.finding]
    said = ", ".join(codes) or "nothing"
    return Check(good, f"{case.what}: exit code {code}, {said}")


def _check_planned(report: Mapping[str, Any], plan: Mapping[str, Any]) -> list[Check]:
    """Judge the report on the node as planned, against what was arranged there."""
    intents = {unit["name"]: unit["intent"] for unit in plan["units"]}
    counts = {intents[unit["name"]]: unit["threads"] for unit in report["units"]}
    scheduler, machine = report["scheduler"], report["machine"]
    interrupt = _only(report["interrupts"])
    cpus = {unit["intent"]: unit["cpus"] for unit in plan["units"]}
    matched = {row["comm"]: row["planned"] for row in report["matched"] or ()}
    wanted = {"VLLM::EngineCor": cpus["decode"], "worker": cpus["front"], "hog/2": cpus["batch"]}
    return [
        Check(counts == THREADS, f"threads of each intent: {counts}"),
        Check(
            {name: matched.get(name) for name in wanted} == wanted,
            f"CPUs planned for threads: {', '.join(sorted(matched))}",
        ),
        Check(
            scheduler["ours"] and scheduler["tables"] == [] and scheduler["compared"] == 9,
            f"every table holds the seed: {scheduler['compared']} compared",
        ),
        Check(
            (scheduler["recordedThreads"] or 0) >= sum(THREADS.values()),
            f"threads of which the scheduler's rule was compared: {scheduler['recordedThreads']}",
        ),
        Check(
            machine["cpus"] == "planned" and machine["devices"] == "planned",
            f"CPUs {machine['cpus']}, devices {machine['devices']}",
        ),
        Check(
            interrupt.get("right") is True and interrupt.get("allowed") == cpus["decode"],
            f"the GPU's interrupt goes to its lane: CPUs {interrupt.get('allowed')}",
        ),
    ]


def _only(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return rows[0] if len(rows) == 1 else {}
