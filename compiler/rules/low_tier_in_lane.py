"""A demoted intent is a member of a lane that keeps lower tiers out.

A lane has the highest tier of the intents that share its name. `guarded` keeps threads of lower
tiers out of its CPUs, `exclusive` keeps out everybody else. A member is never kept out.

## Why it matters

The intent that the lane is for has CPUs of its own so that background work does not disturb it.
An intent below `normal` with the same lane name walks in as a member: its threads run on just these
CPUs, and with plain CPU affinity the kernel gives them the same time as the others. Mostly the
name was copied, or somebody wanted to keep the work near the same memory.

## What to do

Take `lane` away from the demoted intent; `prefer: [leftovers]` keeps it off all lanes. Give it a
lane of its own name where it needs CPUs of its own. Where sharing is meant, write `share: open` on
the lane, which says so.

## Example

Wrong:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {name: serving, cores: 2}
---
workload: {match: [{cgroup: "bulk.slice/**"}]}
demote: background
lane: {name: serving}
```

Right:

```yaml
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
lane: {name: serving, cores: 2}
---
workload: {match: [{cgroup: "bulk.slice/**"}]}
demote: background
prefer: [leftovers]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Ladder
from compiler.resolve.lanes import lane_span
from compiler.resolve.types import ResolvedLane, ResolvedUnit
from compiler.rules.rule import Rule, on

CODE: Final = Code("TRC230", "low-tier-in-lane", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find intents below normal in a lane that another intent makes a guarded one."""
    ladder = compilation.policy.ladder
    for group in compilation.classes:
        for lane in group.resolution.lanes:
            if lane.share.value != "open" and lane.tier < ladder.normal:
                yield from _of_lane(group, lane, ladder)


def _of_lane(group: CompiledClass, lane: ResolvedLane, ladder: Ladder) -> Iterator[Diagnostic]:
    inside = [unit for unit in group.resolution.units if unit.lane == lane.name]
    for name in lane.intents:
        low = [u for u in inside if _owner(u) == name and u.tier > ladder.normal]
        high = [u for u in inside if _owner(u) != name and u.tier == lane.tier]
        if low and high:
            yield on(group, _finding(lane, min(low, key=_rank), min(high, key=_rank), ladder))


def _owner(unit: ResolvedUnit) -> str | None:
    return unit.draft.intent.name if unit.draft.intent is not None else None


def _rank(unit: ResolvedUnit) -> tuple[int, str]:
    return unit.tier, unit.name


def _finding(
    lane: ResolvedLane, low: ResolvedUnit, high: ResolvedUnit, ladder: Ladder
) -> Diagnostic:
    mine, other = low.draft.intent, high.draft.intent
    assert mine is not None
    assert other is not None
    related = [
        Related(
            lane_span(other) if high.winner is None else high.winner.span,
            f"{other.name} makes it a lane of tier {ladder.name(high.tier)}",
        )
    ]
    if low.winner is not None:
        related.append(Related(low.winner.span, f"{mine.name} says {low.winner.text}"))
    return CODE.at(
        lane_span(mine),
        f"{mine.name} ({ladder.name(low.tier)}) is a member of lane {lane.name}, which is "
        f"{lane.share.value} to keep lower tiers from {other.name} ({ladder.name(high.tier)})",
        related=related,
        help=f"take the lane away from {mine.name} or give it another name; or write share: open "
        f"on lane {lane.name}, which says that it is shared",
    )


RULE: Final = Rule(CODE, check)
