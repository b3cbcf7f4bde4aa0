"""Node software, without which a node is lost: no rule may starve it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import Condition, NodePlan, Rule
from compiler.safety.parts import tier_named
from compiler.safety.violation import STARVED, Violation

NODE_SOFTWARE: Final = (
    ("systemd", "init.scope"),
    ("kubelet", "system.slice/kubelet.service"),
    ("containerd", "system.slice/containerd.service"),
    ("containerd-shim", "system.slice/containerd.service"),
    ("dockerd", "system.slice/docker.service"),
    ("crio", "system.slice/crio.service"),
    ("k3s-server", "system.slice/k3s.service"),
    ("k3s-agent", "system.slice/k3s-agent.service"),
    ("kubelite", "system.slice/snap.microk8s.daemon-kubelite.service"),
    ("sshd", "system.slice/ssh.service"),
    ("sshd", "system.slice/sshd.service"),
)
"""Name and cgroup of processes without which a node is lost, as systemd hosts have them."""


def check_node_software(plan: NodePlan) -> Iterator[Violation]:
    """Find processes without which a node is lost in a tier below background."""
    floor = tier_named(plan, "background")
    if floor is None:
        return
    bands = {band.id: band for band in plan.bands}
    names = {tier.id: tier.name for tier in plan.tiers}
    for comm, cgroup in NODE_SOFTWARE:
        rule = next((r for r in plan.rules if _matches(r.match, comm, cgroup)), None)
        band = bands.get(plan.default_band if rule is None else rule.band)
        if band is not None and band.tier > floor.id:
            tier = names.get(band.tier, str(band.tier))
            yield Violation(
                STARVED,
                f"{comm} in cgroup {cgroup} gets tier {tier}, below background, {_by(rule)}",
                rule=None if rule is None else rule.id,
                process=comm,
                cgroup=cgroup,
                tier=tier,
            )


def _by(rule: Rule | None) -> str:
    return "as no rule matches it" if rule is None else f"by rule {rule.id} of unit {rule.unit}"


def _matches(match: Condition, comm: str, cgroup: str) -> bool:
    """Return whether a rule has a process of the host with this name and cgroup."""
    if match.kthread is not None or match.pods is not None:
        return False
    return all(
        (
            match.comm is None or Glob.comm(match.comm).matches(comm),
            match.leader_comm is None or Glob.comm(match.leader_comm).matches(comm),
            match.cgroup is None or Glob.cgroup(match.cgroup).matches(cgroup),
            match.cmdline is None or CmdlineRegex.parse(match.cmdline).matches(f"/usr/bin/{comm}"),
        )
    )
