"""``tierc explain NODE``: which class and step of the rollout a node is in, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from compiler.__main__ import main
from compiler.diagnostics import Sink
from compiler.explain import explain_class, explain_step
from compiler.fleet import part
from compiler.policy import Policy
from compiler.project import Place, load
from tests.conftest import ROOT
from tests.kube_fleets import selected
from tests.policies import BOX, HEAD, intent, write

PROJECT = (
    HEAD
    + """\
kind: Project
spec:
  enforce:
    - {nodes: {names: [c]}, mode: fallback}
    - {mode: observe}
  targets: {taskset: {}, kubernetes: {namespace: tierc-system}}
  rollout: {steps: %s}
"""
)
ALL_NODES = intent("all", 'workload: {match: [{comm: "a*"}]}\ndemote: idle')
SOME = intent(
    "some", 'nodes: {matchLabels: {pool: big}}\nworkload: {match: [{comm: "b*"}]}\ndemote: idle'
)


def box(name: str, pool: str = "small") -> str:
    return BOX.replace("name: box", f"name: {name}").replace("pool: small", f"pool: {pool}")


def policy(tmp_path: Path, steps: str = "[]", **nodes: str) -> Policy:
    """Load a policy whose nodes have one machine, in the pool given for each."""
    files = {"tierc.yaml": PROJECT % steps, "intents/all.yaml": f"{ALL_NODES}---\n{SOME}"}
    root = write(tmp_path, files | {f"nodes/{n}.yaml": box(n, p) for n, p in nodes.items()})
    (root / "nodes/box.yaml").unlink()
    sink = Sink()
    loaded = load(Place(root), sink)
    assert not sink.has_errors
    return loaded


def test_nodes_that_nothing_tells_apart_are_one_class(tmp_path: Path) -> None:
    given = policy(tmp_path, a="small", b="other")  # the label of b selects nothing
    one = explain_class(given, "a")
    assert one.nodes == ("a", "b")
    assert one == explain_class(given, "b")
    (why,) = one.why
    assert why.startswith("the only one: ")


def test_the_selector_that_decides_is_named(tmp_path: Path) -> None:
    given = policy(tmp_path, a="small", b="big", d="big")
    big, small = explain_class(given, "b"), explain_class(given, "a")
    assert (big.nodes, small.nodes) == (("b", "d"), ("a",))
    assert big.name != small.name
    text = f"{ALL_NODES}---\n{SOME}".splitlines()
    line = next(n for n, row in enumerate(text, 1) if "nodes:" in row)
    said = f"intent some selects it by label pool=big, intents/all.yaml:{line}:3"
    assert big.why == (f"apart from {small.name} (1 node, such as a): {said}",)
    assert small.why == (f"apart from {big.name} (2 nodes, such as b): that one: {said}",)


def test_a_mode_is_named(tmp_path: Path) -> None:
    given = policy(tmp_path, a="small", c="small")
    assert explain_class(given, "a").nodes == ("a",)
    (why,) = explain_class(given, "c").why
    assert why.endswith(": mode fallback, tierc.yaml:5:35")


def test_another_machine_is_another_class(tmp_path: Path) -> None:
    given = policy(tmp_path, a="small", b="small")
    path = tmp_path / "nodes/b.yaml"
    path.write_text(path.read_text().replace("RTX 6000 Ada", "L40S"))
    given = load(Place(tmp_path), Sink())
    assert explain_class(given, "a").nodes == ("a",)
    assert explain_class(given, "a").why == ("no other class has an equal machine",)


def test_steps_and_why(tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(99)]
    early = next(name for name in names if part(name) < 40)
    late = next(name for name in names if part(name) >= 40)
    three = policy(
        tmp_path,
        "[{names: [first]}, {percent: 40}]",
        **dict.fromkeys(("first", early, late), "small"),
    )

    def of(node: str) -> tuple[int, int, str]:
        answer = explain_step(three, node)
        assert answer is not None
        return answer.step, answer.steps, answer.why

    assert of("first") == (1, 3, "by name, tierc.yaml:8:21")
    falls = f"its name falls at {part(early)} of 100, below percent 40"
    assert of(early) == (2, 3, f"{falls}, tierc.yaml:8:39")
    assert of(late) == (3, 3, "no step that is written takes it")


@pytest.mark.parametrize(
    ("steps", "why"),
    [("[]", "no steps are written, so all nodes at once"), ("[all]", "all that is left, tierc")],
)
def test_one_step(tmp_path: Path, steps: str, why: str) -> None:
    answer = explain_step(policy(tmp_path, steps, a="small"), "a")
    assert answer is not None
    assert (answer.step, answer.steps) == (1, 1)
    assert answer.why.startswith(why)


def test_hosts_have_no_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, {"intents/all.yaml": ALL_NODES})
    assert main(["explain", "box", "-p", str(root)]) == 0
    out = capsys.readouterr().out
    assert ": 1 node, box\n" in out
    assert "rollout" not in out
    assert main(["explain", "box", "-p", str(root), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["rollout"] is None
    assert answer["node_class"]["nodes"] == ["box"]


def test_many_nodes_are_counted_and_not_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy(tmp_path, **{f"n{i}": "small" for i in range(7)})
    assert main(["explain", "n6", "-p", str(tmp_path)]) == 0
    assert ": 7 nodes, n0, n1, n2, n3 and 3 more\n" in capsys.readouterr().out


def test_an_unknown_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no node 'x'"):
        explain_class(policy(tmp_path, a="small"), "x")


def test_it_is_what_the_cluster_gets(capsys: pytest.CaptureFixture[str]) -> None:
    """Of every node of the example: the DaemonSet of that class and step selects it."""
    labels: dict[str, dict[str, str]] = {
        path.stem: {} for path in (ROOT / "examples/mixed-fleet/nodes").glob("*.yaml")
    }
    daemons = {}
    for file in sorted((ROOT / "tests/golden/mixed-fleet/tree/cluster").glob("class-*.yaml")):
        for text in file.read_text().split("\n---\n"):
            if "\nkind: DaemonSet\n" in f"\n{text}":
                daemon = YAML(typ="safe").load(text)
                daemons[daemon["metadata"]["name"]] = selected(daemon, labels)
    assert len(daemons) >= 4
    for node in sorted(set().union(*daemons.values())):
        args = ["explain", node, "-p", str(ROOT / "examples/mixed-fleet"), "--format", "json"]
        assert main(args) == 0
        answer = json.loads(capsys.readouterr().out)
        name = f"tierc-{answer['node_class']['name']}-{answer['rollout']['step']}"
        assert [one for one, nodes in daemons.items() if node in nodes] == [name]
