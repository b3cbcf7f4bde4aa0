"""The README shows what the program really prints, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.cli import app, facts_app
from tests.conftest import ROOT
from tests.examples import run

README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def test_the_build_output_is_the_one_shown(tmp_path: Path) -> None:
    done = run("build", "examples/dgx-spark", "-o", str(tmp_path / "o"))
    assert done.returncode == 0
    decisions = done.stdout.rsplit("\n", 2)[0]
    assert f"```text\n{decisions}\n```" in README


def test_the_explanation_is_the_one_shown() -> None:
    args = "spark-a --project examples/dgx-spark --comm VLLM::EngineCor"
    done = run("explain", *args.split())
    shown = README.split(f"$ tierc explain {args}\n", 1)[1].split("```", 1)[0]
    assert done.stdout.startswith(shown.removesuffix("...\n"))
    assert shown.count("\n") >= 8


def test_the_intent_shown_is_that_of_the_example() -> None:
    shown = README.split("```yaml\nkind: Intent", 1)[1].split("```", 1)[0]
    example = (ROOT / "examples/dgx-spark/intents/chat.yaml").read_text()
    for word in re.findall(r"[\w@*.-]+", shown):
        assert word in example, word


def test_every_file_listed_exists_in_the_golden_tree() -> None:
    listed = re.findall(r"^out/dgx-spark/(\S+)", README, re.MULTILINE)
    assert len(listed) >= 7
    for pattern in listed:
        assert list((ROOT / "tests/golden/dgx-spark/tree").glob(pattern)), pattern


def test_every_command_of_the_table_has_help_and_every_command_is_in_the_table() -> None:
    names = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    names |= {
        f"facts {c.name or c.callback.__name__}"
        for c in facts_app.registered_commands
        if c.callback
    }
    table = README.split("| command | does |", 1)[1].split("\n\n", 1)[0]
    for name in names:
        assert f"tierc {name}" in table or f"`{name.split()[-1]}`" in table, name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link
