"""A thread name is longer than the kernel keeps.

The kernel keeps 15 bytes of a thread's name. A pattern with more literal bytes matches nothing.
Bytes count, not characters: `décodeur-vllm-1` has 15 characters and 16 bytes.

## Why it matters

Nothing says so at run time. The rule is loaded, no thread ever has the name, and the engine runs
unprotected: `VLLM::EngineCore` never matches, because the thread is called `VLLM::EngineCor`. Two
names that differ only behind the 15th byte are one name, so two intents that use them ask for the
same threads; the finding then names both.

## What to do

Write the name as the kernel has it (the message shows the cut form, never inside a character), or
match the command line, which is not cut.

## Example

Wrong, 16 bytes:

```yaml
workload: {match: [{comm: vllm-engine-core}], cgroup: "serving.slice/**"}
protect: all
```

Right:

```yaml
workload: {match: [{comm: vllm-engine-cor}], cgroup: "serving.slice/**"}
protect: all
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.patterns import COMM_BYTES, Glob, truncate_comm
from compiler.pipeline import Compilation
from compiler.rules import irq_thread, rank_in_comm
from compiler.rules.rule import Rule
from compiler.rules.written import Written, written

CODE: Final = Code("TRC201", "comm-too-long", Severity.ERROR, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find name patterns that no 15-byte name can match."""
    policy = compilation.policy
    by_name: dict[str, list[tuple[Written, str, str]]] = {}
    for item in written(policy):
        for key, text in item.names:
            if (name := _name(text)) is not None:
                by_name.setdefault(name, []).append((item, key, text))
    for item in written(policy):
        for key, text in item.names:
            if not Glob.comm(text).is_empty:
                continue
            if irq_thread.means_irq(key, text) or rank_in_comm.rank_of(key, text, policy.profiles):
                continue  # the more specific rule says it
            cut = _name(text)
            twins = [
                other
                for other in by_name.get(cut or "", ())
                if other[0].owner != item.owner and other[2] != text
            ]
            yield CODE.at(
                item.span(key),
                f'{key} "{text}" needs at least {len(text.replace("*", "").encode())} bytes, '
                f"and the kernel keeps {COMM_BYTES}: it matches nothing"
                + "".join(f"; cut, it is the same name as {o.owner}'s" for o, _, _ in twins[:1]),
                related=[
                    Related(o.span(k), f'{o.owner} names "{other}", of which "{cut}" is left')
                    for o, k, other in twins
                ],
                help=_help(key, text, cut, twins=bool(twins)),
            )


def _name(text: str) -> str | None:
    """Return the one name the kernel would have for a pattern, None where a star leaves more."""
    plain = text.rstrip("*")
    if "*" in plain or "?" in plain or (plain != text and len(plain.encode()) < COMM_BYTES):
        return None
    return truncate_comm(plain)


def _help(key: str, text: str, cut: str | None, *, twins: bool) -> str:
    instead = "" if key == "kthread" else ", or match cmdline, which is not cut"
    if twins:
        return f'the kernel shows "{cut}" for both, and no rule on names can tell them apart: ' + (
            "name them otherwise" if key == "kthread" else "match cmdline or cgroup instead"
        )
    if cut is None:
        return f"name at most {COMM_BYTES} bytes, from the beginning of the name{instead}"
    return f'write "{cut}", which is what the kernel shows{instead}'


RULE: Final = Rule(CODE, check)
