"""Which rule has a thread: the total order of design 5.3, and the ties it cannot break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

from compiler.codes import resolution as codes
from compiler.diagnostics import Diagnostic, Related, Sink, Span
from compiler.graph import ordered
from compiler.patterns import CmdlineRegex, Glob, Pattern, PatternTooComplex
from compiler.patterns import contains as pattern_contains
from compiler.patterns import example as pattern_example
from compiler.patterns import intersects as pattern_intersects
from compiler.plan import Condition
from compiler.resolve.types import Matcher, UnitDraft

FIELDS = ("kthread", "comm", "leader_comm", "cmdline", "cgroup", "pods")
"""Fields of a condition, the strongest evidence first."""

WORDS = {"leader_comm": "leaderComm"}


@dataclass(frozen=True)
class Candidate:
    """One matcher of one unit, ready to be ranked."""

    unit: UnitDraft
    matcher: Matcher

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Fields the condition constrains, strongest first."""
        return fields_of(self.matcher.condition)

    @property
    def rank(self) -> tuple[int, bool, bool, int, tuple[int, ...]]:
        """Everything of the order but containment; smaller goes first."""
        evidence = "cgroup" in self.fields or "pods" in self.fields
        return (
            -self.unit.precedence,
            self.unit.builtin,
            not evidence,
            -len(self.fields),
            tuple(FIELDS.index(name) for name in self.fields),
        )

    @property
    def intent(self) -> str:
        """Name of the intent, or of the node unit."""
        return self.unit.intent.name if self.unit.intent is not None else self.unit.name


def fields_of(condition: Condition) -> tuple[str, ...]:
    """Return the names of the fields a condition constrains, strongest evidence first."""
    return tuple(name for name in FIELDS if getattr(condition, name) is not None)


@lru_cache(maxsize=4096)
def parse_field(field: str, text: str) -> Pattern:
    """Return the pattern of one field (not ``pods``, which is no pattern)."""
    if field == "cgroup":
        return Glob.cgroup(text)
    if field == "cmdline":
        return CmdlineRegex.parse(text)
    return Glob.comm(text)


def _field_contains(field: str, wide: str, narrow: str) -> bool:
    if wide == narrow:
        return True
    if field == "pods":
        return False
    try:
        return pattern_contains(parse_field(field, wide), parse_field(field, narrow))
    except PatternTooComplex:
        return False


def _field_meets(field: str, one: str, other: str) -> bool:
    if one == other or field == "pods":
        return True
    try:
        return pattern_intersects(parse_field(field, one), parse_field(field, other))
    except PatternTooComplex:
        return False


def condition_contains(wide: Condition, narrow: Condition) -> bool:
    """Return whether every thread that ``narrow`` takes, ``wide`` takes too.

    False also where that cannot be decided (pod selectors that differ, expressions beyond the
    automata's bound).
    """
    return all(
        (have := getattr(narrow, field)) is not None
        and _field_contains(field, getattr(wide, field), have)
        for field in fields_of(wide)
    )


def condition_meets(one: Condition, other: Condition) -> bool:
    """Return whether some thread could be taken by both, as far as their shared fields tell."""
    if (one.kthread is None) != (other.kthread is None):
        return False
    return all(
        _field_meets(field, getattr(one, field), getattr(other, field))
        for field in fields_of(one)
        if getattr(other, field) is not None
    )


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates in first-match order.

    Precedence, user before built-in, evidence of place, number and kind of fields; among rules
    on the same fields narrower before wider; what is left free goes by pattern and unit name, so
    the order depends on nothing but content.
    """
    out: list[Candidate] = []
    pool = sorted(candidates, key=lambda c: (c.rank, _text_key(c)))
    for _, group in groupby(pool, key=lambda c: c.rank):
        bucket = list(group)
        before = [
            (i, j)
            for i, narrow in enumerate(bucket)
            for j, wide in enumerate(bucket)
            if i != j
            and condition_contains(wide.matcher.condition, narrow.matcher.condition)
            and not condition_contains(narrow.matcher.condition, wide.matcher.condition)
        ]
        order = (
            ordered(len(bucket), before, [f"{i:05d}" for i in range(len(bucket))])
            if before
            else range(len(bucket))
        )
        out += [bucket[i] for i in order]
    return out


def _text_key(candidate: Candidate) -> tuple[object, ...]:
    condition = candidate.matcher.condition
    return (
        tuple(getattr(condition, name) for name in candidate.fields),
        candidate.unit.name,
    )


Outcome = tuple[int | None, int, str | None]
"""Tier (None: the intent says nothing), order, lane (None: no lane asked)."""


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
    reported: set[tuple[str, str]] = set()
    for _, group in groupby(ranked, key=lambda c: c.rank):
        bucket = list(group)
        for i, one in enumerate(bucket):
            for other in bucket[i + 1 :]:
                pair = (min(one.intent, other.intent), max(one.intent, other.intent))
                if one.intent == other.intent or pair in reported:
                    continue
                first, second = sorted((one, other), key=lambda c: (_place(c), c.unit.name))
                clash = _clash(outcome[first.unit.name], outcome[second.unit.name], tier_name)
                if clash is None:
                    continue
                a, b = one.matcher.condition, other.matcher.condition
                if not condition_meets(a, b):
                    continue
                if condition_contains(a, b) != condition_contains(b, a):
                    continue  # one is strictly narrower, and goes first
                reported.add(pair)
                sink.add(_tie(first, second, clash))


def _clash(one: Outcome, other: Outcome, tier_name: Callable[[int], str]) -> str | None:
    if one[0] is not None and other[0] is not None:
        if one[0] != other[0]:
            return f"tiers {tier_name(one[0])} and {tier_name(other[0])}"
        if one[1] != other[1]:
            return f"different places in the order of tier {tier_name(one[0])}"
    if one[2] is not None and other[2] is not None and one[2] != other[2]:
        return f"lanes {one[2]} and {other[2]}"
    return None


def _tie(first: Candidate, second: Candidate, clash: str) -> Diagnostic:
    a, b = first.matcher.condition, second.matcher.condition
    shared = fields_of(a)
    if a == b:
        what = " and ".join(f'{WORDS.get(f, f)} "{getattr(a, f)}"' for f in shared)
        threads = f"threads with {what}"
    else:
        witness = _witness(a, b)
        threads = f"threads such as {witness}" if witness else "the same threads"
    return codes.TIER_CONFLICT.at(
        _place(second),
        f"{first.intent} and {second.intent} both claim {threads}, with {clash}",
        related=[Related(_place(first), f"{first.intent} claims them here")],
        help=f"change one of these two lines: give {first.intent} or {second.intent} a higher "
        "precedence, narrow one with workload.cgroup or workload.pods, or make its pattern "
        "narrower than the other",
    )


def _place(candidate: Candidate) -> Span:
    """Return the user's line behind the rule: for profile and group names, the workload."""
    intent = candidate.unit.intent
    if intent is None or candidate.matcher.span.path == intent.doc.path:
        return candidate.matcher.span
    work = intent.model.spec.workload
    return intent.span("spec", "workload", "engine" if work.engine else "group")


def _witness(a: Condition, b: Condition) -> str | None:
    parts = []
    for field in fields_of(a):
        one, other = getattr(a, field), getattr(b, field)
        if field == "pods":
            return None
        try:
            text = (
                one
                if one == other and not set("*?") & set(one)
                else pattern_example(parse_field(field, one), parse_field(field, other))
            )
        except PatternTooComplex:
            return None
        if text is None:
            return None
        parts.append(f'{WORDS.get(field, field)} "{text}"')
    return " and ".join(parts)
