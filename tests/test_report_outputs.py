"""Reports in several formats: what is lost with one of them, and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.commands.session import UsageError, write_outputs
from tests.policies import HEAD, intent, write

ROOT = Path(__file__).resolve().parent.parent

FILES = {
    "intents/a.yaml": intent(
        "a", 'workload: {match: [{cgroup: "a.slice/**"}]}\nkeep: normal\nlane: {name: a, cores: 1}'
    ),
    "tests/a.yaml": HEAD
    + "kind: PolicyTest\nmetadata: {name: t}\nspec:\n  lanes: [{name: a, cores: 1}]\n",
}


def into_a_closed_pipe(*args: str) -> tuple[int, str]:
    """Run a command whose output nobody reads: every write fails, and at once."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "compiler", *args],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write_end)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("command", "formats", "first"),
    [
        ("lint", ["text", "json=FILE"], '{\n  "version"'),
        ("lint", ["json", "text=FILE"], "4 files, 1 intent, 1 node, 1 test checked"),
        ("test", ["text", "json=FILE"], "{"),
        ("test", ["text", "junit=FILE"], "<?xml"),
    ],
)
def test_a_reader_that_has_gone_costs_no_file(
    tmp_path: Path, command: str, formats: list[str], first: str
) -> None:
    root, file = write(tmp_path / "policy", FILES), tmp_path / "report"
    options = [f"--format={one.replace('FILE', str(file))}" for one in formats]
    assert into_a_closed_pipe(command, str(root), *options) == (141, "")
    text = file.read_text()
    assert text.startswith(first)
    assert text.endswith(("}\n", "</testsuites>\n", "no findings\n"))


def test_a_file_that_cannot_be_written_is_said_even_where_nobody_reads(tmp_path: Path) -> None:
    root = write(tmp_path / "policy", FILES)
    code, said = into_a_closed_pipe(
        "lint", str(root), "--format", "text", "--format", f"json={tmp_path}/no/report"
    )
    assert code != 0
    assert f"cannot write {tmp_path}/no/report: No such file or directory" in said


def test_one_file_that_cannot_be_written_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, also_bad = tmp_path / "good", tmp_path / "no" / "bad", tmp_path / "no" / "also"

    def render(name: str, tint: bool) -> str:
        return f"{name} {tint}"

    with pytest.raises(UsageError, match=r"cannot write .*/no/bad: No such file"):
        write_outputs(
            [("text", None), ("a", bad), ("b", good), ("c", also_bad)], render, color="always"
        )
    assert good.read_text() == "b False"
    assert capsys.readouterr().out == "text True"


def test_a_report_is_of_one_run_in_every_format(tmp_path: Path) -> None:
    root, file = write(tmp_path / "policy", FILES), tmp_path / "a.txt"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "compiler",
            "lint",
            str(root),
            f"--format=text={file}",
            "--format=json",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["diagnostics"] == []
    assert file.read_text().endswith("checked: no findings\n")
