"""What a user reads when something is wrong: the whole text of ``tierc lint``, for broken inputs.

A case is a directory of ``tests/errors`` with the files of a policy repository and
``expected.txt``: the report and, in the last line, the exit code.  A case without ``tierc.yaml``
has that of ``tests/policies.py``, one without ``nodes/`` has its node ``box``.  The documents of
``tests/fixtures/decode/broken`` named below are cases as well; their reports are in
``tests/errors/decode``.

``make golden`` writes the reports anew.  Before such a change is committed somebody reads it as the
user would: does it name file, line, cause, and what to do?
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.catalog import all_codes
from tests.conftest import ROOT, Golden
from tests.policies import BOX, PROJECT

CASES = ROOT / "tests" / "errors"
DECODE = ROOT / "tests" / "fixtures" / "decode" / "broken"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir() and path.name != "decode")
BROKEN = (
    "api-version-old.yaml",
    "cores-reversed.yaml",
    "cores-word.yaml",
    "empty-value.yaml",
    "gpus-word.yaml",
    "group-unknown.yaml",
    "key-affinity.yaml",
    "key-misspelt.yaml",
    "key-of-other-level.yaml",
    "key-snake-case.yaml",
    "kubernetes-object.yaml",
    "label-number.yaml",
    "match-kthread.yaml",
    "match-nothing.yaml",
    "missing-max.yaml",
    "missing-workload.yaml",
    "name-shell.yaml",
    "pattern-pods-inside.yaml",
    "prefer-opposites.yaml",
    "profile-stage.yaml",
    "selector-operator.yaml",
    "several.yaml",
    "workload-engine-only.yaml",
    "workload-two.yaml",
)
SAYS_IT_ITSELF = {
    "TRC104",  # must be a whole number, not ...
    "TRC109",  # a CPU list is text such as ...
    "TRC110",  # takes one of ...; keep one
    "TRC111",  # write [0-9]
}
"""Codes of which a finding may do without help, because its message names the way out."""
HEAD = re.compile(r"(?m)^(error|warning|info)\[(TRC\d{3})\]: (.+)$")
PLACE = re.compile(r" *--> (?P<path>\S.*):(?P<line>\d+):(?P<col>\d+)")


def lint(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Lint from inside the repository; return the report and the exit code as one text."""
    monkeypatch.chdir(root)
    code = main(["lint", "--color", "never"])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return f"{out}{err}exit {code}\n"


def repository(case: Path, root: Path) -> Path:
    shutil.copytree(case, root, ignore=shutil.ignore_patterns("expected.txt"))
    if not (root / "tierc.yaml").exists():
        (root / "tierc.yaml").write_text(PROJECT)
    if not (root / "nodes").exists():
        (root / "nodes").mkdir()
        (root / "nodes/box.yaml").write_text(BOX)
    (root / "intents").mkdir(exist_ok=True)
    return root


def test_there_are_many() -> None:
    assert len(NAMES) >= 60
    assert {path.stem for path in (CASES / "decode").iterdir()} == {Path(n).stem for n in BROKEN}


@pytest.mark.parametrize("name", NAMES)
def test_the_report_of_a_broken_repository(
    name: str,
    golden: Golden,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = lint(repository(CASES / name, tmp_path / "r"), capsys, monkeypatch)
    golden.file(f"{name}/expected.txt", report.encode(), base=CASES)
    says_what_where_and_what_to_do(report, tmp_path / "r")


@pytest.mark.parametrize("name", BROKEN)
def test_the_report_of_a_broken_document(
    name: str,
    golden: Golden,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = tmp_path / "case/intents"
    case.mkdir(parents=True)
    shutil.copy(DECODE / name, case)
    report = lint(repository(case.parent, tmp_path / "r"), capsys, monkeypatch)
    golden.file(f"decode/{Path(name).stem}.txt", report.encode(), base=CASES)
    says_what_where_and_what_to_do(report, tmp_path / "r")


def says_what_where_and_what_to_do(report: str, root: Path) -> None:
    """Hold what every report owes its reader, whatever its words."""
    findings = report.split("\n\n")[:-1]
    assert findings, report
    for finding in findings:
        head = HEAD.match(finding)
        assert head is not None, finding
        assert head[2] in all_codes()
        assert not head[3].endswith("."), finding
        place = PLACE.search(finding)
        assert place is not None, finding
        if (file := root / place["path"]).is_file():
            lines = file.read_bytes().count(b"\n") + 1
            assert 1 <= int(place["line"]) <= lines, finding
        if head[1] != "info" and head[2] not in SAYS_IT_ITSELF:
            assert "= help: " in finding, finding
