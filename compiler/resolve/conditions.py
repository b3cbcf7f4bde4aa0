"""Conditions compared: which of two takes more, whether one thread could be taken by both.

Exact on patterns.  With hundreds of rules nearly all pairs have nothing in common, and that is
told from one sample text or from the ends of a pattern, before any automaton is asked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from compiler.patterns import CmdlineRegex, Glob, Pattern, PatternTooComplex
from compiler.patterns import contains as pattern_contains
from compiler.patterns import example as pattern_example
from compiler.patterns import intersects as pattern_intersects
from compiler.plan import Condition
from compiler.resolve.pods import pods_both, pods_contain, pods_meet

FIELDS: Final = ("kthread", "comm", "leader_comm", "cmdline", "cgroup", "pods")
"""Fields of a condition, the strongest evidence first."""

WORDS: Final = {"leader_comm": "leaderComm"}
"""Fields that documents write otherwise."""

Texts = tuple[str | None, ...]
"""The patterns of a condition, one for each of :data:`FIELDS`."""


def texts_of(condition: Condition) -> Texts:
    """Return a condition's patterns in the order of :data:`FIELDS`."""
    return tuple(getattr(condition, name) for name in FIELDS)


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


class _Sight(NamedTuple):
    """What is read off a pattern once and serves in every comparison."""

    head: bytes
    """What every match begins with."""
    tail: bytes
    """What every match ends with."""
    inner: bytes
    """What every match has somewhere."""
    sample: bytes | None
    """Some text that matches; None where there is none or none is known."""


@lru_cache(maxsize=16384)
def _sight(field: str, text: str) -> _Sight:
    pattern = parse_field(field, text)
    if isinstance(pattern, Glob):
        shape = pattern.shape
        return _Sight(shape.head, shape.tail, b"", shape.sample)
    try:
        found = pattern_example(pattern)
    except PatternTooComplex:
        found = None
    sample = None if found is None else found.encode("utf-8", "surrogateescape")
    return _Sight(_anchored(text), b"", pattern.literal or b"", sample)


def _anchored(text: str) -> bytes:
    """Return what a command line must begin with for an expression, as far as is easily told."""
    if not text.startswith("^") or _has_branches(text):
        return b""
    out = ""
    rest = text[1:]
    while rest and rest[0] not in ".[(*+?$^":
        step = 2 if rest[0] == "\\" else 1
        if rest[step : step + 1] in ("*", "?"):
            break
        out, rest = out + rest[step - 1 : step], rest[step:]
    return out.encode()


def _has_branches(text: str) -> bool:
    """Return whether the whole expression may be one of several: a ``|`` outside all groups."""
    depth = at = 0
    while at < len(text):
        char = text[at]
        if char == "|" and depth == 0:
            return True
        depth += (char == "(") - (char == ")")
        if char == "[":  # to its end; what comes first in it is a member, be it a ]
            at = text.index("]", at + (3 if text[at + 1] == "^" else 2))
        at += 2 if char == "\\" else 1
    return False


def _field_contains(field: str, wide: str, narrow: str) -> bool:
    if wide == narrow:
        return True
    if field == "pods":
        return pods_contain(wide, narrow)
    big, sample = _sight(field, wide), _sight(field, narrow).sample
    if sample is not None and not (
        sample.startswith(big.head) and sample.endswith(big.tail) and big.inner in sample
    ):
        return False
    try:
        return pattern_contains(parse_field(field, wide), parse_field(field, narrow))
    except PatternTooComplex:
        return False


def _field_meets(field: str, one: str, other: str) -> bool:
    if one == other:
        return True
    if field == "pods":
        return pods_meet(one, other)
    short, long = sorted((_sight(field, one).head, _sight(field, other).head), key=len)
    if not long.startswith(short):
        return False
    try:
        return pattern_intersects(parse_field(field, one), parse_field(field, other))
    except PatternTooComplex:
        return False


def texts_contain(wide: Texts, narrow: Texts) -> bool:
    """Tell of two conditions' patterns what :func:`condition_contains` tells of conditions."""
    for field, big, small in zip(FIELDS, wide, narrow, strict=True):
        if big is not None and (small is None or not _field_contains(field, big, small)):
            return False
    return True


def condition_contains(wide: Condition, narrow: Condition) -> bool:
    """Return whether every thread that ``narrow`` takes, ``wide`` takes too.

    False also where that cannot be decided (expressions beyond the automata's bound).
    """
    return texts_contain(texts_of(wide), texts_of(narrow))


def texts_meet(one: Texts, other: Texts) -> bool:
    """Tell of two conditions' patterns what :func:`condition_meets` tells of conditions."""
    if (one[0] is None) != (other[0] is None):  # kernel threads, and all others
        return False
    return all(
        a is None or b is None or _field_meets(field, a, b)
        for field, a, b in zip(FIELDS, one, other, strict=True)
    )


def condition_meets(one: Condition, other: Condition) -> bool:
    """Return whether some thread could be taken by both, as far as their shared fields tell."""
    return texts_meet(texts_of(one), texts_of(other))


def condition_both(one: Condition, other: Condition) -> Condition | None:
    """Return the condition that takes what both take.

    None where they do not meet, or where a field would need a pattern that cannot be written:
    two that overlap and of which neither contains the other.
    """
    if not condition_meets(one, other):
        return None
    out: dict[str, str] = {}
    for field, a, b in zip(FIELDS, texts_of(one), texts_of(other), strict=True):
        text = a if b is None else b
        if a is not None and b is not None and a != b:
            if field == "pods":
                text = pods_both(a, b)
            elif _field_contains(field, a, b):
                text = b
            elif _field_contains(field, b, a):
                text = a
            else:
                return None
        if text is not None:
            out[field] = text
    return Condition(**out)


@lru_cache(maxsize=64)
def narrower_pairs(rows: tuple[Texts, ...]) -> tuple[tuple[int, int], ...]:
    """Return every (narrow, wide) pair of places where the first is strictly contained."""
    found = [
        (i, j)
        for j, wide in enumerate(rows)
        for i in _maybe_within(wide, rows)
        if i != j and texts_contain(wide, rows[i]) and not texts_contain(rows[i], wide)
    ]
    return tuple(sorted(found))


def _maybe_within(wide: Texts, rows: tuple[Texts, ...]) -> Iterator[int]:
    """Yield the places of rows that may be within ``wide``: few, where it begins like few.

    What is contained has a text in each field that ``wide`` has one in, and there a sample that
    begins as all that ``wide`` takes.
    """
    place = next((k for k, text in enumerate(wide) if text is not None), None)
    field = "pods" if place is None else FIELDS[place]
    if place is None or field == "pods":
        yield from range(len(rows))
        return
    text = wide[place]
    assert text is not None
    head = _sight(field, text).head
    samples, unknown = _by_sample(field, place, rows)
    yield from unknown
    at = bisect_left(samples, (head, -1))
    while at < len(samples) and samples[at][0].startswith(head):
        yield samples[at][1]
        at += 1


@lru_cache(maxsize=16)
def _by_sample(
    field: str, place: int, rows: tuple[Texts, ...]
) -> tuple[list[tuple[bytes, int]], list[int]]:
    """Return (sample, place) of the rows that have the field, sorted; and those without a sample.

    A row with the very text of another is contained whatever the samples say, and has its sample.
    """
    samples: list[tuple[bytes, int]] = []
    unknown: list[int] = []
    for i, row in enumerate(rows):
        text = row[place]
        if text is None:
            continue
        sample = _sight(field, text).sample
        if sample is None:
            unknown.append(i)
        else:
            samples.append((sample, i))
    return sorted(samples), unknown


def witness(a: Condition, b: Condition) -> Texts | None:
    """Return a thread that both conditions take, field by field; None where none can be named.

    Both constrain the same fields.  Pods are given as a selector that both select.
    """
    out: list[str | None] = []
    for field, one, other in zip(FIELDS, texts_of(a), texts_of(b), strict=True):
        if one is None or other is None:
            out.append(None)
            continue
        if field == "pods":
            out.append(pods_both(one, other))
            continue
        try:
            text = (
                one
                if one == other and field != "cmdline" and not set("*?") & set(one)
                else pattern_example(parse_field(field, one), parse_field(field, other))
            )
        except PatternTooComplex:
            return None
        if text is None:
            return None
        out.append(text)
    return tuple(out)


def takes(condition: Condition, thread: Texts) -> bool:
    """Return whether a condition takes a thread named by :func:`witness`."""
    for field, pattern, text in zip(FIELDS, texts_of(condition), thread, strict=True):
        if pattern is None:
            continue
        if text is None:
            return False
        if field == "pods":
            if not pods_contain(pattern, text):
                return False
        elif not parse_field(field, pattern).matches(text):
            return False
    return True


def in_words(texts: Texts) -> str:
    """Return the fields of a condition or thread as a person reads them."""
    return " and ".join(
        f"pods {text}" if field == "pods" else f'{WORDS.get(field, field)} "{text}"'
        for field, text in zip(FIELDS, texts, strict=True)
        if text is not None
    )
