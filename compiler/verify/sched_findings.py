"""What the scheduler and its maps amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler.codes import verify as codes
from compiler.diagnostics import Severity
from compiler.plan import NodePlan
from compiler.verify.census import Census
from compiler.verify.findings import finding
from compiler.verify.result import Finding, Known, SchedulerCheck, SchedulerEnd, TableCheck
from compiler.verify.scheduler import MapsCheck
from compiler.words import counted, listed

_LOAD = "load this node's seed again: stage, publish, flip"


def of_scheduler(
    scheduler: SchedulerCheck, plan: NodePlan, *, off: str, seed: bool
) -> Iterator[Finding]:
    """Yield where the loaded scheduler is not the one of the plan's mode.

    Args:
        scheduler: what the kernel says.
        plan: the plan.
        off: why nothing of the plan may be in effect, whatever its mode; empty where it may.
        seed: whether there is a seed to compare with.
    """
    other = scheduler.ops is not None and not scheduler.ours
    if plan.mode == "sched_ext" and not off:
        if scheduler.state is None:
            yield finding(
                codes.NOT_LOADED,
                "mode sched_ext, and this kernel has no sched_ext",
                help="collect the facts of this node again and build anew",
            )
        elif not scheduler.ours:
            what = f"another scheduler is loaded: {scheduler.ops}" if other else "none is loaded"
            yield finding(
                codes.NOT_LOADED,
                f"mode sched_ext needs tierc's scheduler, and {what}",
                [_end(scheduler.end)] if scheduler.end is not None else [],
                help="load it with this node's seed; dmesg says why one was ejected",
            )
        if not seed:
            yield finding(
                codes.UNCHECKED,
                "there is no bpf/seed.json here to compare the scheduler's maps with",
                help="enable the target bpf and build anew",
            )
    elif scheduler.ours:
        why = off or f"the plan's mode is {plan.mode}"
        yield finding(
            codes.NOT_LOADED,
            f"tierc's scheduler {scheduler.ops} is loaded, though {why}",
            help="unload it",
        )
    elif other and not off:
        yield finding(
            codes.NOT_LOADED,
            f"a sched_ext scheduler that is not tierc's is loaded: {scheduler.ops}",
            severity=Severity.WARNING,
            help="the plan's CPUs hold under it as affinities, its tiers do not",
        )


def of_maps(maps: MapsCheck) -> Iterator[Finding]:
    """Yield where the maps of our scheduler do not hold the seed."""
    if maps.unreadable:
        yield finding(
            codes.UNCHECKED,
            f"maps of the scheduler could not be read: {maps.unreadable}",
            help="run tierc verify as root where bpftool is installed",
        )
    if maps.abi is None:
        return
    if not maps.abi:
        yield finding(
            codes.ABI,
            "the scheduler is built for another layout of maps than the seed",
            help="use the scheduler that came with the tierc that built the seed",
        )
        return
    found = maps.scheduler
    if maps.active == "nothing":
        yield finding(
            codes.SEED, "no seed is in force: every thread has the scheduler's defaults", help=_LOAD
        )
        return
    tables = found.tables or ()
    if maps.active == "other":
        yield finding(
            codes.SEED,
            f"slot {found.slot} is in force with generation {found.generation}, which is not this "
            f"seed's: {_tables(tables)}",
            [_table(one) for one in tables],
            help=_LOAD,
        )
    elif tables:
        yield finding(
            codes.SEED,
            f"slot {found.slot} has the generation of this seed and other content: "
            f"{_tables(tables)}",
            [_table(one) for one in tables],
            help=_LOAD,
        )


def of_bands(maps: MapsCheck, census: Census, plan: NodePlan) -> Iterator[Finding]:
    """Yield bands that have threads and no run time, and threads that were judged otherwise."""
    if maps.active != "seed":
        return  # what they had, they had under another seed
    threads = Counter(one.band for one in census.known.values())
    idle = [one for one in maps.scheduler.bands or () if threads[one.band] and not one.run_ns]
    if idle:
        units = {band.id: [u.name for u in plan.units if u.band == band.id] for band in plan.bands}
        yield finding(
            codes.BAND_IDLE,
            f"{counted(len(idle), 'band')} with threads had no run time since the seed is in force",
            [
                f"band {one.band}: {counted(threads[one.band], 'thread')}, judged {one.judged} "
                f"times; {listed(units[one.band][:4]) or 'no unit'}"
                for one in idle
            ],
        )
    seen = maps.threads or {}
    shared = sorted(census.known.keys() & seen.keys())
    other = [tid for tid in shared if census.known[tid].rule != seen[tid][0]]
    if other:
        yield finding(
            codes.JUDGED,
            f"{counted(len(other), 'thread')} of {len(shared)} that the scheduler recorded have "
            "another rule there than by the plan",
            [_judged(tid, census.known[tid], seen[tid][0]) for tid in other],
            help="a thread that was just renamed is judged anew when it is queued; run this again",
        )


def _judged(tid: int, known: Known, rule: int | None) -> str:
    return f"{known.pid}/{tid} {known.comm}: {_rule(rule)}, planned {_rule(known.rule)}"


def _rule(rule: int | None) -> str:
    return "no rule" if rule is None else f"rule {rule}"


def _end(end: SchedulerEnd) -> str:
    return f"it ended (kind {end.kind}): {end.reason}" + (f": {end.message}" if end.message else "")


def _tables(tables: tuple[TableCheck, ...]) -> str:
    if not tables:
        return "the tables are the same"
    verb = "differs" if len(tables) == 1 else "differ"
    return f"{counted(len(tables), 'table')} {verb}"


def _table(one: TableCheck) -> str:
    parts = [
        f"{count} {word}"
        for word, count in (
            ("different", one.different),
            ("missing", one.missing),
            ("not of the seed", one.extra),
        )
        if count
    ]
    return f"{one.name}: {listed(parts)}, first {one.example}"
