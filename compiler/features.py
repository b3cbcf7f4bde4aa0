"""What a plan needs of a target, as stable words.

Each target lists the words it supports; what it lacks is reported, never dropped silently.  The
words are documented in ``docs/targets.md``.
"""

from __future__ import annotations

from typing import Final

from compiler.patterns import Glob
from compiler.plan import NodePlan, Rule

MAX_CGROUP_DEPTH: Final = 8
"""Path components that the scheduler map ABI can tell apart (bpf/tierc_maps.h)."""
MAX_CGROUP_NAME: Final = 63
"""Bytes of one cgroup name in a map key, less its NUL."""
MAX_MAP_CPUS: Final = 1024
"""CPUs in a band's mask."""

MEANING: Final = {
    "match.comm.exact": "an exact thread name",
    "match.comm.prefix": "a thread name by its beginning",
    "match.comm.glob": "a thread name with a wildcard before its end",
    "match.leader.exact": "an exact process name",
    "match.leader.prefix": "a process name by its beginning",
    "match.leader.glob": "a process name with a wildcard before its end",
    "match.kthread.exact": "an exact kernel thread name",
    "match.kthread.prefix": "a kernel thread name by its beginning",
    "match.kthread.glob": "a kernel thread name with a wildcard before its end",
    "match.cgroup.path": "a cgroup path of whole names, at most 8 deep",
    "match.cgroup.any": "a cgroup anywhere above the thread, by whole name",
    "match.cgroup.glob": "a cgroup path with a wildcard inside a name, or deeper than 8",
    "match.cgroup.long": "a cgroup name over 63 bytes",
    "match.cmdline": "a command line",
    "match.pods": "a pod selector",
    "lane.open": "an open lane",
    "lane.guarded": "keeping unmatched lower-tier threads out of a lane",
    "lane.exclusive": "keeping everyone else out of a lane",
    "lane.isolated": "a lane on isolated CPUs, one thread a CPU",
    "lane.family": "binding a process to the locality of its GPUs",
    "tier": "tier weights, slices and preemption",
    "irq.affinity": "placing interrupts",
    "cpus.1024": "CPU ids of 1024 and above",
}


def of_rule(rule: Rule) -> frozenset[str]:
    """Return the words a rule's condition needs."""
    match, out = rule.match, set()
    for word, text in (
        ("comm", match.comm),
        ("leader", match.leader_comm),
        ("kthread", match.kthread),
    ):
        if text is not None:
            out.add(f"match.{word}.{_name_kind(text)}")
    if match.cgroup is not None:
        out |= _cgroup(match.cgroup)
    if match.cmdline is not None:
        out.add("match.cmdline")
    if match.pods is not None:
        out.add("match.pods")
    return frozenset(out)


def of_plan(plan: NodePlan) -> tuple[str, ...]:
    """Return all words a plan needs, sorted."""
    out = {word for rule in plan.rules for word in of_rule(rule)}
    out |= {f"lane.{lane.share}" for lane in plan.lanes}
    if any(lane.isolated for lane in plan.lanes):
        out.add("lane.isolated")
    if any(lane.family is not None for lane in plan.lanes):
        out.add("lane.family")
    default = plan.bands[plan.default_band].tier
    if any(band.tier != default for band in plan.bands):
        out.add("tier")
    if any(one.where != "leave" for one in plan.irqs):
        out.add("irq.affinity")
    if plan.machine.online.highest >= MAX_MAP_CPUS:
        out.add("cpus.1024")
    return tuple(sorted(out))


def _name_kind(text: str) -> str:
    glob = Glob.comm(text)
    if glob.exact is not None or glob.is_empty:
        return "exact"  # what needs more than 15 bytes is nobody, which every target can say
    return "prefix" if glob.prefix is not None else "glob"


def _cgroup(text: str) -> set[str]:
    parts = text.split("/")
    names = [p for p in parts if p not in ("*", "**")]
    out: set[str] = set()
    if any(len(name.encode()) > MAX_CGROUP_NAME for name in names):
        out.add("match.cgroup.long")
    inner = any(set("*?") & set(name) for name in names)
    if len(parts) == 3 and parts[0] == parts[2] == "**" and len(names) == 1 and not inner:
        out.add("match.cgroup.any")
        return out
    fixed = parts[:-1] if parts[-1] == "**" else parts
    if inner or "**" in fixed or len(fixed) > MAX_CGROUP_DEPTH:
        out.add("match.cgroup.glob")
    else:
        out.add("match.cgroup.path")
    return out
