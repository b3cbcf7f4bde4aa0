"""Ties: intents of equal standing that claim the same threads and say different things of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Final, NamedTuple

from compiler.codes import resolution as codes
from compiler.diagnostics import Diagnostic, Related, Sink
from compiler.policy import Ladder
from compiler.resolve.conditions import (
    Texts,
    condition_both,
    in_words,
    takes,
    texts_contain,
    texts_meet,
    witness,
)
from compiler.resolve.overlap import MAX_COMPARED, Candidate, Outcome, user_place
from compiler.words import listed

MAX_JOINED: Final = 100
"""Findings of ties of a node after which further ones are of two intents each: joining costs a
look at every rule, and nobody reads so many."""


class _Tie(NamedTuple):
    """Two rules that tie; of two intents' many the one that is shown."""

    effort: tuple[bool, bool, int]
    """How hard its threads are to recognise for a reader: smaller is shown."""
    one: Candidate
    other: Candidate


def find_ties(
    ranked: Sequence[Candidate],
    outcome: Mapping[str, Outcome],
    ladder: Ladder,
    sink: Sink,
) -> None:
    """Report intents of equal standing that one thread could belong to, each set of them once.

    Only rules on the same fields are compared: rules on different fields that merely could meet
    are ordered without a finding.  So are rules of the node's own units, which yield to users'.
    """
    if len(ranked) > MAX_COMPARED:
        return
    claims = [
        c for c in ranked if c.unit.intent is not None and not outcome[c.unit.name].says_nothing
    ]
    completed = _Completed(ranked, outcome)
    ties = _pairs(claims, outcome, completed)
    reported: set[tuple[str, str]] = set()
    joined = 0
    for pair, tie in ties.items():
        if pair in reported:
            continue
        members = [tie.one, tie.other]
        seen = witness(tie.one.matcher.condition, tie.other.matcher.condition)
        joined += 1
        if joined <= MAX_JOINED:
            members += _joining(members, seen, claims, outcome, completed)
        reported |= {_pair(a, b) for a, b in combinations(members, 2)}
        members.sort(key=lambda c: (user_place(c), c.unit.name))
        sink.add(_finding(members, seen, outcome, ladder))


class _Completed:
    """Rules that leave the tier open and have it, with its order, from a wider one."""

    def __init__(self, ranked: Sequence[Candidate], outcome: Mapping[str, Outcome]) -> None:
        self._speaking = [c for c in ranked if outcome[c.unit.name].tier is not None]
        self._known: dict[int, bool] = {}

    def __contains__(self, candidate: Candidate) -> bool:
        known = self._known.get(id(candidate))
        if known is None:
            known = self._known[id(candidate)] = any(
                texts_contain(wider.texts, candidate.texts) for wider in self._speaking
            )
        return known


def _pairs(
    claims: Sequence[Candidate], outcome: Mapping[str, Outcome], completed: _Completed
) -> dict[tuple[str, str], _Tie]:
    """Return for every two intents that tie the rules that show it best."""
    best: dict[tuple[str, str], _Tie] = {}
    for _, group in groupby(claims, key=lambda c: c.rank):
        rated = [(c, outcome[c.unit.name], _effort(c)) for c in group]
        for (one, a, x), (other, b, y) in combinations(rated, 2):
            if a == b or one.intent == other.intent:
                continue
            pair, effort = _pair(one, other), max(x, y)
            if pair in best and best[pair].effort <= effort:
                continue
            if _tied(one, other, a, b) and _differ(one, other, a, b, completed):
                best[pair] = _Tie(effort, one, other)
    return best


def _pair(one: Candidate, other: Candidate) -> tuple[str, str]:
    return min(one.intent, other.intent), max(one.intent, other.intent)


def _effort(candidate: Candidate) -> tuple[bool, bool, int]:
    """Return how hard a rule is to read: command lines last, exact names and few fields first."""
    match = candidate.matcher.condition
    name = match.comm or match.kthread or match.leader_comm or match.cgroup or "*"
    fields = sum(text is not None for text in candidate.texts)
    return match.cmdline is not None, bool(set("*?") & set(name)), fields


def _joining(
    members: Sequence[Candidate],
    seen: Texts | None,
    claims: Sequence[Candidate],
    outcome: Mapping[str, Outcome],
    completed: _Completed,
) -> Iterator[Candidate]:
    """Yield rules of further intents that claim the very thread shown, and tie with the members."""
    rank, found = members[0].rank, list(members)
    for candidate in claims:
        if candidate.rank != rank or any(candidate.intent == m.intent for m in found):
            continue
        if candidate.texts != members[0].texts and (
            seen is None or not takes(candidate.matcher.condition, seen)
        ):
            continue
        mine = outcome[candidate.unit.name]
        others = [(m, outcome[m.unit.name]) for m in found]
        if all(
            _tied(candidate, member, mine, said)
            or not _differ(candidate, member, mine, said, completed)
            for member, said in others
        ):
            found.append(candidate)
            yield candidate


def _differ(
    one: Candidate, other: Candidate, a: Outcome, b: Outcome, completed: _Completed
) -> bool:
    """Tell whether it matters which of the two has a thread.

    Without a tier it is normal, and of the orders inside it only one can hold.  Where a third
    intent gives one of the two the tier, the order of what both take is that intent's.
    """
    if a.tier is None and b.tier is None and a.cpus == b.cpus:
        return a.order != b.order and one not in completed and other not in completed
    return a != b


def _tied(one: Candidate, other: Candidate, a: Outcome, b: Outcome) -> bool:
    """Tell whether some thread is claimed by both and neither is narrower."""
    if not texts_meet(one.texts, other.texts):
        return False
    over, under = texts_contain(one.texts, other.texts), texts_contain(other.texts, one.texts)
    if over != under:
        return False  # one is strictly narrower, and goes first
    if (a.tier is None) == (b.tier is None):
        return True
    if None not in (a.cpus, b.cpus) and a.cpus != b.cpus:
        return True
    # One leaves the tier open, and they agree on the CPUs or one leaves them open: they complete
    # each other where their patterns are equal, or a rule can be written for what both take.
    giver = one if a.tier is None else other
    return not over and not (giver.only_places and _joinable(one, other))


def _joinable(one: Candidate, other: Candidate) -> bool:
    return condition_both(one.matcher.condition, other.matcher.condition) is not None


def _finding(
    members: Sequence[Candidate],
    seen: Texts | None,
    outcome: Mapping[str, Outcome],
    ladder: Ladder,
) -> Diagnostic:
    names = [c.intent for c in members]
    *others, last = members
    two = len(members) == 2
    said = [outcome[c.unit.name] for c in members]
    clash = _clash(said[0], said[1], ladder) if two else _clashes(names, said, ladder)
    how = (
        f"change one of these two lines: give {names[0]} or {names[1]} a higher precedence, "
        "narrow one with workload.cgroup or workload.pods, or make its pattern narrower than the "
        "other"
        if two
        else f"change all but one of these lines: give {listed(names)} different precedences, or "
        "narrow them with workload.cgroup or workload.pods until each thread belongs to one"
    )
    return codes.TIER_CONFLICT.at(
        user_place(last),
        f"{listed(names)} {'both' if two else 'all'} claim {_threads(members, seen)}, with {clash}",
        related=[Related(user_place(c), f"{c.intent} claims them here") for c in others],
        help=how,
    )


def _threads(members: Sequence[Candidate], seen: Texts | None) -> str:
    """Say which threads are meant; of an engine by example: nobody has its profile in mind."""
    written = all(
        c.unit.intent is not None and c.unit.intent.model.spec.workload.engine is None
        for c in members
    )
    first = members[0]
    if written and all(c.texts == first.texts for c in members):
        return f"threads with {in_words(first.texts)}"
    return f"threads such as {in_words(seen)}" if seen is not None else "the same threads"


def _clash(one: Outcome, other: Outcome, ladder: Ladder) -> str:
    if _by_order([one, other]):
        return _orders(one.tier, ladder)
    if one.tier is not None and other.tier is not None:
        if one.tier != other.tier:
            return f"tiers {ladder.name(one.tier)} and {ladder.name(other.tier)}"
    elif one.tier != other.tier and (one.cpus == other.cpus or None in (one.cpus, other.cpus)):
        tier = one.tier if one.tier is not None else other.tier
        said = f"tier {ladder.name(tier)}" if tier is not None else "no tier"
        rest = "no tier" if one.cpus == other.cpus else one.cpus or other.cpus
        return f"{said} from one and {rest} from the other"
    return f"{one.cpus or 'no lane'} and {other.cpus or 'no lane'}"


def _by_order(said: Sequence[Outcome]) -> bool:
    """Tell whether they are of one tier, and its order is what sets them apart.

    Of those that leave the tier open the CPUs come first: they are all that these ask for.
    """
    tiers, cpus = {outcome.tier for outcome in said}, {outcome.cpus for outcome in said}
    orders = {outcome.order for outcome in said}
    return len(tiers) == 1 and len(orders) > 1 and (tiers != {None} or len(cpus) == 1)


def _orders(tier: int | None, ladder: Ladder) -> str:
    name = ladder.name(ladder.normal if tier is None else tier)
    return f"different places in the order of tier {name}"


def _clashes(names: Sequence[str], said: Sequence[Outcome], ladder: Ladder) -> str:
    """Say who of several says what: their tiers where these differ, else their CPUs."""
    if _by_order(said):
        return _orders(said[0].tier, ladder)
    tiers = {outcome.tier for outcome in said}
    cpus = {outcome.cpus for outcome in said}
    of: dict[str, list[str]] = {}
    for name, outcome in zip(names, said, strict=True):
        if len(tiers) > 1 and outcome.tier is not None:
            word = f"tier {ladder.name(outcome.tier)}"
        elif len(tiers) > 1 and len(cpus) == 1:
            word = "no tier"
        else:
            word = outcome.cpus or "no lane"
        of.setdefault(word, []).append(name)
    return listed([f"{word} ({listed(who)})" for word, who in of.items()])
