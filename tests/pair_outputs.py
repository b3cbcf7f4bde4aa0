"""What node software gets from a plan, and what the files of a node say, checked independently."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from compiler.artifact import Artifact
from compiler.cpuset import CpuSet
from compiler.plan import Condition, NodePlan, Rule
from tests import bpf_eval

NODE_SOFTWARE = (
    ("systemd", "init.scope"),
    ("systemd-journal", "system.slice/systemd-journald.service"),
    ("kubelet", "system.slice/kubelet.service"),
    ("containerd", "system.slice/containerd.service"),
    ("dockerd", "system.slice/docker.service"),
    ("crio", "system.slice/crio.service"),
    ("k3s-server", "system.slice/k3s.service"),
    ("sshd", "system.slice/ssh.service"),
    ("sshd", "system.slice/sshd.service"),
)


# --- node software -------------------------------------------------------------------------------


def tier_id(plan: NodePlan, name: str) -> int:
    return next(tier.id for tier in plan.tiers if tier.name == name)


def node_software(plan: NodePlan) -> Iterator[str]:
    """Yield which node software a plan, or a target's view of it, starves."""
    background = tier_id(plan, "background")
    bands = {band.id: band for band in plan.bands}
    for comm, cgroup in NODE_SOFTWARE:
        rule = first_rule(plan, comm, cgroup)
        band = bands[plan.default_band if rule is None else rule.band]
        if band.tier > background:
            yield f"{comm} in {cgroup} gets tier {band.tier}"
        if not band.cpus:
            yield f"{comm} in {cgroup} has no CPU"


def first_rule(plan: NodePlan, comm: str, cgroup: str) -> Rule | None:
    """Return the rule that a process of the host gets."""
    return next((rule for rule in plan.rules if _has(rule.match, comm, cgroup)), None)


def _has(match: Condition, comm: str, cgroup: str) -> bool:
    if match.kthread is not None or match.pods is not None:
        return False
    return (
        (match.comm is None or _glob(match.comm, comm))
        and (match.leader_comm is None or _glob(match.leader_comm, comm))
        and (match.cgroup is None or _path(match.cgroup.split("/"), cgroup.split("/")))
        and (match.cmdline is None or re.search(match.cmdline, f"/usr/bin/{comm}") is not None)
    )


def _glob(pattern: str, name: str) -> bool:
    words = {"*": ".*", "?": "."}
    expression = "".join(words.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, name[:15], re.DOTALL) is not None


def _path(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_path(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and _glob(pattern[0], path[0]) and _path(pattern[1:], path[1:])


# --- what is written -----------------------------------------------------------------------------


def artifact_problems(online: CpuSet, plan: NodePlan, artifacts: Sequence[Artifact]) -> list[str]:
    """Return what is wrong with the files of one node: each list of CPUs is online, none empty."""
    files = {one.path.split("/", 2)[2]: one.data for one in artifacts}
    out = []
    if json.loads(files["plan.json"]) != json.loads(json.dumps(plan.data())):
        out.append("plan.json is not the plan")
    for path, data in files.items():
        if path == "taskset/apply.sh":
            out += [f"{path}: {text}" for text in _script(online, data.decode())]
    if "bpf/seed.json" in files:
        dump = bpf_eval.dump_of_document(files["bpf/seed.json"])
        for band in plan.bands:
            record = bpf_eval.read_band(dump, band.id)
            if record.cpus != band.cpus or not record.cpus or record.cpus - online:
                out.append(f"bpf/seed.json: band {band.id} has {record.cpus}, not {band.cpus}")
    return out


def _script(online: CpuSet, text: str) -> Iterator[str]:
    found = re.search(r"^cpu_lists\(\) \{\n  cat <<'END'\n(.*?)^END$", text, re.S | re.M)
    if found is None:
        yield "it has no lists of CPUs"
        return
    lists = {}
    for line in found[1].splitlines():
        if not line.startswith("#"):
            name, _, cpus = line.split()
            lists[name] = CpuSet.parse(cpus) if cpus != "-" else CpuSet()
    for name, cpu_set in lists.items():
        if not cpu_set or cpu_set - online:
            yield f"list {name} is {cpu_set}, online are {online}"
    used = re.findall(r"^\d+ +move +(\S+) ", text, re.M)
    for name in used:
        if name not in lists:
            yield f"a rule moves to {name}, which is no list"
