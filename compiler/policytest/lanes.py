"""Lanes in tests: what they have got."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cpuset import CpuSet
from compiler.model.policytest import CoreBounds, LaneTest
from compiler.pipeline import CompiledClass
from compiler.plan import Lane, NodePlan
from compiler.policy import Ladder
from compiler.policytest.results import Failure
from compiler.policytest.threads import SpanOf, areas, outside, shared


def check_lane(
    group: CompiledClass, ladder: Ladder, test: LaneTest, span: SpanOf
) -> Iterator[Failure]:
    """Yield what does not hold of a lane on a class that has a plan.

    Of a family everything must hold of each member.
    """
    plan = group.plan
    assert plan is not None
    found = plan.lanes_of(test.name)
    if not found:
        if test.exists:
            have = ", ".join(dict.fromkeys(lane.family or lane.name for lane in plan.lanes))
            got = f"no such lane; lanes are {have}" if have else "no lane at all"
            yield Failure(span("name"), f"a lane {test.name}", got)
        return
    if not test.exists:
        got = f"lane {test.name} with CPUs {plan.cpus_of(test.name)}"
        why = tuple(line for lane in found for line in _why(group, lane))
        yield Failure(span("exists"), f"no lane {test.name}", got, why)
        return
    for lane in found:
        of = "" if lane.name == test.name else f"{lane.name}: "
        for key, expected, got in _wrong(plan, lane, test, ladder):
            yield Failure(span(*key), expected, f"{of}{got}", _why(group, lane))


def _wrong(
    plan: NodePlan, lane: Lane, test: LaneTest, ladder: Ladder
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield key, expected and got of what does not hold."""
    if test.cores is not None and not _fits(lane.cores, test.cores):
        got = f"{_cores(str(lane.cores))}, CPUs {lane.cpus}"
        yield ("cores",), _bounds(test.cores), got
    if test.cpus_within is not None and not lane.cpus <= test.cpus_within:
        yield (
            ("cpusWithin",),
            f"CPUs within {test.cpus_within}",
            outside(lane.cpus, test.cpus_within),
        )
    if test.whole_cores is not None:
        split = _split(plan, lane.cpus)
        if bool(split) == test.whole_cores:
            expected = "whole cores" if test.whole_cores else "a core that is not whole"
            parts = [f"{lane.cpus & core} of core {core}" for core in split]
            yield ("wholeCores",), expected, f"only {', '.join(parts)}" if split else "whole cores"
    if test.share is not None and lane.share != test.share:
        yield ("share",), f"share {test.share}", f"share {lane.share}"
    if test.tier is not None and ladder.name(lane.tier) != test.tier:
        yield ("tier",), f"tier {test.tier}", f"tier {ladder.name(lane.tier)}"
    for i, (name, others) in enumerate(areas(plan, test.not_sharing_with)):
        if not lane.cpus.isdisjoint(others):
            key = ("notSharingWith", i)
            yield key, f"no CPU shared with {name}", shared(lane.cpus, others)


def _fits(cores: int, bounds: CoreBounds) -> bool:
    low, high = bounds.min, bounds.max
    return (low is None or cores >= low) and (high is None or cores <= high)


def _bounds(bounds: CoreBounds) -> str:
    low, high = bounds.min, bounds.max
    if low == high:
        return _cores(str(low))
    if high is None:
        return f"at least {_cores(str(low))}"
    return f"at most {_cores(str(high))}" if low is None else f"{low} to {_cores(str(high))}"


def _cores(number: str) -> str:
    return f"{number} core" if number == "1" else f"{number} cores"


def _split(plan: NodePlan, cpus: CpuSet) -> list[CpuSet]:
    """Return the cores of which the CPUs are a part only."""
    return [core for core in plan.machine.cores if core & cpus and not core <= cpus]


def _why(group: CompiledClass, lane: Lane) -> tuple[str, ...]:
    plan = group.plan
    assert plan is not None
    asked = group.resolution.asked(lane.name)
    assert asked is not None
    wishes = ", ".join(
        (*(f"require {word}" for word in lane.require), *(f"prefer {word}" for word in lane.prefer))
    )
    return (
        f"lane {lane.name}: asked for {asked.cores.value} cores, {lane.share}"
        + (f", {wishes}" if wishes else "")
        + f", {asked.span}",
        *(f"{row.about}: {row.message}" for row in plan.degradations if row.about == lane.name),
    )
