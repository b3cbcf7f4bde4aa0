"""One item of `match` that no thread reaches, while other items of the intent are reached.

Rules are tried in order and the first that matches a thread has it. Where a rule of another intent
comes before and takes every thread that this item matches, and treats it differently, the item is
without effect. An intent of which nothing is reached at all is TRC206.

## Why it matters

The line reads as if it were in force. Whoever adds a name to an existing intent and finds the
service unchanged looks for the fault on the node, not in a file of another team.

## What to do

Give the intent a higher `precedence`, narrow the rule that comes before, or remove the item.
Coverage by several rules together is not looked for: one rule must take everything.

## Example

Wrong, where `intent-0` demotes the whole slice and goes first:

```yaml
workload: {match: [{cgroup: "ci.slice/**"}]}
demote: background
precedence: 1
---
workload: {match: [{cgroup: "ci.slice/live.service"}, {cgroup: "live.slice/**"}]}
keep: interactive
```

Right:

```yaml
workload: {match: [{cgroup: "ci.slice/**"}]}
demote: background
---
workload: {match: [{cgroup: "ci.slice/live.service"}, {cgroup: "live.slice/**"}]}
keep: interactive
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.pipeline import Compilation, CompiledClass
from compiler.rules.outcomes import Line, lines_of, taker_of
from compiler.rules.rule import Rule, on, place_of

CODE: Final = Code("TRC228", "unreachable-match", Severity.INFO, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find items of user-written matches that get no thread on a class of nodes."""
    for group in compilation.classes:
        yield from _of_class(group)


def _of_class(group: CompiledClass) -> Iterator[Diagnostic]:
    lines = lines_of(group.resolution)
    takers = {i: taker for i, line in enumerate(lines) if (taker := taker_of(line, lines[:i]))}
    reached = {line.owner for i, line in enumerate(lines) if i not in takers}
    for i, taker in takers.items():
        line = lines[i]
        if line.owner in reached and _is_written(line):
            yield on(group, _finding(line, taker))


def _is_written(line: Line) -> bool:
    """Tell whether the rule is an item of ``match``, as the user wrote it."""
    return (
        line.intent is not None
        and line.intent.model.spec.workload.match is not None
        and line.rule.matcher.span.path == line.intent.doc.path
    )


def _finding(line: Line, taker: Line) -> Diagnostic:
    from compiler.explain import describe_condition  # noqa: PLC0415 - for those who have one

    assert line.intent is not None
    assert taker.intent is not None
    who = taker.intent.name
    return CODE.at(
        line.rule.matcher.span,
        f"no thread reaches {describe_condition(line.rule.condition)}: a rule of {who} comes "
        "before and takes all of them",
        related=[
            Related(
                place_of(taker.intent, taker.rule.matcher),
                f"{who} has {describe_condition(taker.rule.condition)} first",
            )
        ],
        help=f"give {line.intent.name} a higher precedence, narrow {who}, or remove the item",
    )


RULE: Final = Rule(CODE, check)
