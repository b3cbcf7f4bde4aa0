"""``tierc test``: the report in every format."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.__main__ import main
from compiler.diagnostics import Diagnostic, Severity, Span
from compiler.policytest import Broken, Case, Failure, Report, Result
from compiler.report.testjson import render_test_json
from compiler.report.testjunit import render_test_junit
from compiler.report.testtext import render_test_text
from tests.conftest import ROOT
from tests.examples import ALL_EXAMPLES, run
from tests.policies import BOX, HEAD, intent, write
from tests.policytests import BROKEN, FAILS, PASSES, POLICY, Runner, policy_test


@pytest.fixture
def runner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Runner:
    return Runner(tmp_path, capsys, monkeypatch)


def test_several_formats_at_once(runner: Runner) -> None:
    runner.add({"tests/t.yaml": f"{PASSES}---\n{FAILS}---\n{BROKEN}"})
    code, out, _ = runner(
        "--format", "text", "--format", "json=t.json", "--format", "junit=t.xml"
    )  # fmt: skip
    assert code == 1
    assert out.endswith("1 passed, 1 failed, 1 broken\n")
    report = json.loads((runner.root / "t.json").read_text())
    assert report["version"] == 1
    assert report["summary"] == {"passed": 1, "failed": 1, "broken": 1}
    passed, failed = report["tests"]
    assert passed["cases"] == [
        {"name": "lane serve", "path": "tests/t.yaml", "line": 5, "column": 11, "passed": True,
         "failures": []}
    ]  # fmt: skip
    (failure,) = failed["cases"][0]["failures"]
    assert failure == {
        "path": "tests/t.yaml",
        "line": 11,
        "column": 32,
        "expected": "1 core",
        "got": "2 cores, CPUs 2-3,10-11",
        "why": ["lane serve: asked for 2 cores, guarded, intents/serve.yaml:7:3"],
        "help": None,
        "nodes": ["box"],
    }
    (broken,) = report["broken"]
    assert (broken["name"], broken["findings"][0]["code"]) == ("broken", "TRC102")

    suites = ElementTree.parse(runner.root / "t.xml").getroot()
    check_junit(suites)
    assert suites.attrib == {"name": "tierc test", "tests": "3", "failures": "1", "errors": "1"}
    names = [(s.get("name"), c.get("name"), [e.tag for e in c]) for s in suites for c in s]
    assert names == [
        ("passes", "lane serve", []),
        ("fails", "lane serve", ["failure"]),
        ("broken", "can run", ["error"]),
    ]
    text = suites.find("testsuite/testcase/failure")
    assert text is not None
    assert text.get("message") == (
        "tests/t.yaml:11:32: expected 1 core, got 2 cores, CPUs 2-3,10-11"
    )
    assert "why lane serve: asked for 2 cores" in " ".join((text.text or "").split())


COUNTS = {"tests", "failures", "errors"}
# Elements and attributes of the schema that Jenkins publishes for JUnit reports (junit-10.xsd),
# as far as a report without times needs them: what is required, and what else may be.
ELEMENTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", *COUNTS}, set(), {"testsuite"}),
    "testsuite": ({"name", *COUNTS}, set(), {"testcase"}),
    "testcase": ({"name", "classname"}, set(), {"failure", "error"}),
    "failure": ({"message", "type"}, set(), set()),
    "error": ({"message", "type"}, set(), set()),
}


def check_junit(element: ElementTree.Element) -> None:
    """Check elements, attributes, and that the counts are those of the content."""
    required, optional, children = ELEMENTS[element.tag]
    assert required <= set(element.attrib) <= required | optional
    if children:
        assert not (element.text or "").strip()
    for child in element:
        assert child.tag in children
        assert not (child.tail or "").strip()
        check_junit(child)
    if element.tag in ("testsuites", "testsuite"):
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        assert int(element.attrib["failures"]) == sum(c.find("failure") is not None for c in cases)
        assert int(element.attrib["errors"]) == sum(c.find("error") is not None for c in cases)
    if element.tag == "testsuite":
        names = [case.get("name") for case in element]
        assert len(set(names)) == len(names)


HOSTILE = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["\x1b[31m", "]]>", "<a b='\"'>&amp;", "\x00\ufffe\ud800", "a\r\nb\tc", "\u202e"]
)


@settings(max_examples=150)
@given(text=HOSTILE, path=HOSTILE)
def test_reports_hold_any_text(text: str, path: str) -> None:
    span = Span(path, 1, 2)
    failure = Failure(span, text, text, (text, text), text, (text,))
    found = Diagnostic("TRC102", Severity.ERROR, text, span, help=text)
    report = Report(
        (
            Result(
                text,
                span,
                (Case(text, span, (failure, failure)), Case("another, longer name", span)),
            ),
        ),
        (Broken(text, span, (found,)),),
    )
    junit = render_test_junit(report)
    check_junit(ElementTree.fromstring(junit.encode("utf-8")))
    loaded = json.loads(render_test_json(report))
    assert loaded["tests"][0]["cases"][0]["failures"][0]["expected"] == text
    plain = render_test_text(report, lambda _: None, color=False)
    assert all(char.isprintable() or char == "\n" for char in plain)
    assert plain.endswith("\n1 passed, 1 failed, 1 broken\n")


def test_items_of_one_name_are_numbered(runner: Runner) -> None:
    runner.add({"tests/t.yaml": policy_test("lanes: [{name: serve}, {name: serve, tier: idle}]")})
    _, out, _ = runner("--format", "junit")
    suites = ElementTree.fromstring(out)
    check_junit(suites)
    assert [case.get("name") for case in suites.iter("testcase")] == [
        "lane serve",
        "lane serve (2)",
    ]


def test_colour_is_asked_for_or_left_out(runner: Runner) -> None:
    runner.add({"tests/t.yaml": f"{PASSES}---\n{FAILS}---\n{BROKEN}"})
    assert "\x1b" not in runner()[1]
    coloured = runner("--color", "always")[1]
    assert "\x1b[1;31mFAIL\x1b[0m" in coloured
    assert "\x1b[1;32mok\x1b[0m" in coloured


def test_the_report_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    tests = f"{PASSES}---\n{FAILS}---\n{BROKEN}---\n" + policy_test(
        "findings: {none: info}\nthreads: [{given: {comm: engine}, expect: {tier: idle}}]", name="z"
    )
    nodes = {f"nodes/{n}.yaml": BOX.replace("name: box", f"name: {n}") for n in "dcba"}
    write(tmp_path, {**POLICY, **nodes, "tests/t.yaml": tests})
    outputs = {
        run("test", ".", cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(ROOT)}).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    assert "1 passed" in outputs.pop()


@pytest.mark.parametrize("name", ALL_EXAMPLES)
def test_the_examples_pass_their_tests(name: str) -> None:
    done = run("test", f"examples/{name}")
    assert (done.returncode, done.stderr) == (0, "")
    assert " passed, 0 failed\n" in done.stdout


def test_the_tests_of_the_example_would_notice(tmp_path: Path) -> None:
    """Each promise of the example, broken in the policy, fails the test that states it."""
    broken = {
        "chat-is-protected": ("intents/chat.yaml", 'cgroup: "system.slice/**"', "instances: 1"),
        "batch-keeps-away": ("intents/batch.yaml", "demote: background", "keep: normal"),
    }
    for name, (file, old, new) in broken.items():
        root = tmp_path / name
        shutil.copytree(ROOT / "examples/dgx-spark", root)
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))
        done = run("test", str(root), "-k", name)
        assert done.returncode == 1, done.stdout
        assert f"FAIL  {name}: " in done.stdout


def test_a_pod_that_only_the_placing_intent_selects(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # the joint rule of both intents carries the pods of the one that places
    place = intent(
        "place",
        'workload: {match: [{cgroup: "@pods/**"}], pods: {namespace: x}}\nlane: {cores: 1}',
    )
    keep = intent("tier", "workload: {match: [{comm: app}]}\nkeep: interactive")
    test = (
        f"{HEAD}kind: PolicyTest\nmetadata: {{name: t}}\nspec:\n  threads:\n"
        '  - given: {comm: app, cgroup: "@pods/a", pod: {namespace: NAME}}\n'
        "    expect: {tier: interactive, LANE}\n"
    )
    root = write(
        tmp_path,
        {
            "nodes/box.yaml": BOX + "  kubelet: {present: true, podsRoot: kubepods.slice}\n",
            "intents/a.yaml": f"{place}---\n{keep}",
            "tests/a.yaml": test.replace("NAME", "x").replace("LANE", "lane: place"),
            "tests/b.yaml": test.replace("NAME", "y")
            .replace("LANE", "inLane: false")
            .replace("name: t}", "name: u}"),
        },
    )
    assert main(["test", str(root)]) == 0, capsys.readouterr()
