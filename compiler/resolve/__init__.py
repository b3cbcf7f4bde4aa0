"""Resolution: what all intents of one class of nodes mean together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.plan import MAX_RULES
from compiler.policy import Policy
from compiler.resolve.bind import bind
from compiler.resolve.expand import expand
from compiler.resolve.lanes import lane_name, lanes_of
from compiler.resolve.overlap import (
    Candidate,
    Outcome,
    condition_contains,
    find_ties,
    rank,
)
from compiler.resolve.tiers import UnitTier, check_above, intent_orders, unit_tiers
from compiler.resolve.types import (
    Expansion,
    Resolution,
    ResolvedRule,
    ResolvedUnit,
    UnitDraft,
)

__all__ = ["check_above", "expand", "resolve"]


def resolve(
    policy: Policy, expansions: Sequence[Expansion], node: Loaded[NodeFacts], sink: Sink
) -> Resolution:
    """Resolve the given intents on a class of nodes, of which ``node`` is any member.

    Conflicts are findings; the result is then still complete, so that later passes can say more.
    """
    drafts = bind(policy, expansions, node, sink)
    tiers = unit_tiers(policy.ladder, drafts, expansions, sink)
    intents = [e.intent for e in expansions]
    own = _intent_tiers(policy, intents, drafts, tiers)
    orders = intent_orders(intents, own, policy.ladder, sink)
    # Threads of interrupts are SCHED_FIFO and follow their interrupt's affinity: a thread rule
    # would do nothing, so the unit has a tier and no rules.
    schedulable = [_first(d, tiers, intents) for d in drafts if d.stage != "gpu-irq"]
    ranked = rank([Candidate(d, m) for d in schedulable for m in d.matchers])
    outcomes = {d.name: _outcome(d, tiers[d.name], orders) for d in drafts}
    find_ties(ranked, outcomes, policy.ladder.name, sink)
    _demoted_nodes(ranked, tiers, expansions, sink)
    if len(ranked) > MAX_RULES:
        _too_many(ranked, sink)
    rules = tuple(_rule(candidate, ranked, tiers) for candidate in ranked)
    units = tuple(_unit(policy, d, tiers, orders, rules) for d in drafts)
    placed = dict(own)
    for unit in units:
        if unit.draft.intent is not None:
            name = unit.draft.intent.name
            placed[name] = min(placed[name], unit.tier)
    lanes = lanes_of(policy, [i for i in intents if i.name in placed], node, placed, orders, sink)
    reasons = {why: span for e in expansions for why, span in e.reasons.items()}
    return Resolution(units, rules, lanes, reasons)


def _intent_tiers(
    policy: Policy,
    intents: Sequence[Loaded[Intent]],
    drafts: Sequence[UnitDraft],
    tiers: Mapping[str, UnitTier],
) -> dict[str, int]:
    """Return the highest tier among each intent's units; normal where it says nothing."""
    out: dict[str, int] = {}
    for draft in drafts:
        if draft.intent is None:
            continue
        tier = tiers[draft.name].tier
        value = policy.ladder.normal if tier is None else tier
        name = draft.intent.name
        out[name] = min(out.get(name, value), value)
    return out


def _first(
    draft: UnitDraft, tiers: Mapping[str, UnitTier], intents: Sequence[Loaded[Intent]]
) -> UnitDraft:
    """Put a needed unit of the node before whatever users wrote about the same threads.

    A kept or unmatched unit that a protected path needs is raised; it must not be held down by a
    rule that merely goes first.
    """
    if draft.intent is not None or not tiers[draft.name].chain:
        return draft
    top = max((i.model.spec.precedence for i in intents), default=0)
    return replace(draft, precedence=top, builtin=False)


def _outcome(draft: UnitDraft, tier: UnitTier, orders: Mapping[str, int]) -> Outcome:
    if draft.intent is None:
        return tier.tier, 0, None
    return tier.tier, orders.get(draft.intent.name, 0), lane_name(draft.intent)


def _demoted_nodes(
    ranked: Sequence[Candidate],
    tiers: Mapping[str, UnitTier],
    expansions: Sequence[Expansion],
    sink: Sink,
) -> None:
    """Report demotions aimed at threads that a protected path needs."""
    reasons = {why: span for e in expansions for why, span in e.reasons.items()}
    needed = [c for c in ranked if c.unit.intent is None and tiers[c.unit.name].chain]
    for candidate in ranked:
        asks = [ask for ask in candidate.unit.asks if ask.effect == "demote"]
        if candidate.unit.intent is None or not asks:
            continue
        hit = next(
            (
                n
                for n in needed
                if condition_contains(n.matcher.condition, candidate.matcher.condition)
            ),
            None,
        )
        if hit is None:
            continue
        chain = tiers[hit.unit.name].chain
        sink.add(
            codes.DEMOTED_NEED.at(
                candidate.matcher.span,
                f"{candidate.intent} demotes threads of {hit.unit.name}, and "
                f"{chain[0].why.split(' ', 1)[0]} needs them",
                related=[Related(reasons[n.why], n.why) for n in chain],
                help="drop the demotion, or narrow it so that it spares these threads",
            )
        )


def _too_many(ranked: Sequence[Candidate], sink: Sink) -> None:
    counts: dict[str, int] = {}
    for candidate in ranked:
        counts[candidate.intent] = counts.get(candidate.intent, 0) + 1
    worst = max(sorted(counts), key=lambda name: counts[name])
    place = next(c for c in ranked if c.intent == worst)
    span = place.unit.intent.span("spec", "workload") if place.unit.intent else place.matcher.span
    sink.add(
        codes.TOO_MANY_RULES.at(
            span,
            f"the node needs {len(ranked)} rules and a scheduler map holds {MAX_RULES}; "
            f"{worst} has most, {counts[worst]}",
            help="state engine versions, or join match items",
        )
    )


def _rule(
    candidate: Candidate, ranked: Sequence[Candidate], tiers: Mapping[str, UnitTier]
) -> ResolvedRule:
    """Complete a rule that leaves something open from the first wider rule that says it.

    An intent may only place, or only protect; what it leaves open comes from the intent that
    takes the same threads.  An intent with a verb takes CPUs only from one that only places:
    other verbs' lanes are not its business.
    """
    unit = candidate.unit
    tier_unit = lane_unit = unit.name
    for other in ranked:
        if other.unit.name == unit.name or not condition_contains(
            other.matcher.condition, candidate.matcher.condition
        ):
            continue
        if tiers[unit.name].tier is None and tier_unit == unit.name:
            if tiers[other.unit.name].tier is not None:
                tier_unit = other.unit.name
        elif (
            lane_unit == unit.name
            and tiers[unit.name].tier is not None
            and unit.intent is not None
            and lane_name(unit.intent) is None
            and other.unit.intent is not None
            and tiers[other.unit.name].tier is None
            and lane_name(other.unit.intent) is not None
        ):
            lane_unit = other.unit.name
    return ResolvedRule(
        unit.name, candidate.matcher, unit.precedence, unit.builtin, tier_unit, lane_unit
    )


def _unit(
    policy: Policy,
    draft: UnitDraft,
    tiers: Mapping[str, UnitTier],
    orders: Mapping[str, int],
    rules: Sequence[ResolvedRule],
) -> ResolvedUnit:
    mine = tiers[draft.name]
    sources = {rule.tier_unit for rule in rules if rule.unit == draft.name}
    source = tiers[sources.pop()] if len(sources) == 1 else mine
    tier = policy.ladder.normal if source.tier is None else source.tier
    intent = draft.intent
    lane = lane_name(intent) if intent is not None else None
    words = {*intent.model.spec.prefer, *intent.model.spec.require} if intent is not None else set()
    return ResolvedUnit(
        draft=draft,
        tier=tier,
        effect=mine.effect,
        winner=source.winner,
        losers=source.losers,
        chain=source.chain,
        order=orders.get(intent.name, 0) if intent is not None else 0,
        lane=lane,
        leftovers=lane is None and "leftovers" in words,
    )
