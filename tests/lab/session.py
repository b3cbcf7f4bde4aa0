"""A guest with the scenarios that share its machine: policies, script, verdict."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.lab.check import Check
from tests.lab.guest import Lab, run
from tests.lab.machine import Machine
from tests.lab.policy import build, facts_files
from tests.lab.scenario import Phase, Report, Result, Scenario, Step

LIBRARY: Final = Path(__file__).resolve().parent / "payload" / "lib.sh"

_HEAD: Final = """\
. /lab/lib.sh
step() { # SCENARIO FILE
  sh "/lab/steps/$2" || echo "LAB $1 step failed: $2"
}
revert() { # POLICY
  taskset 1 sh "/lab/policy/$1/taskset/revert.sh" --quiet >/tmp/revert 2>&1 || cat /tmp/revert
}
attach() {
  mkdir /sys/fs/bpf/tierc_link
  taskset 1 bpftool struct_ops register /lab/tierc.bpf.o /sys/fs/bpf/tierc_link >/tmp/register 2>&1
  [ "$(cat /sys/kernel/sched_ext/state)" = enabled ] || {
    tail -n 20 /tmp/register
    exit 1
  }
}
seed() { # POLICY CHANGE
  directory=/lab/policy/$1
  if [ -n "$2" ]; then
    rm -rf /tmp/changed
    cp -r "$directory" /tmp/changed
    directory=/tmp/changed
    sh -c "$2" change "$directory" || echo "LAB change failed: $2"
  fi
  taskset 1 sh "$directory/bpf/load.sh" --object /lab/tierc.bpf.o || echo "LAB load failed: $1"
}
"""
_WENT_WRONG: Final = re.compile(r"LAB (\w+ step|load|change) failed: ")
_TAIL: Final = """\
[ "$(cat /sys/kernel/sched_ext/state)" = disabled ] || rm -rf /sys/fs/bpf/tierc_link
dmesg | grep -i sched_ext
exit 0
"""


def compile_policies(
    facts: str, machine: Machine, scenarios: Sequence[Scenario], work: Path
) -> dict[tuple[str, str], Path]:
    """Compile the policies that steps name, for the guest that printed these facts.

    Returns:
        by scenario and policy, the directory of the node.
    """
    nodes = {}
    for scenario in scenarios:
        for name in sorted({step.policy for step in scenario.steps(machine)} - {""}):
            directory = work / f"{scenario.name}-{name}"
            directory.mkdir(parents=True)
            nodes[scenario.name, name] = build(facts, scenario.policies[name], directory)
    return nodes


def plan_of(node: Path) -> Mapping[str, Any]:
    """Return the decoded plan of a node's directory."""
    plan: Mapping[str, Any] = json.loads((node / "plan.json").read_text())
    return plan


def script_of(steps: Sequence[tuple[str, Step]]) -> tuple[str, dict[str, bytes]]:
    """Return what the guest runs, and the files of the steps."""
    files = {}
    lines = [_HEAD]
    attached, seeded = False, ("", "", "")
    for number, (scenario, step) in enumerate(
        sorted(steps, key=lambda one: one[1].phase)  # stable: steps of a phase keep their order
    ):
        name = f"{number:02}-{scenario}.sh"
        files[f"steps/{name}"] = f". /lab/lib.sh\nPOLICY={scenario}-{step.policy}\n{step.script}"
        if step.phase >= Phase.EMPTY and not attached:
            lines.append("attach\n")
            attached = True
        if step.phase == Phase.SEEDED and seeded != (scenario, step.policy, step.change):
            policy = f"{scenario}-{step.policy}"
            lines.append(f"seed {policy} {shlex.quote(step.change)}\n")
            seeded = (scenario, step.policy, step.change)
        lines.append(f"step {scenario} {name}\n")
        if step.phase == Phase.STATIC:
            lines.append(f"revert {scenario}-{step.policy}\n")
    return "".join([*lines, _TAIL]), {name: text.encode() for name, text in files.items()}


def facts_of(lab: Lab, kernel: Path, machine: Machine, work: Path) -> str:
    """Boot the machine and return what its collector printed."""
    work.mkdir(parents=True)
    return run(lab, kernel, machine, facts_files(), work, counted=False)


def play(
    lab: Lab,
    kernel: Path,
    machine: Machine,
    scenarios: Sequence[Scenario],
    facts: str,
    work: Path,
) -> list[tuple[Scenario, Report]]:
    """Run scenarios in one guest and judge each.

    Raises:
        GuestFailed: the guest did not come to its end.
    """
    work.mkdir(parents=True)
    nodes = compile_policies(facts, machine, scenarios, work)
    steps = [(one.name, step) for one in scenarios for step in one.steps(machine)]
    script, files = script_of(steps)
    files["run.sh"] = script.encode()
    files["lib.sh"] = LIBRARY.read_bytes()
    for (scenario, name), node in nodes.items():
        files.update(node_files(node, f"policy/{scenario}-{name}"))
    console = run(lab, kernel, machine, files, work)
    went_wrong = [Check(False, line) for line in console.splitlines() if _WENT_WRONG.match(line)]
    reports = []
    for scenario in scenarios:
        plans = {name: plan_of(node) for (own, name), node in nodes.items() if own == scenario.name}
        report = scenario.judge(Result(console, plans, machine))
        if scenario is scenarios[0] and went_wrong:
            report = dataclasses.replace(report, checks=(*went_wrong, *report.checks))
        reports.append((scenario, report))
    return reports


def node_files(node: Path, where: str) -> dict[str, bytes]:
    """Return the files of a node's directory, to be put below a directory of the guest."""
    return {
        f"{where}/{path.relative_to(node)}": path.read_bytes()
        for path in sorted(node.rglob("*"))
        if path.is_file()
    }
