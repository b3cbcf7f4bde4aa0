"""What several checks need: looking things up in a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.cpuset import CpuSet, union
from compiler.plan import Lane, NodePlan, Tier
from compiler.safety.violation import Violation


def tier_named(plan: NodePlan, name: str) -> Tier | None:
    """Return the tier of that name, None where there is none."""
    return next((tier for tier in plan.tiers if tier.name == name), None)


def family_cpus(plan: NodePlan, lane: Lane) -> CpuSet:
    """Return the CPUs of a lane, or of all members of its family."""
    if lane.family is None:
        return lane.cpus
    return union(one.cpus for one in plan.lanes if one.family == lane.family)


def unique(kind: str, what: str, names: Iterable[str]) -> Iterator[Violation]:
    """Find names that are there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield Violation(kind, f"two of the {what}s are called {name}")
        seen.add(name)
