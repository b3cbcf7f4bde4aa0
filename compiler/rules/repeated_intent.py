"""An intent that repeats another.

Each rule of the intent is contained in a rule of another one that gives the same tier and the same
CPUs, nothing that differs comes between the two, and whatever else the intent says (lane, `prefer`,
`require`, `irqs`, `knobs`, `above`) the other says as well. Without it every thread would get what
it has now.

## Why it matters

Two places for one decision drift apart: somebody changes one of them, and it either has no effect
or splits what was one workload. With engines it is worse, because lanes are sized by adding up: the
same engine written twice counts as two, and its lane is twice as large.

## What to do

Delete it, or merge what is worth keeping into the other, which the finding names. For two engines
of one kind on a node write `instances: 2`. An intent that is meant to keep its threads where they
are against a later change of the other can be silenced with a comment that says so.

## Example

Wrong:

```yaml
workload: {match: [{comm: "stress-ng*"}]}
demote: background
---
workload: {match: [{comm: "stress-ng-cpu*"}]}
demote: background
```

Right:

```yaml
workload: {match: [{comm: "stress-ng*"}]}
demote: background
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.model.intent import Intent
from compiler.pipeline import Compilation
from compiler.plan import MAX_RULES
from compiler.resolve.conditions import condition_contains, condition_meets
from compiler.rules.outcomes import Line, lines_of
from compiler.rules.rule import Rule

CODE: Final = Code("TRC219", "repeated-intent", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find intents that other intents make superfluous on every node."""
    found: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    says = {intent.name: _says(intent) for intent in compilation.policy.intents}
    for group in compilation.classes:
        if len(group.resolution.rules) > MAX_RULES:
            continue  # refused, and too many to compare
        repeats = _repeats(lines_of(group.resolution), says)
        for expansion in group.expansions:
            name = expansion.intent.name
            others = repeats.get(name, set())
            found[name] = found[name] & others if name in found else others
            nodes.setdefault(name, set()).update(group.nodes)
    intents = {intent.name: intent for intent in compilation.policy.intents}
    for name, others in sorted(found.items()):
        mine = intents[name]
        first = [
            intents[other]
            for other in sorted(others)
            # of two that say the same, the one written later is the repetition
            if name not in found.get(other, ()) or _place(intents[other]) < _place(mine)
        ]
        if first:
            finding = _finding(mine, min(first, key=_place))
            yield replace(finding, nodes=tuple(sorted(nodes[name])))


def _place(intent: Loaded[Intent]) -> Span:
    return intent.key_span("spec", "workload")


def _repeats(lines: Sequence[Line], says: Mapping[str, str]) -> Mapping[str, set[str]]:
    """Return for each intent the others that give all its threads the same without it."""
    mine: dict[str, list[int]] = {}
    for i, line in enumerate(lines):
        if line.owner is not None:
            mine.setdefault(line.owner, []).append(i)
    out: dict[str, set[str]] = {}
    for name, places in mine.items():
        same = {other for other in mine if other != name and says[other] == says[name]}
        for i in places:
            same = {other for other in same if _covered(lines, i, mine[other])}
            if not same:
                break
        out[name] = same
    return out


def _says(intent: Loaded[Intent]) -> str:
    """Return what an intent says beside whose threads it means and which tier they get.

    As text, so that comparing it is cheap.
    """
    spec = intent.model.spec
    work = spec.workload
    verb = spec.protect is not None or spec.demote is not None or spec.keep is not None
    return repr(
        (
            verb,
            spec.lane,
            spec.prefer,
            spec.require,
            spec.above,
            spec.irqs,
            spec.knobs,
            work.engine,
            work.instances,
            work.traffic,
            work.gpus,
        )
    )


def _covered(lines: Sequence[Line], i: int, others: Sequence[int]) -> bool:
    """Tell whether a rule of an intent gives what rule ``i`` gives, to all its threads."""
    line = lines[i]
    return any(
        lines[j].outcome == line.outcome
        and condition_contains(lines[j].rule.condition, line.rule.condition)
        and not any(
            between.outcome != line.outcome
            and condition_meets(between.rule.condition, line.rule.condition)
            for between in lines[i + 1 : j]
        )
        for j in others
    )


def _finding(mine: Loaded[Intent], other: Loaded[Intent]) -> Diagnostic:
    return CODE.at(
        mine.key_span("spec", "workload"),
        f"{mine.name} repeats {other.name}: all its threads have the same tier and CPUs there",
        related=[Related(other.key_span("spec", "workload"), f"{other.name} takes them here")],
        help=f"delete {mine.name}, or say what is to be different about its threads",
    )


RULE: Final = Rule(CODE, check)
