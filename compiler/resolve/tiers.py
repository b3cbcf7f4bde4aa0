"""Tiers of units: asked, inherited over needs (design 5.2), and order inside a tier."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from compiler.codes import resolution as codes
from compiler.diagnostics import Diagnostic, Related, Sink, Span
from compiler.graph import Inherited, Need, cycles, depths, inherit
from compiler.plan import Effect
from compiler.policy import Ladder, Policy
from compiler.resolve.types import Ask, Expansion, UnitDraft
from compiler.suggest import nearest


@dataclass(frozen=True, slots=True)
class UnitTier:
    """A unit's tier and how it came to it; ``tier`` is None where nothing says anything."""

    tier: int | None
    effect: Effect
    winner: Ask | None
    losers: tuple[Ask, ...]
    chain: tuple[Need, ...]
    places: Mapping[str, Span] = field(default_factory=dict, hash=False, compare=False)
    """Where each ``Need.why`` of the chain is written."""

    def id(self, ladder: Ladder) -> int:
        """Return the tier's id, that of normal where nothing says anything."""
        return ladder.normal if self.tier is None else self.tier


def unit_tiers(
    ladder: Ladder, units: Sequence[UnitDraft], expansions: Sequence[Expansion], sink: Sink
) -> dict[str, UnitTier]:
    """Decide each unit's tier: the highest asked, raised to that of what needs it."""
    names = {unit.name for unit in units}
    base: dict[str, int] = {}
    asked: dict[str, tuple[Ask, ...]] = {}
    for unit in units:
        ranked = tuple(sorted(unit.asks))
        asked[unit.name] = ranked
        base[unit.name] = ranked[0].tier if ranked else ladder.normal
    needs = [
        need
        for expansion in expansions
        for need in expansion.needs
        if need.source in names and need.target in names
    ]
    reasons = {why: span for e in expansions for why, span in e.reasons.items()}
    inherited = inherit(base, needs)
    out: dict[str, UnitTier] = {}
    for unit in units:
        asks, got = asked[unit.name], inherited[unit.name]
        if got.chain:
            demoting = [ask for ask in asks if ask.effect == "demote"]
            if demoting:
                sink.add(_demoted_need(ladder, unit, demoting[0], got, reasons))
            out[unit.name] = UnitTier(
                got.tier,
                "needed",
                None,
                asks,
                got.chain,
                {need.why: reasons[need.why] for need in got.chain},
            )
        elif asks:
            if unit.intent is None and asks[0].effect == "protect":
                for demotion in (ask for ask in asks if ask.effect == "demote"):
                    sink.add(_demoted_ask(ladder, unit, demotion, asks[0]))
            out[unit.name] = UnitTier(asks[0].tier, asks[0].effect, asks[0], asks[1:], ())
        else:
            out[unit.name] = UnitTier(None, "place", None, (), ())
    return out


def _demoted_need(
    ladder: Ladder, unit: UnitDraft, demotion: Ask, got: Inherited, reasons: Mapping[str, Span]
) -> Diagnostic:
    chain = [Related(reasons[need.why], need.why) for need in got.chain]
    return codes.DEMOTED_NEED.at(
        demotion.span,
        f"{demotion.intent} demotes {unit.name} to {ladder.name(demotion.tier)}, and "
        f"{got.chain[0].why.split(' ', 1)[0]} needs it at {ladder.name(got.tier)}",
        related=chain,
        help="drop the demotion, or narrow it so that it spares these threads",
    )


def _demoted_ask(ladder: Ladder, unit: UnitDraft, demotion: Ask, ask: Ask) -> Diagnostic:
    return codes.DEMOTED_NEED.at(
        demotion.span,
        f"{demotion.intent} demotes {unit.name} to {ladder.name(demotion.tier)}, and "
        f"{ask.intent} protects it at {ladder.name(ask.tier)}",
        related=[Related(ask.span, f"{ask.intent} says {ask.text}")],
        help="drop one of the two",
    )


def check_above(policy: Policy, sink: Sink) -> bool:
    """Check the ``above`` relations of the whole policy; return whether an order exists."""
    known = {intent.name: intent for intent in policy.intents}
    places: dict[tuple[str, str], Span] = {}
    for intent in policy.intents:
        for i, below in enumerate(intent.model.spec.above):
            span = intent.span("spec", "above", i)
            if below not in known:
                close = nearest(below, known)
                sink.add(
                    codes.UNKNOWN_INTENT.at(
                        span,
                        f'above names "{below}", and no intent is called so',
                        help=f'did you mean "{close[0]}"?' if close else "remove it",
                    )
                )
                continue
            places.setdefault((intent.name, below), span)
    found = cycles(places)
    for cycle in found:
        closed = (*cycle, cycle[0])
        edges = list(pairwise(closed))
        if len(edges) == 1:
            (only,) = edges
            sink.add(
                codes.ABOVE_CYCLE.at(places[only], f"{only[0]} is above itself", help="remove it")
            )
            continue
        text = " -> ".join(closed)
        sink.add(
            codes.ABOVE_CYCLE.at(
                places[edges[0]],
                f"above relations form a cycle: {text}",
                related=[
                    Related(places[edge], f"{edge[0]} is above {edge[1]}") for edge in edges[1:]
                ],
                help="remove one of these relations",
            )
        )
    return not found


class Orders:
    """Places of intents inside tiers: who is before whom, as far as ``above`` says.

    Each tier has its own.  An intent whose units are in several tiers is ordered in each among
    what else is there, and what is above it in one tier alone moves it in no other.
    """

    def __init__(
        self,
        depths: Mapping[str, int],
        edges: Collection[tuple[str, str]],
        members: Mapping[int, Collection[str]],
    ) -> None:
        """Make the orders.

        Args:
            depths: of each intent: more than of any that is above it.
            edges: pairs of intents, the first above the second.
            members: the intents of each tier.
        """
        self._depths = depths
        self._edges = edges
        self._members = members
        self._places: dict[int, Mapping[str, int]] = {}

    def of(self, intent: str, tier: int) -> int:
        """Return the place of an intent in a tier, 0 first; 0 where nothing is known of it."""
        if not self._edges:
            return 0
        if tier not in self._places:
            self._places[tier] = self._in(frozenset(self._members.get(tier, ())))
        return self._places[tier].get(intent, 0)

    def _in(self, members: frozenset[str]) -> Mapping[str, int]:
        """Return for each intent how many of the members are above it, one above the other."""
        over: dict[str, list[str]] = {}
        for high, low in self._edges:
            over.setdefault(low, []).append(high)
        places: dict[str, int] = {}
        for name in sorted(self._depths, key=lambda name: self._depths[name]):
            places[name] = max((places[o] + (o in members) for o in over.get(name, ())), default=0)
        return places

    def beside(self, tiers: Mapping[str, int]) -> Orders:
        """Return the orders among the same intents and further ones, each in one more tier."""
        members = {tier: set(names) for tier, names in self._members.items()}
        for name, tier in tiers.items():
            members.setdefault(tier, set()).add(name)
        return Orders(self._depths, self._edges, members)


def intent_orders(policy: Policy, tiers: Mapping[str, Collection[int]], sink: Sink) -> Orders:
    """Return each intent's order inside its tiers.

    The relation is transitive over the whole policy: an intent between two others orders them
    also on nodes it does not select.  Where ``above`` has a cycle (reported for the policy) there
    is no order: all are first.

    Args:
        policy: whose intents they are.
        tiers: of the units of each intent of one class of nodes.
        sink: takes the findings.
    """
    ladder = policy.ladder
    names = {intent.name for intent in policy.intents}
    highest = {name: min(own) for name, own in tiers.items()}
    edges = []
    for intent in policy.intents:
        for i, below in enumerate(intent.model.spec.above):
            if below not in names:
                continue
            edges.append((intent.name, below))
            if intent.name not in tiers or below not in tiers:
                continue
            if highest[below] < highest[intent.name]:
                sink.add(
                    codes.ABOVE_CONTRADICTS.at(
                        intent.span("spec", "above", i),
                        f"{intent.name} ({ladder.name(highest[intent.name])}) cannot be above "
                        f"{below}, which has the higher tier {ladder.name(highest[below])}",
                        help="change a tier, or drop the relation: across tiers the ladder decides",
                    )
                )
    if cycles(edges):
        return Orders({}, (), {})
    members: dict[int, list[str]] = {}
    for name, own in tiers.items():
        for tier in own:
            members.setdefault(tier, []).append(name)
    return Orders(depths(names | set(tiers), edges), edges, members)
