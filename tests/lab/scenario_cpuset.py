"""The cpuset target on a real kernel: partitions, weights, plans that follow each other, reverts.

One guest of four CPUs, with a process that never sleeps in each group.  Its placement of the policy
below leaves no choice: CPU 0 is housekeeping, the two lanes are CPUs 1 and 2, in the order of their
names, and CPU 3 is what is left over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compiler.cpuset import CpuSet
from tests.lab.guest import Lab, run
from tests.lab.machine import Machine
from tests.lab.policy import build, facts_files, intent, project

CPUS: Final = 4
MACHINE: Final = Machine("4 CPUs", CPUS, counted=False)

_PROJECT: Final = project("fallback", "cpuset: {}, taskset: {}")
_LANE: Final = "protect: [all]\n  lane: {cores: {min: 1, max: 1}, share: exclusive}"


def _intent(name: str, group: str, *effects: str) -> str:
    return intent(name, f'{{match: [{{cgroup: "{group}/**"}}]}}', *effects)


_CHAT: Final = _intent("chat", "serving.slice", _LANE)
_PODS: Final = _intent("pods", "kubepods/burstable", "demote: background")

POLICIES: Final = {
    "one": _PROJECT
    + _CHAT
    + _intent("embed", "ml.slice/engine.service", _LANE)
    + _intent("ci", "ci.slice", "demote: background")
    + _intent("jobs", "system.slice/jobs.service", "demote: idle")
    + _PODS,
    "two": _PROJECT
    + _CHAT
    + _intent("jobs", "system.slice/jobs.service", "demote: background")
    + _PODS,
}
"""The second has neither the lane ``embed`` nor ``ci``, and another tier for ``jobs``."""

GROUPS: Final = (
    "ci.slice",
    "kubepods/burstable/pod1",
    "ml.slice/engine.service",
    "ml.slice/other.service",
    "other",
    "serving.slice",
    "system.slice/jobs.service",
    "user.slice",
)
ROOT: Final = "."
PINNED: Final = "pinned"
"""A second process of ``user.slice``, which somebody pinned to CPU 1 before."""

_SCRIPT: Final = """\
top=/sys/fs/cgroup
spin() { # LABEL GROUP
  sh -c 'echo $$ >"$0/cgroup.procs"; kill -STOP $$; while :; do :; done' "$top/$2" &
  echo "$! $1" >>/tmp/spinning
}
pids() { cut -d ' ' -f 1 /tmp/spinning; }
files() { # TAG
  find $top -type f | grep -E '/(cpuset[.].*|cpu[.](weight|idle|max)|cgroup[.]subtree_control)$' |
    sort | while read -r file; do
    value=
    read -r value <"$file"
    echo "LAB c-file $1 ${file#$top/} $value"
  done
}
runs() { # TAG
  kill -CONT $(pids)
  sleep 1
  looked=
  for pid in $(pids); do looked="$looked /proc/$pid/stat"; done
  n=0
  while [ $n -lt 12 ]; do
    cat $looked
    usleep 40000
    n=$((n + 1))
  done >/tmp/looked
  kill -STOP $(pids)
  while read -r pid label; do
    allowed=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' "/proc/$pid/status")
    on=$(awk -v pid="$pid" '$1 == pid { print $39 }' /tmp/looked | sort -u | tr '\\n' ,)
    echo "LAB c-run $1 $label $allowed ${on%,}"
  done </tmp/spinning
}
script() { # TAG SCRIPT OPTION...
  tag=$1
  path=/lab/$2
  shift 2
  sh "$path" "$@" >/tmp/out 2>&1
  echo "LAB c-code $tag $?"
  sed "s/^/LAB c-out $tag /" /tmp/out
}
apply() { # TAG PLAN OPTION...
  plan=$2
  name=$1
  shift 2
  script "$name" "$plan/cpuset/apply.sh" "$@"
  files "$name"
}
revert() { # TAG
  script "$1" one/cpuset/revert.sh
  files "$1"
}

for group in {groups}; do
  mkdir -p "$top/$group"
  spin "$group" "$group"
done
spin {root} {root}
spin {pinned} user.slice
sleep 1
taskset -pc 1 $! >/dev/null
files fresh
runs fresh
apply dry one --dry-run
apply first one
runs first
taskset -pc 1 "$(awk '$2 == "user.slice" { print $1 }' /tmp/spinning)" >/dev/null 2>&1
echo "LAB c-code into-the-lane $?"
apply again one
kill -CONT $(pids)
apply second two
runs second
apply back one
mkdir -p /etc/tierc
: >/etc/tierc/disabled
apply disabled one
rm /etc/tierc/disabled
apply enabled one
revert reverted
runs reverted

for group in . ml.slice system.slice kubepods kubepods/burstable; do
  echo '+cpuset +cpu' >$top/$group/cgroup.subtree_control
done
echo 0-2 >$top/ci.slice/cpuset.cpus
echo 70 >$top/ci.slice/cpu.weight
echo 1 >$top/system.slice/jobs.service/cpu.idle
echo 200 >$top/kubepods/cpu.weight
echo 0-3 >$top/kubepods/burstable/pod1/cpuset.cpus
echo 0-1 >$top/other/cpuset.cpus
echo 2 >$top/other/cpuset.cpus.exclusive
files given
apply beside one
runs beside
apply beside-again one
revert beside-reverted

for group in kubepods/burstable kubepods system.slice ml.slice .; do
  echo '-cpuset' >$top/$group/cgroup.subtree_control
done
echo '+cpuset' >$top/cgroup.subtree_control
echo 0,2-3 >$top/other/cpuset.cpus
echo root >$top/other/cpuset.cpus.partition
files taken
apply last one
runs last
apply last-again one
revert last-reverted
kill -9 $(pids)
dmesg | grep -E 'BUG|WARN|Call Trace|cpuset'
exit 0
"""


@dataclass(frozen=True)
class Seen:
    """What the guest printed, by the tag of a step.

    Attributes:
        files: the settings: path below the root of the tree -> what is in it.
        runs: label of a process -> the CPUs it may use and those it was seen on.
        codes: exit code of a script.
        said: lines of a script.
    """

    files: dict[str, dict[str, str]] = field(default_factory=dict)
    runs: dict[str, dict[str, tuple[CpuSet, CpuSet]]] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


def measure(lab: Lab, kernel: Path, work: Path) -> str:
    """Run the scenario; return what the guest printed."""
    work.mkdir(parents=True)
    facts = run(lab, kernel, MACHINE, facts_files(), work)
    files: dict[str, bytes] = {}
    for name, policy in POLICIES.items():
        (work / name).mkdir()
        node = build(facts, policy, work / name)
        for path in sorted((node / "cpuset").glob("*.sh")):
            files[f"{name}/cpuset/{path.name}"] = path.read_bytes()
    files["run.sh"] = guest_script().encode()
    return run(lab, kernel, MACHINE, files, work)


def guest_script() -> str:
    """Return what runs in the guest."""
    script = _SCRIPT
    for key, value in (("groups", " ".join(GROUPS)), ("root", ROOT), ("pinned", PINNED)):
        script = script.replace("{" + key + "}", value)
    return script


def read(console: str) -> Seen:
    """Read what the guest printed."""
    seen = Seen()
    for kind, tag, rest in re.findall(r"^LAB c-(\w+) (\S+) ?(.*)$", console, re.M):
        if kind == "file":
            path, _, value = rest.partition(" ")
            seen.files.setdefault(tag, {})[path] = value
        elif kind == "run":
            label, allowed, *on = rest.split(" ")
            cpus = CpuSet.parse(allowed), CpuSet.parse(on[0] if on else "")
            seen.runs.setdefault(tag, {})[label] = cpus
        elif kind == "code":
            seen.codes[tag] = int(rest)
        elif kind == "out":
            seen.said[tag] = seen.said.get(tag, "") + rest + "\n"
    return seen
