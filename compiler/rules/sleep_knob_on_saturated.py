"""A knob that makes an engine sleep is asked for where the engine never rests.

`traffic: saturated` says that work is always waiting. A knob such as SGLang's `--sleep-on-idle` or
`VLLM_SLEEP_WHEN_IDLE` is asked for under `knobs: auto` all the same: because another intent about
the same engine leaves `traffic` at `steady`, or because a profile of the user recommends the knob
for any traffic.

## Why it matters

A saturated engine hardly ever gets to sleep, so nothing is won; and where it does between two
batches, waking up costs time at the worst moment: vLLM sleeps 0.1 s at a time. The flag belongs to
the process and not to the intent, so an engine cannot be started in both ways, and one of the two
statements about its traffic is wrong.

## What to do

Give all intents about one engine the same `traffic`. In an EngineProfile of your own, list under
`traffic` of the knob what it is good for. `knobs: "off"` on the intent that asks leaves the flags
to whoever starts the engine.

## Example

Wrong, the second asks for `--sleep-on-idle`:

```yaml
workload: {engine: sglang, version: "0.5.20", traffic: saturated, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
---
workload: {engine: sglang, version: "0.5.20", cgroup: "serving.slice/**"}
lane: {cores: 2}
```

Right:

```yaml
workload: {engine: sglang, version: "0.5.20", traffic: saturated, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
---
workload: {engine: sglang, version: "0.5.20", traffic: saturated, cgroup: "serving.slice/**"}
lane: {cores: 2}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.model.intent import Intent
from compiler.model.profile import EngineProfile, Knob
from compiler.pipeline import Compilation
from compiler.rules.engines import setting, sleep_knobs, suits
from compiler.rules.rule import Rule, scopes

CODE: Final = Code("TRC214", "sleep-knob-on-saturated", Severity.WARNING, __doc__, adjustable=True)

_SATURATED: Final = "saturated"


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find sleep knobs that intents ask for and that their engines' traffic forbids."""
    profiles = compilation.policy.profiles
    for expansions, nodes in scopes(compilation):
        intents = [e.intent for e in expansions if e.intent.model.spec.workload.engine in profiles]
        full = [i for i in intents if i.model.spec.workload.traffic == _SATURATED]
        for intent in intents:
            profile = profiles[intent.model.spec.workload.engine or ""]
            knob = _asked(profile, intent)
            if knob is None:
                continue
            if intent in full:
                yield replace(_recommended(profile, intent, knob), nodes=nodes)
                continue
            for other in full:
                if _same_engine(intent, other) and not suits(knob, _SATURATED):
                    yield replace(_contradiction(intent, other, knob), nodes=nodes)
                    break


def _asked(profile: Loaded[EngineProfile], intent: Loaded[Intent]) -> Knob | None:
    """Return the sleep knob that ``knobs: auto`` stands for in this intent."""
    spec = intent.model.spec
    if spec.knobs == "off":
        return None
    found = sleep_knobs(profile, spec.workload.version)
    asked = [k for k in found if k.advice == "set" and suits(k, spec.workload.traffic)]
    return asked[0] if asked else None


def _same_engine(one: Loaded[Intent], other: Loaded[Intent]) -> bool:
    """Tell whether two intents are about the very same processes, by what is written.

    An intent that is narrower than another may be its exception, with traffic of its own.
    """
    a, b = one.model.spec.workload, other.model.spec.workload
    versions = {a.version, b.version} - {None}
    return (
        (a.engine, a.cgroup, a.pods, a.tensor_parallel)
        == (b.engine, b.cgroup, b.pods, b.tensor_parallel)
    ) and len(versions) < 2


def _recommended(profile: Loaded[EngineProfile], intent: Loaded[Intent], knob: Knob) -> Diagnostic:
    place = profile.model.spec.knobs.index(knob)
    key = "traffic" if knob.traffic else "name"
    return CODE.at(
        intent.span("spec", "workload", "traffic"),
        f"{intent.name} is saturated, and the profile of {profile.name} has {setting(knob)} set "
        "for it, which makes the engine sleep",
        related=[
            Related(
                profile.span("spec", "knobs", place, key),
                f"recommended for {', '.join(knob.traffic) or 'any traffic'}",
            )
        ],
        help="list under traffic of the knob what it is good for: [mostly-idle, steady]",
    )


def _contradiction(intent: Loaded[Intent], other: Loaded[Intent], knob: Knob) -> Diagnostic:
    traffic = intent.model.spec.workload.traffic
    return CODE.at(
        _traffic_span(intent),
        f"{intent.name} takes the traffic of the engine as {traffic}, which asks for "
        f"{setting(knob)}, and {other.name} calls the same engine saturated",
        related=[Related(_traffic_span(other), f"{other.name} says saturated")],
        help=f'write traffic: saturated in {intent.name} as well, or knobs: "off"',
    )


def _traffic_span(intent: Loaded[Intent]) -> Span:
    written = "traffic" in intent.model.spec.workload.model_fields_set
    return intent.span("spec", "workload", "traffic" if written else "engine")


RULE: Final = Rule(CODE, check)
