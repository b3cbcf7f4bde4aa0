"""Rules that are treated alike, as one line of a script.

A script need not try rules one by one where that cannot make a difference.  A rule joins an
earlier group when it differs from it in nothing but the thread's name, and when no thread that it
has could be had by a rule that then comes between.  So every thread has the treatment that the
plan's order gives it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from compiler.patterns import Glob, intersects
from compiler.plan import Rule

How = Literal["move", "keep", "spawns"]


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a script does with a thread.

    Attributes:
        how: ``spawns`` where children would inherit the affinity, ``keep`` where the CPUs are
            every effective one (so that there is nothing to set), else ``move``.
        cpus: name of a CPU list.
        tier: name of the tier.
        unit: name of the unit.
    """

    how: How
    cpus: str
    tier: str
    unit: str


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that differ in the thread's own name alone, in the order of their ids."""

    rules: tuple[Rule, ...]
    treatment: Treatment

    @property
    def id(self) -> int:
        """The first rule's id: groups are tried in this order."""
        return self.rules[0].id

    @property
    def is_kernel(self) -> bool:
        """Whether it speaks of kernel threads."""
        return self.rules[0].match.kthread is not None

    @property
    def names(self) -> tuple[Glob, ...]:
        """The globs on the thread's own name; none where every name will do."""
        return tuple(glob for rule in self.rules if (glob := own_name(rule)) is not None)


def own_name(rule: Rule) -> Glob | None:
    """Return the glob on the thread's own name; ``*`` needs no look at it."""
    text = rule.match.kthread if rule.match.kthread is not None else rule.match.comm
    if text is None:
        return None
    glob = Glob.comm(text)
    return None if glob.matches_all else glob


def grouped(rules: Iterable[tuple[Rule, Treatment]]) -> list[Group]:
    """Return the groups of rules given in the order of the plan."""
    groups: list[tuple[Treatment, list[Rule]]] = []
    for rule, treatment in rules:
        place = _earlier(rule, treatment, groups)
        if place is None:
            groups.append((treatment, [rule]))
        else:
            groups[place][1].append(rule)
    return [Group(tuple(members), treatment) for treatment, members in groups]


def _earlier(
    rule: Rule, treatment: Treatment, groups: Sequence[tuple[Treatment, list[Rule]]]
) -> int | None:
    """Return the place of the last group that the rule may join."""
    if own_name(rule) is None:
        return None
    for place in range(len(groups) - 1, -1, -1):
        other, members = groups[place]
        if other == treatment and _differs_in_name_only(rule, members[0]):
            return place
        if not all(_are_disjoint(rule, member) for member in members):
            return None
    return None


def _differs_in_name_only(rule: Rule, other: Rule) -> bool:
    if own_name(other) is None:
        return False
    field = "comm" if rule.match.kthread is None else "kthread"
    if getattr(other.match, field) is None:
        return False
    return rule.match.model_copy(update={field: None}) == other.match.model_copy(
        update={field: None}
    )


def _are_disjoint(rule: Rule, other: Rule) -> bool:
    if (rule.match.kthread is None) != (other.match.kthread is None):
        return True
    mine, theirs = own_name(rule), own_name(other)
    return mine is not None and theirs is not None and not intersects(mine, theirs)
