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

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.codes.safety import NODE_SOFTWARE_STARVED
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.pipeline import Compilation
from compiler.rules.reach import Demotion, demotions
from compiler.rules.rule import Rule
from compiler.rules.threads import system_threads

CODE: Final = Code("TRC210", "demotes-system", Severity.ERROR, __doc__, adjustable=True)

_SHOWN: Final = 3


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find rules below normal that are the first to match a thread of the system."""
    threads = system_threads(compilation.policy.groups["node-infra"].model)
    for found in demotions(compilation, threads):
        yield replace(_finding(found), nodes=found.nodes)


def _finding(found: Demotion) -> Diagnostic:
    names = list(dict.fromkeys(hit.comm for hit in found.hits))
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    first = found.hits[0]
    example = (
        f'kernel thread "{first.comm}"'
        if first.kernel
        else f'comm "{first.comm}" in cgroup "{first.cgroup}"'
        if first.sure
        else f'comm "{first.comm}"'
    )
    if found.intent.model.spec.workload.group is not None:
        help = "use keep: system"
    elif first.kernel:
        help = "leave kernel threads where they are, or name the one that is meant"
    else:
        help = (
            "name the processes that are meant, or demote a cgroup of their own, such as "
            '"ci.slice/**" or "system.slice/NAME.service/**"'
        )
    return CODE.at(
        found.place,
        f"{found.intent.name} puts {shown} into tier {found.tier}: an example is {example}",
        help=help,
    )


RULE: Final = Rule(CODE, check, yields_to={NODE_SOFTWARE_STARVED.id: "place"})
