"""``tierc graph`` as a user runs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT, Golden
from tests.examples import run
from tests.pictures import draw_svg, read_chart
from tests.policies import BOX, intent, write

SPARK = ("--project", "examples/dgx-spark", "--node", "spark-a")
CYCLE = {
    f"intents/{a}.yaml": intent(
        a, f'workload: {{match: [{{comm: "{a}*"}}]}}\nkeep: interactive\nabove: [{b}]'
    )
    for a, b in (("end", "subgraph"), ("subgraph", "end"))
}


@pytest.mark.parametrize(("format", "file"), [("dot", "graph.dot"), ("mermaid", "graph.mmd")])
def test_the_example_is_the_golden_one(format: str, file: str, golden: Golden) -> None:
    done = run("graph", *SPARK, "--format", format)
    assert (done.returncode, done.stderr) == (0, "")
    golden.file(f"dgx-spark/{file}", done.stdout.encode())


def test_the_picture_in_the_documentation_is_this_one(tool: Callable[[str], str]) -> None:
    """Sizes differ between versions of Graphviz and fonts, so what it says is compared."""
    done = run("graph", *SPARK)
    now = ElementTree.fromstring(draw_svg(tool("dot"), done.stdout).bytes)
    kept = ElementTree.parse(ROOT / "docs/images/dgx-spark.svg").getroot()
    text = "{http://www.w3.org/2000/svg}text"
    assert [t.text for t in kept.iter(text)] == [t.text for t in now.iter(text)]


def test_the_machine_of_the_example_and_its_picture_in_the_documentation(golden: Golden) -> None:
    done = run("graph", *SPARK, "--format", "text")
    assert (done.returncode, done.stderr) == (0, "")
    golden.file("dgx-spark/machine.txt", done.stdout.encode())
    assert "[A]  serving: 5-9,15, tier latency, guarded, 6 cores, for gpu0; chat (" in done.stdout
    assert "[B]  housekeeping: 0-1, node software\n" in done.stdout
    assert "[C]  leftovers: 2-4,10-14,16-19, in no lane\n" in done.stdout
    svg = run("graph", *SPARK, "--format", "svg")
    assert (svg.returncode, svg.stderr) == (0, "")
    golden.file("dgx-spark-lanes.svg", svg.stdout.encode(), base=ROOT / "docs/images")


@pytest.mark.parametrize("format", ["text", "svg"])
def test_the_machine_is_that_of_facts_show(format: str) -> None:
    done = run("graph", *SPARK, "--format", format)
    shown = run("facts", "show", "spark-a", "-p", "examples/dgx-spark", "--format", format)
    assert done.stdout == shown.stdout


def test_a_machine_without_a_plan_is_drawn_and_its_errors_are_reported(tmp_path: Path) -> None:
    body = "workload: {match: [{comm: x}]}\nprotect: all\nlane: {cores: 99}"
    root = write(tmp_path, {"intents/a.yaml": intent("a", body)})
    done = run("graph", "-p", str(root), "--node", "box", "--format", "text")
    assert done.returncode == 1
    assert "TRC4" in done.stderr
    assert "note  no plan, see the findings: lanes are not drawn\n" in done.stdout
    assert "[A]" not in done.stdout


def test_the_example_in_both_formats_says_the_same(tool: Callable[[str], str]) -> None:
    svg = draw_svg(tool("dot"), run("graph", *SPARK).stdout)
    chart = read_chart(run("graph", *SPARK, "--format", "mermaid").stdout)
    own = {id: texts for id, texts in svg.nodes.items() if id.startswith("u")}
    assert own == {id: texts for id, texts in chart.nodes.items() if id.startswith("u")}
    step = next(texts for texts in own.values() if texts[0] == "chat/engine-step")
    assert "lane serving" in step
    assert "CPUs 5-9,15" in step
    batch = next(id for id, texts in own.items() if texts[0] == "batch")
    assert chart.inside[batch] == ("background",)


@pytest.mark.parametrize("seed", ["0", "1", "7"])
@pytest.mark.parametrize("format", ["dot", "mermaid", "text"])
def test_bytes_do_not_depend_on_the_surroundings(seed: str, format: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    project = str(ROOT / "examples/dgx-spark")
    one = ("--format", format, *(("--node", "spark-a") if format == "text" else ()))
    there = run("graph", "-p", project, *one, cwd=tmp_path, env=env)
    here = run("graph", "-p", "examples/dgx-spark", *one)
    assert there.returncode == here.returncode == 0
    assert there.stdout == here.stdout


def test_errors_are_reported_and_the_picture_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "out.mmd"
    done = run("graph", "-p", str(write(tmp_path, CYCLE)), "--format", "mermaid", "-o", str(out))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error[TRC313]: above relations form a cycle: end -> subgraph -> end" in done.stderr
    chart = read_chart(out.read_text())
    assert [texts[0] for id, texts in chart.nodes.items() if id in ("u0", "u1")] == [
        "end",
        "subgraph",
    ]
    assert chart.styled == {0, 1}


def test_an_error_of_another_node_is_not_this_ones(tmp_path: Path) -> None:
    small = "nodes: {names: [%s]}\nworkload: {match: [{comm: x}]}\nprotect: all\nlane: {cores: %s}"
    root = write(
        tmp_path,
        {
            "nodes/other.yaml": BOX.replace("name: box", "name: other"),
            "intents/a.yaml": intent("a", small % ("other", 99)),
            "intents/b.yaml": intent("b", 'workload: {match: [{comm: "y*"}]}\nkeep: system'),
        },
    )
    fine = run("graph", "-p", str(root), "--node", "box")
    assert (fine.returncode, fine.stderr) == (0, "")
    bad = run("graph", "-p", str(root), "--node", "other")
    assert bad.returncode == 1
    assert "TRC4" in bad.stderr
    assert "no plan, see the findings: other" in bad.stdout


def test_a_policy_without_nodes_is_drawn(tmp_path: Path, tool: Callable[[str], str]) -> None:
    root = write(tmp_path, {"intents/a.yaml": CYCLE["intents/end.yaml"].split("above")[0]})
    (root / "nodes/box.yaml").unlink()
    done = run("graph", "-p", str(root))
    assert done.returncode == 0
    svg = draw_svg(tool("dot"), done.stdout)
    assert ["end", "keep interactive", "comm end*"] in svg.nodes.values()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--format", "dott"), "unknown format 'dott'; did you mean dot?"),
        (("--format", "png"), "unknown format 'png'; formats are dot, mermaid, text, svg"),
        (("--format", "svg"), "--format svg draws the lanes of one node; name it with --node"),
        (("--format", "text"), "--format text draws the lanes of one node; name it with --node"),
        (("--format", "json"), "unknown format 'json'; formats are dot, mermaid, text, svg"),
        (("--node", "spark-b"), "the policy has no node 'spark-b'; did you mean spark-a?"),
        (("-o", "no/such/dir/x"), "cannot write no/such/dir/x: No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line(args: tuple[str, ...], said: str) -> None:
    done = run("graph", "-p", "examples/dgx-spark", *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"tierc: {said}\n"


def test_the_repository_may_be_an_argument() -> None:
    policy = "examples/dgx-spark"
    option = run("graph", "-p", policy)
    assert option.returncode == 0
    assert run("graph", policy).stdout == option.stdout
    assert run("graph", policy, "-p", policy).stdout == option.stdout
    two = run("graph", policy, "-p", "examples/hgx")
    assert (two.returncode, two.stdout) == (2, "")
    assert two.stderr == (
        "tierc: two policy repositories are given, examples/dgx-spark and examples/hgx; name one\n"
    )


def test_nothing_to_draw_is_wrong_usage(tmp_path: Path) -> None:
    done = run("graph", "-p", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_a_chart_that_mermaid_would_refuse_is_announced(tmp_path: Path) -> None:
    one = 'workload: {match: [{cgroup: "system.slice/%s/**"}]}\ndemote: background'
    many = {
        f"intents/{i}.yaml": intent(f"i{i}", one % f"unit-{i:04}-with-a-name") for i in range(300)
    }
    root = write(tmp_path, many)
    (root / "nodes/box.yaml").unlink()
    done = run("graph", "-p", str(root), "--format", "mermaid")
    assert done.returncode == 0
    assert done.stderr.startswith("tierc: the chart is larger than Mermaid draws")
    assert len(read_chart(done.stdout).nodes) > 300
    assert run("graph", "-p", str(root)).stderr == ""
