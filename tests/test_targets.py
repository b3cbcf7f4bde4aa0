"""The words that targets and plans share, and the page that explains them."""

from __future__ import annotations

import pytest

from compiler.features import MEANING
from compiler.model.project import Targets
from compiler.registry import CLUSTER_TARGETS, TARGETS, Target, load
from tests.conftest import ROOT

PAGE = (ROOT / "docs/targets.md").read_text()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_target_supports_only_words_there_are_and_can_be_enabled(name: str) -> None:
    target = load(name)
    assert target.name == name
    assert target.supports <= set(MEANING)
    assert target.modes <= {"observe", "fallback", "sched_ext"}
    assert name in Targets.model_fields


def test_every_target_of_the_project_file_exists() -> None:
    assert set(Targets.model_fields) == {*TARGETS, *CLUSTER_TARGETS}
    assert not TARGETS.keys() & CLUSTER_TARGETS.keys()


def test_the_page_says_who_supports_what() -> None:
    names = sorted(TARGETS)
    assert f"| word | meaning | {' | '.join(names)} |" in PAGE
    for word, meaning in MEANING.items():
        cells = [_cell(word, load(name)) for name in names]
        assert f"| `{word}` | {meaning} | {' | '.join(cells)} |" in PAGE, word


def _cell(word: str, target: Target) -> str:
    if target.concerns is not None and word not in target.concerns:
        return "-"
    return "yes" if word in target.supports else "no"
