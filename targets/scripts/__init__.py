"""Parts of the shell scripts that run on nodes, for the templates of every target.

A template includes them as ``scripts/NAME``; what differs between targets stands in them as
``own``, an :class:`Own`:

========================  =====================================================================
``scripts/common.sh``     settings, messages, exit codes, start, files of /proc, the lock
``scripts/state.sh``      the record of what was changed: ``load_state``, ``store_state``
``scripts/cpus.sh``       CPU lists, for awk
``scripts/fingerprint.sh``  whether this is the planned machine; needs ``PLANNED``,
                          ``PLANNED_SHA256`` and ``PLANNED_DEVICES`` (see :func:`fingerprint_data`)
``scripts/tell.sh``       what a dry run would do, from ``work/actions``: ``tell_actions``
``scripts/running.sh``    ``warn_once``, and the dry run of mode observe
``scripts/start.sh``      options of apply.sh, and calls of ``cycle``, once or with ``--watch``
``scripts/start_revert.sh``  options of revert.sh
========================  =====================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.fingerprint import DEVICE_FORMAT, cpu_text, device_digest, device_text, digest
from compiler.plan import LeftOut, NodePlan
from targets.shell import filled


@dataclass(frozen=True, slots=True)
class Own:
    """What the common parts need to know of a target.  All of it is text of ours.

    Attributes:
        target: its name, which the state directory and the state's format have.
        thing: what it changes, in the singular: ``thread``.
        what: which property of it: ``affinity``.
        tools: commands the scripts call, sorted.
        why_root: what needs root, for a message.
        state_form: comment on the state: what a line of it holds.
        state_test: awk's condition for a valid line; ``list(x)`` is true for a CPU list.
        cgroups: whether the scripts look at control groups, at ``$CGROUP``.
        actions: the fields of a line of ``work/actions`` before its description; the first is
            ``set|restore``.
        verb: the word for ``set`` in messages.
    """

    target: str
    thing: str
    what: str
    tools: tuple[str, ...]
    why_root: str
    state_form: tuple[str, ...]
    state_test: str
    cgroups: bool = True
    actions: str = ""
    verb: str = "set"

    @property
    def tool_lines(self) -> str:
        """The head of a shell loop over the tools."""
        return " \\\n".join(filled(("in", *self.tools), "  for tool ", "    "))


def fingerprint_data(plan: NodePlan) -> dict[str, object]:
    """Return what a template says of the machine that a plan is for.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine.
    """
    machine = plan.machine
    planned = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(planned) != plan.fingerprint:
        raise ValueError("the plan's fingerprint is not that of its machine")
    if device_digest(machine.gpus, machine.nics) != plan.device_fingerprint:
        raise ValueError("the plan's device fingerprint is not that of its machine")
    devices = "" if plan.device_fingerprint is None else device_text(machine.gpus, machine.nics)
    return {
        "fingerprint": plan.fingerprint,
        "planned": planned.removesuffix("\n"),
        "device_format": DEVICE_FORMAT,
        "planned_devices": devices.removesuffix("\n"),
    }


def left_out_data(plan: NodePlan, target: str) -> dict[str, object]:
    """Return what a template says of the parts of a plan that its target leaves out."""
    rows: list[LeftOut] = sorted(
        plan.left_out.get(target, ()), key=lambda one: (one.rules, one.message)
    )
    count = len(rows)
    parts = "1 part of the policy is" if count == 1 else f"{count} parts of the policy are"
    return {
        "left_out": [one.message for one in rows],
        "left_out_parts": parts if count else "",
    }
