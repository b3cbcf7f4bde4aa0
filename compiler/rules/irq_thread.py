"""An interrupt's thread is matched as if it could be scheduled.

Threads called `irq/<number>-<device>`, such as `irq/163-nvidia`, handle interrupts. A rule on
them does nothing.

## Why it matters

They are SCHED_FIFO: the kernel runs them before every ordinary thread, so no tier reaches them
and a sched_ext scheduler never sees them. Their CPUs follow the affinity of the interrupt
(`smp_affinity_list`), which a mask on the thread does not move. They are kernel threads as well,
which `comm` and `leaderComm` never match.

## What to do

Drop the matcher. Place the interrupt instead: `irqs: lane` on the intent whose GPU it is, which is
the default. To raise the driver's other threads, use the group `gpu-driver`; an engine's protected
decode path does so by itself.

## Example

Wrong:

```yaml
workload: {match: [{kthread: "irq/*-nvidia"}]}
keep: interactive
```

Right:

```yaml
workload: {group: gpu-driver}
keep: interactive
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.patterns import Glob, intersects
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule
from compiler.rules.written import written

CODE: Final = Code("TRC203", "irq-thread", Severity.ERROR, __doc__, adjustable=True)

_IRQ: Final = Glob.comm("irq/*")


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find interrupt threads in matchers."""
    for item in written(compilation.policy):
        if item.stage == "gpu-irq":
            continue  # a profile that says what they are
        for key, text in item.names:
            if not means_irq(key, text):
                continue
            never = "" if key == "kthread" else f", and {key} never matches kernel threads"
            yield CODE.at(
                item.span(key),
                f'{key} "{text}" is about interrupt threads: they are SCHED_FIFO, which no tier '
                f"reaches, and run where their interrupt's affinity says{never}",
                help="place the interrupt with irqs: lane on the intent whose device it is; for "
                "the GPU driver's other threads use workload: {group: gpu-driver}",
            )


def means_irq(key: str, text: str) -> bool:
    """Tell whether a pattern on names was written for interrupt threads.

    ``irq*`` is one on kernel threads; elsewhere it may mean irqbalance.
    """
    if "irq/" in text:
        return True
    return key == "kthread" and text.startswith("irq") and intersects(Glob.comm(text), _IRQ)


RULE: Final = Rule(CODE, check)
