"""A protected workload is recognised by names alone.

Any process can take any name: `prctl(PR_SET_NAME)`, `setproctitle`, `exec -a` need no privilege.
An intent with `protect` that looks at names and command lines only, and at no cgroup or pod,
protects whoever uses the name.

## Why it matters

A protected tier takes CPU from everything below it, and the lane's cores with it. A program that
calls itself `VLLM::EngineCor`, by accident or not, gets both: `stress-ng --randprocname` exists to
fool schedulers in this way. A process cannot put itself into a cgroup it has no rights to.

## What to do

Add where the workload runs: `workload.cgroup`, such as `"system.slice/docker-*.scope/**"` or
`"@pods/**"`, or `workload.pods`. On a machine with a single user, silence the finding with a
comment. Kernel threads are not meant: no process can become one.

## Example

Wrong:

```yaml
workload: {match: [{comm: my-decoder}]}
protect: all
```

Right:

```yaml
workload: {match: [{comm: my-decoder}], cgroup: "serving.slice/**"}
protect: all
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.intent import Intent
from compiler.patterns import Glob
from compiler.pipeline import Compilation
from compiler.resolve.types import Expansion, Matcher, UnitDraft
from compiler.rules.irq_thread import means_irq
from compiler.rules.rule import Rule
from compiler.rules.written import is_narrowed, item_takes_all, takes_all

CODE: Final = Code("TRC212", "comm-only-protect", Severity.WARNING, __doc__, adjustable=True)

_HELP: Final = (
    'add workload.cgroup, such as "system.slice/docker-*.scope/**" or "@pods/**", or workload.pods'
)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find protected matchers without evidence of place."""
    for expansion in compilation.expansions:
        intent = expansion.intent
        if intent.model.spec.protect is None or is_narrowed(intent.model.spec.workload):
            continue
        if intent.model.spec.workload.match is not None:
            yield from _items(intent)
        elif any(_is_bare(u, m) for u in expansion.units for m in u.matchers):
            yield _whole(expansion)


def _is_bare(unit: UnitDraft, matcher: Matcher) -> bool:
    condition = matcher.condition
    return (
        condition.kthread is None
        and (condition.cgroup is None or takes_all("cgroup", condition.cgroup))
        and any(ask.effect == "protect" for ask in unit.asks)
    )


def _items(intent: Loaded[Intent]) -> Iterator[Diagnostic]:
    for i, item in enumerate(intent.model.spec.workload.match or ()):
        given = item.conditions
        placed = "cgroup" in given and not takes_all("cgroup", given["cgroup"])
        names = [given[key] for key in ("comm", "leaderComm") if key in given]
        if placed or "kthread" in given or item_takes_all(item):
            continue
        if any(Glob.comm(name).is_empty or means_irq("comm", name) for name in names):
            continue  # it matches nothing, which is the worse fault
        key = next(iter(given))
        patterns = " and ".join(f'{k} "{text}"' for k, text in given.items() if k != "cgroup")
        yield CODE.at(
            intent.span("spec", "workload", "match", i, key),
            f"{intent.name} protects {patterns} wherever it runs, and any process can take that "
            f"{'name' if names else 'command line'}",
            help=_HELP,
        )


def _whole(expansion: Expansion) -> Diagnostic:
    intent = expansion.intent
    work = intent.model.spec.workload
    word = "engine" if work.engine is not None else "group"
    return CODE.at(
        intent.span("spec", "workload", word),
        f"{intent.name} protects {work.engine or work.group} by the names of its threads alone, "
        "and any process can take a name",
        help=_HELP,
    )


RULE: Final = Rule(CODE, check)
