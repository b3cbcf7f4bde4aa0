"""How a node is enforced: what the project asks, and what the node's facts allow."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.model.facts import NodeFacts
from compiler.model.project import Enforce
from compiler.plan import Mode

OPS_PREFIX = "tierc"
"""Name of our own scheduler's ops: finding it loaded is no conflict."""

UNENFORCED_LIMITS = (
    "the node runs a kubelet, and acceptUnenforcedCpuLimits is not set: CPU limits of pods may go "
    "unenforced"
)
"""The one obstacle that consent removes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The mode of a node.

    Attributes:
        mode: what the plan is made for; ``fallback`` where sched_ext was asked and refused.
        refused: why sched_ext is not possible; empty where it is, or was not asked.
    """

    mode: Mode
    refused: tuple[str, ...] = ()


def decide(enforce: Enforce, facts: NodeFacts) -> Decision:
    """Return the mode for a node.

    ``auto`` takes sched_ext where the facts allow it, else affinity.  The directory
    /sys/kernel/sched_ext alone is no proof: a PREEMPT_RT kernel has it and refuses every load.
    """
    if enforce.mode in ("observe", "fallback"):
        return Decision("observe" if enforce.mode == "observe" else "fallback")
    reasons = tuple(_obstacles(enforce, facts))
    return Decision("fallback", reasons) if reasons else Decision("sched_ext")


def _obstacles(enforce: Enforce, facts: NodeFacts) -> list[str]:
    kernel, spec = facts.spec.kernel, facts.spec
    out: list[str] = []
    if kernel.sched_ext is None:
        out.append("the facts do not say whether the kernel has sched_ext")
    elif not kernel.sched_ext.supported:
        release = f" {kernel.release}" if kernel.release else ""
        out.append(f"kernel{release} has no sched_ext")
    else:
        ops = kernel.sched_ext.ops
        if kernel.sched_ext.state == "enabled" and not (ops or "").startswith(OPS_PREFIX):
            out.append(f"another sched_ext scheduler is loaded ({ops or 'name unknown'})")
    if kernel.preempt_rt:
        out.append("the kernel is PREEMPT_RT, where sched_ext cannot load")
    if kernel.btf is False:
        out.append("the kernel has no BTF")
    if spec.cpus.isolated:
        out.append(f"isolcpus={spec.cpus.isolated} makes a sched_ext scheduler fail to register")
    kubelet = spec.kubelet is not None and spec.kubelet.present
    if kubelet and not enforce.accept_unenforced_cpu_limits:
        out.append(UNENFORCED_LIMITS)
    return out
