"""Which rule has a thread: the total order of design 5.3, and the ties it cannot break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from typing import Final, NamedTuple

from compiler.codes import resolution as codes
from compiler.diagnostics import Diagnostic, Related, Sink, Span
from compiler.graph import ordered
from compiler.resolve.conditions import (
    FIELDS,
    WORDS,
    Texts,
    condition_contains,
    condition_meets,
    fields_of,
    narrower_pairs,
    parse_field,
    texts_contain,
    texts_meet,
    texts_of,
    witness,
)
from compiler.resolve.types import Matcher, UnitDraft

__all__ = [
    "MAX_COMPARED",
    "Candidate",
    "Outcome",
    "condition_contains",
    "condition_meets",
    "find_ties",
    "parse_field",
    "rank",
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


def find_ties(
    ranked: Sequence[Candidate],
    outcome: Mapping[str, Outcome],
    tier_name: Callable[[int], str],
    sink: Sink,
) -> None:
    """Report every pair of intents of equal standing that one thread could belong to.

    Only rules on the same fields are compared: rules on different fields that merely could meet
    are ordered without a finding.
    """
    if len(ranked) > MAX_COMPARED:
        return
    reported: set[tuple[str, str]] = set()
    for _, group in groupby(ranked, key=lambda c: c.rank):
        for one, other in combinations(group, 2):
            a, b = outcome[one.unit.name], outcome[other.unit.name]
            if a == b or one.intent == other.intent:
                continue
            pair = (min(one.intent, other.intent), max(one.intent, other.intent))
            if pair in reported or not _differ(a, b) or not _tied(one, other, a, b):
                continue
            reported.add(pair)
            first, second = sorted((one, other), key=lambda c: (user_place(c), c.unit.name))
            words = _clash(outcome[first.unit.name], outcome[second.unit.name], tier_name)
            sink.add(_tie(first, second, words))


def _differ(one: Outcome, other: Outcome) -> bool:
    """Tell whether it matters which of the two has a thread."""
    if one.tier is not None and other.tier is not None:
        return one != other
    if one.cpus is not None and other.cpus is not None:
        return one.cpus != other.cpus
    # one leaves the tier open, the other the CPUs: they complete each other where that can be said
    return True


def _tied(one: Candidate, other: Candidate, a: Outcome, b: Outcome) -> bool:
    """Tell whether some thread is claimed by both and neither is narrower."""
    if not texts_meet(one.texts, other.texts):
        return False
    over, under = texts_contain(one.texts, other.texts), texts_contain(other.texts, one.texts)
    if over != under:
        return False  # one is strictly narrower, and goes first
    completes = None in (a.tier, b.tier) and None in (a.cpus, b.cpus)
    return not (completes and over)


def _clash(one: Outcome, other: Outcome, tier_name: Callable[[int], str]) -> str:
    if one.tier is not None and other.tier is not None:
        if one.tier != other.tier:
            return f"tiers {tier_name(one.tier)} and {tier_name(other.tier)}"
        if one.order != other.order:
            return f"different places in the order of tier {tier_name(one.tier)}"
    elif one.cpus is None or other.cpus is None:
        tier = one.tier if one.tier is not None else other.tier
        said = f"tier {tier_name(tier)}" if tier is not None else "no tier"
        return f"{said} from one and {one.cpus or other.cpus} from the other"
    return f"{one.cpus or 'no lane'} and {other.cpus or 'no lane'}"


def _tie(first: Candidate, second: Candidate, clash: str) -> Diagnostic:
    a, b = first.matcher.condition, second.matcher.condition
    if a == b:
        what = " and ".join(f'{WORDS.get(f, f)} "{getattr(a, f)}"' for f in fields_of(a))
        threads = f"threads with {what}"
    else:
        found = witness(a, b)
        threads = f"threads such as {found}" if found else "the same threads"
    return codes.TIER_CONFLICT.at(
        user_place(second),
        f"{first.intent} and {second.intent} both claim {threads}, with {clash}",
        related=[Related(user_place(first), f"{first.intent} claims them here")],
        help=f"change one of these two lines: give {first.intent} or {second.intent} a higher "
        "precedence, narrow one with workload.cgroup or workload.pods, or make its pattern "
        "narrower than the other",
    )


def user_place(candidate: Candidate) -> Span:
    """Return the user's line behind the rule: for profile and group names, the workload."""
    intent = candidate.unit.intent
    if intent is None or intent.model.spec.workload.match is not None:
        return candidate.matcher.span
    work = intent.model.spec.workload
    return intent.span("spec", "workload", "engine" if work.engine is not None else "group")
