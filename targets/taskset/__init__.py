"""The ``taskset`` target: scripts that set CPU affinity, and put it back.

How they behave is in ``docs/taskset.md``.  ``apply.sh`` is made from a plan; ``revert.sh`` needs
nothing but what ``apply.sh`` recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compiler.artifact import Artifact, script_artifact
from compiler.plan import NodePlan
from targets.shell import environment
from targets.target import Target
from targets.taskset.script import NAME, OWN, apply_data

SUPPORTS: Final = frozenset(
    {
        "match.comm.exact",
        "match.comm.prefix",
        "match.comm.glob",
        "match.leader.exact",
        "match.leader.prefix",
        "match.leader.glob",
        "match.kthread.exact",
        "match.kthread.prefix",
        "match.kthread.glob",
        "match.cgroup.path",
        "match.cgroup.any",
        "match.cgroup.glob",
        "match.cgroup.long",
        "match.cmdline",
        "cpus.1024",
        "lane.open",
        "lane.guarded",
    }
)
"""Affinity moves the threads that a rule matches and cannot keep others out: no
``lane.exclusive`` or ``lane.isolated``.  It knows no weights: no ``tier``.  Pods are known only at
run time: no ``match.pods``."""


def emit(plan: NodePlan) -> list[Artifact]:
    """Return ``taskset/apply.sh`` and ``taskset/revert.sh``.

    Raises:
        ValueError: the plan needs what :data:`SUPPORTS` lacks, or contradicts itself.
    """
    env = environment(Path(__file__).parent / "templates")
    return [
        script_artifact(
            "taskset/apply.sh", env.get_template("apply.sh.j2").render(apply_data(plan))
        ),
        script_artifact("taskset/revert.sh", env.get_template("revert.sh.j2").render(own=OWN)),
    ]


TARGET: Final = Target(
    name=NAME, modes=frozenset({"observe", "fallback", "sched_ext"}), supports=SUPPORTS, emit=emit
)
