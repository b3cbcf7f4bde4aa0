"""Where every decision of a plan was made: file and line of winners and losers.

Travels beside the manifest, never inside the plan: moving a line must not roll a node.
"""

from __future__ import annotations

from compiler.artifact import Artifact, canonical_json
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Ladder, Policy
from compiler.resolve.types import Decided, Defined, Resolution, ResolvedUnit

PATH = "provenance.json"
FORMAT = 1


def provenance(compilation: Compilation) -> Artifact:
    """Return ``provenance.json`` for all planned classes."""
    policy = compilation.policy
    classes = [_class(group, policy) for group in compilation.classes if group.plan is not None]
    return Artifact(PATH, canonical_json({"version": FORMAT, "classes": classes}))


def _class(group: CompiledClass, policy: Policy) -> dict[str, object]:
    resolution, ladder = group.resolution, policy.ladder
    return {
        "nodes": list(group.nodes),
        "facts": str(group.sample.key_span("spec")),
        "mode": _mode(group, policy),
        "units": {unit.name: _unit(unit, resolution, ladder) for unit in resolution.units},
        "rules": [
            {
                "id": i,
                "unit": rule.unit,
                "at": str(rule.matcher.span),
                "evidence": rule.matcher.evidence,
                "tierFrom": rule.tier_unit,
                "cpusFrom": rule.lane_unit,
            }
            for i, rule in enumerate(resolution.rules)
        ],
        "lanes": {
            lane.name: {
                "at": str(lane.span),
                "cores": _decided(lane.cores),
                "share": _decided(lane.share),
            }
            for lane in resolution.lanes
        },
    }


def _mode(group: CompiledClass, policy: Policy) -> dict[str, object]:
    _, span = policy.enforce_of(group.sample)
    out: dict[str, object] = {"value": group.decision.mode}
    if span is not None:
        out["at"] = str(span)
    else:
        out["because"] = "no enforce entry selects these nodes"
    if group.decision.refused:
        out["notSchedExt"] = list(group.decision.refused)
    return out


def _unit(unit: ResolvedUnit, resolution: Resolution, ladder: Ladder) -> dict[str, object]:
    out: dict[str, object] = {"tier": ladder.name(unit.tier), "effect": unit.effect}
    if unit.draft.intent is not None:
        out["workload"] = str(unit.draft.intent.key_span("spec", "workload"))
    if unit.winner is not None:
        out["at"] = str(unit.winner.span)
        out["because"] = f"{unit.winner.intent}: {unit.winner.text}"
    if unit.losers:
        out["losers"] = [
            {
                "tier": ladder.name(ask.tier),
                "at": str(ask.span),
                "because": f"{ask.intent}: {ask.text}",
            }
            for ask in unit.losers
        ]
    if unit.chain:
        out["raisedBy"] = [
            {"because": need.why, "at": str(resolution.reasons[need.why])} for need in unit.chain
        ]
    return out


def _decided(decided: Decided[object]) -> dict[str, object]:
    out = _defined(decided.winner)
    if decided.losers:
        out["losers"] = [_defined(one) for one in decided.losers]
    return out


def _defined(one: Defined[object]) -> dict[str, object]:
    return {"value": one.value, "at": str(one.span), "intent": one.intent}
