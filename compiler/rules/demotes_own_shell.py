"""A demotion reaches the shell of whoever operates the node.

A rule that puts threads below `normal` would also have login shells: by the slice of all users, by
that of root or of the first regular user (uid 1000), or by the name of a shell.

## Why it matters

The day the node is overloaded somebody logs in to see why. With the session in `background` the
prompt takes seconds, `top` shows late numbers, and the fix waits behind the load it is for. sshd
itself may be well protected: what it starts is in `user.slice`. By name it also reaches every
script that uses that shell, those of the system included.

## What to do

Name the work that is meant: `{comm: "stress-ng*"}`, with `cgroup: "user.slice/**"` beside it if it
must be that of users. Or hold the operators' sessions where they are with a second intent: a
narrower pattern goes first. Sessions of other users than root and uid 1000 are nobody's concern
here.

## Example

Wrong:

```yaml
workload: {match: [{cgroup: "user.slice/**"}]}
demote: background
```

Right, everybody but the one who operates the node:

```yaml
workload: {match: [{cgroup: "user.slice/**"}]}
demote: background
---
workload:
  match:
    - {cgroup: "user.slice/user-0.slice/**"}
    - {cgroup: "user.slice/user-1000.slice/**"}
keep: normal
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.pipeline import Compilation
from compiler.rules.reach import Demotion, demotions
from compiler.rules.rule import Rule
from compiler.rules.threads import SystemThread

CODE: Final = Code("TRC221", "demotes-own-shell", Severity.WARNING, __doc__, adjustable=True)


def _sessions(uid: int) -> tuple[SystemThread, ...]:
    user = f"user.slice/user-{uid}.slice"
    return (
        SystemThread("bash", f"{user}/session-3.scope", "-bash"),
        SystemThread("zsh", f"{user}/session-3.scope", "-zsh"),
        SystemThread("fish", f"{user}/session-3.scope", "-fish"),
        SystemThread(
            "tmux: server", f"{user}/user@{uid}.service/tmux-spawn-1.scope", "tmux new-session"
        ),
    )


SHELLS: Final = (*_sessions(1000), *_sessions(0))
"""What an operator works in, where logind puts it."""


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find rules below normal that are the first to match a session."""
    for found in demotions(compilation, SHELLS):
        yield replace(_finding(found), nodes=found.nodes)


def _finding(found: Demotion) -> Diagnostic:
    first = found.hits[0]
    whose = "root" if "user-0.slice" in first.cgroup else "uid 1000"
    return CODE.at(
        found.place,
        f"{found.intent.name} puts the operator's own shell into tier {found.tier}: an example is "
        f'comm "{first.comm}" in cgroup "{first.cgroup}"',
        help="name the programs that are meant, or hold the session of "
        f'{whose} with a narrower intent: {{cgroup: "{first.cgroup.rsplit("/", 1)[0]}/**"}} and '
        "keep: normal",
    )


RULE: Final = Rule(CODE, check)
