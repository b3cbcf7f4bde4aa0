"""Resolution: what all intents of one class of nodes mean together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Sink
from compiler.model.facts import NodeFacts
from compiler.plan import MAX_RULES
from compiler.policy import Policy
from compiler.resolve.bind import bind
from compiler.resolve.checks import check_policy
from compiler.resolve.complete import complete
from compiler.resolve.expand import expand
from compiler.resolve.interrupts import claims_of
from compiler.resolve.lanes import lane_name, lanes_of, wants_leftovers
from compiler.resolve.overlap import Candidate, Outcome, rank
from compiler.resolve.tiers import Orders, UnitTier, check_above, intent_orders, unit_tiers
from compiler.resolve.ties import find_ties
from compiler.resolve.types import (
    Expansion,
    Resolution,
    ResolvedRule,
    ResolvedUnit,
    UnitDraft,
)

__all__ = ["check_above", "check_policy", "expand", "resolve"]


def resolve(
    policy: Policy, expansions: Sequence[Expansion], node: Loaded[NodeFacts], sink: Sink
) -> Resolution:
    """Resolve the given intents on a class of nodes, of which ``node`` is any member.

    Conflicts are findings; the result is then still complete, so that later passes can say more.
    """
    drafts = bind(policy, expansions, node, sink)
    tiers = unit_tiers(policy.ladder, drafts, expansions, sink)
    intents = [e.intent for e in expansions]
    of_intent = _intent_tiers(policy, drafts, tiers)
    orders = intent_orders(policy, of_intent, sink)
    # Threads of interrupts are SCHED_FIFO and follow their interrupt's affinity: a thread rule
    # would do nothing, so the unit has a tier and no rules.
    ranked = rank([Candidate(d, m) for d in drafts if d.stage != "gpu-irq" for m in d.matchers])
    outcomes = {d.name: _outcome(policy, d, tiers[d.name], orders) for d in drafts}
    find_ties(ranked, outcomes, policy.ladder, sink)
    rules = complete(ranked, tiers, outcomes, sink)
    if len(rules) > MAX_RULES:
        _too_many(rules, drafts, sink)
    of_unit: dict[str, list[ResolvedRule]] = {}
    for rule in rules:
        of_unit.setdefault(rule.unit, []).append(rule)
    units = tuple(
        _unit(policy, d, tiers, orders, outcomes[d.name], of_unit.get(d.name, ())) for d in drafts
    )
    placed = _lane_tiers({name: min(own) for name, own in of_intent.items()}, units, rules)
    lanes = lanes_of(
        policy,
        [i for i in intents if i.name in placed],
        node,
        placed,
        orders.beside(placed),
        sink,
    )
    reasons = {why: span for e in expansions for why, span in e.reasons.items()}
    claimed = _claim_tiers(policy, expansions, placed)
    irqs = claims_of(intents, node, claimed, orders.beside(claimed), sink)
    return Resolution(units, rules, lanes, reasons, irqs)


def _intent_tiers(
    policy: Policy, drafts: Sequence[UnitDraft], tiers: Mapping[str, UnitTier]
) -> dict[str, set[int]]:
    """Return the tiers of each intent's units; normal where it says nothing."""
    out: dict[str, set[int]] = {}
    for draft in drafts:
        if draft.intent is None:
            continue
        out.setdefault(draft.intent.name, set()).add(tiers[draft.name].id(policy.ladder))
    return out


def _lane_tiers(
    own: Mapping[str, int], units: Sequence[ResolvedUnit], rules: Sequence[ResolvedRule]
) -> dict[str, int]:
    """Return the highest tier that lives on each intent's CPUs, also of other intents' threads."""
    out = dict(own)
    tier = {unit.name: unit.tier for unit in units}
    intent = {u.name: u.draft.intent.name for u in units if u.draft.intent is not None}
    for unit in units:
        if unit.name in intent:
            out[intent[unit.name]] = min(out[intent[unit.name]], unit.tier)
    for rule in rules:
        if rule.lane_unit in intent:
            name = intent[rule.lane_unit]
            out[name] = min(out[name], tier[rule.tier_unit])
    return out


def _claim_tiers(
    policy: Policy, expansions: Sequence[Expansion], placed: Mapping[str, int]
) -> dict[str, int]:
    """Return the tier of each intent, also of one that speaks of units of the node alone."""
    normal = policy.ladder.normal
    of_node = {
        e.intent.name: min((ask.tier for _, ask in e.node_asks), default=normal) for e in expansions
    }
    return {**of_node, **placed}


def _outcome(policy: Policy, draft: UnitDraft, tier: UnitTier, orders: Orders) -> Outcome:
    if draft.intent is None:
        return Outcome(tier.tier, 0, None)
    lane = lane_name(draft.intent)
    cpus = f"lane {lane}" if lane is not None else None
    if wants_leftovers(draft.intent):
        cpus = "the leftovers"
    return Outcome(tier.tier, orders.of(draft.intent.name, tier.id(policy.ladder)), cpus)


def _too_many(rules: Sequence[ResolvedRule], drafts: Sequence[UnitDraft], sink: Sink) -> None:
    owner = {d.name: d.intent.name if d.intent is not None else d.name for d in drafts}
    counts: dict[str, int] = {}
    for rule in rules:
        counts[owner[rule.unit]] = counts.get(owner[rule.unit], 0) + 1
    worst = max(sorted(counts), key=lambda name: counts[name])
    rule = next(r for r in rules if owner[r.unit] == worst)
    intent = next(d.intent for d in drafts if d.name == rule.unit)
    sink.add(
        codes.TOO_MANY_RULES.at(
            intent.key_span("spec", "workload") if intent is not None else rule.matcher.span,
            f"the node needs {len(rules)} rules and a scheduler map holds {MAX_RULES}"
            + (f"; {worst} has most, {counts[worst]}" if counts[worst] > 1 else ""),
            help="state engine versions, join match items, or let fewer intents select the node",
        )
    )


def _unit(
    policy: Policy,
    draft: UnitDraft,
    tiers: Mapping[str, UnitTier],
    orders: Orders,
    outcome: Outcome,
    rules: Sequence[ResolvedRule],
) -> ResolvedUnit:
    """Return the unit; where others give its rules their tiers, with the highest of them."""
    mine = source = tiers[draft.name]
    if mine.tier is None:
        given = [tiers[rule.tier_unit] for rule in rules]
        source = min(given, key=lambda t: t.id(policy.ladder), default=mine)
    intent = draft.intent
    lane = lane_name(intent) if intent is not None else None
    tier, own_tier = source.id(policy.ladder), mine.id(policy.ladder)
    return ResolvedUnit(
        draft=draft,
        tier=tier,
        own_tier=own_tier,
        effect=mine.effect,
        winner=source.winner,
        losers=source.losers,
        chain=source.chain,
        order=orders.of(intent.name, tier) if intent is not None else 0,
        own_order=orders.of(intent.name, own_tier) if intent is not None else 0,
        lane=lane,
        leftovers=outcome.cpus == "the leftovers",
    )
