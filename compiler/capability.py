"""What a plan needs and a target lacks: reported, listed in the plan, and kept from the target."""

from __future__ import annotations

from collections.abc import Mapping

from compiler import features
from compiler.codes import targets as codes
from compiler.diagnostics import Severity, Sink, Span
from compiler.plan import LeftOut, NodePlan
from compiler.registry import Target
from compiler.resolve.types import Resolution


def gaps(plan: NodePlan, target: Target) -> tuple[LeftOut, ...]:
    """Return what the target cannot express, sorted by feature and unit."""
    lacking: dict[tuple[str, str | None], list[int]] = {}
    for rule in plan.rules:
        for word in features.of_rule(rule) - target.supports:
            lacking.setdefault((word, rule.unit), []).append(rule.id)
    for word in plan.features:
        if not word.startswith("match.") and word not in target.supports:
            lacking.setdefault((word, None), [])
    return tuple(
        LeftOut(
            feature=word,
            unit=unit,
            rules=tuple(ids),
            message=_message(target.name, word, unit, len(ids)),
        )
        for (word, unit), ids in sorted(
            lacking.items(), key=lambda row: (row[0][0], row[0][1] or "")
        )
    )


def _message(target: str, word: str, unit: str | None, count: int) -> str:
    meaning = features.MEANING[word]
    if unit is None:
        return f"{target} leaves out {meaning}"
    rules = "a rule" if count == 1 else f"{count} rules"
    return f"{target} cannot match {meaning}: {rules} of {unit} left out"


def visible(plan: NodePlan, left_out: tuple[LeftOut, ...]) -> NodePlan:
    """Return the plan as the target sees it: without the rules it cannot evaluate.

    Rules are numbered anew, densely, since their ids are places in the target's order.
    """
    hidden = {id for row in left_out for id in row.rules}
    if not hidden:
        return plan
    kept = [rule for rule in plan.rules if rule.id not in hidden]
    return plan.model_copy(
        update={
            "rules": tuple(r.model_copy(update={"id": i}) for i, r in enumerate(kept)),
        }
    )


def report(
    plan: NodePlan,
    resolution: Resolution,
    left_out: Mapping[str, tuple[LeftOut, ...]],
    sink: Sink,
) -> None:
    """Turn what the emitted targets lack into findings at the lines that asked for it."""
    for target, rows in sorted(left_out.items()):
        for row in rows:
            if row.rules:
                _report_rules(plan, resolution, target, row, sink)
            elif row.feature in ("lane.exclusive", "lane.isolated"):
                if any(
                    row.feature not in {r.feature for r in others}
                    for name, others in left_out.items()
                    if name != target
                ):
                    continue  # another target of this node enforces it
                _report_lanes(plan, resolution, row, sink)


def _report_rules(
    plan: NodePlan, resolution: Resolution, target: str, row: LeftOut, sink: Sink
) -> None:
    if row.unit is None:
        return
    unit = next(u for u in plan.units if u.name == row.unit)
    protects = unit.effect in ("protect", "needed")
    if unit.stage is not None and len(row.rules) < sum(r.unit == unit.name for r in plan.rules):
        _report_variants(resolution, target, row, sink)
        return
    code = codes.INEXPRESSIBLE if protects else codes.LEFT_OUT
    seen: set[Span] = set()
    for id in row.rules:
        matcher = resolution.rules[id].matcher
        intent = resolution.unit(row.unit).draft.intent
        span = matcher.span
        if intent is not None and span.path != intent.doc.path:
            span = intent.span("spec", "workload")
        if span in seen:
            continue
        seen.add(span)
        verb = "protects" if protects else "concerns"
        sink.add(
            code.at(
                span,
                f"target {target} cannot match {features.MEANING[row.feature]}, and this rule "
                f"{verb} {row.unit}",
                help=f"write it without {features.MEANING[row.feature]}, or drop target {target}",
            )
        )


def _report_variants(resolution: Resolution, target: str, row: LeftOut, sink: Sink) -> None:
    """Report ways to recognise a stage that are lost while others remain.

    A profile lists every way an engine has ever been started; one of them suffices.
    """
    intent = resolution.unit(row.unit or "").draft.intent
    if intent is None:
        return
    sink.add(
        codes.UNENFORCED.at(
            intent.span("spec", "workload", "engine"),
            f"target {target} cannot match {features.MEANING[row.feature]}, one of the ways the "
            f"profile knows {row.unit}; the others are in place",
            help="see tierc explain NODE --comm NAME for a thread you run",
        )
    )


def _report_lanes(plan: NodePlan, resolution: Resolution, row: LeftOut, sink: Sink) -> None:
    for lane in resolution.lanes:
        planned = next(p for p in plan.lanes if p.name == lane.name)
        isolated = row.feature == "lane.isolated"
        if not (planned.isolated if isolated else planned.share == "exclusive"):
            continue
        required = isolated and "isolated" in lane.require
        sink.add(
            (codes.INEXPRESSIBLE if required else codes.LEFT_OUT).at(
                lane.span if isolated else lane.share.winner.span,
                f"no target of this node does {features.MEANING[row.feature]}: lane {lane.name} "
                + (
                    "lies on CPUs where the kernel does not balance load"
                    if isolated
                    else "may still be entered by threads that no rule matches"
                ),
                severity=None if required else Severity.WARNING,
                help="enforce with sched_ext, or change the lane",
            )
        )
