"""Tests of a policy: threads, every expectation both ways, and what cannot be decided."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.policies import BOX, intent
from tests.policytest_box import ENGINE, LANE, LOAD, OTHER, PODS, REST, SHARED
from tests.policytests import KUBE, Runner, failures, policy_test


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


def test_where_pods_are_not_known_any_thread_may_be_in_one(runner: Runner) -> None:
    unknown = BOX + "  kubelet: {present: true}\n"
    runner.add({"intents/shop.yaml": PODS, "nodes/box.yaml": unknown})
    thread = "{given: {comm: web, cgroup: system.slice/a%s}, expect: {matched: false}}"
    code, out = runner.body(f"threads: [{thread % ''}]")
    assert code == 1
    assert failures(out)[-1] == "help add pod to given, tests/t.yaml:5:21"
    assert runner.body(f"threads: [{thread % ', pod: {namespace: other}'}]")[0] == 0


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
