"""A demotion reaches what keeps the node usable.

A rule that puts threads below `normal` would also have sshd, systemd, the kubelet, the container
runtime, D-Bus, or kernel threads that everything waits for.

## Why it matters

Under load a demoted sshd does not answer, a demoted kubelet misses heartbeats until the node is
declared dead and its pods are moved, and a demoted container runtime kills containers whose probes
time out. It happens exactly when the node is busy, which is when the demotion acts. The group
`node-infra` does not help: what users write goes before a built-in group. Below `background` it
is no matter of judgement: TRC901 refuses such a plan.

## What to do

Name the processes that are meant, or demote by a cgroup of their own (`ci.slice/**`,
`system.slice/NAME.service/**`). An intent that keeps a name or a cgroup at a higher tier, and that
goes first because it is narrower or has a higher `precedence`, also settles it: rules are tried in
their order.

Tried are the names of the group `node-infra`, the places where common distributions run them, and
common kernel threads. A name that is none of these is nobody's concern.

## Example

Wrong, `s*` is also sshd and systemd:

```yaml
workload: {match: [{comm: "s*"}]}
demote: background
```

Right:

```yaml
workload: {match: [{comm: "stress-ng*"}]}
demote: background
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.codes.safety import NODE_SOFTWARE_STARVED
from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity, Span
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import Condition
from compiler.policy import Ladder
from compiler.resolve.overlap import Candidate, rank
from compiler.resolve.types import Expansion, Matcher
from compiler.rules.rule import Rule, place_of
from compiler.rules.threads import SystemThread, system_threads, takes
from compiler.rules.written import is_narrowed, item_takes_all

CODE: Final = Code("TRC210", "demotes-system", Severity.ERROR, __doc__, adjustable=True)

_SHOWN: Final = 3


@dataclass(frozen=True)
class _Line:
    """One rule of the ordered list."""

    intent: Loaded[Intent] | None
    matcher: Matcher
    conditions: tuple[Condition, ...]
    """All must hold."""
    tier: int | None

    def takes(self, thread: SystemThread, *, sure: bool) -> bool:
        return all(takes(condition, thread, sure=sure) for condition in self.conditions)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find rules below normal that are the first to match a thread of the system."""
    policy = compilation.policy
    threads = system_threads(policy.groups["node-infra"].model)
    if not compilation.classes:
        yield from _of_lines(_alone(compilation.expansions), threads, policy.ladder, ())
    for group in compilation.classes:
        yield from _of_lines(_of_class(group), threads, policy.ladder, group.nodes)


def _of_class(group: CompiledClass) -> list[_Line]:
    units = {unit.name: unit for unit in group.resolution.units}
    return [
        _Line(
            units[rule.unit].draft.intent,
            rule.matcher,
            (rule.condition,),
            units[rule.tier_unit].tier,
        )
        for rule in group.resolution.rules
    ]


def _alone(expansions: Sequence[Expansion]) -> list[_Line]:
    """Return the rules as they would be ordered on a node that all intents select."""
    out = []
    for one in rank([Candidate(u, m) for e in expansions for u in e.units for m in u.matchers]):
        work = one.unit.intent.model.spec.workload if one.unit.intent is not None else None
        conditions = [one.matcher.condition]
        if work is not None and (work.cgroup is not None or work.pods is not None):
            pods = "some" if work.pods is not None else None
            conditions.append(Condition(cgroup=work.cgroup, pods=pods))
        tier = min((ask.tier for ask in one.unit.asks), default=None)
        out.append(_Line(one.unit.intent, one.matcher, tuple(conditions), tier))
    return out


def _of_lines(
    lines: Sequence[_Line], threads: Sequence[SystemThread], ladder: Ladder, nodes: tuple[str, ...]
) -> Iterator[Diagnostic]:
    found: dict[Span, tuple[_Line, Loaded[Intent], set[SystemThread]]] = {}
    for i, line in enumerate(lines):
        if line.intent is None or line.tier is None or line.tier <= ladder.normal:
            continue
        if _takes_all(line.intent, line.matcher):
            continue  # another rule's finding
        place = place_of(line.intent, line.matcher)
        taken = found.setdefault(place, (line, line.intent, set()))[2]
        for thread in threads:
            if thread in taken or not line.takes(thread, sure=True):
                continue
            if not any(earlier.takes(thread, sure=False) for earlier in lines[:i]):
                taken.add(thread)
    for place, (line, intent, taken) in found.items():
        if taken and line.tier is not None:
            hits = [thread for thread in threads if thread in taken]
            yield replace(_finding(place, intent, hits, ladder.name(line.tier)), nodes=nodes)


def _takes_all(intent: Loaded[Intent], matcher: Matcher) -> bool:
    work = intent.model.spec.workload
    return not is_narrowed(work) and any(
        item_takes_all(item)
        for i, item in enumerate(work.match or ())
        if matcher.span
        in {intent.span("spec", "workload", "match", i, key) for key in item.conditions}
    )


def _finding(
    place: Span, intent: Loaded[Intent], hits: Sequence[SystemThread], tier: str
) -> Diagnostic:
    names = list(dict.fromkeys(hit.comm for hit in hits))
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    first = hits[0]
    example = (
        f'kernel thread "{first.comm}"'
        if first.kernel
        else f'comm "{first.comm}" in cgroup "{first.cgroup}"'
        if first.sure
        else f'comm "{first.comm}"'
    )
    if intent.model.spec.workload.group is not None:
        help = "use keep: system"
    elif first.kernel:
        help = "leave kernel threads where they are, or name the one that is meant"
    else:
        help = (
            "name the processes that are meant, or demote a cgroup of their own, such as "
            '"ci.slice/**" or "system.slice/NAME.service/**"'
        )
    return CODE.at(
        place,
        f"{intent.name} puts {shown} into tier {tier}: an example is {example}",
        help=help,
    )


RULE: Final = Rule(CODE, check, yields_to={NODE_SOFTWARE_STARVED.id: "place"})
