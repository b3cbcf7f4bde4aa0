"""A precedence that changes nothing.

With the `precedence` of this one intent left out, every thread would have the same rule, tier and
lane on every node: what overlaps it is ordered the same way by the steps that come after
precedence, or nothing overlaps it.

## Why it matters

Precedence goes before everything else: before cgroup evidence, before narrower patterns. One that
is needless today decides tomorrow, when somebody adds a narrower pattern and it has no effect.
Numbers are also answered with higher numbers, and after a while nobody knows which of them matter.

## What to do

Delete the line. The order without it: rules of users before those of built-in groups; rules with
cgroup or pods before names alone; more fields first; kernel threads, comm, leaderComm, cmdline,
cgroup in this order; on the same fields a narrower pattern before a wider one. `tierc explain NODE
--comm NAME` shows who has a thread and why.

## Example

Wrong, the narrower pattern goes first anyway:

```yaml
workload: {match: [{comm: "job-*"}]}
demote: background
---
workload: {match: [{comm: "job-live*"}]}
keep: interactive
precedence: 10
```

Right:

```yaml
workload: {match: [{comm: "job-*"}]}
demote: background
---
workload: {match: [{comm: "job-live*"}]}
keep: interactive
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Sink
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Policy
from compiler.resolve import resolve
from compiler.resolve.conditions import condition_contains, condition_meets, texts_of
from compiler.resolve.types import Expansion, Resolution
from compiler.rules.outcomes import Line, lines_of
from compiler.rules.rule import Rule, place_of

CODE: Final = Code("TRC218", "needless-precedence", Severity.INFO, __doc__, adjustable=True)

_TRIALS: Final = 32
"""Times that a class of nodes is resolved again; precedences beyond that are not judged."""


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find precedences without which nothing would change."""
    policy = compilation.policy
    lines = [lines_of(group.resolution) for group in compilation.classes]
    trials = _TRIALS
    for intent in policy.intents:
        if not intent.model.spec.precedence:
            continue
        places = [
            i
            for i, group in enumerate(compilation.classes)
            if any(e.intent is intent for e in group.expansions)
        ]
        if not places or any(
            compilation.classes[i].plan is None or _reorders(lines[i], intent.name) for i in places
        ):
            continue
        trials -= len(places)
        if trials < 0:
            return
        groups = [compilation.classes[i] for i in places]
        if any(_changes(policy, group, intent) for group in groups):
            continue
        nodes = sorted(name for group in groups for name in group.nodes)
        rivals = (rival for i in places for rival in _rivals(lines[i], intent.name))
        yield replace(_finding(intent, next(rivals, None)), nodes=tuple(nodes))


def _reorders(lines: Sequence[Line], name: str) -> bool:
    """Tell whether one of the intent's rules clearly changes places with a rule it may meet.

    Says only what needs no second resolution; most precedences end here.
    """
    for mine, other in _rivals(lines, name):
        now = mine.standing < other.standing
        bare = (0, mine.rule.builtin)
        if other.standing not in (mine.standing, bare):
            if now != (bare < other.standing):
                return True
        elif bare == other.standing and condition_contains(
            mine.rule.condition if now else other.rule.condition,
            other.rule.condition if now else mine.rule.condition,
        ):
            return True  # the wider of the two goes first now
    return False


def _without(expansion: Expansion) -> Expansion:
    """Return an intent's expansion as it were without precedence."""
    old = expansion.intent
    spec = old.model.spec.model_copy(update={"precedence": 0})
    intent = Loaded(old.model.model_copy(update={"spec": spec}), old.doc)
    units = tuple(replace(unit, intent=intent, precedence=0) for unit in expansion.units)
    return replace(expansion, intent=intent, units=units)


def _changes(policy: Policy, group: CompiledClass, intent: Loaded[Intent]) -> bool:
    """Tell whether anything on these nodes depends on the precedence."""
    trial = tuple(_without(e) if e.intent is intent else e for e in group.expansions)
    sink = Sink()
    new = resolve(policy, trial, group.sample, sink)
    if sink.has_errors:
        return True  # it keeps two intents apart
    old = group.resolution
    return _sizes(old) != _sizes(new) or not _same_order(lines_of(old), lines_of(new))


def _sizes(resolution: Resolution) -> object:
    """Return what lanes are, without where it is written."""
    return [
        (
            lane.name,
            lane.tier,
            lane.order,
            lane.min,
            lane.max,
            lane.share.value,
            lane.prefer,
            lane.require,
            lane.devices,
            lane.cores.winner.intent,
            lane.share.winner.intent,
        )
        for lane in resolution.lanes
    ]


def _same_order(old: Sequence[Line], new: Sequence[Line]) -> bool:
    """Tell whether first match gives every thread the same outcome.

    It does where rules that differ in outcome and could have one thread keep their order.
    """
    places = {_key(line): i for i, line in enumerate(new)}
    moved = [places.get(_key(line)) for line in old]
    if len(places) != len(new) or len(old) != len(new) or None in moved:
        return False
    where = [place for place in moved if place is not None]
    if any(new[place].outcome != line.outcome for place, line in zip(where, old, strict=True)):
        return False
    return not any(
        where[i] > where[j]
        and old[i].outcome != old[j].outcome
        and condition_meets(old[i].rule.condition, old[j].rule.condition)
        for i in range(len(old))
        for j in range(i + 1, len(old))
    )


def _key(line: Line) -> object:
    return line.rule.unit, texts_of(line.rule.condition), line.rule.matcher.span


def _rivals(lines: Sequence[Line], name: str) -> Iterator[tuple[Line, Line]]:
    """Yield pairs of the intent's rules and rules of others that could have the same thread."""
    for mine in lines:
        if mine.owner != name:
            continue
        for other in lines:
            if other.intent is None or other.owner == name:
                continue
            if other.outcome != mine.outcome and condition_meets(
                mine.rule.condition, other.rule.condition
            ):
                yield mine, other


def _finding(intent: Loaded[Intent], rival: tuple[Line, Line] | None) -> Diagnostic:
    related = []
    why = "no other intent gives its threads anything else"
    if rival is not None:
        mine, other = rival
        assert other.intent is not None
        why = f"against {other.intent.name} the order is the same without it{_because(mine, other)}"
        related.append(Related(place_of(other.intent, other.rule.matcher), f"{other.intent.name}"))
    return CODE.at(
        intent.span("spec", "precedence"),
        f"precedence {intent.model.spec.precedence} of {intent.name} changes nothing: {why}",
        related=related,
        help="delete it",
    )


def _because(mine: Line, other: Line) -> str:
    a, b = mine.rule.condition, other.rule.condition
    if mine.rule.builtin != other.rule.builtin:
        return ", because users' rules go before those of built-in groups"
    if condition_contains(b, a):
        return ", because its pattern is narrower"
    if condition_contains(a, b):
        return ", because its pattern is wider"
    return ""


RULE: Final = Rule(CODE, check)
