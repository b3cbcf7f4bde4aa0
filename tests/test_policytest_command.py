"""``tierc test`` around the tests: what cannot run, and what is selected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.policies import PROJECT, intent
from tests.policytests import BROKEN, FAILS, KUBE, PASSES, POLICY, Runner, failures, policy_test


@pytest.fixture
def runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    return Runner(tmp_path, capsys, monkeypatch)


# -- names ---------------------------------------------------------------------------------------

NAMES = [
    ("nodes: {names: [bux]}\nlanes: [{name: serve}]", "there is no node 'bux'", "box"),
    ("threads: [{given: {comm: a}, expect: {intent: serv}}]", "there is no intent 'serv'", "serve"),
    ("threads: [{given: {comm: a}, expect: {unit: btach}}]", "there is no unit 'btach'", "batch"),
    ("threads: [{given: {comm: a}, expect: {tier: latncy}}]", "there is no tier 'latncy'",
     "latency"),
    ("threads: [{given: {comm: a}, expect: {lane: srve}}]", "there is no lane 'srve'", "serve"),
    ("threads: [{given: {comm: a}, expect: {notSharingWith: [serve, leftover]}}]",
     "there is no lane, intent or unit 'leftover'", "leftovers"),
    ("lanes: [{name: srve}]", "there is no lane 'srve'", "serve"),
    ("lanes: [{name: serve, tier: idel}]", "there is no tier 'idel'", "idle"),
    ("lanes: [{name: serve, notSharingWith: [btch]}]", "there is no lane, intent or unit 'btch'",
     "batch"),
    ("findings: {present: [{code: TRC310, intent: serv}]}", "there is no intent 'serv'", "serve"),
    ("findings: {absent: [{code: TRC310, node: bax}]}", "there is no node 'bax'", "box"),
    ("findings: {present: [{code: TRC310, file: intents/serv.yaml}]}",
     "there is no file 'intents/serv.yaml'", "intents/serve.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "meant"), NAMES)
def test_a_name_that_nothing_has(runner: Runner, body: str, message: str, meant: str) -> None:
    runner.add({"tests/t.yaml": policy_test(body), "tests/u.yaml": PASSES})
    code, out, err = runner()
    assert (code, err) == (1, "")
    assert out.startswith("ok    passes: 1 passed\n\nBROKEN  t cannot run\n")
    assert f"error[TRC150]: {message}\n --> tests/t.yaml:" in out
    assert f"= help: did you mean {meant}?\n" in out
    assert out.endswith("\n1 passed, 0 failed, 1 broken\n")
    # lint says the same, at the same place
    assert main(["lint", "."]) == 1
    lint = runner.capsys.readouterr().out
    place = next(line for line in out.splitlines() if "-->" in line)
    assert message in lint
    assert place in lint


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("findings: {absent: [TRC999]}", "TRC150", "no finding has the code TRC999"),
        ("nodes: {matchLabels: {pool: big}}\nlanes: [{name: serve}]", "TRC151",
         "t selects none of the nodes (box)"),
        ("facts: [none.yaml]\nlanes: [{name: serve}]", "TRC153",
         "tests/none.yaml cannot be read: no such file or directory"),
        ("facts: [../../box.yaml]\nlanes: [{name: serve}]", "TRC153",
         "../box.yaml has a `..` step"),
        ("facts: [../intents/serve.yaml]\nlanes: [{name: serve}]", "TRC153",
         "intents/serve.yaml holds no NodeFacts that can be read"),
        ("snapshot: ../../box.plan.json", "TRC154",
         "../../box.plan.json lies outside the policy repository"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(runner: Runner, body: str, code: str, message: str) -> None:
    runner.add({"tests/t.yaml": policy_test(body)})
    status, out, _ = runner("--update")
    assert status == 1
    assert f"error[{code}]: {message}\n --> tests/t.yaml:" in out
    assert not (runner.root.parent / "box.plan.json").exists()


def test_fixture_nodes_are_known_by_their_own_names(runner: Runner) -> None:
    body = "facts: [kube.yaml]\nnodes: {names: [%s]}\nlanes: [{name: serve}]"
    runner.add({"tests/kube.yaml": KUBE, "tests/t.yaml": policy_test(body % "kube")})
    assert runner()[0] == 0
    runner.add({"tests/t.yaml": policy_test(body % "box")})
    assert "there is no node 'box'" in runner()[1]


def test_names_of_documents_that_cannot_be_read_are_not_unknown(runner: Runner) -> None:
    runner.add({"intents/serve.yaml": POLICY["intents/serve.yaml"].replace("lane:", "lain:")})
    code, out = runner.body(
        "threads: [{given: {comm: a}, expect: {intent: serve, unit: serve, lane: serve}}]\n"
        "findings: {present: [{code: TRC102, intent: serve}]}"
    )
    assert code == 1
    assert "TRC150" not in out
    assert "got no plan: 1 error" in failures(out)
    assert out.endswith("1 passed, 1 failed\n")  # the finding is there


# -- documents -----------------------------------------------------------------------------------


def test_broken_documents_stop_only_themselves(runner: Runner) -> None:
    runner.add({"tests/t.yaml": f"{BROKEN}---\n{PASSES}", "tests/u.yaml": "kind: [\n"})
    code, out, _ = runner()
    assert code == 1
    assert "BROKEN  broken cannot run\nerror[TRC102]: unknown key `nmae`" in out
    assert "BROKEN  tests/u.yaml cannot run\nerror[TRC0" in out
    assert out.endswith("\n1 passed, 0 failed, 2 broken\n")


def test_documents_that_do_not_belong_among_tests(runner: Runner) -> None:
    runner.add({"tests/t.yaml": PASSES, "tests/stray.yaml": intent("x", "workload: {}")})
    code, out, _ = runner()
    assert code == 1
    assert "error[TRC152]: Intent among the tests: it is not part of the policy" in out
    assert "workload" not in out.split("TRC152")[0]
    assert main(["lint", "."]) == 1
    assert main(["build", ".", "-o", "out"]) == 0


def test_two_tests_of_one_name(runner: Runner) -> None:
    runner.add({"tests/a.yaml": PASSES, "tests/b.yaml": PASSES})
    code, out, _ = runner()
    assert code == 1
    assert "PolicyTest `passes` is defined twice" in out
    assert out.endswith("1 passed, 0 failed, 1 broken\n")


def test_tests_may_live_beside_the_intents(runner: Runner) -> None:
    runner.add({"intents/t.yaml": FAILS, "intents/serve.test.yaml": PASSES})
    code, out, _ = runner()
    assert code == 1
    assert "ok    passes: 1 passed" in out
    assert "intents/t.yaml:5:32" in out
    assert main(["lint", "."]) == 0
    assert "4 intents" not in runner.capsys.readouterr().out


def test_snapshots_may_live_beside_the_intents(runner: Runner) -> None:
    runner.add({"intents/t.yaml": policy_test("snapshot: kept/box.plan.json")})
    assert runner("--update")[0] == 0
    assert (runner.root / "intents/kept/box.plan.json").is_file()
    assert runner()[0] == 0
    assert main(["lint", "."]) == 0
    assert main(["build", ".", "-o", "out"]) == 0


def test_tests_run_in_order_of_their_places(runner: Runner) -> None:
    runner.add({"tierc.yaml": PROJECT + "  sources: {tests: [checks/]}\n"})
    first, second = PASSES.replace("passes", "zz"), PASSES.replace("passes", "aa")
    runner.add({"checks/t.yaml": first, "intents/t.yaml": second})
    assert [line.split()[1] for line in runner()[1].splitlines()[:2]] == ["zz:", "aa:"]


def test_a_repository_without_a_project_file(runner: Runner) -> None:
    (runner.root / "tierc.yaml").unlink()
    runner.add({"tests/t.yaml": PASSES, "tests/kube.yaml": KUBE, "tests/a.plan.json": "{}"})
    assert runner() == (0, "ok    passes: 1 passed\n\n1 passed, 0 failed\n", "")
    assert main(["lint", "."]) == 0
    # the fixture is no node of the policy
    assert "2 intents, 1 node, 1 test checked" in runner.capsys.readouterr().out


def test_where_tests_are_is_the_projects_word(runner: Runner) -> None:
    runner.add({"checks/t.yaml": PASSES, "tests/u.yaml": FAILS})
    sources = "  sources: {tests: [%s]}\n"
    runner.add({"tierc.yaml": PROJECT + sources % "checks/"})
    assert runner()[1].startswith("ok    passes")
    runner.add({"tierc.yaml": PROJECT + sources % "intents/"})  # the same as the intents'
    runner.add({"intents/t.yaml": PASSES})
    assert runner()[0] == 0
    runner.add({"tierc.yaml": PROJECT + sources % "chekcs/"})
    code, out, _ = runner()
    assert code == 1
    assert "chekcs does not exist" in out


def test_a_part_of_the_intents_directory_may_be_tests(runner: Runner) -> None:
    runner.add({"tierc.yaml": PROJECT + "  sources: {tests: [intents/tests/]}\n"})
    runner.add({"intents/tests/t.yaml": PASSES, "intents/tests/kube.yaml": KUBE})
    assert runner()[0] == 0
    assert main(["lint", "."]) == 0
    assert "1 node, 1 test" in runner.capsys.readouterr().out


def test_lint_of_one_test_file_judges_it_in_its_policy(runner: Runner) -> None:
    stray = intent("stray", "workload: {match: [{comm: x}]}\ndemote: idle")
    runner.add({"tests/t.yaml": PASSES, "tests/u.yaml": BROKEN, "tests/kube.yaml": KUBE})
    runner.add({"tests/v.yaml": policy_test("lanes: [{name: srve}]"), "tests/w.yaml": stray})
    expected = {
        "t": (0, "no findings"), "u": (1, "unknown key `nmae`"), "kube": (0, "1 node, 3 tests"),
        "v": (1, "there is no lane 'srve'"), "w": (1, "it is not part of the policy"),
    }  # fmt: skip
    for name, (code, text) in expected.items():
        assert main(["lint", f"tests/{name}.yaml"]) == code, name
        assert text in runner.capsys.readouterr().out


def test_where_a_document_is_lost_its_names_are_not_unknown(runner: Runner) -> None:
    test = policy_test("threads: [{given: {comm: a}, expect: {intent: new, tier: idel}}]")
    runner.add({"tests/t.yaml": test, "intents/new.yaml": "kind: Intent\nmetadata: {name: [\n"})
    code, out, _ = runner()
    assert code == 1
    assert "TRC150" not in out
    assert any(line.startswith("got no plan: ") for line in failures(out))
    (runner.root / "intents/new.yaml").unlink()
    test = policy_test("nodes: {matchLabels: {pool: new}}\nfindings: {present: [TRC102]}")
    runner.add({"tests/t.yaml": test, "nodes/new.yaml": KUBE.replace("arch:", "arhc:")})
    assert runner()[0] == 0


def test_suppressions_in_tests_are_read(runner: Runner) -> None:
    comment = "spec:  # tierc: ignore[TRC201] nothing is here"
    runner.add({"tests/t.yaml": PASSES.replace("spec:", comment)})
    assert runner()[0] == 0
    assert main(["lint", "."]) == 0
    assert "nothing on line 4 has the code TRC201" in runner.capsys.readouterr().out


# -- what is run ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "tail"),
    [
        ([], 1, "2 passed, 1 failed"),
        (["."], 1, "2 passed, 1 failed"),
        (["tests"], 1, "2 passed, 1 failed"),
        (["tests/more"], 0, "1 passed, 0 failed"),
        (["tests/more/t.yaml"], 0, "1 passed, 0 failed"),
        (["-k", "PASSES"], 0, "1 passed, 0 failed"),
        (["-k", "lane"], 1, "2 passed, 1 failed"),
        (["-k", "fails: lane serve"], 1, "0 passed, 1 failed"),
        (["tests/more", "-k", "deep"], 0, "1 passed, 0 failed"),
    ],
)
def test_selection(runner: Runner, args: list[str], code: int, tail: str) -> None:
    deep = PASSES.replace("passes", "deep")
    runner.add({"tests/t.yaml": f"{PASSES}---\n{FAILS}", "tests/more/t.yaml": deep})
    status, out, err = runner(*args)
    assert (status, err) == (code, "")
    assert out.splitlines()[-1] == tail


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-k", "nothing"], "nothing to test: no test matches 'nothing'; tests are passes\n"),
        (["-k", "pases"], "nothing to test: no test matches 'pases'; did you mean passes?\n"),
        (
            ["intents"],
            "nothing to test: no PolicyTest in intents; tests are in tests/t.yaml\n",
        ),
        (["nowhere"], "nowhere does not exist"),
        (["--format", "xml"], "unknown format 'xml'; formats are text, json, junit"),
        (["--format", "junit="], "--format junit= names no file"),
        (["--format", "text", "--format", "json"], "only one --format may go to standard output"),
        (["--format", "json=a", "--format", "junit=a"], "several --format go to a"),
        (["--format", "junit=no/such/place"], "cannot write no/such/place"),
    ],
)
def test_wrong_usage(runner: Runner, args: list[str], message: str) -> None:
    runner.add({"tests/t.yaml": PASSES})
    code, out, err = runner(*args)
    assert (code, out) == (2, "")
    assert err.startswith(f"tierc: {message}")
    assert err.count("\n") == 1


def test_nothing_to_test(runner: Runner) -> None:
    code, out, err = runner()
    assert (code, out, err) == (
        2,
        "",
        "tierc: nothing to test: no PolicyTest in .; a test is a document in tests/\n",
    )
    empty = runner.root / "empty"
    empty.mkdir()
    os.chdir(empty)
    (empty / ".git").mkdir()
    assert runner()[0] == 2


def test_paths_can_be_opened_from_where_the_command_runs(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.add({"tests/t.yaml": FAILS})
    monkeypatch.chdir(runner.root.parent)
    name = runner.root.name
    _, out, _ = runner(name)
    assert f"\n  {name}/tests/t.yaml:5:32\n" in out
