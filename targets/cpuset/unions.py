"""The CPUs of everything that may run below a control group: the union rule.

A cpuset binds every thread below it, whatever its name.  So a group gets the CPUs of every rule
that may have a thread there, in the plan's order, as far as the first rule that takes whatever is
left; where none does, the CPUs of what no rule matches join.  It is never narrower than any of
them: a cpuset leaves no thread that another target places elsewhere stranded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compiler.cpuset import CpuSet, union
from compiler.patterns import Glob, contains, intersects
from compiler.plan import Band, Condition, NodePlan
from targets.cpuset.groups import Group


@dataclass(frozen=True, slots=True)
class Below:
    """What may run below a group.

    Attributes:
        group: the group.
        cpus: the union.
        min_cpus: fewest CPUs with which every band below still makes sense.
        tiers: ids of the tiers of all threads there.
        rules: ids of the rules that may have a thread there.
        has_unmatched: whether threads that no rule matches may be there.
    """

    group: Group
    cpus: CpuSet
    min_cpus: int
    tiers: frozenset[int]
    rules: tuple[int, ...]
    has_unmatched: bool

    @property
    def tier(self) -> int | None:
        """The one tier of all threads there, None where there are several."""
        return next(iter(self.tiers)) if len(self.tiers) == 1 else None


def below(plan: NodePlan, group: Group) -> Below:
    """Return what may run below a group.

    Kernel threads are left out: they are in the root of the tree.

    Raises:
        ValueError: a rule has a band that the plan lacks.
    """
    bands = {band.id: band for band in plan.bands}
    if missing := {r.band for r in plan.rules} - bands.keys():
        raise ValueError(f"the plan has no bands {sorted(missing)}, which rules have")
    subtree = group.subtree
    pods = None
    if plan.machine.pods_root is not None:
        pods = Glob.cgroup(f"{plan.machine.pods_root}/**")
    found: list[Band] = []
    rules: list[int] = []
    unmatched = True
    for rule in sorted(plan.rules, key=lambda rule: rule.id):
        if not _may_take(rule.match, subtree, pods):
            continue
        rules.append(rule.id)
        found.append(bands[rule.band])
        if _takes_all(rule.match, subtree):
            unmatched = False
            break
    if unmatched:
        found.append(bands[plan.default_band])
    return Below(
        group=group,
        cpus=union(band.cpus for band in found),
        min_cpus=max(1, *(band.min_cpus for band in found)),
        tiers=frozenset(band.tier for band in found),
        rules=tuple(rules),
        has_unmatched=unmatched,
    )


def all_below(plan: NodePlan, groups: Iterable[Group]) -> tuple[Below, ...]:
    """Return what may run below each group, by path: those above before those inside them.

    A group that holds another is at least as wide: the kernel would cut the inner one.
    """
    rows = [below(plan, group) for group in sorted(groups, key=lambda group: group.path)]
    return tuple(_no_narrower_than_inner(row, rows) for row in rows)


def _no_narrower_than_inner(row: Below, rows: Sequence[Below]) -> Below:
    inner = union(other.cpus for other in rows if other.group.is_in(row.group))
    return row if inner <= row.cpus else replace(row, cpus=row.cpus | inner)


def _may_take(match: Condition, subtree: Glob, pods: Glob | None) -> bool:
    if match.kthread is not None:
        return False
    if match.pods is not None and pods is not None and not intersects(pods, subtree):
        return False
    return match.cgroup is None or intersects(Glob.cgroup(match.cgroup), subtree)


def _takes_all(match: Condition, subtree: Glob) -> bool:
    if match.cmdline is not None or match.pods is not None:
        return False  # a thread may have no command line
    names = [text for text in (match.comm, match.leader_comm) if text is not None]
    if not all(Glob.comm(text).matches_all for text in names):
        return False
    return match.cgroup is None or contains(Glob.cgroup(match.cgroup), subtree)
