"""Tests of a policy: nodes of their own, and snapshots of plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.policies import BOX, intent
from tests.policytest_box import CLASH, SMALL
from tests.policytests import KUBE, SERVE, Runner, failures, policy_test


@pytest.fixture
def runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    return Runner(tmp_path, capsys, monkeypatch)


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
