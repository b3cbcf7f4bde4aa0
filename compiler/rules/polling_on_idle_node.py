"""An engine polls on a node where it is mostly idle.

`traffic: mostly-idle` says that the engine waits most of the time, and in this version it waits by
polling: SGLang's scheduler asks its socket without a pause, the workers of vLLM up to 0.17.1 yield
and ask again. Waiting that ends by itself, as in vLLM from 0.18.0 on (1 s after the last message),
is not reported.

## Why it matters

Each polling thread keeps a core busy without doing anything. The core is missing to whatever shares
the machine, its heat slows the others, and a lane sized by what is seen is sized by a lie. With
SGLang at two ranks, `--sleep-on-idle` took an idle engine from 200 % to 0.0 % of a CPU; the true
demand was 6.7 % of one core, and the CI jobs beside it went from 205 to 441 an hour. No placement
can do that: it is a knob of the engine.

## What to do

Start the engine with the knob the message names, if the version has one that suits sparse traffic;
then measure the demand again and size the lane by it. Where the profile knows none, a newer version
may. tierc cannot see how an engine was started: once it is, say `knobs: "off"` (flags are handled
elsewhere), which silences this rule for the intent.

## Example

Wrong:

```yaml
workload: {engine: sglang, version: "0.5.20", traffic: mostly-idle, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
```

Right, where the engine is started with `--sleep-on-idle`:

```yaml
workload: {engine: sglang, version: "0.5.20", traffic: mostly-idle, cgroup: "serving.slice/**"}
protect: [decode, {path: ttft, tier: interactive}]
knobs: "off"
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.profile import EngineProfile, Knob
from compiler.pipeline import Compilation
from compiler.rules.engines import release, setting, sleep_knobs, suits, waits_of
from compiler.rules.rule import Rule

CODE: Final = Code("TRC213", "polling-on-idle-node", Severity.WARNING, __doc__, adjustable=True)

_IDLE: Final = "mostly-idle"

_ENDS: Final = re.compile(r"\bthen (?:it )?(?:waits?|sleeps?|parks?|blocks?)\b", re.I)
"""How profiles say that polling ends by itself."""


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find polling engines that are declared mostly idle."""
    policy = compilation.policy
    for intent in policy.intents:
        spec = intent.model.spec
        profile = policy.profiles.get(spec.workload.engine or "")
        if profile is None or spec.workload.traffic != _IDLE or spec.knobs == "off":
            continue
        waits = waits_of(profile, intent)
        if not waits or any(_ENDS.search(wait.behaviour) for wait in waits):
            continue
        wait = waits[-1]
        cores = "a core" if wait.cores == 1 else f"{wait.cores} cores"
        yield CODE.at(
            intent.span("spec", "workload", "traffic"),
            f"{intent.name} is mostly idle, and {release(profile, spec.workload.version)} keeps "
            f"{cores} busy while it waits: {wait.behaviour}",
            help=_help(profile, spec.workload.version),
        )


def _help(profile: Loaded[EngineProfile], version: str | None) -> str:
    found = sleep_knobs(profile, version)
    good = [knob for knob in found if suits(knob, _IDLE)]
    if good:
        lines = [f"start it with {_text(knob)}" for knob in good]
        return "\n".join([*lines, 'where it is started so, knobs: "off" silences this'])
    against = [f"{_text(knob)}" for knob in found]
    if against:
        return f"not for sparse traffic: {against[0]}\nkeep other work off its cores, or update it"
    later = sleep_knobs(profile, None)
    newer = f"; {setting(later[0])} exists in versions {later[0].versions}" if later else ""
    return f"the profile knows no flag of {release(profile, version)} that stops it{newer}"


def _text(knob: Knob) -> str:
    return f"{setting(knob)} (versions {knob.versions}): {knob.note}"


RULE: Final = Rule(CODE, check)
