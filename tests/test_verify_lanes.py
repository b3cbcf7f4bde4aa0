"""Lanes, threads without a rule and rules without a thread on a pretended node."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.artifact import canonical_json
from compiler.diagnostics import Severity
from compiler.plan import Lane, LeftOut
from compiler.verify import load_node_dir, verify
from tests.taskset_plans import rule
from tests.verify_host import EVERY, KERNEL, LANE, OTHERS, Node, found, only


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# --- lanes ------------------------------------------------------------------------------------


def test_foreign_threads_in_a_guarded_lane(node: Node) -> None:
    node.thread(10, "engine", allowed="0", state="R", cpu=0)
    node.thread(20, "batch", allowed="0-3", state="R", cpu=0, ticks=150)  # demoted, not moved yet
    node.thread(30, "nobody", allowed="0-1", cpu=0, ticks=9000)
    node.thread(40, "away", allowed="1-3", state="R", cpu=1)
    node.thread(50, "kernel", flags=KERNEL, allowed="0-3", state="R", cpu=0)
    node.thread(60, "peer", allowed="0-3")  # of the lane's own tier: it may
    node.thread(70, "roamer", allowed="0-3", state="R", cpu=0)  # the plan gives it every CPU
    node.thread(90, "batch", allowed="0-3", state="R", cpu=2)  # it may, and is elsewhere now
    bands = [("0", 1), ("0-3", 1), ("1-3", 1), ("1-3", 1)]  # tiers 0, 1, 0, 1
    names = ("engine", "roamer", "peer", "batch")
    rules = [rule(n, n, comm=name) for n, name in enumerate(names)]
    node.thread(80, "kworker/0:1", flags=KERNEL, allowed="0-3", state="R", cpu=0)
    rules.append(rule(4, 3, kthread="kworker/*"))
    result = node.verify(*rules, bands=bands)
    (lane,) = result.lanes
    assert (lane.own, lane.may, lane.now) == (1, 3, 1)
    assert [(u.tid, u.unit, u.cpu_seconds) for u in lane.worst] == [
        (20, "unit-3", 1.5),
        (30, None, 90.0),
        (90, "unit-3", 0.0),
    ]
    told = only(result, "TRC728")
    assert told.severity is Severity.WARNING
    assert told.message == (
        "3 foreign threads may run in guarded lane serving (CPUs 0), 1 runs there now"
    )
    assert told.rows[0] == "20/20 batch: 1.50 s, on CPU 0, unit-3"


def test_an_open_lane_has_no_foreigners_and_an_exclusive_one_has_all(node: Node) -> None:
    node.thread(10, "nobody", allowed="0-3")
    node.thread(20, "peer", allowed="0-3")
    base = node.plan(rule(0, EVERY, comm="peer"), bands=[("0", 1), ("1-3", 1), ("1-3", 1)])

    def shared(share: str) -> dict[str, tuple[Lane, ...]]:
        return {"lanes": (base.lanes[0].model_copy(update={"share": share}),)}

    rules, bands = rule(0, EVERY, comm="peer"), [("0", 1), ("1-3", 1), ("1-3", 1)]
    opened = node.verify(rules, bands=bands, change=shared("open"))
    assert opened.lanes[0].may == 0
    exclusive = node.verify(rules, bands=bands, change=shared("exclusive"))
    assert exclusive.lanes[0].may == 2
    assert only(exclusive, "TRC728").severity is Severity.INFO
    kept = node.verify(
        rules, bands=bands, change=shared("exclusive"), targets=("taskset", "cpuset")
    )
    assert only(kept, "TRC728").severity is Severity.ERROR


# --- threads and rules without each other -------------------------------------------------------


def test_unmatched_threads_are_counted_and_the_busiest_named(node: Node) -> None:
    for n in range(30):
        node.thread(100 + n, f"t{n}", ticks=n * 100, cpu=n % 4, state="R" if n == 29 else "S")
    node.thread(500, "kthreadd", flags=KERNEL)
    result = node.verify(rule(0, LANE, comm="engine"))
    assert (result.threads.unmatched, result.threads.kernel_unmatched) == (30, 1)
    told = only(result, "TRC729")
    assert told.severity is Severity.INFO
    assert told.message.startswith("30 user threads have no rule: tier latency, CPUs 0-3")
    assert told.rows[:2] == (
        "129/129 t29: 29.00 s, on CPU 1",
        "128/128 t28: 28.00 s, last on CPU 0",
    )
    assert len(told.rows) == 8
    assert len(result.users) == 20


def test_rules_without_threads_say_why_where_it_is_known(node: Node) -> None:
    node.thread(10, "a-1", allowed="0-3")
    needs = rule(4, LANE, comm="VLLM::x").model_copy(update={"needs": "VLLM_TITLES=1"})
    result = node.verify(
        rule(0, EVERY, comm="a-*"),
        rule(1, EVERY, comm="a-1"),
        rule(2, LANE, cgroup="ci.slice/**"),
        rule(3, LANE, comm="gone"),
        needs,
        left_out=[LeftOut(feature="match.pods", unit="unit-5", rules=(5,), message="m")],
    )
    assert {one.rule: one.reason for one in result.unused} == {
        1: "every thread it fits has an earlier rule",
        2: "no such control group now",
        3: "",
        4: "the name exists only with VLLM_TITLES=1",
    }
    silent = {one.message.split()[3].strip(","): one.severity for one in found(result, "TRC730")}
    assert silent == {
        "unit-1": Severity.WARNING,
        "unit-2": Severity.WARNING,
        "unit-3": Severity.WARNING,
        "unit-4": Severity.INFO,
    }


def test_rules_a_target_leaves_out_and_late_bound_ones_match_nobody(node: Node) -> None:
    node.thread(10, "engine", allowed="2-3")
    late = rule(0, LANE, unit="u", comm="engine", pods="ns: serving")
    left = rule(1, LANE, unit="v", comm="engine")
    one = node.plan(
        rule(2, OTHERS, unit="w", comm="engine"),
        left_out=[LeftOut(feature="match.comm.exact", unit="v", rules=(1,), message="m")],
    )
    units = node.plan(late, left, rule(2, OTHERS, unit="w", comm="engine")).units
    full = one.model_copy(update={"rules": (late, left, *one.rules), "units": units})
    directory = node.build(one)
    (directory / "plan.json").write_bytes(canonical_json(full.data()))
    result = verify(load_node_dir(directory), node.root)
    assert not result.rows
    assert {one.rule: one.reason for one in result.unused} == {
        0: "late-bound: inactive until the pods are resolved on the node",
        1: "taskset cannot match an exact thread name",
    }
