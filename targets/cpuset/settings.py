"""What is set on each control group that a plan names: CPUs, a weight, a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from compiler.patterns import Glob, contains
from compiler.plan import Lane, NodePlan, Rule, Tier
from targets.cpuset.groups import Group, NotOurs, named
from targets.cpuset.unions import Below, all_below

IDLE: Final = "idle"
"""Name of the tier whose groups run only when nothing else wants a CPU."""
MAX_WEIGHT: Final = 10_000
"""Of ``CPUWeight=`` and ``cpu.weight``."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One group, and what is set on it.

    Attributes:
        below: what may run there.
        cpus: its cpuset; None where it may use every CPU, so that there is nothing to restrict.
        weight: ``1`` to ``10000`` or ``idle``; None where tiers differ, or nothing is special.
        lane: the exclusive lane that a partition keeps everyone else out of, or None.
    """

    below: Below
    cpus: CpuSet | None
    weight: str | None
    lane: str | None

    @property
    def group(self) -> Group:
        """The group."""
        return self.below.group

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to set."""
        return self.cpus is None and self.weight is None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the target makes of a plan.

    Attributes:
        rows: by path, the groups that are set and those with nothing to set.
        not_ours: globs of rules on control groups, and why they are left alone.
        lanes: exclusive lanes, each with why no partition keeps others out, None where one does.
    """

    rows: tuple[Setting, ...]
    not_ours: Mapping[str, str]
    lanes: Mapping[str, str | None]

    def of(self, text: str) -> Setting | None:
        """Return the setting of the group that a rule's glob names."""
        for row in self.rows:
            if text in (row.group.path, f"{row.group.path}/**"):
                return row
        return None


def settings(plan: NodePlan) -> Settings:
    """Return what is set on the groups that a plan names.

    Raises:
        ValueError: a rule has a band, or a band a tier, that the plan lacks.
    """
    groups: dict[str, Group] = {}
    not_ours: dict[str, str] = {}
    for text in sorted({rule.match.cgroup for rule in plan.rules if rule.match.cgroup}):
        found = named(text, plan.machine.pods_root)
        if isinstance(found, NotOurs):
            not_ours[text] = found.reason
        else:
            groups[found.path] = found
    tiers = {tier.id: tier for tier in plan.tiers}
    if lost := {band.tier for band in plan.bands} - tiers.keys():
        raise ValueError(f"the plan has no tiers {sorted(lost)}, which bands have")
    rows = all_below(plan, groups.values())
    lanes = {
        lane.name: _partition(plan, lane, rows) for lane in plan.lanes if lane.share == "exclusive"
    }
    lane_of = {found.group.path: name for name, found in lanes.items() if isinstance(found, Below)}
    normal = plan.bands[plan.default_band].tier
    return Settings(
        rows=tuple(
            Setting(
                below=row,
                cpus=None if plan.machine.effective <= row.cpus else row.cpus,
                weight=_weight(row, tiers, normal),
                lane=lane_of.get(row.group.path),
            )
            for row in rows
        ),
        not_ours=not_ours,
        lanes={name: None if isinstance(found, Below) else found for name, found in lanes.items()},
    )


def unexpressed(plan: NodePlan, made: Settings) -> Iterator[tuple[Rule, str]]:
    """Yield each rule on a control group alone that the settings do not give its CPUs, and why."""
    bands = {band.id: band for band in plan.bands}
    for rule in plan.rules:
        match = rule.match
        others = (match.comm, match.leader_comm, match.kthread, match.cmdline, match.pods)
        if match.cgroup is None or any(other is not None for other in others):
            continue
        row = made.of(match.cgroup)
        cpus = bands[rule.band].cpus
        if row is None:
            yield rule, made.not_ours[match.cgroup]
        elif row.below.cpus != cpus and not (row.cpus is None and plan.machine.effective <= cpus):
            yield rule, f"threads of other rules may be there too, so it gets {row.below.cpus}"


def _weight(row: Below, tiers: Mapping[int, Tier], normal: int) -> str | None:
    if row.tier is None or row.tier == normal:
        return None
    tier = tiers[row.tier]
    return IDLE if tier.name == IDLE else str(min(max(tier.weight, 1), MAX_WEIGHT))


def _partition(plan: NodePlan, lane: Lane, rows: Sequence[Below]) -> Below | str:
    """Return the group that can be a partition of an exclusive lane, or why none can."""
    if lane.isolated:
        return "the kernel takes isolated CPUs into no partition that balances load"
    bands = {band.id: band for band in plan.bands}
    users = [rule for rule in plan.rules if not bands[rule.band].cpus.isdisjoint(lane.cpus)]
    if not lane.cpus.isdisjoint(bands[plan.default_band].cpus):
        return "threads that no rule matches may use it"
    exact = [row for row in rows if row.cpus == lane.cpus]
    for row in exact:
        if any(row.group.is_in(other.group) for other in exact):
            continue
        subtree = row.group.subtree
        if users and all(
            rule.match.kthread is None
            and rule.match.cgroup is not None
            and contains(subtree, Glob.cgroup(rule.match.cgroup))
            for rule in users
        ):
            return row
    return "its threads are not all, and alone, in one control group that the policy names"
