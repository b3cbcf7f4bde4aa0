"""A rank is looked for in a thread's name.

Engines put the rank of a process behind its title: `VLLM::Worker_TP0`, `VLLM::EngineCore_DP1`,
`sglang::scheduler_TP0`. The kernel keeps 15 bytes of it, and the rank is never among them.

## Why it matters

`VLLM::Worker_TP0` to `VLLM::Worker_TP7` are all called `VLLM::Worker_TP`, `VLLM::EngineCore_DP0`
and `_DP1` are both `VLLM::EngineCor`, and every scheduler of SGLang is `sglang::schedul`. So a
pattern with the rank matches nothing, and one without takes all ranks at once. Ranks can be
placed apart only by something else.

## What to do

Match the command line: the title overwrites it, and it is not cut. Or tell ranks apart by cgroup
or by pods. Where all ranks may share a lane, leave the rank out; one slow rank stalls all, so
that is nearly always what is wanted.

## Example

Wrong:

```yaml
workload: {match: [{comm: "VLLM::Worker_TP0"}], cgroup: "serving.slice/**"}
protect: all
```

Right:

```yaml
workload: {match: [{cmdline: "^VLLM::.*_TP0( |_|$)"}], cgroup: "serving.slice/**"}
protect: all
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.patterns import COMM_BYTES, Glob, truncate_comm
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule
from compiler.rules.written import written

CODE: Final = Code("TRC202", "rank-in-comm", Severity.ERROR, __doc__, adjustable=True)

_RANK: Final = re.compile(r"[_-]((?:tp|dp|pp|ep|cp|dcp|pcp|rank)[_-]?[0-9?]+)", re.I)
_NUMBER: Final = re.compile(r"[_-]([0-9]+)\*?$")


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find ranks in patterns on names of engine threads."""
    policy = compilation.policy
    for item in written(policy):
        for key, text in item.names:
            rank = rank_of(key, text, policy.profiles)
            if rank is None:
                continue
            glob = Glob.comm(text)
            tail = ""
            if glob.is_empty and "*" not in text.rstrip("*"):
                tail = f': the thread is called "{truncate_comm(text)}"'
            elif glob.is_empty:
                tail = ": it matches nothing"
            yield CODE.at(
                item.span(key),
                f'{key} "{text}" names rank {rank}, and no engine has its rank within the '
                f"{COMM_BYTES} bytes the kernel keeps of a name{tail}",
                help="match the command line, which holds the whole title: "
                f'cmdline: "{_expression(text, rank)}"; or tell ranks apart by workload.cgroup or '
                "workload.pods",
            )


def rank_of(key: str, text: str, engines: Iterable[str]) -> str | None:
    """Return the rank that a pattern on names of engine threads asks for, None without one."""
    if key == "kthread" or not _is_engine(text, engines):
        return None
    found = _RANK.search(text)
    if found is None and Glob.comm(text).is_empty:
        found = _NUMBER.search(text)
    return found.group(1) if found is not None else None


def _is_engine(text: str, engines: Iterable[str]) -> bool:
    plain = text.lstrip("*?").casefold()
    return "::" in plain or text[:1] == "*" or any(plain.startswith(name) for name in engines)


def _expression(text: str, rank: str) -> str:
    title = text.partition("::")[0].lstrip("*?") if "::" in text else ""
    title = title if re.fullmatch(r"\w+", title, re.A) else ""
    number = rank.replace("?", "[0-9]")
    return (f"^{title}::.*" if title else "") + f"_{number}( |_|$)"


RULE: Final = Rule(CODE, check)
