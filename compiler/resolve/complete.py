"""From ranked candidates to rules: what one intent leaves open comes from another.

An intent may only place, or only say a tier.  Threads that two such intents claim get the tier of
the one and the CPUs of the other, whichever goes first: where neither rule contains the other, a
joint rule is made of both conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from compiler.codes import resolution as codes
from compiler.diagnostics import Diagnostic, Related, Sink
from compiler.plan import Condition
from compiler.resolve.conditions import (
    condition_both,
    condition_contains,
    condition_meets,
    texts_contain,
    texts_meet,
)
from compiler.resolve.overlap import MAX_COMPARED, Candidate, Outcome, user_place
from compiler.resolve.tiers import UnitTier
from compiler.resolve.types import Matcher, ResolvedRule


def complete(
    ranked: Sequence[Candidate],
    tiers: Mapping[str, UnitTier],
    outcomes: Mapping[str, Outcome],
    sink: Sink,
) -> tuple[ResolvedRule, ...]:
    """Return the rules in first-match order.

    Matchers of units of which their intent says nothing at all (stages a protection leaves out,
    without a lane) make no rule: they would only take threads from rules that say something.
    """
    spoken = [c for c in ranked if c.unit.intent is None or not outcomes[c.unit.name].says_nothing]
    if len(spoken) > MAX_COMPARED:
        return tuple(_own(c) for c in spoken)
    _demoted_nodes(spoken, tiers, sink)
    spoken = _raised(spoken, tiers)
    givers = [c for c in spoken if c.only_places]
    joint: dict[int, list[ResolvedRule]] = {}
    for place, rule in _joint(spoken, givers, outcomes):
        joint.setdefault(place, []).append(rule)
    speaking = [c for c in spoken if outcomes[c.unit.name].tier is not None]
    out: list[ResolvedRule] = []
    for place, candidate in enumerate(spoken):
        for rule in joint.get(place, ()):
            if not any(condition_contains(r.condition, rule.condition) for r in out):
                out.append(rule)
        out.append(_completed(candidate, speaking, givers, outcomes))
    return tuple(out)


def _own(candidate: Candidate) -> ResolvedRule:
    unit = candidate.unit
    return ResolvedRule(
        unit.name, candidate.matcher, unit.precedence, unit.builtin, unit.name, unit.name
    )


def _raised(ranked: Sequence[Candidate], tiers: Mapping[str, UnitTier]) -> list[Candidate]:
    """Put needed threads of the node before every rule that would hold them lower.

    What a protected path needs is raised whether users kept it, placed it or took it with a wide
    pattern.  A rule that gives it a higher tier still goes first.
    """
    out = [c for c in ranked if c.unit.intent is not None or not tiers[c.unit.name].chain]
    needed = [c for c in ranked if c.unit.intent is None and tiers[c.unit.name].chain]
    for candidate in needed:
        mine = tiers[candidate.unit.name].tier
        after = ranked[ranked.index(candidate) :]
        natural = next((i for i, c in enumerate(out) if c in after), len(out))
        place = next(
            (
                i
                for i, c in enumerate(out[:natural])
                if c.unit.intent is not None
                and ((tier := tiers[c.unit.name].tier) is None or mine is None or tier > mine)
                and condition_meets(c.matcher.condition, candidate.matcher.condition)
            ),
            natural,
        )
        out.insert(place, candidate)
    return out


def _joint(
    ranked: Sequence[Candidate], givers: Sequence[Candidate], outcomes: Mapping[str, Outcome]
) -> Iterator[tuple[int, ResolvedRule]]:
    """Yield rules for threads of an intent with a tier and of one that only places.

    Each comes with the place it goes before.  A user's rule that only places goes before built-in
    groups, as any rule of a user, and is not joined with them.  Nothing is joined with a rule
    that comes after one which has all threads of the other half: that one goes first.
    """
    places = {id(c): i for i, c in enumerate(ranked)}
    speaking = [(j, c) for j, c in enumerate(ranked) if outcomes[c.unit.name].tier is not None]
    for giver in givers:
        i = places[id(giver)]
        for _, speaker in (row for row in speaking if row[0] > i):
            if not texts_meet(giver.texts, speaker.texts):
                continue
            if texts_contain(speaker.texts, giver.texts):
                break  # it gives the tier to the whole rule, and goes before all that follow
            if speaker.unit.intent is None or (speaker.unit.builtin and not giver.unit.builtin):
                continue
            both = condition_both(giver.matcher.condition, speaker.matcher.condition)
            if both is not None:
                yield i, _joined(giver, speaker, both)
    for j, speaker in speaking:
        if speaker.unit.intent is None or outcomes[speaker.unit.name].cpus is not None:
            continue
        for giver in (c for c in givers if places[id(c)] > j):
            if not texts_meet(giver.texts, speaker.texts):
                continue
            if texts_contain(giver.texts, speaker.texts):
                break  # it gives the CPUs to the whole rule
            both = condition_both(giver.matcher.condition, speaker.matcher.condition)
            if both is not None:
                yield j, _joined(giver, speaker, both)


def _joined(giver: Candidate, speaker: Candidate, condition: Condition) -> ResolvedRule:
    one, other = giver.matcher, speaker.matcher
    first = min(giver, speaker, key=lambda c: c.rank)
    return ResolvedRule(
        speaker.unit.name,
        Matcher(
            condition,
            other.span,
            one.spawns or other.spawns,
            " and ".join(dict.fromkeys(n for n in (other.needs, one.needs) if n)) or None,
            other.evidence or one.evidence,
        ),
        first.unit.precedence,
        first.unit.builtin,
        speaker.unit.name,
        giver.unit.name,
    )


def _completed(
    candidate: Candidate,
    speaking: Sequence[Candidate],
    givers: Sequence[Candidate],
    outcomes: Mapping[str, Outcome],
) -> ResolvedRule:
    """Complete a rule that leaves something open from the first wider rule that says it.

    An intent with a verb takes CPUs only from one that only places: other verbs' lanes are not
    its business.
    """
    rule, said = _own(candidate), outcomes[candidate.unit.name]
    if said.tier is None:
        wider = _wider(candidate, speaking)
        return rule if wider is None else replace(rule, tier_unit=wider.unit.name)
    if said.cpus is None and candidate.unit.intent is not None:
        wider = _wider(candidate, givers)
        return rule if wider is None else replace(rule, lane_unit=wider.unit.name)
    return rule


def _wider(candidate: Candidate, among: Sequence[Candidate]) -> Candidate | None:
    return next(
        (
            c
            for c in among
            if c.unit.name != candidate.unit.name and texts_contain(c.texts, candidate.texts)
        ),
        None,
    )


def _demoted_nodes(ranked: Sequence[Candidate], tiers: Mapping[str, UnitTier], sink: Sink) -> None:
    """Report demotions of threads that a protected path needs.

    Aimed at them alone it is a contradiction.  A wider one spares them, which is said.
    """
    needed = [c for c in ranked if c.unit.intent is None and tiers[c.unit.name].chain]
    spared: set[tuple[str, str]] = set()
    for candidate in ranked:
        asks = [ask for ask in candidate.unit.asks if ask.effect == "demote"]
        if candidate.unit.intent is None or not asks:
            continue
        condition = candidate.matcher.condition
        hit = next((n for n in needed if condition_contains(n.matcher.condition, condition)), None)
        if hit is not None:
            sink.add(_contradiction(candidate, hit, tiers[hit.unit.name]))
            continue
        for node in needed:
            pair = (candidate.unit.name, node.unit.name)
            if pair not in spared and condition_meets(node.matcher.condition, condition):
                spared.add(pair)
                sink.add(_spared(candidate, node, tiers[node.unit.name]))


def _contradiction(candidate: Candidate, hit: Candidate, need: UnitTier) -> Diagnostic:
    return codes.DEMOTED_NEED.at(
        user_place(candidate),
        f"{candidate.intent} demotes threads of {hit.unit.name}, and {_needer(need)} needs them",
        related=_chain(need),
        help="drop the demotion, or narrow it so that it spares these threads",
    )


def _spared(candidate: Candidate, node: Candidate, need: UnitTier) -> Diagnostic:
    return codes.SPARED.at(
        user_place(candidate),
        f"this demotion spares {node.unit.name}, which {_needer(need)} needs",
        related=_chain(need),
    )


def _needer(need: UnitTier) -> str:
    return need.chain[0].why.split(" ", 1)[0]


def _chain(need: UnitTier) -> list[Related]:
    return [Related(need.places[link.why], link.why) for link in need.chain]
