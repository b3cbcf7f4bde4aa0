"""What a key means, as messages tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policytests import Runner, policy_test


def test_words_of_the_documentation_are_quoted_as_in_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(tmp_path, capsys, monkeypatch)
    runner.add({"tests/t.yaml": policy_test("lanes: [{cores: 1}]")})
    _, out, err = runner()
    assert "add `name`: name of the lane; of a family all must hold of each member" in out + err
    assert "and `chat@numa0` is one" in out + err
    assert "``" not in out + err
