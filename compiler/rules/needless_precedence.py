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

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Sink
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Policy
from compiler.resolve import resolve
from compiler.resolve.conditions import condition_contains, condition_meets
from compiler.resolve.types import Expansion, Resolution
from compiler.rules.outcomes import Line, lines_of
from compiler.rules.rule import Rule, place_of

CODE: Final = Code("TRC218", "needless-precedence", Severity.INFO, __doc__, adjustable=True)

_MOST: Final = 32
"""Intents with a precedence up to which each is tried without it: a trial resolves all intents."""


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find precedences without which nothing would change."""
    policy = compilation.policy
    given = [intent for intent in policy.intents if intent.model.spec.precedence]
    if len(given) > _MOST:
        return
    for intent in given:
        groups = [g for g in compilation.classes if any(e.intent is intent for e in g.expansions)]
        if not groups or any(_changes(policy, group, intent) for group in groups):
            continue
        nodes = sorted(name for group in groups for name in group.nodes)
        rivals = (rival for group in groups for rival in _rivals(group, intent))
        yield replace(_finding(intent, next(rivals, None)), nodes=tuple(nodes))


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
    before, after = Sink(), Sink()
    old = resolve(policy, group.expansions, group.sample, before)
    new = resolve(policy, trial, group.sample, after)
    if before.has_errors or after.has_errors:
        return True  # a conflict, with it or without it: no matter of taste
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


def _same_order(old: tuple[Line, ...], new: tuple[Line, ...]) -> bool:
    """Tell whether first match gives every thread the same outcome.

    It does where rules that differ in outcome and could have one thread keep their order.
    """
    places = {_key(line): i for i, line in enumerate(new)}
    if len(places) != len(new) or {_key(line) for line in old} != set(places):
        return False
    for i, first in enumerate(old):
        for second in old[i + 1 :]:
            if places[_key(first)] < places[_key(second)] or first.outcome == second.outcome:
                continue
            if condition_meets(first.rule.condition, second.rule.condition):
                return False
    return all(new[places[_key(line)]].outcome == line.outcome for line in old)


def _key(line: Line) -> object:
    return line.rule.unit, line.rule.condition, line.rule.matcher.span


def _rivals(group: CompiledClass, intent: Loaded[Intent]) -> Iterator[tuple[Line, Line]]:
    """Yield pairs of the intent's rules and rules of others that could have the same thread."""
    lines = lines_of(group.resolution)
    for mine in lines:
        if mine.owner != intent.name:
            continue
        for other in lines:
            if other.intent is None or other.owner == intent.name:
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
