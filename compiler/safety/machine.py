"""The machine in the plan: its cores, its fingerprints, and that only its CPUs are used."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cpuset import CpuSet, union
from compiler.fingerprint import cpu_text, device_digest, digest
from compiler.plan import NodePlan
from compiler.safety.violation import Violation


def check_cores(plan: NodePlan) -> Iterator[Violation]:
    """Find online CPUs in no core or in two, and effective ones that are offline or isolated."""
    machine = plan.machine
    if union(machine.cores) != machine.online or sum(map(len, machine.cores)) != len(
        machine.online
    ):
        yield Violation("cores", f"the cores do not hold each online CPU ({machine.online}) once")
    if not machine.effective <= machine.online:
        lost = machine.effective - machine.online
        yield Violation("effective", f"effective CPUs {lost} are not online")
    if both := machine.effective & machine.isolated:
        yield Violation("effective", f"effective CPUs {both} are isolated")


def check_fingerprint(plan: NodePlan) -> Iterator[Violation]:
    """Find fingerprints that are not those of the machine in the plan."""
    machine = plan.machine
    text = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(text) != plan.fingerprint:
        yield Violation("fingerprint", "the fingerprint is not that of the machine in the plan")
    if device_digest(machine.gpus, machine.nics) != plan.device_fingerprint:
        yield Violation(
            "fingerprint", "the device fingerprint is not that of the devices in the plan"
        )


def check_online(plan: NodePlan) -> Iterator[Violation]:
    """Find whatever has CPUs that are not online."""
    for name, cpus in _named(plan):
        if lost := cpus - plan.machine.online:
            yield Violation("cpu-not-online", f"{name} has CPUs {lost}, which are not online")


def _named(plan: NodePlan) -> Iterator[tuple[str, CpuSet]]:
    yield "housekeeping", plan.housekeeping
    yield "the shared pool", plan.shared
    yield "leftovers", plan.leftovers
    for lane in plan.lanes:
        yield f"lane {lane.name}", lane.cpus
    for unit in plan.units:
        yield f"unit {unit.name}", unit.cpus
    for band in plan.bands:
        yield f"band {band.id}", band.cpus
