"""A thread name is longer than the kernel keeps.

The kernel keeps 15 bytes of a thread's name. A pattern with more literal bytes matches nothing,
silently: `VLLM::EngineCore` never matches, the thread is called `VLLM::EngineCor`. Bytes count,
not characters: `décodeur-vllm-1` has 16.

Write the name as the kernel has it (the message shows the cut form), or match the command line.

```yaml
match: [{comm: vllm-engine-core}]   # wrong: 16 bytes
match: [{comm: vllm-engine-cor}]    # right
```
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.patterns import COMM_BYTES, Glob, truncate_comm
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule

CODE = Code("TRC201", "comm-too-long", Severity.ERROR, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find name patterns that no 15-byte name can match."""
    for intent in compilation.policy.intents:
        for i, item in enumerate(intent.model.spec.workload.match or ()):
            for key, text in (
                ("comm", item.comm),
                ("leaderComm", item.leader_comm),
                ("kthread", item.kthread),
            ):
                if text is None or not Glob.comm(text).is_empty:
                    continue
                cut = truncate_comm(text)
                yield CODE.at(
                    intent.span("spec", "workload", "match", i, key),
                    f'{key} "{text}" needs at least {len(text.replace("*", "").encode())} bytes, '
                    f"and the kernel keeps {COMM_BYTES}: it matches nothing",
                    help=f'write "{cut}", which is what the kernel shows, or match cmdline',
                )


RULE = Rule(CODE, check)
