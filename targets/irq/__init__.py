"""The ``irq`` target: scripts that place the interrupts of devices, and what irqbalance must know.

How they behave is in ``docs/irq.md``.  ``apply.sh`` is made from a plan; ``revert.sh`` needs
nothing but what ``apply.sh`` recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compiler.artifact import Artifact, script_artifact, text_artifact
from compiler.plan import NodePlan
from targets.irq.script import NAME, OWN, apply_data, irqbalance_data
from targets.shell import environment
from targets.target import Target

SUPPORTS: Final = frozenset({"irq.affinity"})


def emit(plan: NodePlan) -> list[Artifact]:
    """Return ``irq/apply.sh`` and ``irq/revert.sh``; for irqbalance, where the plan is applied,
    ``irq/irqbalance-policy.sh`` and ``irq/irqbalance.env``.

    A plan that places no interrupt has the scripts, too: they put back what an earlier one did.

    Raises:
        ValueError: the plan contradicts itself.
    """
    env = environment(Path(__file__).parent / "templates")
    apply = env.get_template("apply.sh.j2").render(apply_data(plan))
    revert = env.get_template("revert.sh.j2").render(own=OWN)
    out = [script_artifact("irq/apply.sh", apply), script_artifact("irq/revert.sh", revert)]
    if plan.mode == "observe":
        return out
    told = irqbalance_data(plan)
    policy = env.get_template("irqbalance-policy.sh.j2").render(told)
    settings = env.get_template("irqbalance.env.j2").render(told)
    return [
        *out,
        script_artifact("irq/irqbalance-policy.sh", policy),
        text_artifact("irq/irqbalance.env", settings),
    ]


TARGET: Final = Target(
    name=NAME,
    modes=frozenset({"observe", "fallback", "sched_ext"}),
    supports=SUPPORTS,
    emit=emit,
    concerns=SUPPORTS,
)
