"""Earlier rules take every thread an intent matches.

Rules are ordered and the first match wins. An intent is shadowed on a node when each of its
matchers is contained in an earlier rule of another intent that gives another tier or other CPUs.

## Why it matters

The intent is read, counted and shown, and never applied. It comes from a `precedence` set higher
than needed, from a wide pattern beside it, or from two intents on the very same threads of which
only one asks for a lane.

Where the shadowed intent has `protect`, the finding is an error: what was to be protected is not.
Where it demotes, keeps or only places, it is a warning. `lint.severity` of the project changes
both.

## What to do

Raise the `precedence` of the shadowed intent above the one named, narrow the other's pattern, or
delete the shadowed intent. `tierc explain NODE --comm NAME` shows who has a thread, and why.

Only containment in a single rule is judged. Where several rules take an intent's threads together
and none alone, nothing is said.

## Example

Wrong, the second never gets a thread:

```yaml
workload: {match: [{comm: "job-*"}]}
demote: background
precedence: 10
---
workload: {match: [{comm: "job-live*"}]}
keep: interactive
```

Right, narrower goes first at equal precedence:

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
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.pipeline import Compilation, CompiledClass
from compiler.rules.outcomes import Line, lines_of, taker_of
from compiler.rules.rule import Rule, on, place_of

CODE: Final = Code("TRC206", "shadowed", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find intents that get no thread on a class of nodes."""
    for group in compilation.classes:
        yield from _of_class(group)


def _of_class(group: CompiledClass) -> Iterator[Diagnostic]:
    lines = lines_of(group.resolution)
    mine: dict[str, list[int]] = {}
    for i, line in enumerate(lines):
        if line.owner is not None:
            mine.setdefault(line.owner, []).append(i)
    for _, indexes in sorted(mine.items()):
        takers: list[Line] = []
        for i in indexes:
            taker = taker_of(lines[i], lines[:i])
            if taker is None:
                break
            takers.append(taker)
        else:
            yield on(group, _finding(lines[indexes[0]], takers))


def _finding(line: Line, takers: Sequence[Line]) -> Diagnostic:
    assert line.intent is not None
    related: dict[str, Related] = {}
    for taker in takers:
        if taker.intent is None or taker.intent.name in related:
            continue
        precedence = taker.rule.precedence
        standing = f" (precedence {precedence})" if precedence else ""
        related[taker.intent.name] = Related(
            place_of(taker.intent, taker.rule.matcher),
            f"{taker.intent.name} has them first{standing}",
        )
    who, name = ", ".join(related), line.intent.name
    return CODE.at(
        line.intent.key_span("spec", "workload"),
        f"no thread reaches {name}: rules of {who} come before and take all it matches",
        related=related.values(),
        severity=Severity.ERROR if line.intent.model.spec.protect is not None else None,
        help=f"give {name} a higher precedence, narrow {who}, or delete {name}",
    )


RULE: Final = Rule(CODE, check)
