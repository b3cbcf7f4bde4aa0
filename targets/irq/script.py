"""What the scripts and the files for irqbalance say, as data for their templates."""

from __future__ import annotations

import re
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.plan import DeviceIrqs, NodePlan
from targets.scripts import Own, fingerprint_data, left_out_data
from targets.shell import aligned, filled, shown

NAME: Final = "irq"

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)

OWN: Final = Own(
    target=NAME,
    thing="interrupt",
    what="affinity",
    tools=(
        *("awk", "cat", "cmp", "cp", "find", "grep", "id", "ln", "mkdir", "mktemp", "mv", "rm"),
        *("rmdir", "sed", "sha256sum", "sleep", "sort", "tr", "uname", "xargs"),
    ),
    why_root="the affinity of interrupts is root's to set",
    state_form=(
        "A header with the boot it is of, then a line an interrupt:",
        "  IRQ DEVICE NAME ORIGINAL WRITTEN BEFORE ASKED",
        "DEVICE and NAME tell whether a number is still the same interrupt: numbers are given anew",
        'when a driver is loaded. BEFORE is "-", or, while a change is under way, the CPUs the',
        "interrupt had just before it. ASKED is what was asked for, of which the kernel may have",
        'made fewer, WRITTEN; "-" where it refused.',
    ),
    state_test=(
        "NF == 7 && $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\\.[0-7]$/ && "
        'list($4) && list($5) && ($6 == "-" || list($6)) && '
        '($7 == "-" || list($7))'
    ),
    cgroups=False,
    actions="set|restore IRQ CPUS fresh|known",
)
"""What the parts that targets share say in these scripts."""


def apply_data(plan: NodePlan) -> dict[str, object]:
    """Return the values of the template ``apply.sh.j2``.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine, or a device whose
            interrupts are placed has no CPU or no PCI address.
    """
    placed = _placed(plan)
    left = [one for one in plan.irqs if one.where == "leave"]
    rows: list[tuple[str, ...]] = [("# device", "kind", "CPUs", "where", "intents")]
    rows += [
        (one.device, one.kind, str(one.cpus), _where(one), ",".join(map(shown, one.intents)) or "-")
        for one in placed
    ]
    return {
        **fingerprint_data(plan),
        **left_out_data(plan, NAME),
        "own": OWN,
        "mode": plan.mode,
        "left": _left(left),
        "devices_table": aligned(rows),
        "policy_line": f'DEVICES="{_names(plan)}"',
    }


def irqbalance_data(plan: NodePlan) -> dict[str, object]:
    """Return the values of the templates for irqbalance.

    Raises:
        ValueError: a device whose interrupts are placed has no CPU or no PCI address.
    """
    banned, why = banned_cpus(plan)
    machine = plan.machine
    return {
        "devices": _names(plan),
        "banned": str(banned),
        "banned_mask": hex_mask(banned),
        "banned_why": ", ".join(why),
        "has_default": (machine.isolated | (machine.nohz_full or CpuSet())) <= banned,
    }


def banned_cpus(plan: NodePlan) -> tuple[CpuSet, tuple[str, ...]]:
    """Return the CPUs that irqbalance must give no interrupt, and whose they are.

    Those of lanes that are closed to others, and its own default, because to set the list replaces
    that.  Of the default, CPUs that would leave none are not in it.
    """
    machine = plan.machine
    closed = [lane for lane in plan.lanes if lane.share != "open"]
    banned = union(lane.cpus for lane in closed)
    why = [f"lane {shown(lane.name)}" for lane in closed]
    for word, more in (("isolcpus", machine.isolated), ("nohz_full", machine.nohz_full)):
        if more and machine.online - banned - more:
            banned |= more
            why.append(word)
    return banned & machine.online, tuple(why)


def hex_mask(cpus: CpuSet) -> str:
    """Return CPUs as the kernel writes a mask: 32-bit hexadecimal words, highest first.

    No leading zeros and no ``0x``; nothing for no CPU, which no variable may be set to.
    """
    if not cpus:
        return ""
    digits = f"{cpus.mask:x}"
    cuts = range(len(digits) % 8, len(digits), 8)
    first = digits[: len(digits) % 8]
    return ",".join(filter(None, [first, *(digits[cut : cut + 8] for cut in cuts)]))


def _placed(plan: NodePlan) -> list[DeviceIrqs]:
    placed = [one for one in plan.irqs if one.where != "leave"]
    for one in placed:
        if not _ADDRESS.fullmatch(one.device):
            raise ValueError(f"{one.device!r} is not a PCI address")
        if not one.cpus:
            raise ValueError(f"interrupts of {one.device} have no CPU")
    return placed


def _names(plan: NodePlan) -> str:
    return " ".join(one.device for one in _placed(plan))


def _where(one: DeviceIrqs) -> str:
    if one.where == "lane":
        return "lane:" + ",".join(map(shown, one.lanes))
    return one.where


_WHY_LEFT: Final = {
    "unclaimed": "no intent speaks of it",
    "written": "irqs: leave",
    "no-lane": "irqs: lane, and there is no lane",
    "not-near": "no CPU of the lane is near it",
}


def _left(rows: list[DeviceIrqs]) -> list[str]:
    """Return comment lines that name devices by why their interrupts are left."""
    lines: list[str] = []
    for why, text in _WHY_LEFT.items():
        names = [one.device for one in rows if one.why == why]
        if names:
            lines += filled([f"{text}:", *names], "#   ", "#     ")
    return lines
