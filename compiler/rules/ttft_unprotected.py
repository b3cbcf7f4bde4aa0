"""Decode is protected, and nothing else of the way to the first token.

An intent protects stages of the step loop above `normal`, and none of the stages that only the
`ttft` path has: the API server, the tokenizer, the detokenizer.

## Why it matters

CPU that the decode loop gains is taken from what is left, and the API server and the tokenizer are
part of that. On a GB10 under `stress-ng --cpu 16`, a scheduler that favours interactive tasks took
decode from 6.7 to 17.5 tokens/s and the time to first token from 336 to 126 ms. Protecting the
decode path on top of it gave 21.3 tokens/s, and the time to first token rose again, to 169 ms. On
another machine moving only the engine process made its 99th percentile 34 % worse.

## What to do

Protect `ttft` as well, one tier lower, so that the step loop still goes first. Where tokens per
second are all that counts, as in offline batches, silence the finding with a comment. Stages that
another intent holds above `normal` count as protected.

## Example

Wrong:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: decode
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.base import NODE_STAGES, Stage
from compiler.pipeline import Compilation
from compiler.plan import Condition
from compiler.policy import Ladder, Policy
from compiler.profiles import carriers, stage_matches
from compiler.resolve.conditions import condition_contains
from compiler.resolve.types import Ask, Expansion, UnitDraft
from compiler.rules.rule import Rule, scopes

CODE: Final = Code("TRC207", "ttft-unprotected", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find engines whose decode loop alone is protected."""
    policy = compilation.policy
    for expansions, nodes in scopes(compilation):
        held = {
            matcher.condition
            for expansion in expansions
            for unit in expansion.units
            if _raising(unit, policy.ladder)
            for matcher in unit.matchers
        }
        for expansion in expansions:
            paths = _paths(policy, expansion)
            if paths is None:
                continue
            decode, waiting = paths
            asks = [
                ask
                for unit in expansion.units
                if unit.stage in decode
                for ask in _raising(unit, policy.ladder)
                if ask.effect == "protect"
            ]
            left = [unit for unit in expansion.units if unit.stage in waiting]
            if not asks or not left or _is_held(left, held):
                continue
            yield replace(_finding(expansion, min(asks), left, policy.ladder), nodes=nodes)


def _paths(policy: Policy, expansion: Expansion) -> tuple[set[Stage], set[Stage]] | None:
    """Return the stages whose threads do decode, and those only on the way to the first token."""
    work = expansion.intent.model.spec.workload
    profile = policy.profiles.get(work.engine or "")
    if profile is None:
        return None
    decode = profile.model.spec.paths.get("decode")
    ttft = profile.model.spec.paths.get("ttft")
    if decode is None or ttft is None:
        return None
    narrowed = work.cgroup is not None or work.pods is not None
    found = stage_matches(profile.model, work.version, work.tensor_parallel, narrowed=narrowed)
    carried = carriers(profile.model, found)

    def threads(stages: Sequence[Stage]) -> set[Stage]:
        return {c for stage in stages if stage not in NODE_STAGES for c in carried[stage]}

    step = threads(decode)
    return step, threads(ttft) - step


def _raising(unit: UnitDraft, ladder: Ladder) -> tuple[Ask, ...]:
    return tuple(ask for ask in unit.asks if ask.tier < ladder.normal)


def _is_held(left: Sequence[UnitDraft], held: Collection[Condition]) -> bool:
    """Tell whether any of these units' threads are among those held above normal."""
    mine = {matcher.condition for unit in left for matcher in unit.matchers}
    return any(
        condition_contains(one, other) or condition_contains(other, one)
        for one in held
        for other in mine
    )


def _finding(
    expansion: Expansion, ask: Ask, left: Sequence[UnitDraft], ladder: Ladder
) -> Diagnostic:
    stages = ", ".join(sorted({str(unit.stage) for unit in left}))
    lower = ask.tier + 1
    item = "ttft" if lower >= ladder.normal else f"{{path: ttft, tier: {ladder.name(lower)}}}"
    return CODE.at(
        ask.span,
        f"{expansion.intent.name} protects the step loop at {ladder.name(ask.tier)} and no other "
        f"stage of ttft ({stages}): the time to first token pays for the tokens per second",
        help=f"add {item} to protect, which keeps the step loop first",
    )


RULE: Final = Rule(CODE, check)
