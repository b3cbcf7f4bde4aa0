"""Tests of a policy: lanes and findings, every expectation both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policies import BOX, PROJECT, intent
from tests.policytest_box import CLASH, LANE, LOAD
from tests.policytests import KUBE, SERVE, Runner, failures


@pytest.fixture
def runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    return Runner(tmp_path, capsys, monkeypatch)


# -- lanes ---------------------------------------------------------------------------------------

LANES = [
    ("", None, 0, "", ""),
    ("exists: true", "exists: false", 27, "no lane serve", f"lane serve with CPUs {LANE}"),
    ("cores: 2", "cores: 3", 26, "3 cores", f"2 cores, CPUs {LANE}"),
    ("cores: 2", "cores: 1", 26, "1 core", f"2 cores, CPUs {LANE}"),
    ("cores: {min: 2}", "cores: {min: 3}", 26, "at least 3 cores", f"2 cores, CPUs {LANE}"),
    ("cores: {max: 2}", "cores: {max: 1}", 26, "at most 1 core", f"2 cores, CPUs {LANE}"),
    ("cores: {min: 1, max: 2}", "cores: {min: 3, max: 4}", 26, "3 to 4 cores",
     f"2 cores, CPUs {LANE}"),
    ("cpusWithin: 0-11", "cpusWithin: 0-9", 31, "CPUs within 0-9",
     f"CPUs {LANE}; outside are 10-11"),
    ("wholeCores: true", "wholeCores: false", 31, "a core that is not whole", "whole cores"),
    ("share: guarded", "share: open", 26, "share open", "share guarded"),
    ("tier: latency", "tier: system", 25, "tier system", "tier latency"),
    ("notSharingWith: [batch, housekeeping]", "notSharingWith: [serve]", 36,
     "no CPU shared with serve", f"CPUs {LANE}; shared are {LANE}"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "column", "expected", "got"), LANES)
def test_a_lane(
    runner: Runner, right: str, wrong: str | None, column: int, expected: str, got: str
) -> None:
    code, _ = runner.body(f"lanes:\n- {{name: serve, {right}}}")
    assert code == 0
    if wrong is None:
        return
    code, out = runner.body(f"lanes:\n- {{name: serve, {wrong}}}")
    assert code == 1
    assert failures(out) == [
        "FAIL t: lane serve",
        f"tests/t.yaml:6:{column}",
        f"expected {expected}",
        f"got {got}",
        "why lane serve: asked for 2 cores, guarded, intents/serve.yaml:7:3",
        "nodes box",
    ]


def test_a_lane_that_a_node_has_not(runner: Runner) -> None:
    only = SERVE.replace("spec:\n", "spec:\n  nodes: {names: [kube]}\n")
    runner.add({"intents/serve.yaml": only, "nodes/kube.yaml": KUBE})
    body = "nodes: {names: [%s]}\nlanes: [{name: serve, exists: %s}]"
    assert runner.body(body % ("box", "false"))[0] == 0
    assert runner.body(body % ("kube", "true"))[0] == 0
    code, out = runner.body(body % ("box", "true"))
    assert code == 1
    assert failures(out) == [
        "FAIL t: lane serve",
        "tests/t.yaml:6:18",
        "expected a lane serve",
        "got no lane at all",
        "nodes box",
    ]
    # of all nodes, only those are named that fail
    code, out = runner.body("lanes: [{name: serve}]")
    assert (code, failures(out)[-1]) == (1, "nodes box")


def test_nodes_that_fail_alike_are_named_together(runner: Runner) -> None:
    for name in ("a", "b", "c", "d", "e", "f"):
        runner.add({f"nodes/{name}.yaml": BOX.replace("name: box", f"name: {name}")})
    _, out = runner.body("lanes: [{name: serve, cores: 1}]")
    assert failures(out)[-1] == "nodes a, b, box, c, d and 2 more"
    assert len(failures(out)) == 6
    # also where they differ in something else, here that one has pods
    runner.add({"nodes/f.yaml": KUBE, "nodes/e.yaml": "# none\n", "nodes/d.yaml": "# none\n"})
    _, out = runner.body("lanes: [{name: serve, cores: 1}]")
    assert failures(out)[-1] == "nodes a, b, box, c, kube"
    assert len(failures(out)) == 6


def test_an_intent_shares_what_its_threads_get_from_another(runner: Runner) -> None:
    # `room` only places; threads of `guest` take its lane, wherever those of an intent without
    # a lane would be otherwise.
    room = intent("room", 'workload: {match: [{comm: "gu*"}]}\nlane: {cores: 1}')
    guest = intent("guest", "workload: {match: [{comm: guest}, {comm: other}]}\ndemote: background")
    runner.add({"intents/room.yaml": room, "intents/guest.yaml": guest})
    code, out = runner.body("lanes:\n- {name: room, notSharingWith: [guest]}")
    assert code == 1
    assert failures(out)[2] == "expected no CPU shared with guest"
    assert runner.body("lanes:\n- {name: serve, notSharingWith: [guest]}")[0] == 0
    # and `other` of the same intent runs outside the lanes, as batch does
    load = f"threads:\n- given: {LOAD}\n  expect: {{notSharingWith: [guest]}}"
    assert runner.body(load)[0] == 1


# -- findings ------------------------------------------------------------------------------------

FINDINGS = [
    ("present: [TRC310]", "present: [TRC311]",
     ["FAIL t: finding TRC311 present", "expected a finding TRC311",
      "got no TRC311; findings are TRC310"]),
    ("present: [{code: TRC310, intent: clash}]", "present: [{code: TRC310, intent: serve}]",
     ["FAIL t: finding TRC310 about serve present", "expected a finding TRC310 about serve",
      "got TRC310, but none that fits", "CLASH"]),
    ("present: [{code: TRC310, intent: batch}]", "present: [{code: TRC310, line: 6}]",
     ["FAIL t: finding TRC310 at line 6 present", "expected a finding TRC310 at line 6",
      "got TRC310, but none that fits", "CLASH"]),
    ("present: [{code: TRC310, severity: error, node: box}]",
     "present: [{code: TRC310, severity: warning}]",
     ["FAIL t: finding TRC310 warning present", "expected a finding TRC310 warning",
      "got TRC310, but none that fits", "CLASH"]),
    ("present: [{code: TRC310, file: intents/clash.yaml, line: 5}]",
     "present: [{code: TRC310, file: intents/serve.yaml}]",
     ["FAIL t: finding TRC310 in intents/serve.yaml present",
      "expected a finding TRC310 in intents/serve.yaml", "got TRC310, but none that fits",
      "CLASH"]),
    ("present: [{code: TRC310, message: background}]", "present: [{code: TRC310, message: xx}]",
     ["FAIL t: finding TRC310 saying 'xx' present", "expected a finding TRC310 saying 'xx'",
      "got TRC310, but none that fits", "CLASH"]),
    ("absent: [TRC311, {code: TRC310, intent: serve}]", "absent: [{code: TRC310, intent: batch}]",
     ["FAIL t: finding TRC310 about batch absent", "expected no finding TRC310 about batch",
      "got 1 finding", "CLASH"]),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "lines"), FINDINGS)
def test_findings_of_a_policy_with_an_error(
    runner: Runner, right: str, wrong: str, lines: list[str]
) -> None:
    runner.add({"intents/clash.yaml": CLASH})
    assert runner.body(f"findings: {{{right}}}")[0] == 0
    code, out = runner.body(f"findings: {{{wrong}}}")
    assert code == 1
    found = failures(out)
    place = found.pop(1)
    assert place.startswith("tests/t.yaml:5:")
    if lines[-1] == "CLASH":
        why = found.pop()
        assert why.startswith("why error[TRC310]: ")
        assert why.endswith(", intents/clash.yaml:5:29")
        lines = lines[:-1]
    assert found == lines


def test_no_finding_at_a_severity(runner: Runner) -> None:
    assert runner.body("findings: {none: info}")[0] == 0
    runner.add({"intents/clash.yaml": CLASH})
    for level, expected in (("error", "no error"), ("warning", "no warning or error")):
        code, out = runner.body(f"findings: {{none: {level}}}")
        assert code == 1
        assert f"FAIL t: findings none {level}" in failures(out)
        assert f"expected {expected}" in failures(out)
    # a rule of lint, adjusted by the project and suppressed by a comment as in lint
    (runner.root / "intents/clash.yaml").unlink()
    long = intent("long", "workload: {match: [{comm: a-name-of-16-byte}]}\ndemote: idle")
    runner.add({"intents/long.yaml": long})
    assert runner.body("findings: {none: error}")[0] == 1
    runner.add({"tierc.yaml": PROJECT + "  lint: {severity: {TRC201: info}}\n"})
    adjusted = "findings: {none: warning, present: [{code: TRC201, severity: info}]}"
    assert runner.body(adjusted)[0] == 0
    quiet = long.replace("spec:\n", "spec:\n  # tierc: ignore[TRC201] on purpose\n")
    runner.add({"intents/long.yaml": quiet})
    assert runner.body("findings: {none: info}")[0] == 0


def test_findings_of_other_nodes_do_not_count(runner: Runner) -> None:
    big = intent("big", "workload: {match: [{comm: big}]}\nprotect: all\nlane: {cores: 7}")
    runner.add({"intents/big.yaml": big, "nodes/kube.yaml": KUBE})
    named = big.replace("spec:\n", "spec:\n  nodes: {names: [kube]}\n")
    runner.add({"intents/big.yaml": named})
    here = "nodes: {names: [%s]}\nfindings: {none: error}"
    code, out = runner.body(here % "kube")
    assert code == 1
    assert any(line.startswith("why error[TRC400]: ") for line in failures(out))
    assert runner.body(here % "box")[0] == 0
    assert runner.body("findings: {none: error}")[0] == 1


def test_without_a_plan_threads_and_lanes_fail_with_the_reason(runner: Runner) -> None:
    runner.add({"intents/clash.yaml": CLASH})
    code, out = runner.body(f"threads: [{{given: {LOAD}, expect: {{intent: batch}}}}]")
    assert code == 1
    found = failures(out)
    assert found[1:4] == ["tests/t.yaml:5:13", "expected a plan to ask", "got no plan: 1 error"]
    assert found[4].startswith("why error[TRC310]: ")
    assert found[5:] == ["nodes box"]
