"""What is said where a node, a lane or a file is named that is not there or is another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from compiler.facts.write import facts_yaml
from compiler.picture.machine import CoreRow
from compiler.report.machine_words import row_form, row_text
from tests.machines import facts, gpu, two_nodes
from tests.policies import BOX, HEAD, PROJECT, compiled, intent, write

LANES = "".join(
    f"---\n{HEAD}kind: Intent\nmetadata: {{name: {name}}}\n"
    f"spec: {{workload: {{match: [{{comm: {name}}}]}}, protect: all, lane: {{cores: 1}}}}\n"
    for name in ("serve", "train")
)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tierc.yaml").write_text(PROJECT)
    for name in ("intents", "nodes"):
        (tmp_path / name).mkdir()
    (tmp_path / "intents/a.yaml").write_text(LANES)
    (tmp_path / "nodes/box.yaml").write_text(BOX)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Run what is wrong usage, and return what is said of it."""
    assert main(list(args)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_an_unknown_lane_is_answered_with_those_there_are(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said(capsys, "explain", "box", "--lane", "x")
    assert err == "tierc: box has no lane 'x'; it has serve and train\n"
    err = said(capsys, "explain", "box", "--lane", "sevre")
    assert err == "tierc: box has no lane 'sevre'; did you mean serve?\n"
    (policy / "intents/a.yaml").write_text(intent("a", "workload: {match: [{comm: a}]}"))
    err = said(capsys, "explain", "box", "--lane", "x")
    assert err == "tierc: box has no lane 'x'; it has none\n"


@pytest.mark.parametrize(
    "args",
    [
        ("explain", "box"),
        ("graph", "--node", "box"),
        ("build", "-o", "out", "--node", "box"),
        ("facts", "show", "box"),
    ],
)
def test_a_node_whose_facts_are_broken_is_not_called_unknown(
    args: tuple[str, ...], policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (policy / "nodes/box.yaml").write_text(BOX.replace("online: ", "onlin: "))
    err = said(capsys, *args)
    assert "the policy has no node 'box' that can be read; first error: nodes/box.yaml:" in err
    assert "`onlin`" in err
    assert err.count("\n") == 1


def test_errors_of_a_rule_do_not_hide_a_typo(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = LANES.replace("comm: serve", "comm: a-name-that-is-too-long")
    (policy / "intents/a.yaml").write_text(text)
    assert main(["lint"]) == 1
    assert "error[TRC201]" in capsys.readouterr().out
    err = said(capsys, "explain", "bax")
    assert err == "tierc: the policy has no node 'bax'; did you mean box?\n"


@pytest.mark.parametrize(
    "args", [("build", "-o", "out", "--node", "x"), ("explain", "x"), ("graph", "--node", "x")]
)
def test_an_unknown_node_is_answered_with_those_there_are(
    args: tuple[str, ...], policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *args) == "tierc: the policy has no node 'x'; it has box\n"
    for number in range(10):
        text = BOX.replace("name: box", f"name: n{number}")
        (policy / f"nodes/n{number}.yaml").write_text(text)
    err = said(capsys, *args)
    assert err.endswith("; it has box, n0, n1, n2, n3, n4, n5, n6 and 3 more\n")


def test_an_unknown_target_is_answered_with_those_there_are(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said(capsys, "build", "-o", "out", "--target", "nope")
    assert err == "tierc: the policy has no target 'nope'; it has taskset\n"
    err = said(capsys, "build", "-o", "out", "--target", "tasket")
    assert err == "tierc: the policy has no target 'tasket'; did you mean taskset?\n"


@pytest.mark.parametrize("name", ["tierc.yml", "tierc.json"])
def test_a_project_file_of_another_name_is_not_passed_over(
    name: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (policy / "tierc.yaml").rename(policy / name)
    assert main(["lint"]) == 1
    out = capsys.readouterr().out
    assert f"error[TRC327]: {name} is not read: the project file is called tierc.yaml\n" in out
    assert "= help: rename it to tierc.yaml\n" in out
    assert main(["build", "-o", "out"]) == 1
    assert not (policy / "out").exists()
    (policy / name).rename(policy / "tierc.yaml")
    (policy / "tierc.json").write_text("of somebody else's")  # beside the right one it may be
    capsys.readouterr()
    assert main(["lint"]) == 0


def test_a_policy_that_lost_its_intents_is_told_so(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint"]) == 0
    assert "TRC336" not in capsys.readouterr().out
    for file in list((policy / "intents").iterdir()):
        file.rename(file.with_suffix(".yaml.txt"))
    assert main(["lint"]) == 0
    out = capsys.readouterr().out
    assert "warning[TRC336]: there is no intent here: nothing is protected on any node\n" in out
    assert "files end in .yaml, .yml or .json\n" in out
    # Facts that are looked at by themselves are no policy.
    assert main(["lint", "nodes/box.yaml"]) == 0
    assert "TRC336" not in capsys.readouterr().out


def test_intents_that_cannot_be_read_are_not_missing(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (policy / "intents").iterdir():
        file.write_text("kind: Intent\nspec: [\n")
    assert main(["lint"]) == 1
    assert "TRC336" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("TRC299", "tierc rule lists all there are"),  # not TRC290 or so: no number is nearer
        ("310", "did you mean TRC310?"),
        ("tier-conflikt", "did you mean tier-conflict?"),
        ("xyz", "tierc rule lists all there are"),
    ],
)
def test_an_unknown_code(word: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "rule", word) == f"tierc: no finding has the code {word!r}; {meant}\n"


@pytest.mark.parametrize("word", ["box", "nodes/box.yaml"])
def test_a_picture_does_not_replace_the_facts_it_shows(
    word: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(policy / "nodes/../nodes/box.yaml")
    err = said(capsys, "facts", "show", word, "-o", out)
    assert err == f"tierc: -o {out} is the file of the facts themselves; give another name\n"
    assert (policy / "nodes/box.yaml").read_text() == BOX
    assert main(["facts", "show", word, "-o", "box.txt"]) == 0
    assert "box" in (policy / "box.txt").read_text()


def test_a_dump_given_as_facts_is_sent_to_import(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (policy / "box.xml").write_text('<?xml version="1.0"?>\n<topology/>\n')
    err = said(capsys, "facts", "show", "box.xml")
    assert err.endswith(
        "tierc: box.xml cannot be used; tierc facts import reads formats other than NodeFacts\n"
    )


# Two caches on either node, and a GPU near each node.
CACHES = facts(
    [{"cpus": f"{4 * n}-{4 * n + 3}", "llc": n, "numa": n // 2} for n in range(4)],
    online="0-15",
    llcs={n: f"{4 * n}-{4 * n + 3}" for n in range(4)},
    numa={0: "0-7", 1: "8-15"},
    devices=(gpu("gpu0", "0-7", numa=0), gpu("gpu1", "8-15", numa=1)),
)
SPREAD = (
    "workload: {{engine: vllm, version: 0.24.0, tensorParallel: 2, cgroup: a.slice/**}}\n"
    "protect: [decode]\nprefer: [gpu-local, same-llc]\nlane: {{cores: {cores}}}"
)


def test_a_share_of_a_spanning_lane_is_not_called_a_lane(tmp_path: Path) -> None:
    # Housekeeping has two of the eight cores of node 0, and either share has seven.
    text = intent("i", SPREAD.format(cores=14))
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": facts_yaml(CACHES)})
    found = [one for one in compiled(root)[1] if one.code == "TRC402"]
    rows = {one.message.split(" not met")[0]: one.help for one in found}
    assert rows["lane i: its share i@numa0: gpu-local"] == (
        "lower the lane's cores, or drop gpu-local; under require it would be an error"
    )
    assert not any(row.startswith("lane i@") for row in rows)


def test_the_caches_of_a_spanning_lane_are_told_once(tmp_path: Path) -> None:
    # Either share has five cores, and a cache four: both are in two caches themselves.
    text = intent("i", SPREAD.format(cores=10))
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": facts_yaml(CACHES)})
    (found,) = [one for one in compiled(root)[1] if "same-llc" in one.message]
    assert found.message.startswith("lane i: same-llc not met: 10 cores in 4 last-level caches: ")


def test_no_smaller_size_is_advised_to_a_lane_that_spans(tmp_path: Path) -> None:
    # One core near either GPU is in two caches already, and nothing is smaller.
    machine = two_nodes(devices=(gpu("gpu0", "0-15", numa=0), gpu("gpu1", "16-31", numa=1)))
    text = intent("i", SPREAD.format(cores=2))
    root = write(tmp_path, {"intents/a.yaml": text, "nodes/box.yaml": facts_yaml(machine)})
    (found,) = [one for one in compiled(root)[1] if one.message.startswith("lane i: same-llc")]
    assert found.help == (
        "drop same-llc; under require the lane would not be spread over the localities of its GPUs"
    )


def row(*cores: str) -> CoreRow:
    sets = tuple(CpuSet.parse(core) for core in cores)
    empty: tuple[tuple[()], ...] = ((),) * len(sets[0])
    return CoreRow("standard", sets, empty, empty)


def test_the_threads_of_one_core_far_apart_are_no_neighbours() -> None:
    assert (row_form(row("11,59")), row_text(row("11,59"))) == ("plus", "11 + 59")
    assert row_text(row("9,57", "10,58")) == "9-10 + 57-58"
    assert row_text(row("4-5")) == "4-5 by 2"
    assert row_text(row("8-11", "12-15")) == "8-15 by 4"
