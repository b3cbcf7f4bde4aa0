"""Units as a picture sees them, from a resolved class of nodes or from the intents alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.diagnostics import Span
from compiler.graph import Inherited, Need, inherit
from compiler.model.base import Stage
from compiler.picture.model import Kind
from compiler.picture.words import matcher_lines
from compiler.pipeline import CompiledClass
from compiler.plan import Condition
from compiler.policy import Ladder, Policy
from compiler.resolve.lanes import lane_name
from compiler.resolve.types import (
    NODE_UNIT,
    Ask,
    Expansion,
    Resolution,
    ResolvedUnit,
    UnitDraft,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One unit on one class of nodes."""

    name: str
    intent: str | None
    stage: Stage | None
    tier: int
    order: int
    kind: Kind
    lane: str | None
    reason: str
    why: tuple[str, ...]
    matchers: tuple[str, ...]
    chain: tuple[Need, ...]
    cpus: CpuSet | None = None


def seen_on(group: CompiledClass, ladder: Ladder, *, cpus: bool) -> tuple[Seen, ...]:
    """Return the units of a class of nodes, with their CPUs where it is to be and has a plan."""
    plan = group.plan if cpus else None
    placed = {unit.name: unit.cpus for unit in plan.units} if plan is not None else {}
    return tuple(
        Seen(
            name=unit.name,
            intent=unit.draft.intent.name if unit.draft.intent else None,
            stage=unit.draft.stage,
            tier=unit.tier,
            order=unit.order,
            kind=unit.effect,
            lane=unit.lane,
            reason=_reason(unit, group.resolution, ladder),
            why=_why(unit, group.resolution),
            matchers=matcher_lines([m.condition for m in unit.draft.matchers]),
            chain=unit.chain,
            cpus=placed.get(unit.name),
        )
        for unit in group.resolution.units
    )


def _reason(unit: ResolvedUnit, resolution: Resolution, ladder: Ladder) -> str:
    if unit.effect == "place":
        if unit.winner is None:
            return "only placed"
        return f"only placed; {unit.winner.text} of {unit.winner.intent}"
    if unit.chain:
        need = unit.chain[-1]
        origin = unit.losers[0].tier if unit.losers else ladder.normal
        return _raised(ladder.name(origin), need, resolution.reasons.get(need.why))
    return unit.winner.text if unit.winner is not None else ""


def _raised(origin: str, need: Need, span: Span | None) -> str:
    place = f", {span.path}:{span.line}" if span is not None else ""
    return f"raised from {origin}: {need.why}{place}"


def _why(unit: ResolvedUnit, resolution: Resolution) -> tuple[str, ...]:
    needs = [
        f"{need.why}, {span}" if (span := resolution.reasons.get(need.why)) else need.why
        for need in unit.chain
    ]
    asks = [unit.winner, *unit.losers] if unit.winner is not None else list(unit.losers)
    return (*needs, *(_said(ask) for ask in asks))


def _said(ask: Ask) -> str:
    return f"{ask.intent} says {ask.text}, {ask.span}"


def seen_unbound(policy: Policy, expansions: Sequence[Expansion]) -> tuple[Seen, ...]:
    """Return the units that intents speak of where no node is known.

    Tiers are asked and inherited as on a node that every intent selects; patterns stand as
    written (``@pods`` is not replaced), and the order inside a tier is left open.
    """
    ladder = policy.ladder
    needs = [need for e in expansions for need in e.needs]
    reasons = {why: span for e in expansions for why, span in e.reasons.items()}
    drafts = [unit for e in expansions for unit in e.units if unit.matchers]
    drafts += _node_drafts(policy, expansions, needs)
    drafts.sort(key=lambda d: d.name)
    asks = {draft.name: sorted(draft.asks) for draft in drafts}
    base = {name: own[0].tier if own else ladder.normal for name, own in asks.items()}
    inherited = inherit(base, [n for n in needs if n.source in base and n.target in base])
    return tuple(
        _unbound(draft, asks[draft.name], inherited[draft.name], reasons, ladder)
        for draft in drafts
    )


def _node_drafts(
    policy: Policy, expansions: Sequence[Expansion], needs: Sequence[Need]
) -> list[UnitDraft]:
    asked = [row for e in expansions for row in e.node_asks]
    stages: tuple[Stage, ...] = ("gpu-driver", "gpu-irq")
    wanted = {need.target for need in needs}
    return [
        UnitDraft(
            name=f"{NODE_UNIT}/{stage}",
            intent=None,
            stage=stage,
            matchers=(),
            asks=tuple(ask for of, ask in asked if of == stage),
            precedence=0,
            builtin=True,
        )
        for stage in stages
        if f"{NODE_UNIT}/{stage}" in wanted or any(of == stage for of, _ in asked)
    ]


def _unbound(
    draft: UnitDraft,
    asks: Sequence[Ask],
    inherited: Inherited,
    reasons: dict[str, Span],
    ladder: Ladder,
) -> Seen:
    chain = inherited.chain
    own = asks[0].tier if asks else ladder.normal
    kind: Kind = "needed" if chain else asks[0].effect if asks else "place"
    reason = asks[0].text if asks else "only placed"
    if chain:
        reason = _raised(ladder.name(own), chain[-1], reasons.get(chain[-1].why))
    return Seen(
        name=draft.name,
        intent=draft.intent.name if draft.intent else None,
        stage=draft.stage,
        tier=inherited.tier,
        order=0,
        kind=kind,
        lane=lane_name(draft.intent) if draft.intent else None,
        reason=reason,
        why=(
            *(f"{need.why}, {reasons[need.why]}" for need in chain),
            *(_said(ask) for ask in asks),
        ),
        matchers=matcher_lines([_as_written(draft, m.condition) for m in draft.matchers]),
        chain=chain,
    )


def _as_written(draft: UnitDraft, condition: Condition) -> Condition:
    work = draft.intent.model.spec.workload if draft.intent else None
    if work is None or work.cgroup is None or condition.cgroup is not None:
        return condition
    return condition.model_copy(update={"cgroup": work.cgroup})
