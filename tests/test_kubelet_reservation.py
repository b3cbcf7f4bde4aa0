"""The kubelet's static policy where nothing says which CPUs it reserves for the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic
from compiler.pipeline import Compilation
from compiler.place import LaneRequest, Placement, place
from compiler.topology import topology_of
from tests.machines import plain
from tests.policies import BOX, PROJECT, intent, linted, write

STATIC = {"present": True, "policy": "static"}
UNKNOWN = "policy is static, and which CPUs it reserves is not known"


def lane(name: str, share: str) -> LaneRequest:
    return LaneRequest(name=name, tier=1, order=0, min=1, max=2, share=share)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kubelet", "unknown"),
    [
        (None, False),
        (STATIC, True),
        ({**STATIC, "exclusive": "7"}, True),
        ({**STATIC, "sharedPool": "0-7"}, True),
        ({**STATIC, "reserved": ""}, True),
        ({**STATIC, "reserved": "0"}, False),
        ({**STATIC, "present": False}, False),
        ({**STATIC, "policy": "none"}, False),
        ({"present": True}, False),  # the default policy is none
    ],
)
def test_when_it_is_unknown(kubelet: dict[str, object] | None, unknown: bool) -> None:
    machine = topology_of(plain(8, kubelet=kubelet))
    assert machine.reservation_unknown is unknown
    found = place(machine, [lane("a", "exclusive")], None, system_tier=3)
    if unknown:
        assert not isinstance(found, Placement)
        (refusal,) = found
        assert (refusal.about, refusal.kind) == ("a", "reservation-unknown")
    elif kubelet is None or "reserved" not in kubelet:  # two cores for the node, two for the lane
        assert isinstance(found, Placement)
        assert found.degradations == ()


def test_the_operator_may_say_which_cpus_are_tiercs() -> None:
    machine = topology_of(plain(8, kubelet=STATIC, overrides={"allowed": "0-5"}))
    assert not machine.reservation_unknown
    found = place(machine, [lane("a", "exclusive")], None, system_tier=3)
    assert isinstance(found, Placement)
    assert (str(found.housekeeping), str(found.lanes["a"].cpus)) == ("0", "1-2")
    assert found.degradations == ()


@pytest.mark.parametrize("share", ["open", "guarded"])
def test_other_lanes_are_placed_with_a_word(share: str) -> None:
    machine = topology_of(plain(8, kubelet={**STATIC, "exclusive": "2"}))
    found = place(machine, [lane("a", share)], None, system_tier=3)
    assert isinstance(found, Placement)
    assert (str(found.housekeeping), str(found.lanes["a"].cpus)) == ("0", "1,3")
    assert [(row.about, row.kind, row.message) for row in found.degradations] == [
        (
            "housekeeping",
            "reservation-unknown",
            "the kubelet may give any of CPUs 0-1,3-7 to a container for itself: its " + UNKNOWN,
        )
    ]


def test_every_exclusive_lane_is_refused_once() -> None:
    machine = topology_of(plain(8, kubelet=STATIC))
    lanes = [lane("a", "exclusive"), lane("b", "guarded"), lane("c", "exclusive")]
    found = place(machine, lanes, None, system_tier=3)
    assert not isinstance(found, Placement)
    assert [row.about for row in found] == ["a", "c"]


# --- a policy -----------------------------------------------------------------------------------

KUBELET = "  kubelet: {present: true, policy: static, podsRoot: kubepods.slice}\n"


def checked(
    tmp_path: Path, share: str, node: str = KUBELET, project: str = ""
) -> tuple[Compilation, list[Diagnostic]]:
    db = intent(
        "db",
        f"""
        workload: {{match: [{{cgroup: "system.slice/db.service/**"}}]}}
        protect: all
        lane: {{name: db, cores: 2, share: {share}}}
        """,
    )
    files = {"intents/db.yaml": db, "nodes/box.yaml": BOX + node, "tierc.yaml": PROJECT + project}
    compilation, findings = linted(write(tmp_path, files))
    return compilation, [row for row in findings if UNKNOWN in row.message]


def test_an_exclusive_lane_is_an_error_at_its_line(tmp_path: Path) -> None:
    compilation, findings = checked(tmp_path, "exclusive")
    assert compilation.classes[0].plan is None
    facts, refused = sorted(findings, key=lambda row: row.code, reverse=True)
    assert (facts.code, facts.severity.label) == ("TRC609", "warning")
    assert (refused.severity.label, str(refused.span)) == ("error", "intents/db.yaml:7:3")
    assert refused.message.startswith("lane db is exclusive, and the kubelet may give its CPUs to")
    assert "overrides.allowed" in refused.help


def test_quarantine_keeps_the_other_nodes(tmp_path: Path) -> None:
    compilation, findings = checked(tmp_path, "exclusive", project="  onUnplaceable: quarantine\n")
    assert compilation.unplanned == ("box",)
    assert {row.severity.label for row in findings} == {"warning"}


def test_a_guarded_lane_is_warned_of_once_and_the_plan_says_so(tmp_path: Path) -> None:
    compilation, findings = checked(tmp_path, "guarded")
    assert [row.code for row in findings] == ["TRC609"]
    plan = compilation.classes[0].plan
    assert plan is not None
    assert [row.kind for row in plan.degradations] == ["reservation-unknown"]


@pytest.mark.parametrize(
    "known",
    [
        KUBELET.replace("static,", "static, reserved: '0-5,8-13',"),
        KUBELET + "  overrides: {allowed: '0-5,8-13'}\n",
        "",
    ],
)
def test_where_it_is_known_nothing_is_said_of_it(tmp_path: Path, known: str) -> None:
    compilation, findings = checked(tmp_path, "exclusive", known)
    assert findings == []
    assert compilation.classes[0].plan is not None
