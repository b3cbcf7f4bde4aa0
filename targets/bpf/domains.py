"""Which bands a scheduler must not let out of their CPUs, and the open lanes that this closes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.plan import Band, Lane, LeftOut, NodePlan

NAME: Final = "bpf"


def is_hard(plan: NodePlan, band: Band) -> bool:
    """Tell whether a band's CPUs are a boundary.

    Who leaves a soft domain may go anywhere: so they are one, too, where another lane is closed to
    the band's threads.
    """
    return band.hard or any(_closed_to(plan, band))


def lacks(plan: NodePlan) -> tuple[LeftOut, ...]:
    """Return the open lanes whose threads are kept there for the sake of closed ones."""
    lanes = dict.fromkeys(lane.family or lane.name for lane in plan.lanes if lane.share == "open")
    return tuple(row for name in lanes for row in _held(plan, name))


def _held(plan: NodePlan, name: str) -> Iterator[LeftOut]:
    """Yield what is said of an open lane, or of a family: nothing where it is open in the seed."""
    cpus = plan.cpus_of(name)
    own = {cpus, *(lane.cpus for lane in plan.lanes_of(name))}
    soft = [band for band in plan.bands if band.cpus in own and not band.hard]
    held = [band for band in soft if is_hard(plan, band)]
    if not held:
        return
    closed = {lane.name: lane for band in held for lane in _closed_to(plan, band)}
    whose = "the threads"
    if len(held) < len(soft):
        names = {tier.id: tier.name for tier in plan.tiers}
        tiers = sorted({band.tier for band in held})
        whose = f"threads of tier {', '.join(names[tier] for tier in tiers)}"
    others = ", ".join(f"{closed[one].share} lane {one}" for one in sorted(closed))
    yield LeftOut(
        feature="lane.open",
        unit=None,
        rules=(),
        lane=name,
        message=f"{NAME} keeps {whose} in open lane {name}, CPUs {cpus}: "
        f"outside it they could come into {others}",
    )


def _closed_to(plan: NodePlan, band: Band) -> Iterator[Lane]:
    """Yield the lanes beyond a band's CPUs that are exclusive, or guarded and of a higher tier."""
    for lane in plan.lanes:
        closed = lane.share == "exclusive" or (lane.share == "guarded" and lane.tier < band.tier)
        if closed and (lane.cpus & plan.machine.effective) - band.cpus:
            yield lane
