"""The ordered rules of a class of nodes, and what each gives to the threads it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.decode import Loaded
from compiler.model.intent import Intent
from compiler.resolve.conditions import condition_contains
from compiler.resolve.types import Resolution, ResolvedRule, ResolvedUnit

Outcome = tuple[int, int, str | None, bool]
"""Tier, order, lane, leftovers."""


@dataclass(frozen=True, slots=True)
class Line:
    """One rule, whose it is, and what it gives."""

    rule: ResolvedRule
    intent: Loaded[Intent] | None
    outcome: Outcome

    @property
    def owner(self) -> str | None:
        """Name of the intent; None for units of the node."""
        return self.intent.name if self.intent is not None else None

    @property
    def standing(self) -> tuple[int, bool]:
        """What goes before every property of the condition; smaller goes first."""
        return -self.rule.precedence, self.rule.builtin


def lines_of(resolution: Resolution) -> tuple[Line, ...]:
    """Return the rules in their order."""
    units = {unit.name: unit for unit in resolution.units}
    return tuple(
        Line(rule, units[rule.unit].draft.intent, _outcome(rule, units))
        for rule in resolution.rules
    )


def _outcome(rule: ResolvedRule, units: Mapping[str, ResolvedUnit]) -> Outcome:
    tier, lane = units[rule.tier_unit], units[rule.lane_unit]
    return tier.own_tier, tier.own_order, lane.lane, lane.leftovers


def taker_of(line: Line, earlier: Sequence[Line]) -> Line | None:
    """Return an earlier rule of another intent that leaves ``line`` no thread.

    At equal standing an earlier rule contains a later one only where their conditions are equal,
    which saves comparing the patterns of all pairs.
    """
    for other in earlier:
        if other.intent is None or other.owner == line.owner or other.outcome == line.outcome:
            continue
        if other.standing < line.standing:
            if condition_contains(other.rule.condition, line.rule.condition):
                return other
        elif other.rule.condition == line.rule.condition and not _is_conflict(
            other.outcome, line.outcome
        ):
            return other
    return None


def _is_conflict(one: Outcome, other: Outcome) -> bool:
    """Tell whether a tie between the two is an error of resolution already."""
    lanes = one[2] is not None and other[2] is not None and one[2] != other[2]
    return one[:2] != other[:2] or lanes
