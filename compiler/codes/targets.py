"""Codes of targets: what a backend cannot express (TRC500-TRC549)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

INEXPRESSIBLE: Final = Code(
    "TRC500",
    "inexpressible",
    Severity.ERROR,
    """\
A target cannot evaluate a rule that protects something, so the protection would be missing where
that target enforces. Write the rule in a form the target has (the message says which), or drop
the target.
""",
)
LEFT_OUT: Final = Code(
    "TRC501",
    "left-out",
    Severity.WARNING,
    """\
A target cannot evaluate a rule that does not protect anything; the rule is left out there and the
threads are treated as if it were not written. The plan lists it under `leftOut`.
""",
    adjustable=True,
)
UNENFORCED: Final = Code(
    "TRC502",
    "unenforced",
    Severity.INFO,
    """\
A target places threads and cannot enforce everything the plan says, such as tier weights or
keeping unmatched threads out of a lane. The plan lists it under `leftOut`.
""",
    adjustable=True,
)
CLUSTER_LIMIT: Final = Code(
    "TRC510",
    "cluster-limit",
    Severity.ERROR,
    """\
A target for the cluster cannot put the fleet into objects that the cluster accepts: a class has
more nodes than one object should name, a name is too long for a label, or a file is too large.
The message says which option or which name to change; nothing is written until then.
""",
)
CLUSTER_IDLE: Final = Code(
    "TRC511",
    "cluster-idle",
    Severity.WARNING,
    """\
The pods of a class of nodes would have nothing to do, because no target that writes scripts is
enabled for it. Add `taskset: {}` (or another target that has scripts) to `targets`, or drop the
target for the cluster.
""",
    adjustable=True,
)
