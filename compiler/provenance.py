"""Where every decision of a plan was made: file and line of winners and losers.

Travels beside the manifest, never inside the plan: moving a line must not roll a node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

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
    return _artifact(classes)


def merged(compilation: Compilation, old: bytes | None) -> Artifact:
    """Return ``provenance.json`` of a shard together with what others have written.

    Args:
        compilation: of a shard.
        old: what is there; None: nothing.  Classes of other shards are taken over from it, as far
            as they are still classes of the policy.
    """
    others = {group.nodes for group in compilation.classes if not group.mine}
    policy = compilation.policy
    classes = [_class(group, policy) for group in compilation.classes if group.plan is not None]
    classes += [row for row in _rows(old) if _nodes(row) in others]
    return _artifact(sorted(classes, key=_nodes))


def _artifact(classes: Sequence[Mapping[str, object]]) -> Artifact:
    return Artifact(PATH, canonical_json({"version": FORMAT, "classes": classes}))


def _rows(old: bytes | None) -> list[dict[str, object]]:
    """The classes of a provenance; none where it is no provenance of this format."""
    try:
        value = json.loads(old or b"")
    except (ValueError, RecursionError):
        return []
    if not isinstance(value, dict) or value.get("version") != FORMAT:
        return []
    rows = value.get("classes")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _nodes(row: Mapping[str, object]) -> tuple[str, ...]:
    nodes = row.get("nodes")
    return tuple(map(str, nodes)) if isinstance(nodes, list) else ()


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
        "irqs": {
            claim.intent.name: {
                "where": claim.where,
                "at": str(
                    claim.intent.span("spec", "irqs")
                    if claim.written
                    else claim.intent.key_span("spec", "workload")
                ),
                "written": claim.written,
            }
            for claim in resolution.irqs
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
