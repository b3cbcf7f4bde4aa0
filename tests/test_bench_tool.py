"""The bench of lint and build: its fleet is what it says, and its figures are computed right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import placement, tool
from bench.fleet import KINDS, facts, generated_intents, write_fleet
from bench.measure import Cost, by_turns, run
from bench.tool import Figure, figures, report
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import linted

COSTS = {
    "lint": Cost(1.0, 60),
    "yamllint": Cost(2.0, 30),
    "cold": Cost(0.9, 40),
    "check-jsonschema": Cost(0.3, 36),
    "build": Cost(8.0, 200),
    "cp": Cost(2.0, 2),
    "edit": Cost(4.0, 220),
}


def test_figures_are_ratios_of_cpu_time_and_peak_memory_in_decimal_megabytes() -> None:
    values = [figure.value for figure in figures(COSTS)]
    assert values == pytest.approx([0.5, 3.0, 4.0, 209.7152, 0.5])
    assert [figure.reached for figure in figures(COSTS)] == [True, False, True, True, False]


def test_the_report_says_what_was_reached() -> None:
    lines = report(COSTS, 3, 1000).splitlines()
    assert lines[0] == "1000 nodes; CPU time (user + system), medians of 3 alternated runs"
    assert lines[-1].startswith("build after an edit of one intent / build ")
    assert lines[-1].endswith(" 0.50  aim 0.2, missed")
    assert lines[-2].split()[-5:] == ["MB", "aim", "250", "MB,", "reached"]
    assert Figure("x", 0.5, 0.5).line().endswith("0.50  aim 0.5, reached")


def test_commands_run_by_turns_and_the_first_run_does_not_count() -> None:
    order: list[str] = []

    def command(name: str) -> Cost:
        order.append(name)
        return Cost(float(len(order)), 100.0 - len(order))

    found = by_turns({"a": lambda: command("a"), "b": lambda: command("b")}, 3)
    assert order == ["a", "b"] * 4
    assert found == {"a": Cost(5.0, 95.0), "b": Cost(6.0, 94.0)}
    with pytest.raises(ValueError, match="no runs"):
        by_turns({}, 0)


def test_a_run_is_measured_and_a_failure_is_one(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass"
    assert run([sys.executable, "-c", busy], cwd=tmp_path).cpu >= 0.2
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run([sys.executable, "-c", "raise SystemExit('no')"], cwd=tmp_path)
    assert (caught.value.returncode, caught.value.stderr) == (1, b"no\n")


def test_the_fleet_is_clean_and_the_same_every_time(tmp_path: Path) -> None:
    root = write_fleet(tmp_path / "a", 20)
    compilation, findings = linted(root)
    assert [f.message for f in findings if f.severity.name == "ERROR"] == []
    assert len(compilation.classes) == len(KINDS)
    assert all(group.plan is not None for group in compilation.classes)
    assert read_tree(root) == read_tree(write_fleet(tmp_path / "b", 20))
    uuids = {d.uuid for n in range(2) for d in facts(KINDS[5], n).spec.devices if d.uuid}
    assert len(uuids) == 16


def test_generated_intents_are_clean(tmp_path: Path) -> None:
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents/all.yaml").write_text(generated_intents(40))
    compilation, findings = linted(tmp_path)
    assert len(compilation.policy.intents) == 40
    assert {f.severity.name for f in findings} <= {"INFO", "WARNING"}


def test_peers_that_are_not_there_are_named() -> None:
    program = (
        "import sys; sys.executable = '/nowhere/python'; import os; os.environ['PATH'] = '';"
        "from bench.tool import _program; _program('yamllint')"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "yamllint is not installed; pip install -e '.[bench]'\n"


def test_modules_may_be_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert run(
        [sys.executable, "-c", "import sys; sys.exit(sys.dont_write_bytecode)"], cwd=tmp_path
    )


@pytest.mark.parametrize(
    "args", [("x",), ("0",), ("-1",), ("1.5",), ("9" * 5000,), ("3", "many"), ("1", "2", "3")]
)
def test_wrong_usage_is_said(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, main in (("tool", tool.main), ("placement", placement.main)):
        monkeypatch.setattr(sys, "argv", [name, *args])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        assert (stopped.value.code, out) == (2, "")
        assert err.startswith(f"usage: python -m bench.{name} ")
