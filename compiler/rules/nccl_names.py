"""NCCL's threads are looked for by names they do not have by default.

`NCCL Progress`, `NCCL Service`, `NCCL IbAsync`, `NCCL SockAsync`: NCCL names its threads only with
`NCCL_SET_THREAD_NAME=1` in the environment of the process. Without it they have the name of the
process that made them.

## Why it matters

A pattern on those names matches nothing, and nothing says so. `protect: [{stage: collective}]` is
safe and coarser than it looks: as long as the progress threads cannot be told apart, the whole
worker they live in is protected in their place, with its loader and compile threads.

## What to do

Set `NCCL_SET_THREAD_NAME=1` where the engine is started, and record it: in an EngineProfile of your
own as `needs: NCCL_SET_THREAD_NAME=1` on the row, in an intent as a comment that silences this
finding. Or protect the path `collective`, or `decode`: they name the workers themselves, which is
what nearly always is wanted, because progress spins in them.

## Example

Wrong:

```yaml
workload: {match: [{comm: "NCCL Progress*", cgroup: "serving.slice/**"}]}
protect: all
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", tensorParallel: 2, cgroup: "serving.slice/**"}
protect: [collective, ttft]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.intent import Intent
from compiler.model.profile import ProfileMatch
from compiler.patterns import Glob, contains
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.profiles import carriers, stage_matches
from compiler.rules.rule import Rule
from compiler.rules.written import written

CODE: Final = Code(
    "TRC216", "nccl-names-without-variable", Severity.WARNING, __doc__, adjustable=True
)

_VARIABLE: Final = "NCCL_SET_THREAD_NAME"
_NAMES: Final = Glob.comm("NCCL *")


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find patterns on NCCL's names, and protection of a stage that has no others."""
    policy = compilation.policy
    for item in written(policy):
        if isinstance(item.match, ProfileMatch) and _VARIABLE in (item.match.needs or ""):
            continue
        text = item.match.comm
        if text is None or Glob.comm(text).is_empty or not contains(_NAMES, Glob.comm(text)):
            continue
        where = "with a comment that silences this" if item.intent else f"as needs: {_VARIABLE}=1"
        yield CODE.at(
            item.span("comm"),
            f'comm "{text}" exists only with {_VARIABLE}=1: without it NCCL\'s threads have the '
            "name of their process",
            help=f"set {_VARIABLE}=1 where the engine is started and say so here, {where}",
        )
    for intent in policy.intents:
        yield from _stage(policy, intent)


def _stage(policy: Policy, intent: Loaded[Intent]) -> Iterator[Diagnostic]:
    work = intent.model.spec.workload
    profile = policy.profiles.get(work.engine or "")
    if profile is None:
        return
    narrowed = work.cgroup is not None or work.pods is not None
    found = stage_matches(profile.model, work.version, work.tensor_parallel, narrowed=narrowed)
    rows = found.get("collective", ())
    if not rows or any(_VARIABLE not in (row.match.needs or "") for row in rows):
        return
    instead = [s for s in carriers(profile.model, found)["collective"] if s != "collective"]
    for i, item in enumerate(intent.model.spec.protect or ()):
        if item.stage != "collective" or not instead:
            continue
        yield CODE.at(
            intent.span("spec", "protect", i, "stage"),
            f"{intent.name} protects stage collective, whose threads have names only with "
            f"{_VARIABLE}=1: all threads of {' and '.join(instead)} are protected in their place",
            help=f"protect the path collective, which says so, or set {_VARIABLE}=1 where the "
            "engine is started and silence this with a comment",
        )


RULE: Final = Rule(CODE, check)
