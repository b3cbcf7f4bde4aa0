"""Whether this is the machine of the plan: CPUs hard, devices soft.

The same question, with the same answer, as the emitted scripts ask in sh.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compiler.cpuset import CpuSet
from compiler.facts.collect import FactsError, collect
from compiler.fingerprint import cpu_text, device_text
from compiler.plan import NodePlan
from compiler.topology import pci_addresses
from compiler.verify.sysroot import Sysroot

__all__ = ["FactsError", "MachineCheck", "check_machine"]

_NAME = "node"
"""A name for the facts: only the machine in them is looked at."""


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """The live machine beside the planned one.

    Attributes:
        cpus: ``planned``; ``fewer``: as planned but for CPUs that are offline; ``other``.
        online: live CPUs.
        differences: lines of the CPU text that only one of the two has, when it is another.
        devices: ``planned``, ``other``, or ``unknown`` where the plan knows none.
        device_differences: the same of the device text.
    """

    cpus: Literal["planned", "fewer", "other"]
    online: CpuSet
    differences: tuple[str, ...]
    devices: Literal["planned", "other", "unknown"]
    device_differences: tuple[str, ...]


def check_machine(root: Sysroot, plan: NodePlan) -> MachineCheck:
    """Compare the machine below ``root`` with that of the plan.

    What the plan's facts did not know (architecture, caches, a type of device) is not compared.

    Raises:
        FactsError: the files do not tell the machine's CPUs.
    """
    facts = collect(Path(root.path("/")), name=_NAME, live=root.live).spec
    planned = plan.machine
    online = facts.cpus.online
    # A snapshot need not say its architecture; unknown cannot differ.
    arch = planned.arch if planned.arch is None or facts.arch is None else facts.arch
    live = cpu_text(
        arch,
        online,
        (core for group in facts.cores for core in group.cores()),
        (llc.cpus for llc in facts.llcs) if planned.llcs else (),
    )
    want = cpu_text(planned.arch, planned.online, planned.cores, planned.llcs)
    cut = cpu_text(planned.arch, online, planned.cores, planned.llcs)
    cpus: Literal["planned", "fewer", "other"] = "other"
    if live == want:
        cpus = "planned"
    elif live == cut and online < planned.online:
        cpus = "fewer"
    devices: Literal["planned", "other", "unknown"] = "unknown"
    gone: tuple[str, ...] = ()
    if plan.device_fingerprint is not None:
        here = device_text(
            None if planned.gpus is None else pci_addresses(facts, "gpu") or (),
            None if planned.nics is None else pci_addresses(facts, "nic") or (),
        )
        there = device_text(planned.gpus, planned.nics)
        devices = "planned" if here == there else "other"
        gone = differences(there, here, "gone: ", "new: ")
    return MachineCheck(
        cpus=cpus,
        online=online,
        differences=differences(want, live, "planned: ", "live: ") if cpus == "other" else (),
        devices=devices,
        device_differences=gone,
    )


def differences(first: str, second: str, mark: str, other_mark: str) -> tuple[str, ...]:
    """Return the lines that are in one of two texts only, each behind a mark."""
    a, b = first.splitlines(), second.splitlines()
    return (*_only(a, b, mark), *_only(b, a, other_mark))


def _only(lines: Iterable[str], others: list[str], mark: str) -> list[str]:
    known = set(others)
    return [mark + line for line in lines if line not in known]
