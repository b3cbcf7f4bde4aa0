"""The whole comparison of a node with its plan, in order."""

from __future__ import annotations

import os
from pathlib import Path

from compiler.plan import NodePlan
from compiler.verify import findings as say
from compiler.verify.affinity import AffinityJudge
from compiler.verify.census import Census, Counter
from compiler.verify.cgroups import Cpusets, walk
from compiler.verify.interrupts import check_interrupts
from compiler.verify.machine import MachineCheck, check_machine
from compiler.verify.nodedir import NodeDir
from compiler.verify.process import ProcReader
from compiler.verify.records import STATE, read_records, set_interrupts
from compiler.verify.result import (
    Enforcer,
    Finding,
    InterruptCheck,
    SchedulerCheck,
    Verification,
)
from compiler.verify.sched_findings import of_bands, of_maps, of_scheduler
from compiler.verify.scheduler import check_maps, read_scheduler
from compiler.verify.sysroot import Sysroot
from compiler.verify.thread_findings import of_lanes, of_threads


def verify(node: NodeDir, root: Path, *, everything: bool = False) -> Verification:
    """Compare the node whose files are below ``root`` with what was compiled for it.

    Nothing is changed.  Without privilege, what only root can read is named as not checked.

    Args:
        node: what was compiled.
        root: the root of the node's file system.
        everything: whether to list every thread that has a rule, also those that are right.

    Raises:
        FactsError: the files do not tell the machine's CPUs.
        DeniedError: ``/proc`` cannot be listed.
    """
    files = Sysroot(root)
    plan = node.plan
    machine = check_machine(files, plan)
    switch = kill_switch(files)
    records = read_records(files, node.targets)
    recorded = {name: None if rows is None else len(rows) for name, rows in records.items()}
    scheduler = read_scheduler(files, node.seed)
    enforcer, why = _enforcer(node, machine, switch, scheduler)
    found: list[Finding] = [
        *say.of_machine(machine, plan),
        *say.of_state(switch, recorded, plan, machine),
    ]
    off = why if switch or machine.cpus == "other" else ""
    found += of_scheduler(scheduler, plan, off=off, seed=node.seed is not None)
    census = Census()
    interrupts: tuple[InterruptCheck, ...] = ()
    if machine.cpus != "other":
        census = _census(files, plan, machine, enforcer, everything=everything)
        interrupts = check_interrupts(
            files, plan, machine.online, set_interrupts(records.get("irq"))
        )
        found += of_threads(census, plan, enforcer, live=files.live)
        found += of_lanes(census, enforcer, node.targets)
        found += say.of_rules(census, plan)
        enforced = not switch and plan.mode != "observe" and "irq" in node.targets
        found += say.of_interrupts(interrupts, enforced=enforced)
        if enforcer == "scheduler" and node.seed is not None:
            maps = check_maps(files, scheduler, node.seed, plan)
            scheduler = maps.scheduler
            found += of_maps(maps)
            found += of_bands(maps, census, plan)
    return Verification(
        directory=str(node.path),
        mode=plan.mode,
        targets=node.targets,
        enforcer=enforcer,
        why=why,
        disabled=switch is not None,
        recorded=recorded,
        machine=machine,
        threads=census.threads,
        units=census.units,
        lanes=census.lanes,
        unused=census.unused,
        rows=tuple(census.rows),
        rows_left_out=census.rows_left_out,
        matched=tuple(census.matched) if everything else None,
        users=census.users,
        interrupts=interrupts,
        scheduler=scheduler,
        findings=say.worst_first(found),
    )


def kill_switch(files: Sysroot) -> str | None:
    """Return the file that keeps this node's plan from acting, None where nothing does.

    Pods look where ``killSwitch`` of the project says, which no plan holds; scripts of the host
    never look in the second place.
    """
    if files.exists("/etc/tierc/disabled"):
        return "/etc/tierc/disabled"
    if files.exists(f"{STATE}/kubernetes/owner") and files.exists(f"{STATE}/disabled"):
        return f"{STATE}/disabled"
    return None


def _enforcer(
    node: NodeDir, machine: MachineCheck, switch: str | None, scheduler: SchedulerCheck
) -> tuple[Enforcer, str]:
    """Return what should keep threads where the plan says, and why."""
    if machine.cpus == "other":
        return "nothing", "the plan is for another machine"
    if switch is not None:
        return "nothing", f"{switch} exists"
    if node.plan.mode == "observe":
        return "nothing", "the plan's mode is observe"
    if node.plan.mode == "sched_ext" and scheduler.ours:
        return "scheduler", f"{scheduler.ops} is loaded"
    if "taskset" in node.targets:
        return "affinity", "by taskset/apply.sh"
    return "nothing", "no target here sets the affinity of threads"


def _census(
    files: Sysroot,
    plan: NodePlan,
    machine: MachineCheck,
    enforcer: Enforcer,
    *,
    everything: bool,
) -> Census:
    scheduler = enforcer == "scheduler"
    judge = AffinityJudge(plan, machine.online, Cpusets(files, machine.online), scheduler=scheduler)
    view = "bpf" if scheduler else "taskset"
    counter = Counter(plan, view, files, walk(files), judge, keep=scheduler, everything=everything)
    return counter.count(ProcReader(files), os.getpid() if files.live else None)
