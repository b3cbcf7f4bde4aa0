"""Which rule has a thread: the total order of design 5.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

from compiler.decode import Loaded
from compiler.diagnostics import Span
from compiler.graph import ordered
from compiler.model.intent import Intent
from compiler.resolve.conditions import (
    FIELDS,
    Texts,
    condition_contains,
    condition_meets,
    fields_of,
    narrower_pairs,
    parse_field,
    texts_of,
)
from compiler.resolve.types import Matcher, UnitDraft

__all__ = [
    "MAX_COMPARED",
    "Candidate",
    "Outcome",
    "condition_contains",
    "condition_meets",
    "parse_field",
    "rank",
    "user_line",
    "user_place",
]

MAX_COMPARED: Final = 2048
"""Rules on a node beyond which they are not compared with each other: eight times as many as a
plan may have, so that it is refused anyway."""


@dataclass(frozen=True)
class Candidate:
    """One matcher of one unit, ready to be ranked."""

    unit: UnitDraft
    matcher: Matcher

    @cached_property
    def texts(self) -> Texts:
        """Patterns of the condition, field by field."""
        return texts_of(self.matcher.condition)

    @cached_property
    def rank(self) -> tuple[int, bool, bool, int, tuple[int, ...]]:
        """Everything of the order but containment; smaller goes first."""
        fields = fields_of(self.matcher.condition)
        return (
            -self.unit.precedence,
            self.unit.builtin,
            not {"cgroup", "pods"} & set(fields),
            -len(fields),
            tuple(FIELDS.index(name) for name in fields),
        )

    @cached_property
    def only_places(self) -> bool:
        """Whether its intent leaves the tier open for all its units."""
        if self.unit.intent is None:
            return False
        spec = self.unit.intent.model.spec
        return spec.protect is None and spec.demote is None and spec.keep is None

    @property
    def intent(self) -> str:
        """Name of the intent, or of the node unit."""
        return self.unit.intent.name if self.unit.intent is not None else self.unit.name


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates in first-match order.

    Precedence, user before built-in, evidence of place, number and kind of fields; among rules
    on the same fields narrower before wider.  Of equal patterns those go first whose intent leaves
    the tier open: they take it from the other, and give the CPUs.  What is left free goes by
    pattern and unit name, so the order depends on nothing but content.
    """
    out: list[Candidate] = []
    pool = sorted(candidates, key=lambda c: (c.rank, _text_key(c)))
    for _, group in groupby(pool, key=lambda c: c.rank):
        bucket = list(group)
        compared = len(candidates) <= MAX_COMPARED
        before = narrower_pairs(tuple(c.texts for c in bucket)) if compared else ()
        order = (
            ordered(len(bucket), before, [f"{i:05d}" for i in range(len(bucket))])
            if before
            else range(len(bucket))
        )
        out += [bucket[i] for i in order]
    return out


def _text_key(candidate: Candidate) -> tuple[object, ...]:
    return (
        tuple(text or "" for text in candidate.texts),
        bool(candidate.unit.asks),
        candidate.unit.name,
    )


class Outcome(NamedTuple):
    """What a unit says about its threads."""

    tier: int | None
    """None: nothing."""
    order: int
    cpus: str | None
    """In words: ``lane chat``, ``the leftovers``; None: nothing."""

    @property
    def says_nothing(self) -> bool:
        """Whether it leaves both open: it makes no rule, and takes no thread from others."""
        return self.tier is None and self.cpus is None


def user_place(candidate: Candidate) -> Span:
    """Return the user's line behind a candidate."""
    return user_line(candidate.unit.intent, candidate.matcher)


def user_line(intent: Loaded[Intent] | None, matcher: Matcher) -> Span:
    """Return the user's line behind a rule: for profile and group names, the workload."""
    if intent is None or intent.model.spec.workload.match is not None:
        return matcher.span
    work = intent.model.spec.workload
    return intent.span("spec", "workload", "engine" if work.engine is not None else "group")
