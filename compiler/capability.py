"""What a plan needs and a target lacks: reported, listed in the plan, and kept from the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from compiler import features, safety
from compiler.codes import targets as codes
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Sink, Span
from compiler.plan import LeftOut, NodePlan
from compiler.registry import Target
from compiler.resolve.conditions import condition_contains, condition_meets, fields_of
from compiler.resolve.types import Resolution
from compiler.verdicts import verdicts
from compiler.words import listed

_INSTEAD: Final[Mapping[str, str]] = {
    **{
        f"match.{field}.{kind}": f"write {what} as it is, or its beginning and a *"
        for field, what in (
            ("comm", "the thread's name"),
            ("leader", "the process's name"),
            ("kthread", "the thread's name"),
        )
        for kind in ("exact", "prefix", "glob")
    },
    "match.cgroup.path": "match names instead of the cgroup",
    "match.cgroup.any": 'write the cgroup from the root, such as "system.slice/NAME.service/**"',
    "match.cgroup.glob": "write whole names, at most 8 deep, and ** at the end only",
    "match.cgroup.long": "name a cgroup above it",
    "match.cmdline": "match comm, leaderComm or cgroup instead of cmdline",
    "match.pods": 'narrow by workload.cgroup such as "@pods/**" instead of pods',
}
"""How to say otherwise what a target cannot match, by feature."""

_OF_LANES: Final = ("lane.exclusive", "lane.isolated", "lane.family")
"""Features that one target of a node suffices for: reported where no target has them."""


def gaps(plan: NodePlan, target: Target) -> tuple[LeftOut, ...]:
    """Return what the target cannot express, sorted by feature and unit."""
    lacking: dict[tuple[str, str | None], list[int]] = {}
    for rule in plan.rules:
        for word in _business(target, features.of_rule(rule)) - target.supports:
            unit = None if target.partial else rule.unit
            lacking.setdefault((word, unit), []).append(rule.id)
    for word in sorted(_business(target, plan.features)):
        if not word.startswith("match.") and word not in target.supports:
            lacking.setdefault((word, None), [])
    rows = [
        LeftOut(
            feature=word,
            unit=unit,
            rules=tuple(ids),
            message=_message(target, word, unit, len(ids)),
        )
        for (word, unit), ids in lacking.items()
    ]
    rows += target.lacks(plan)
    return tuple(
        sorted(rows, key=lambda row: (row.feature, row.unit or "", row.rules, row.message))
    )


def _business(target: Target, words: Iterable[str]) -> frozenset[str]:
    """Return the words that are a target's business."""
    found = frozenset(words)
    return found if target.concerns is None else found & target.concerns


def _message(target: Target, word: str, unit: str | None, count: int) -> str:
    if target.partial:  # said once, whatever the word
        return f"{target.name} bounds groups of threads only; the rest is left to other targets"
    meaning = features.MEANING[word]
    if unit is None:
        return f"{target.name} leaves out {meaning}"
    rules = "a rule" if count == 1 else f"{count} rules"
    return f"{target.name} cannot match {meaning}: {rules} of {unit} left out"


def visible(plan: NodePlan, left_out: tuple[LeftOut, ...]) -> NodePlan:
    """Return the plan as the target sees it: without the rules it cannot evaluate.

    Rules keep their ids, with gaps, so that plan, seed, script and ``tierc explain`` speak of a
    rule by one number.
    """
    hidden = {id for row in left_out for id in row.rules}
    if not hidden:
        return plan
    kept = tuple(rule for rule in plan.rules if rule.id not in hidden)
    return plan.model_copy(update={"rules": kept})


def report(
    plan: NodePlan,
    resolution: Resolution,
    left_out: Mapping[str, tuple[LeftOut, ...]],
    sink: Sink,
    partial: Collection[str] = (),
    narrow: Collection[str] = (),
) -> None:
    """Turn what the emitted targets lack into findings at the lines that asked for it.

    Targets that are ``partial`` only add to others, and ``narrow`` ones, which are not in
    ``left_out``, are about something else than threads.  Where the node has no other target, the
    rules that no partial one has are findings, unless the node is only observed.
    """
    others = {name: rows for name, rows in left_out.items() if name not in partial}
    for target, rows in sorted(others.items()):
        hidden = {id for row in rows for id in row.rules}
        lost = exposed(plan, hidden)
        _report_rules(plan, resolution, target, rows, lost, sink)
        _report_of_lanes(plan, resolution, target, left_out, sink)
        _report_view(plan, resolution, target, rows, hidden, sink)
    if not others and (left_out or narrow) and plan.mode != "observe":
        _report_unplaced(plan, resolution, left_out, sorted({*left_out, *narrow}), sink)
        for target in sorted(left_out):
            _report_of_lanes(plan, resolution, target, left_out, sink)


def _report_of_lanes(
    plan: NodePlan,
    resolution: Resolution,
    target: str,
    left_out: Mapping[str, tuple[LeftOut, ...]],
    sink: Sink,
) -> None:
    """Report what one target of the node would suffice for, where none has it."""
    for row in left_out[target]:
        if row.rules or row.feature not in _OF_LANES:
            continue
        if any(
            row.feature not in {r.feature for r in others}
            for name, others in left_out.items()
            if name != target
        ):
            continue  # another target of this node enforces it
        if row.feature == "lane.family":
            _report_families(plan, resolution, sink)
        else:
            _report_lanes(plan, resolution, row, sink)


def _report_unplaced(
    plan: NodePlan,
    resolution: Resolution,
    left_out: Mapping[str, tuple[LeftOut, ...]],
    targets: Sequence[str],
    sink: Sink,
) -> None:
    """Report the rules that no target has, of a node none of whose targets places threads."""
    hidden = [{id for row in rows for id in row.rules} for rows in left_out.values()]
    lost = {rule.id for rule in plan.rules}.intersection(*hidden)
    names = listed([f"target {name}" for name in targets])
    does = "does" if len(targets) == 1 else "do"
    found: dict[tuple[Span, Code], list[str]] = {}
    for rule in plan.rules:
        if rule.id not in lost:
            continue
        unit = next(u for u in plan.units if u.name == rule.unit)
        if unit.intent is None:
            continue  # nobody wrote it: it comes along with what needs it
        protects = unit.effect in ("protect", "needed")
        code = codes.INEXPRESSIBLE if protects else codes.LEFT_OUT
        units = found.setdefault((_span(resolution, rule.id), code), [])
        if unit.name not in units:
            units.append(unit.name)
    for (span, code), units in found.items():
        verb = "protects" if code is codes.INEXPRESSIBLE else "concerns"
        sink.add(
            code.at(
                span,
                f"{names} {does} not place the threads of this rule, which {verb} {listed(units)}",
                help="add taskset: {} to targets, or bpf: {} in mode sched_ext: they place threads",
            )
        )


def exposed(plan: NodePlan, hidden: Collection[int]) -> dict[int, int]:
    """Return the hidden rules whose threads would fall to a demotion, and the demoting rule.

    A rule that keeps threads out of a later, wider demotion must not just be left out: that would
    widen the demotion.  Only rules that share a field are compared, as everywhere.  For one of
    several ways in which a profile knows a stage, the demotion must take all its threads: that
    they might meet in a cgroup is no reason to refuse a policy nobody wrote a command line in.
    """
    normal = plan.bands[plan.default_band].tier
    tiers = {rule.id: plan.bands[rule.band].tier for rule in plan.rules}
    out: dict[int, int] = {}
    stages = {unit.name for unit in plan.units if unit.stage is not None}
    seen = {rule.unit for rule in plan.rules if rule.id not in hidden}
    variants = {rule.id for rule in plan.rules if rule.unit in stages & seen}
    for id in sorted(hidden):
        if tiers[id] > normal:
            continue
        match = plan.rules[id].match
        fields = set(fields_of(match))
        for rule in plan.rules[id + 1 :]:
            if rule.id in hidden or not fields & set(fields_of(rule.match)):
                continue
            if tiers[rule.id] > normal:
                takes = condition_contains if id in variants else condition_meets
                if takes(rule.match, match):
                    out[id] = rule.id
                    break
            elif condition_contains(rule.match, match):
                break
    return out


def _report_view(
    plan: NodePlan,
    resolution: Resolution,
    target: str,
    rows: tuple[LeftOut, ...],
    hidden: Collection[int],
    sink: Sink,
) -> None:
    """Report invariants that the whole plan keeps and the target's view of it does not."""
    if not hidden or safety.check(plan):
        return  # nothing is missing, or the whole plan is refused already
    for broken in verdicts(safety.check(visible(plan, rows)), resolution):
        span = broken.span or _span(resolution, min(hidden))
        sink.add(
            broken.code.at(
                span,
                f"without the rules that target {target} cannot match, {broken.message}",
                related=[
                    Related(place, f"target {target} leaves this out")
                    for place in sorted({_span(resolution, id) for id in hidden} - {span})[:3]
                ],
                help=f"narrow the demotion, or drop target {target}",
            )
        )


def _span(resolution: Resolution, id: int) -> Span:
    """Return the user's line behind a rule."""
    rule = resolution.rules[id]
    intent = resolution.unit(rule.unit).draft.intent
    if intent is None or intent.model.spec.workload.match is not None:
        return rule.matcher.span
    return intent.span("spec", "workload")


class _Lack(NamedTuple):
    """What one line of a user lacks in a target; its units are told together."""

    span: Span
    code: Code
    verb: str
    feature: str
    taker: int | None
    """Rule that would take the threads."""


def _report_rules(
    plan: NodePlan,
    resolution: Resolution,
    target: str,
    rows: tuple[LeftOut, ...],
    lost: Mapping[int, int],
    sink: Sink,
) -> None:
    hidden = {id for row in rows for id in row.rules}
    lacks: dict[_Lack, list[str]] = {}
    for row in rows:
        if row.unit is None:
            continue
        unit = next(u for u in plan.units if u.name == row.unit)
        protects = unit.effect in ("protect", "needed")
        rest = [r for r in plan.rules if r.unit == unit.name and r.id not in hidden]
        variants = unit.stage is not None and any(rule.needs is None for rule in rest)
        for id in row.rules:
            taker = lost.get(id)
            if variants and taker is None:
                continue
            code = codes.INEXPRESSIBLE if protects or taker is not None else codes.LEFT_OUT
            verb = "protects" if protects else "concerns"
            units = lacks.setdefault(
                _Lack(_span(resolution, id), code, verb, row.feature, taker), []
            )
            if unit.name not in units:
                units.append(unit.name)
        if variants and any(id not in lost for id in row.rules):
            _report_variants(resolution, target, row, sink)
    for lack, units in lacks.items():
        sink.add(_lacking(plan, resolution, target, lack, units))


def _lacking(
    plan: NodePlan, resolution: Resolution, target: str, lack: _Lack, units: list[str]
) -> Diagnostic:
    what = (
        f"target {target} cannot match {features.MEANING[lack.feature]}, and this rule "
        f"{lack.verb} {listed(units)}"
    )
    related = []
    if lack.taker is not None:
        other = plan.rules[lack.taker]
        tier = plan.tiers[plan.bands[other.band].tier].name
        what += f", whose threads would fall to {other.unit}, at {tier}"
        related.append(Related(_span(resolution, lack.taker), "this would take them"))
    return lack.code.at(
        lack.span, what, related=related, help=f"{_INSTEAD[lack.feature]}, or drop target {target}"
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
        isolated = row.feature == "lane.isolated"
        if not any(
            planned.isolated if isolated else planned.share == "exclusive"
            for planned in plan.lanes_of(lane.name)
        ):
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


def _report_families(plan: NodePlan, resolution: Resolution, sink: Sink) -> None:
    """Say which lanes' processes are not bound to the locality of their GPUs."""
    for lane in resolution.lanes:
        members = [member for member in plan.lanes_of(lane.name) if member.family is not None]
        if not members:
            continue
        names = listed([f"{member.name} (CPUs {member.cpus})" for member in members])
        sink.add(
            codes.UNENFORCED.at(
                lane.span,
                f"no target of this node does {features.MEANING['lane.family']}: a process of "
                f"lane {lane.name} may run on the CPUs of {names}, whichever GPUs it has",
                help="nothing is wrong with the policy; bind each engine by hand where it matters",
            )
        )
