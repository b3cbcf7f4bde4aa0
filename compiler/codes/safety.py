"""TRC900 to TRC909: a compiled plan broke an invariant."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

BROKEN_INVARIANT: Final = Code(
    "TRC900",
    "broken-invariant",
    Severity.ERROR,
    """\
A compiled plan broke a rule that every plan must keep, such as: each CPU it names is online, the
shared pool is not empty, no two exclusive lanes have a CPU in common, no work of a lower tier is
inside a guard, node software always has a CPU.  The check shares no code with what makes plans.

Nothing is written: applied, the plan could starve the node.

This is a fault of tierc, not of your documents.  Please report it with the documents of the node.
""",
)
NODE_SOFTWARE_STARVED: Final = Code(
    "TRC901",
    "node-software-starved",
    Severity.ERROR,
    """\
The first rule that matches the kubelet, a container runtime, sshd or systemd gives it a tier
below `background`.  Under load the node would stop answering: heartbeats are lost, pods are moved
away, nobody can log in.

Narrow what the intent demotes, demote it to `background` only, or put node software above it:

    kind: Intent
    metadata: {name: node-infra}
    spec: {workload: {group: node-infra}, keep: system, precedence: 1}
""",
)
