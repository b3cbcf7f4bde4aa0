"""Where the interrupts of devices go, through the whole compiler.

Expected CPUs are worked out by hand from docs/placement.md: housekeeping has the lowest two cores,
a lane the lowest free cores near its GPUs.  ``two_sockets`` has GPUs 0000:10:00.0 to 13 on the
first socket (cores 0-7 with 16-23) and 14 to 17 on the second (8-15 with 24-31).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.diagnostics import Diagnostic
from compiler.plan import NodePlan
from compiler.topology import topology_of
from tests.gpu_nodes import SOCKETS, device, two_sockets
from tests.policies import BOX, HEAD, codes, compiled, intent, write

GPU = "0000:01:00.0"  # of BOX, whose lanes start at core 2: CPUs 2 and 10
LEFT, RIGHT = "0000:10:00.0", "0000:17:00.0"


def engine(name: str = "chat", *lines: str, work: str = "", lane: str | None = "cores: 2") -> str:
    """Return an intent of an engine; its lane is near its GPUs unless lines say otherwise."""
    said = [f'workload: {{engine: vllm, version: "0.24.0", cgroup: "{name}.slice/**"{work}}}']
    if not any(line.split(":")[0] in ("protect", "demote") for line in lines):
        said.append("protect: all")
    if lane is not None:
        said.append(f"lane: {{{lane}}}")
    return intent(name, "\n".join([*said, *lines]))


def look(root: Path, node: str, *intents: str) -> tuple[NodePlan | None, tuple[Diagnostic, ...]]:
    files = {f"intents/i{n}.yaml": text for n, text in enumerate(intents)}
    result, findings = compiled(write(root, {"nodes/box.yaml": node, **files}))
    return result.classes[0].plan, findings


def planned(root: Path, node: str, *intents: str) -> NodePlan:
    plan, findings = look(root, node, *intents)
    assert plan is not None, [f.message for f in findings]
    assert safety.check(plan) == ()
    return plan


def irqs(plan: NodePlan) -> dict[str, tuple[str, str, str, str]]:
    """Return place, CPUs, lanes and reason by device."""
    return {
        one.device: (
            one.where,
            "" if one.cpus is None else str(one.cpus),
            " ".join(one.lanes),
            one.why,
        )
        for one in plan.irqs
    }


@pytest.mark.parametrize(
    ("lines", "lane", "expected"),
    [
        ([], "cores: 2", ("lane", "2-3,10-11", "chat", "default")),
        (["irqs: lane"], "cores: 2", ("lane", "2-3,10-11", "chat", "written")),
        (["irqs: housekeeping"], "cores: 2", ("housekeeping", "0-1,8-9", "", "written")),
        (["irqs: leave"], "cores: 2", ("leave", "", "", "written")),
        (["irqs: housekeeping"], None, ("housekeeping", "0-1,8-9", "", "written")),
        (["irqs: leave"], None, ("leave", "", "", "written")),
        ([], None, ("leave", "", "", "unclaimed")),
        (["irqs: lane"], None, ("leave", "", "", "no-lane")),
        # A lane by preference is one, too; it has the cores of the profile's minimum to maximum.
        (
            ["prefer: [gpu-local]", "lane: {cores: 3}"],
            None,
            ("lane", "2-4,10-12", "chat", "default"),
        ),
        # Exclusive and open lanes are no other matter: the interrupts are those of its own work.
        ([], "cores: 1, share: exclusive", ("lane", "2,10", "chat", "default")),
        ([], "cores: 1, share: open", ("lane", "2,10", "chat", "default")),
    ],
)
def test_one_engine_and_one_gpu(
    tmp_path: Path, lines: list[str], lane: str | None, expected: tuple[str, str, str, str]
) -> None:
    plan = planned(tmp_path, BOX, engine("chat", *lines, lane=lane))
    assert irqs(plan) == {GPU: expected}
    claimed = expected[3] != "unclaimed"
    assert plan.irqs[0].intents == (("chat",) if claimed else ())
    assert ("irq.affinity" in plan.features) == (expected[0] != "leave")


def test_lane_without_a_lane_is_said_at_the_word(tmp_path: Path) -> None:
    text = engine("chat", "irqs: lane", lane=None)
    _, findings = look(tmp_path, BOX, text)
    (found,) = [f for f in findings if f.code == "TRC333"]
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if "irqs: lane" in row)
    assert (found.span.line, found.severity.name.lower()) == (line, "warning")
    assert "chat sends interrupts to its lane and has none" in found.message
    assert "TRC333" not in codes(look(tmp_path, BOX, engine("chat", "irqs: lane"))[1])


def test_a_node_without_devices_has_no_rows(tmp_path: Path) -> None:
    start = BOX.index("  devices:")
    bare = BOX[:start] + BOX[BOX.index("  kernel:") :]
    plan = planned(tmp_path, bare, engine("chat", "irqs: lane"))
    assert plan.irqs == ()


def test_devices_without_an_address_and_parts_of_devices_are_left_out(tmp_path: Path) -> None:
    extra = [
        {"id": "soc", "type": "gpu", "locality": {"cpus": SOCKETS[0]}},
        {"id": "zz-mig", "type": "gpu", "parent": "gpu0", "uuid": "MIG-1"},
    ]
    plan = planned(tmp_path, two_sockets(1, 1, extra), engine())
    assert sorted(irqs(plan)) == ["0000:10:00.0", "0000:11:00.0"]


def test_a_gpu_belongs_to_the_member_of_its_locality(tmp_path: Path) -> None:
    plan = planned(tmp_path, two_sockets(), engine("chat", "prefer: [gpu-local]"))
    left = ("lane", "2-3,18-19", "chat@numa0", "default")
    right = ("lane", "8-9,24-25", "chat@numa1", "default")
    assert irqs(plan) == {
        f"0000:{bus:02x}:00.0": (left if bus < 20 else right) for bus in range(16, 24)
    }


def test_a_gpu_of_no_member_has_them_all(tmp_path: Path) -> None:
    """What it is near is not known, so that its processes may be on any of them."""
    node = two_sockets(1, 1, [device("gpux", None, bus=64)])
    found = irqs(planned(tmp_path, node, engine("chat", "prefer: [gpu-local]")))
    assert found["0000:10:00.0"][1] == "2-3,18-19"
    members = "chat@numa0 chat@numa1"
    assert found["0000:40:00.0"] == ("lane", "2-3,8-9,18-19,24-25", members, "default")


def test_housekeeping_near_the_device_is_preferred(tmp_path: Path) -> None:
    """Ten cores are kept: 0-7 of the first socket and 8-9 of the second."""
    project = f"{HEAD}kind: Project\nspec: {{reserve: {{housekeeping: 10}}}}\n"
    files = {
        "tierc.yaml": project,
        "nodes/box.yaml": two_sockets(),
        "intents/a.yaml": engine("chat", "irqs: housekeeping"),
    }
    plan = compiled(write(tmp_path, files))[0].classes[0].plan
    assert plan is not None
    assert irqs(plan)[LEFT][1] == "0-7,16-23"
    assert irqs(plan)[RIGHT][1] == "8-9,24-25"


def test_of_a_spanning_lane_a_gpu_has_the_cores_near_it(tmp_path: Path) -> None:
    text = engine("chat", "prefer: [gpu-local]", work=", gpus: all", lane="cores: 4")
    found = irqs(planned(tmp_path, two_sockets(), text))
    assert found[LEFT] == ("lane", "2-3,18-19", "chat", "default")
    assert found[RIGHT] == ("lane", "8-9,24-25", "chat", "default")


def test_a_gpu_far_from_the_only_lane_has_all_of_it(tmp_path: Path) -> None:
    """Without gpu-local the lane is where it is, and its processes run nowhere else."""
    found = irqs(planned(tmp_path, two_sockets(), engine()))
    assert found[LEFT] == found[RIGHT] == ("lane", "2-3,18-19", "chat", "default")


NICS = [
    device("nic0", SOCKETS[0], bus=1, kind="nic"),
    device("nic1", SOCKETS[1], bus=2, kind="nic"),
    device("nic2", None, bus=3, kind="nic"),
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "prefer: [gpu-local]",
            [("leave", "", "", "unclaimed")] * 3,
        ),
        (
            "prefer: [gpu-local, nic-local]",
            [
                ("lane", "2-3,18-19", "chat@numa0", "default"),
                ("lane", "8-9,24-25", "chat@numa1", "default"),
                ("leave", "", "", "not-near"),
            ],
        ),
        (
            "prefer: [gpu-local, nic-local]\nirqs: housekeeping",
            [("housekeeping", "0-1,16-17", "", "written")] * 3,
        ),
        ("prefer: [gpu-local, nic-local]\nirqs: leave", [("leave", "", "", "written")] * 3),
        ("prefer: [gpu-local]\nirqs: lane", [("leave", "", "", "unclaimed")] * 3),
    ],
)
def test_nics(tmp_path: Path, words: str, expected: list[tuple[str, str, str, str]]) -> None:
    plan = planned(tmp_path, two_sockets(4, 4, NICS), engine("chat", *words.split("\n")))
    found = irqs(plan)
    assert [found[f"0000:0{bus}:00.0"] for bus in (1, 2, 3)] == expected
    assert [one.kind for one in plan.irqs] == ["nic"] * 3 + ["gpu"] * 8


def test_a_nic_far_from_a_lane_that_is_not_divided_is_left(tmp_path: Path) -> None:
    """One lane of two cores: near the first NIC it is, and the other is not dragged there."""
    text = intent(
        "move",
        """
        workload: {match: [{cgroup: "move.slice/**"}]}
        protect: all
        prefer: [nic-local]
        lane: {cores: 1}
        """,
    )
    found = irqs(planned(tmp_path, two_sockets(1, 1, NICS[:2]), text))
    near = [bdf for bdf, row in found.items() if row[0] == "lane"]
    assert len(near) == 1
    assert near[0] in ("0000:01:00.0", "0000:02:00.0")
    assert {row[3] for bdf, row in found.items() if bdf not in near} == {"not-near", "unclaimed"}


class TestSeveralIntents:
    def test_the_highest_tier_wins(self, tmp_path: Path) -> None:
        low = engine("embed", "protect: {path: decode, tier: interactive}", "irqs: housekeeping")
        plan = planned(tmp_path, BOX, low, engine())
        assert irqs(plan)[GPU][2:] == ("chat", "default")
        assert plan.irqs[0].intents == ("chat",)

    def test_one_that_says_nothing_does_not_win(self, tmp_path: Path) -> None:
        low = engine("embed", "protect: {path: decode, tier: interactive}", "irqs: housekeeping")
        plan = planned(tmp_path, BOX, low, engine(lane=None))
        assert irqs(plan)[GPU] == ("housekeeping", "0-1,8-9", "", "written")

    def test_then_above(self, tmp_path: Path) -> None:
        plan = planned(
            tmp_path, BOX, engine("a", "irqs: leave"), engine("b", "irqs: lane", "above: [a]")
        )
        assert irqs(plan)[GPU][2:] == ("b", "written")

    def test_order_counts_inside_a_tier_only(self, tmp_path: Path) -> None:
        """chat is second in its tier, embed first in a lower one."""
        first = intent(
            "first", 'workload: {match: [{cgroup: "f/**"}]}\nprotect: all\nabove: [chat]'
        )
        low = engine("embed", "protect: {path: decode, tier: interactive}", "irqs: leave")
        plan = planned(tmp_path, BOX, first, low, engine())
        assert irqs(plan)[GPU][2:] == ("chat", "default")

    def test_then_precedence(self, tmp_path: Path) -> None:
        plan = planned(
            tmp_path, BOX, engine("a", "irqs: leave"), engine("b", "irqs: lane", "precedence: 1")
        )
        assert irqs(plan)[GPU][2:] == ("b", "written")

    def test_what_is_written_goes_before_the_default(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, BOX, engine("a"), engine("b", "irqs: housekeeping"))
        assert irqs(plan)[GPU] == ("housekeeping", "0-1,8-9", "", "written")
        assert plan.irqs[0].intents == ("b",)

    def test_equals_share(self, tmp_path: Path) -> None:
        """Which of two engines gets the GPU is not known; both have a lane."""
        plan = planned(tmp_path, BOX, engine("a"), engine("b"))
        assert irqs(plan)[GPU] == ("lane", "2-5,10-13", "a b", "default")
        assert plan.irqs[0].intents == ("a", "b")

    def test_equals_that_contradict_are_an_error(self, tmp_path: Path) -> None:
        texts = [engine("a", "irqs: leave"), engine("b", "irqs: housekeeping"), engine("c")]
        plan, findings = look(tmp_path, BOX, *texts)
        assert plan is None
        (found,) = [f for f in findings if f.code == "TRC334"]
        assert "a says leave and b says housekeeping" in found.message
        assert "interrupts of gpu0" in found.message
        assert found.span.path.endswith("i0.yaml")
        assert [str(r.span.path)[-7:] for r in found.related] == ["i1.yaml"]

    def test_other_gpus_do_not_contradict(self, tmp_path: Path) -> None:
        a = engine("a", "irqs: leave", work=f', gpus: ["{LEFT}"]')
        b = engine("b", "irqs: housekeeping", work=f', gpus: ["{RIGHT}"]')
        found = irqs(planned(tmp_path, two_sockets(), a, b))
        assert found[LEFT] == ("leave", "", "", "written")
        assert found[RIGHT][0] == "housekeeping"
        assert found["0000:11:00.0"] == ("leave", "", "", "unclaimed")

    def test_nics_contradict(self, tmp_path: Path) -> None:
        texts = [
            engine(n, "prefer: [nic-local]", f"irqs: {w}", work=f', gpus: ["{g}"]')
            for n, w, g in [("a", "leave", LEFT), ("b", "lane", RIGHT)]
        ]
        _, findings = look(tmp_path, two_sockets(4, 4, NICS[:1]), *texts)
        (found,) = [f for f in findings if f.code == "TRC334"]
        assert "interrupts of the NICs: a says leave and b says lane" in found.message


def test_no_gpu_is_claimed_by_a_workload_that_does_not_say_so(tmp_path: Path) -> None:
    """``gpus`` has a default, which says nothing of a batch job that only has a lane."""
    body = 'workload: {match: [{cgroup: "x.slice/**"}]%s}\nprotect: all\nlane: {cores: 1}%s'
    for gpus, more, where in [
        ("", "", "leave"),
        ("", "\nirqs: lane", "lane"),
        (f', gpus: ["{GPU}"]', "", "lane"),
    ]:
        plan = planned(tmp_path, BOX, intent("x", body.replace("]%s", f"]{gpus}") % more))
        assert irqs(plan)[GPU][0] == where


def test_the_drivers_group_may_say_it_for_all(tmp_path: Path) -> None:
    text = intent("driver", "workload: {group: gpu-driver}\nkeep: interactive\nirqs: housekeeping")
    found = irqs(planned(tmp_path, two_sockets(1, 1), text))
    assert {row[:2] for row in found.values()} == {("housekeeping", "0-1,16-17")}


def test_isolated_lanes_have_the_interrupts_of_their_devices(tmp_path: Path) -> None:
    isolated = BOX.replace('isolated: ""', 'isolated: "6-7,14-15"')
    text = engine("chat", "prefer: [isolated]", lane="cores: 2")
    assert irqs(planned(tmp_path, isolated, text))[GPU][:2] == ("lane", "6-7,14-15")


def test_nohz_full_is_in_the_plan(tmp_path: Path) -> None:
    nohz = BOX.replace('isolated: ""', 'isolated: "", nohzFull: "4-5"')
    assert str(planned(tmp_path, nohz, engine()).machine.nohz_full) == "4-5"
    assert planned(tmp_path, BOX, engine()).machine.nohz_full is None


def test_with_the_target_nothing_is_left_out(tmp_path: Path) -> None:
    project = f"{HEAD}kind: Project\nspec:\n  enforce: [{{mode: fallback}}]\n  targets: {{%s}}\n"
    seen = {}
    for targets in ("taskset: {}", "taskset: {}, irq: {}"):
        files = {"tierc.yaml": project % targets, "intents/a.yaml": engine()}
        result, findings = compiled(write(tmp_path, files))
        group = result.classes[0]
        assert group.plan is not None, findings
        seen[targets] = {row.feature for row in group.plan.left_out.get("taskset", ())}
        assert "irq" not in group.plan.left_out
    assert seen["taskset: {}"] - seen["taskset: {}, irq: {}"] == {"irq.affinity"}


def test_a_target_of_interrupts_does_not_enforce_a_lane(tmp_path: Path) -> None:
    """An exclusive lane is as much a finding with it as without."""
    project = f"{HEAD}kind: Project\nspec:\n  enforce: [{{mode: fallback}}]\n  targets: {{%s}}\n"
    for targets in ("taskset: {}", "taskset: {}, irq: {}"):
        text = engine("chat", lane="cores: 2, share: exclusive")
        _, findings = compiled(
            write(tmp_path, {"tierc.yaml": project % targets, "intents/a.yaml": text})
        )
        assert "TRC501" in codes(findings)


WORDS = st.sampled_from(["", "irqs: lane", "irqs: housekeeping", "irqs: leave"])
PLACES = st.sampled_from(
    ["", "prefer: [gpu-local]", "prefer: [nic-local]", "prefer: [gpu-local, nic-local]"]
)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            WORDS,
            PLACES,
            st.integers(0, 3),
            st.sampled_from(["open", "guarded", "exclusive"]),
            st.integers(-1, 1),
        ),
        max_size=3,
    ),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_interrupts_go_to_effective_cpus_or_stay(
    rows: list[tuple[str, str, int, str, int]], left: int, right: int
) -> None:
    texts = [
        engine(
            f"i{n}",
            *filter(None, [word, place, f"precedence: {precedence}"]),
            lane=f"cores: {cores}, share: {share}" if cores else None,
        )
        for n, (word, place, cores, share, precedence) in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as root:
        files = {f"intents/i{n}.yaml": text for n, text in enumerate(texts)}
        node = two_sockets(left, right, NICS)
        result, findings = compiled(write(Path(root), {"nodes/box.yaml": node, **files}))
    group = result.classes[0]
    if group.plan is None:
        assert any(f.severity.name == "ERROR" for f in findings)
        return
    assert safety.check(group.plan) == ()
    topology = topology_of(group.sample.model)
    assert len(group.plan.irqs) == left + right + 3
    for one in group.plan.irqs:
        if one.where == "leave":
            assert one.cpus is None
            continue
        assert one.cpus
        assert one.cpus <= topology.effective & topology.online
        closed = [
            lane
            for lane in group.plan.lanes
            if lane.share != "open" and lane.cpus & one.cpus and lane.name not in one.lanes
        ]
        assert closed == [] or one.where == "housekeeping"
