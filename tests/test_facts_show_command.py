"""``tierc facts show`` as a user runs it."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.commands.machine_output import can_draw
from compiler.facts.write import facts_yaml
from compiler.picture.machine_layout import machine_picture
from compiler.report.machine_json import machine_data
from compiler.report.machine_svg import render_machine_svg
from tests.examples import run
from tests.machine_samples import draw, workstation
from tests.policies import BOX, PROJECT, intent

# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tierc.yaml").write_text(PROJECT)
    (tmp_path / "intents").mkdir()
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/box.yaml").write_text(BOX)
    (tmp_path / "nodes/desk.yaml").write_text(facts_yaml(workstation()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def show(*args: str) -> int:
    return main(["facts", "show", *args])


def test_a_node_and_its_file_are_drawn_alike(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show("desk", "--no-lanes") == 0
    by_name = capsys.readouterr()
    assert by_name == (draw(workstation()), "")
    assert show("nodes/desk.yaml") == 0
    assert capsys.readouterr() == by_name
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        patch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO((policy / "nodes/desk.yaml").read_bytes()))
        )
        assert show("-") == 0
    assert capsys.readouterr() == by_name
    with monkeypatch.context() as patch:
        patch.chdir("/")
        assert show("desk", "--no-lanes", "--project", str(policy)) == 0
    assert capsys.readouterr() == by_name


def test_formats_width_colour_and_files(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("desk", "--no-lanes", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == machine_data(machine_picture(workstation()))
    assert show("desk", "--no-lanes", "--format", "svg", "-o", "desk.svg") == 0
    assert capsys.readouterr() == ("", "")
    svg = (policy / "desk.svg").read_text()
    assert svg == render_machine_svg(machine_picture(workstation()))
    assert show("desk", "--no-lanes", "--width", "120", "--ascii") == 0
    assert capsys.readouterr().out == draw(workstation(), 120, ascii_only=True)
    assert show("desk", "--no-lanes", "--color", "always") == 0
    assert capsys.readouterr().out == draw(workstation(), color=True)


# --- owners ----------------------------------------------------------------------------------

CHAT = "workload: {match: [{comm: chat}]}\nprotect: all\nlane: {cores: 2}"


def test_a_node_of_the_policy_is_drawn_with_the_owners_of_its_cpus(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Housekeeping takes the lowest 2 of 8 cores, the lane the 2 after them."""
    (policy / "intents/chat.yaml").write_text(intent("chat", CHAT))
    assert show("box") == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "[A]    chat: 2-3,10-11, tier latency, guarded, 2 cores; chat\n" in text
    assert "[B]    housekeeping: 0-1,8-9, node software\n" in text
    assert "[C]    leftovers: 4-7,12-15, in no lane\n" in text
    assert show("box", "--format", "json") == 0
    lanes = json.loads(capsys.readouterr().out)["lanes"]
    assert [(one["name"], one["role"]) for one in lanes] == [
        ("chat", "lane"),
        ("housekeeping", "housekeeping"),
        ("leftovers", "leftovers"),
    ]
    for args in (["nodes/box.yaml"], ["box", "--no-lanes"]):
        assert show(*args) == 0
        assert "chat" not in capsys.readouterr().out


def test_a_quarantined_node_is_drawn_without_owners_and_it_is_said_why(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (policy / "intents/chat.yaml").write_text(
        intent("chat", CHAT.replace("cores: 2", "cores: 99")).replace(
            "spec:", "spec:\n  nodes: {names: [box]}"
        )
    )
    project = (policy / "tierc.yaml").read_text()
    (policy / "tierc.yaml").write_text(project + "  onUnplaceable: quarantine\n")
    assert show("box") == 0
    text, err = capsys.readouterr()
    assert "note  no plan, see the findings: lanes are not drawn\n" in text
    assert err.startswith("tierc: drawn without lanes, box has no plan: intents/chat.yaml:")
    assert "cores" in err


def test_a_node_without_a_plan_is_drawn_without_owners_and_it_is_said_why(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = intent("chat", CHAT.replace("cores: 2", "cores: 99"))
    (policy / "intents/chat.yaml").write_text(
        bad.replace("spec:", "spec:\n  nodes: {names: [box]}")
    )
    assert show("box") == 0
    text, err = capsys.readouterr()
    assert "note  no plan, see the findings: lanes are not drawn\n" in text
    assert "[A]" not in text
    assert err.startswith("tierc: drawn without lanes, box has no plan: intents/chat.yaml:")
    assert err.endswith("; tierc lint says more\n")
    assert err.count("\n") == 1
    assert show("desk") == 0  # an error of another node is not this one's
    assert "leftovers" in capsys.readouterr().out
    monkeypatch.chdir(policy / "intents")
    assert show("box", "-p", "..") == 0
    assert "no plan: ../intents/chat.yaml:" in capsys.readouterr().err
    (policy / "intents/odd.yaml").write_text("kind: [\n")
    assert show("desk", "-p", "..") == 0
    text, err = capsys.readouterr()
    assert "no plan: ../intents/odd.yaml:" in err
    assert "[A]" not in text


def test_a_terminal_gets_what_it_can_show() -> None:
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert can_draw(io.TextIOWrapper(io.BytesIO(), encoding="cp437")) is True
    assert not can_draw(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert not can_draw(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))


WRONG = [
    (["nowhere"], "the policy has no node 'nowhere'"),
    (["dsk"], "did you mean desk?"),
    (["nodes"], "nodes is a directory; name a file of facts, or a node"),
    (["nodes/none.yaml"], "nodes/none.yaml does not exist"),
    (["tierc.yaml"], "tierc.yaml holds no NodeFacts"),
    (["two.yaml"], "two.yaml holds the facts of several nodes (box, desk); give one at a time"),
    (["desk", "--format", "svgg"], "unknown format 'svgg'; did you mean svg?"),
    (["desk", "--width", "10"], "--width 10 is too narrow to draw in; give at least 40"),
    (["desk", "-o", "no/such/dir.txt"], "cannot write no/such/dir.txt"),
]


@pytest.mark.parametrize(("args", "message"), WRONG)
def test_wrong_usage_is_said_in_one_line(
    args: list[str], message: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{(policy / 'nodes/box.yaml').read_text()}---\n{facts_yaml(workstation())}"
    (policy / "two.yaml").write_text(text)
    assert show(*args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_broken_file_is_reported_at_its_line(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (policy / "bad.yaml").write_text(BOX.replace("online: ", "online: 9-"))
    assert show("bad.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(r"--> bad\.yaml:\d+:\d+", err)
    assert err.endswith("tierc: bad.yaml cannot be used\n")


def test_outside_of_a_policy_a_name_is_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert show("desk") == 2
    assert "there is no file desk, and . is no policy repository" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["text", "json", "svg"])
def test_the_same_bytes_under_any_hash_seed(format: str) -> None:
    args = ("facts", "show", "spark-a", "-p", "examples/dgx-spark", "--format", format)
    first, second = (run(*args, env={**os.environ, "PYTHONHASHSEED": seed}) for seed in ("1", "2"))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
