"""Invariants of interrupts, each broken by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler import safety
from compiler.cpuset import CpuSet
from compiler.plan import DeviceIrqs, NodePlan
from compiler.safety.interrupts import check_irqs
from tests.irq_host import GPU, NIC, irq_plan, place
from tests.taskset_host import FOUR


def good() -> NodePlan:
    """Return a plan: lane "serving" of intent "serving" on CPU 0, housekeeping on 3."""
    return irq_plan(
        place(GPU, "0", intents=["serving"]),
        place(NIC, "3", kind="nic", where="housekeeping", why="written"),
        place("0000:03:00.0", None, kind="nic", intents=[], why="unclaimed"),
        housekeeping=CpuSet.parse("3"),
    )


def change(n: int, **fields: object) -> Callable[[NodePlan], NodePlan]:
    def apply(plan: NodePlan) -> NodePlan:
        rows = list(plan.irqs)
        rows[n] = rows[n].model_copy(update=fields)
        return plan.model_copy(update={"irqs": tuple(rows)})

    return apply


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def less_effective(plan: NodePlan) -> NodePlan:
    machine = FOUR.model_copy(update={"effective": cpus("1-3")})
    return plan.model_copy(update={"machine": machine})


MUTATIONS: dict[str, tuple[set[str], Callable[[NodePlan], NodePlan]]] = {
    "none at all": ({"irqs-empty", "irqs-lane"}, change(0, cpus=CpuSet())),
    "placed without CPUs": ({"irqs-where"}, change(0, cpus=None)),
    "left with CPUs": ({"irqs-where", "irqs-outside"}, change(2, cpus=cpus("1"))),
    "a CPU that is not there": ({"irqs-offline", "irqs-outside"}, change(0, cpus=cpus("0,9"))),
    "a CPU that is not ours": ({"irqs-unusable"}, less_effective),
    "beyond housekeeping": ({"irqs-outside"}, change(1, cpus=cpus("2-3"))),
    "beyond the lane": ({"irqs-outside"}, change(0, cpus=cpus("0-1"))),
    "another lane": ({"irqs-lane", "irqs-outside"}, change(0, lanes=("none",))),
    "no lane": ({"irqs-outside"}, change(0, lanes=())),
    "a lane it is not on": ({"irqs-lane", "irqs-outside"}, change(0, cpus=cpus("1"))),
    "somebody else's device": ({"irqs-stranger"}, change(0, intents=("batch",))),
    "a device twice": ({"irqs-devices"}, change(2, device=GPU)),
}


def test_a_good_plan_breaks_none() -> None:
    assert list(check_irqs(good())) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_trips_its_invariant(name: str) -> None:
    kinds, mutate = MUTATIONS[name]
    broken = mutate(good())
    found = list(check_irqs(broken))
    assert {one.kind for one in found} == kinds
    assert all(one.message for one in found)
    assert kinds <= {one.kind for one in safety.check(broken)}


def test_an_isolated_lane_may_have_them() -> None:
    machine = FOUR.model_copy(update={"effective": cpus("1-3"), "isolated": cpus("0")})
    assert list(check_irqs(good().model_copy(update={"machine": machine}))) == []


def test_rows_read_back() -> None:
    for row in good().irqs:
        data = row.model_dump(mode="json", by_alias=True)
        assert DeviceIrqs.model_validate_json(row.model_dump_json(by_alias=True)) == row, data
