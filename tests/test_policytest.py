"""Tests of a policy: every expectation both ways, what cannot be decided, fixtures, snapshots."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from compiler.__main__ import main
from tests.policies import BOX, PROJECT, intent
from tests.policytests import KUBE, SERVE, Runner, failures, policy_test

PODS = intent(
    "shop",
    'workload: {match: [{comm: "web*"}], pods: {namespace: shop, matchLabels: {app: web}}}\n'
    "keep: interactive",
)
CLASH = intent("clash", 'workload: {match: [{comm: "stress-ng*"}]}\nkeep: interactive')
SMALL = (
    BOX.replace("name: box", "name: tiny")
    .replace("0-15", "0-3")
    .replace("smt: [0-7, 8-15]", "smt: [0-1, 2-3]")
)
"""As BOX with two cores of two threads each."""

# BOX has the cores {0,8} to {7,15}.  Housekeeping takes the lowest two, the lane the next two,
# and what is demoted is kept out of both; what no rule matches is kept out of the lane only.
LANE = "2-3,10-11"
REST = "4-7,12-15"
SHARED = "0-1,4-9,12-15"

ENGINE = "{comm: engine-7, cgroup: system.slice/a.service}"
LOAD = "{comm: stress-ng-cpu, cgroup: user.slice}"
OTHER = "{comm: bash, cgroup: user.slice}"


@pytest.fixture
def runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    return Runner(tmp_path, capsys, monkeypatch)


# -- threads -------------------------------------------------------------------------------------

WHY_ENGINE = [
    'why rule 0 of serve: comm "engine*" and cgroup "system.slice/**", intents/serve.yaml:5:29',
    "why tier latency: serve says protect all, intents/serve.yaml:6:12",
    "why lane serve: 2 cores (asked for 2), guarded, intents/serve.yaml:7:3",
]
WHY_LOAD = [
    'why rule 1 of batch: comm "stress-ng*", intents/batch.yaml:5:29',
    "why tier background: batch says demote background, intents/batch.yaml:6:11",
    f"why CPUs {REST}: what no lane and no housekeeping has",
]
WHY_NONE = [f"why no rule matches: tier normal, CPUs {SHARED}"]

THREADS = [
    # given, what holds, what does not, what is asked for and what is so instead
    (ENGINE, "matched: true", "matched: false", "no rule that matches", "rule 0 of serve"),
    (OTHER, "matched: false", "matched: true", "a rule that matches", "no rule matches"),
    (ENGINE, "intent: serve", "intent: batch", "a rule of intent batch", "rule 0 of serve"),
    (OTHER, "matched: false", "intent: batch", "a rule of intent batch", "no rule matches"),
    (LOAD, "unit: batch", "unit: serve", "a rule of unit serve", "rule 1 of batch"),
    (ENGINE, "tier: latency", "tier: idle", "tier idle", "tier latency"),
    (OTHER, "tier: normal", "tier: idle", "tier idle", "tier normal"),
    (ENGINE, "inLane: true", "inLane: false", "no lane", "lane serve"),
    (LOAD, "inLane: false", "inLane: true", "a lane", "no lane"),
    (ENGINE, "lane: serve", None, "", ""),
    (LOAD, "inLane: false", "lane: serve", "lane serve", "no lane"),
    (
        ENGINE,
        f'cpusWithin: "{LANE}"',
        'cpusWithin: "2,10"',
        "CPUs within 2,10",
        f"CPUs {LANE}; outside are 3,11",
    ),
    (
        LOAD,
        "notSharingWith: [serve, housekeeping]",
        "notSharingWith: [leftovers]",
        "no CPU shared with leftovers",
        f"CPUs {REST}; shared are {REST}",
    ),
    (
        ENGINE,
        "notSharingWith: [batch, housekeeping, leftovers]",
        "notSharingWith: [batch, serve]",
        "no CPU shared with serve",
        f"CPUs {LANE}; shared are {LANE}",
    ),
    (
        OTHER,
        "notSharingWith: [serve]",
        "notSharingWith: [housekeeping]",
        "no CPU shared with housekeeping",
        f"CPUs {SHARED}; shared are 0-1,8-9",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "right", "wrong", "expected", "got"), THREADS)
def test_a_thread(
    runner: Runner, given: str, right: str, wrong: str | None, expected: str, got: str
) -> None:
    head = f"threads:\n- given: {given}\n  expect: "
    assert runner.body(f"{head}{{{right}}}") == (0, "ok    t: 1 passed\n\n1 passed, 0 failed\n")
    if wrong is None:
        return
    code, out = runner.body(f"{head}{{{wrong}}}")
    assert code == 1
    why = {ENGINE: WHY_ENGINE, LOAD: WHY_LOAD, OTHER: WHY_NONE}[given]
    comm = given.split("comm: ")[1].split(",", maxsplit=1)[0]
    line = f"    expect: {{{wrong}}}"
    wanted = "serve]" if wrong == "notSharingWith: [batch, serve]" else wrong.split(": ")[1]
    column = line.index(wanted.lstrip("[")) + 1
    assert failures(out) == [
        f'FAIL t: thread 1, comm "{comm}"',
        f"tests/t.yaml:7:{column}",
        f"expected {expected}",
        f"got {got}",
        *why,
        "nodes box",
    ]
    assert out.endswith("\n\n0 passed, 1 failed\n")


def test_the_whole_text_of_a_failure(runner: Runner) -> None:
    runner.add(
        {
            "tests/t.yaml": policy_test(
                f"threads:\n- given: {LOAD}\n  expect: {{tier: idle, lane: serve}}\n"
                f"- given: {OTHER}\n  expect: {{matched: false}}"
            ),
            "tests/u.yaml": policy_test("lanes: [{name: serve}]", name="u"),
        }
    )
    code, out, err = runner()
    assert (code, err) == (1, "")
    assert out == dedent(
        """\
        ok    u: 1 passed

        FAIL  t: thread 1, comm "stress-ng-cpu"
          tests/t.yaml:7:20
            expected  tier idle
            got       tier background
            why       rule 1 of batch: comm "stress-ng*", intents/batch.yaml:5:29
            why       tier background: batch says demote background, intents/batch.yaml:6:11
            why       CPUs 4-7,12-15: what no lane and no housekeeping has
            nodes     box
          tests/t.yaml:7:32
            expected  lane serve
            got       no lane
            nodes     box

        2 passed, 1 failed
        """
    )


def test_a_raised_unit_of_the_node(runner: Runner) -> None:
    engine = intent("chat", 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode')
    runner.add({"intents/chat.yaml": engine})
    thread = "threads:\n- given: {comm: UVM GPU1 BH, kthread: true}\n  expect: "
    code, _ = runner.body(f"{thread}{{unit: node/gpu-driver, tier: latency}}")
    assert code == 0
    code, out = runner.body(f"{thread}{{tier: normal}}")
    assert code == 1
    assert 'FAIL t: thread 1, kernel thread "UVM GPU1 BH"' in failures(out)
    assert (
        "why raised from normal to latency because chat needs gpu-driver (protect decode), "
        "intents/chat.yaml:6:12" in failures(out)
    )
    # a process of that name is no kernel thread
    process = thread.replace("kthread: true", "cgroup: a.slice, leaderComm: a, cmdline: a")
    code, _ = runner.body(f"{process}{{matched: false}}")
    assert code == 0


def test_long_names_are_cut_as_the_kernel_cuts_them(runner: Runner) -> None:
    exact = intent("long", "workload: {match: [{comm: abcdefghijklmno}]}\nkeep: interactive")
    runner.add({"intents/long.yaml": exact})
    code, _ = runner.body(
        "threads: [{given: {comm: abcdefghijklmnopq, cgroup: a}, expect: {intent: long}}]"
    )
    assert code == 0


def test_a_name_that_nearly_fits_is_shown(runner: Runner) -> None:
    named = intent("named", "workload: {match: [{comm: my-engine}]}\nkeep: interactive")
    runner.add({"intents/named.yaml": named})
    thread = "{given: {comm: my-engin, cgroup: a}, expect: {intent: named}}"
    code, out = runner.body(f"threads: [{thread}]")
    assert code == 1
    assert failures(out)[3:6] == [
        "got no rule matches",
        f"why no rule matches: tier normal, CPUs {SHARED}",
        "why a rule looks for the name my-engine",
    ]


# -- what is not given ---------------------------------------------------------------------------


def test_an_answer_that_needs_what_is_not_given_fails(runner: Runner) -> None:
    code, out = runner.body(
        "threads:\n- given: {comm: engine}\n  expect: {tier: latency, lane: serve}"
    )
    assert code == 1
    assert failures(out) == [
        'FAIL t: thread 1, comm "engine"',
        "tests/t.yaml:7:20",
        "expected tier latency, lane serve",
        "got it depends on what is not given",
        "why if cgroup system.slice/**: rule 0 of serve, tier latency, lane serve, "
        "intents/serve.yaml:5:29",
        f"why else no rule matches: tier normal, CPUs {SHARED}",
        "nodes box",
        "help add cgroup to given, tests/t.yaml:6:12",
    ]


def test_every_missing_key_is_named(runner: Runner) -> None:
    many = intent(
        "many",
        'workload: {match: [{leaderComm: a, cmdline: "x"}, {comm: "b*"}]}\nkeep: interactive',
    )
    runner.add({"intents/many.yaml": many})
    _, out = runner.body("threads: [{given: {cgroup: a}, expect: {matched: false}}]")
    assert failures(out)[-1] == "help add comm, leaderComm or cmdline to given, tests/t.yaml:5:21"


def test_what_is_not_given_does_not_matter_where_the_answer_is_the_same(runner: Runner) -> None:
    # Whether it is in system.slice decides the rule, not that it shares no CPU with batch.
    more = intent("more", 'workload: {match: [{comm: "engine*"}]}\nkeep: system')
    runner.add({"intents/more.yaml": more})
    head = "threads:\n- given: {comm: engine}\n  expect: "
    assert runner.body(f"{head}{{matched: true}}")[0] == 0
    assert runner.body(f"{head}{{tier: latency}}")[0] == 1
    # and where no possible answer is right, the test fails at once, with all of them
    code, out = runner.body(f"{head}{{tier: idle}}")
    assert code == 1
    assert "got tier latency or tier system" in failures(out)


def test_a_rule_for_pods_wants_to_know_the_pod(runner: Runner) -> None:
    runner.add({"intents/shop.yaml": PODS, "nodes/box.yaml": KUBE})
    head = "threads:\n- given: {comm: web, cgroup: kubepods.slice/x%s}\n  expect: {intent: shop}"
    code, out = runner.body(head % "")
    assert code == 1
    assert failures(out)[-1] == "help add pod to given, tests/t.yaml:6:12"
    assert runner.body(head % ", pod: {namespace: shop, labels: {app: web, v: x}}")[0] == 0
    for pod in ("{namespace: shop}", "{namespace: shop, labels: {app: api}}",
                "{namespace: default, labels: {app: web}}"):  # fmt: skip
        code, out = runner.body(head % f", pod: {pod}")
        assert code == 1, pod
        assert "got no rule matches" in failures(out)


@pytest.mark.parametrize("cgroup", ["system.slice/a", "kubepods.slice-not", "kubepods"])
def test_outside_the_pods_root_a_thread_is_in_no_pod(runner: Runner, cgroup: str) -> None:
    runner.add({"intents/shop.yaml": PODS, "nodes/kube.yaml": KUBE})  # box has no pods at all
    thread = f"{{given: {{comm: web, cgroup: {cgroup}}}, expect: {{matched: false}}}}"
    assert runner.body(f"threads: [{thread}]")[0] == 0


def test_the_pods_root_of_the_node_can_be_written(runner: Runner) -> None:
    inside = intent(
        "inside", 'workload: {match: [{comm: "web*", cgroup: "@pods/**"}]}\nkeep: interactive'
    )
    runner.add({"intents/inside.yaml": inside, "nodes/box.yaml": KUBE})
    thread = '{given: {comm: web, cgroup: "@pods/burstable/x"}, expect: {intent: inside}}'
    assert runner.body(f"threads: [{thread}]")[0] == 0
    runner.add({"nodes/box.yaml": BOX})
    (runner.root / "intents/inside.yaml").unlink()
    code, out = runner.body(f"threads: [{thread.replace('inside', 'serve')}]")
    assert code == 1
    assert failures(out)[1:] == [
        "tests/t.yaml:5:41",
        "expected a node with pods, since the thread is in @pods/burstable/x",
        "got the node's facts name no pods root",
        "nodes box",
        "help set overrides: {podsRoot: kubepods.slice} in the node's facts",
    ]


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


# -- nodes, fixtures -----------------------------------------------------------------------------


def test_fixture_nodes_take_the_place_of_those_of_the_policy(runner: Runner) -> None:
    runner.add({"tests/fixtures/tiny.yaml": SMALL})
    # of two cores the lane has both; housekeeping shares one of them
    lane = "lanes: [{name: serve, cpusWithin: 0-3}]"
    assert runner.body(f"facts: [fixtures/tiny.yaml]\n{lane}")[0] == 0
    code, out = runner.body(lane)
    assert code == 1
    assert failures(out)[-1] == "nodes box"
    # they are no nodes of the policy
    assert main(["build", ".", "-o", "out"]) == 0
    runner.capsys.readouterr()
    assert [path.name for path in (runner.root / "out/nodes").iterdir()] == ["box"]


def test_fixtures_may_be_elsewhere_and_be_selected_from(runner: Runner) -> None:
    runner.add({"tests/deep/t.yaml": policy_test(
        "facts: [../../nodes/box.yaml, more.yaml]\nnodes: {matchLabels: {pool: kube}}\n"
        "lanes: [{name: serve, cores: 1}]"), "tests/deep/more.yaml": KUBE})  # fmt: skip
    _, out, _ = runner()
    assert failures(out)[-1] == "nodes kube"


def test_a_fixture_may_test_what_the_policys_own_nodes_hide(runner: Runner) -> None:
    # With its own nodes the policy cannot be placed; with the fixture it can.
    runner.add({"nodes/box.yaml": SMALL, "tests/big.yaml": BOX, "intents/big.yaml": intent(
        "big", "workload: {match: [{comm: big}]}\nprotect: all\nlane: {cores: 3}")})  # fmt: skip
    assert runner.body("findings: {none: error}")[0] == 1
    body = "facts: [big.yaml]\nfindings: {none: error}\nlanes: [{name: big, cores: 3}]"
    code, out = runner.body(body)
    assert code == 0, out


def test_findings_with_fixtures_are_those_of_the_fixtures(runner: Runner) -> None:
    odd = KUBE.replace("llc: 0, ", "").replace("  llcs: [{id: 0, level: 3, cpus: 0-15}]\n", "")
    runner.add({"tests/odd.yaml": odd})
    code, out = runner.body("facts: [odd.yaml]\nfindings: {none: info}")
    assert code == 1
    assert any(line.startswith("why ") and "TRC6" in line for line in failures(out))
    assert all("nodes/box.yaml" not in line for line in failures(out))
    # What a comment silences on the policy's own nodes need not be there on others.
    missed = SERVE.replace(
        "spec:\n", "spec:\n  # tierc: ignore[TRC205] not everywhere\n  nodes: {names: [kube]}\n"
    )
    runner.add({"intents/serve.yaml": missed, "tests/kube.yaml": KUBE})
    assert runner.body("findings: {none: info}")[0] == 0
    assert runner.body("facts: [kube.yaml]\nfindings: {none: info}")[0] == 0


def test_a_policy_without_nodes_is_tested_with_fixtures(runner: Runner) -> None:
    runner.add({"nodes/box.yaml": "# none yet\n", "tests/fixtures/box.yaml": BOX})
    code, out = runner.body("lanes: [{name: serve}]")
    assert code == 1
    assert failures(out)[1:] == [
        "tests/t.yaml:5:11",
        "expected a plan to ask",
        "got the policy has no nodes",
        "help add node facts to the policy, or name a file of them under spec.facts",
    ]
    assert runner.body("facts: [fixtures/box.yaml]\nlanes: [{name: serve}]")[0] == 0


def test_tests_change_nothing_that_is_built(runner: Runner) -> None:
    def build(out: str) -> dict[str, bytes]:
        assert main(["build", ".", "-o", out]) == 0
        runner.capsys.readouterr()
        root = runner.root / out
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    before = build("a")
    runner.add(
        {
            "tests/t.yaml": policy_test("lanes: [{name: nothing}]"),
            "tests/broken.yaml": "kind: [\n",
            "tests/fixtures/box.yaml": KUBE,
            "tests/snapshots/box.plan.json": "{}",
            "intents/beside.yaml": policy_test("lanes: [{name: nothing, x: 1}]"),
        }
    )
    assert build("b") == before


# -- snapshots -----------------------------------------------------------------------------------

SNAPSHOT = "snapshot: snapshots/box.plan.json"
KEPT = "tests/snapshots/box.plan.json"


def test_a_snapshot_is_written_compared_and_rewritten(runner: Runner) -> None:
    code, out = runner.body(SNAPSHOT)
    assert code == 1
    assert failures(out) == [
        "FAIL t: snapshot snapshots/box.plan.json",
        "tests/t.yaml:5:13",
        f"expected the plan in {KEPT}",
        "got no such file",
        "nodes box",
        "help run tierc test --update to write it",
    ]
    assert runner("--update") == (
        0, "ok    t: 1 passed\n\n1 passed, 0 failed\n", f"{KEPT} written\n",
    )  # fmt: skip
    assert main(["build", ".", "-o", "out"]) == 0
    runner.capsys.readouterr()
    kept = (runner.root / KEPT).read_bytes()
    assert kept == (runner.root / "out/nodes/box/plan.json").read_bytes()
    assert runner()[0] == 0
    assert runner("--update")[2] == ""  # nothing to write

    runner.add({"intents/serve.yaml": SERVE.replace("cores: 2", "cores: 1")})
    code, out, _ = runner()
    assert code == 1
    assert "why lanes[0].cores: 2 became 1" in failures(out)
    assert "help if the new plan is right, run tierc test --update and review the diff" in failures(
        out
    )
    assert (runner.root / KEPT).read_bytes() == kept
    assert runner("--update")[0] == 0
    assert (runner.root / KEPT).read_bytes() != kept
    assert runner()[0] == 0


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("not json", "got a file that is not JSON"),
        ("[" * 100_000, "got a file that is not JSON"),
        ("[]", "got 1 difference"),
    ],
)
def test_a_snapshot_that_is_none(runner: Runner, content: str, got: str) -> None:
    runner.add({KEPT: content})
    code, out = runner.body(SNAPSHOT)
    assert code == 1
    assert got in failures(out)


def test_a_snapshot_in_other_bytes(runner: Runner) -> None:
    runner.add({"tests/t.yaml": policy_test(SNAPSHOT)})
    runner("--update")
    kept = runner.root / KEPT
    kept.write_bytes(kept.read_bytes() + b"\n")
    code, out, _ = runner()
    assert code == 1
    assert "got the same plan in other bytes" in failures(out)


def test_a_snapshot_keeps_one_plan(runner: Runner) -> None:
    runner.add({"nodes/tiny.yaml": SMALL, "nodes/alike.yaml": BOX.replace("box", "alike")})
    for args in ((), ("--update",)):
        runner.add({"tests/t.yaml": policy_test(SNAPSHOT)})
        code, out, _ = runner(*args)
        assert code == 1
        assert failures(out)[2:] == [
            f"expected one plan, that in {KEPT}",
            "got 2 plans: alike, box; tiny",
            "help narrow nodes, and write a test for each",
        ]
        assert not (runner.root / KEPT).exists()


def test_two_tests_do_not_write_one_snapshot(runner: Runner) -> None:
    one = policy_test(f"nodes: {{names: [box]}}\n{SNAPSHOT}", name="one")
    two = policy_test(f"nodes: {{names: [tiny]}}\n{SNAPSHOT}", name="two")
    runner.add({"nodes/tiny.yaml": SMALL, "tests/t.yaml": f"{one}---\n{two}"})
    code, out, _ = runner("--update")
    assert code == 1
    assert failures(out) == [
        "FAIL two: snapshot snapshots/box.plan.json",
        "tests/t.yaml:13:13",
        f"expected one plan in {KEPT}",
        "got another one, of test one",
        "help give each test a file of its own",
    ]


def test_snapshots_are_not_updated_in_ci(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.add({"tests/t.yaml": policy_test(SNAPSHOT)})
    monkeypatch.setenv("CI", "true")
    code, out, err = runner("--update")
    assert (code, out) == (2, "")
    assert err == "tierc: --update is refused when CI is set: it would hide the change\n"
    assert not (runner.root / KEPT).exists()
    monkeypatch.setenv("CI", "false")
    assert runner("--update")[0] == 0


def test_a_snapshot_is_not_written_through_a_link_out_of_the_repository(
    runner: Runner, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    runner.add({"tests/t.yaml": policy_test(SNAPSHOT)})
    (runner.root / "tests/snapshots").symlink_to(outside)
    code, _, err = runner("--update")
    assert code == 2
    assert err == (
        f"tierc: cannot write {KEPT}: a symbolic link leads out of the policy repository\n"
    )
    assert list(outside.iterdir()) == []


def test_without_a_plan_no_snapshot_is_written(runner: Runner) -> None:
    runner.add({"intents/clash.yaml": CLASH, "tests/t.yaml": policy_test(SNAPSHOT)})
    code, out, _ = runner("--update")
    assert code == 1
    assert "got no plan: 1 error" in failures(out)
    assert not (runner.root / "tests/snapshots").exists()
