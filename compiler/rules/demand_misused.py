"""A measured demand that sizes nothing, or that is no demand.

A `Demand` document serves `cores: measured` and nothing else. Reported are: one whose intent has no
such lane; one that selects none of the nodes its intent is on; one that another
intent of the same lane overrides with a number of its own; and one whose figures are a spin loop's:
the same whole number of cores at the median and at the 99th percentile, of an engine that polls.

## Why it matters

A file with figures in it is taken for what is in force. If it is not, the next one to measure
writes new figures, sees no change, and distrusts the tool or the machine. A flat reading is worse
where it does size a lane: an idle SGLang at two ranks read 200 % and needed 6.7 % of one core, and
the lane built on the reading kept two cores from everybody else.

## What to do

Write `cores: measured` in the lane of the intent, correct the names, or delete the document. For a
flat reading turn the polling off, measure again, and mark the old one with `spinSuspect: true`: it
is then kept as a record, refused as a size, and not reported here.

## Example

Wrong, next to `kind: Demand` with `spec.intent: intent-0` and the lane's number still fixed:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: 4}
---
demand: {intent: intent-0, cores: {p50: 1.2, p99: 2.6}, window: 600s, spinSuspect: false}
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
lane: {cores: measured}
---
demand: {intent: intent-0, cores: {p50: 1.2, p99: 2.6}, window: 600s, spinSuspect: false}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.model.demand import Demand
from compiler.model.intent import Intent
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.resolve.lanes import lane_name
from compiler.rules.engines import waits_of
from compiler.rules.rule import Rule, on
from compiler.select import selects

CODE: Final = Code("TRC225", "demand-misused", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find demands that no lane is sized by, and readings that size one and should not."""
    policy = compilation.policy
    intents = {intent.name: intent for intent in policy.intents}
    for demand in policy.demands:
        if demand.model.spec.spin_suspect:
            continue  # kept as a record; as a size it is refused
        name = demand.model.spec.intent
        intent = intents.get(name)
        if intent is not None:  # otherwise TRC303 says so
            yield from _of_intent(policy, demand, intent)
    yield from _overridden(compilation)


def _measures(intent: Loaded[Intent]) -> bool:
    lane = intent.model.spec.lane
    return lane is not None and lane.cores == "measured"


def _of_intent(
    policy: Policy, demand: Loaded[Demand], intent: Loaded[Intent]
) -> Iterator[Diagnostic]:
    if not _measures(intent):
        lane = lane_name(intent)
        sized = intent.model.spec.lane is not None and intent.model.spec.lane.cores is not None
        if lane is None:
            why, place = "asks for no lane", intent.key_span("spec", "workload")
        elif sized:
            why, place = f"sizes lane {lane} itself", intent.span("spec", "lane", "cores")
        else:
            why, place = f"has lane {lane} sized by its profile", intent.key_span("spec")
        yield CODE.at(
            demand.span("spec", "intent"),
            f"demand {demand.name} sizes nothing: {intent.name} {why}",
            related=[Related(place, "what counts is this")],
            help=f"write lane: {{cores: measured}} in {intent.name}, or delete the demand",
        )
        return
    if demand.model.spec.nodes is not None and _misses(policy, demand, intent):
        yield CODE.at(
            demand.key_span("spec", "nodes"),
            f"demand {demand.name} sizes nothing: it is for none of the nodes that {intent.name} "
            "is on",
            help="correct nodes, or leave it out where the figures hold everywhere",
        )
        return
    cores = demand.model.spec.cores
    profile = policy.profiles.get(intent.model.spec.workload.engine or "")
    if (
        profile is not None
        and cores.p50 == cores.p99 >= 1
        and cores.p50.is_integer()
        and waits_of(profile, intent)
    ):
        flat = f"{cores.p50:g} {'core' if cores.p50 == 1 else 'cores'}"
        yield CODE.at(
            demand.span("spec", "cores"),
            f"demand {demand.name} reads exactly {flat} at the median and at the 99th percentile, "
            f"which is what polling looks like, and it sizes lane {lane_name(intent)}",
            help="turn polling off and measure again, or mark it: spinSuspect: true",
        )


def _misses(policy: Policy, demand: Loaded[Demand], intent: Loaded[Intent]) -> bool:
    """Tell whether the intent is on nodes, and the demand is for none of them."""
    mine = [node for node in policy.nodes if intent in policy.intents_of(node)]
    return bool(mine) and not any(
        selects(demand.model.spec.nodes, node.name, node.model.metadata.labels) for node in mine
    )


def _overridden(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find lanes whose measured size lost against another intent's."""
    intents = {intent.name: intent for intent in compilation.policy.intents}
    for group in compilation.classes:
        for lane in group.resolution.lanes:
            winner = lane.cores.winner
            for loser in lane.cores.losers:
                if loser.intent == winner.intent or not _measures(intents[loser.intent]):
                    continue
                if loser.precedence == winner.precedence:
                    continue  # equal values, or a conflict that is an error already
                yield on(
                    group,
                    CODE.at(
                        loser.span,
                        f"the measured size of {loser.intent} ({loser.value} cores) is not used: "
                        f"{winner.intent} gives lane {lane.name} {winner.value} with a higher "
                        "precedence",
                        related=[Related(winner.span, f"{winner.intent} says {winner.value}")],
                        help=f"drop cores in one of {loser.intent} and {winner.intent}",
                    ),
                )


RULE: Final = Rule(CODE, check)
