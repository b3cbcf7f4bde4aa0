"""docs/intents.md: all that can be written is named, and what it shows can be built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.__main__ import main
from compiler.model.intent import Intent
from compiler.model.ladder import TierLadder
from tests.conftest import ROOT
from tests.policies import BOX, PROJECT, write

PAGE = (ROOT / "docs/intents.md").read_text(encoding="utf-8")


def _keys(schema: dict[str, Any]) -> Iterator[str]:
    """Yield every key that a schema knows, of all its definitions."""
    for part in (schema, *schema.get("$defs", {}).values()):
        yield from part.get("properties", {})


@pytest.mark.parametrize("kind", [Intent, TierLadder])
def test_every_key_is_named(kind: type[Intent | TierLadder]) -> None:
    keys = set(_keys(kind.model_json_schema(by_alias=True)))
    assert len(keys) > 8
    words = set(re.findall(r"[A-Za-z][A-Za-z0-9]*", PAGE))
    of_matchers = {"key", "operator", "values"}  # of matchExpressions, as in Kubernetes
    assert not keys - words - of_matchers


def test_what_it_shows_can_be_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    intent, demand = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    node = BOX.replace("labels: {", "labels: {accelerator: h100, ")
    assert node != BOX
    files = {"tierc.yaml": PROJECT, "intents/chat.yaml": intent, "nodes/box.yaml": node}
    root = write(tmp_path / "p", files)
    out = ["-o", str(tmp_path / "out")]
    assert main(["build", str(root), *out]) == 0, capsys.readouterr().err
    measured = intent.replace("{min: 2, max: 6}", "measured")
    assert measured != intent
    (root / "intents/chat.yaml").write_text(measured, encoding="utf-8")
    (root / "intents/demand.yaml").write_text(demand, encoding="utf-8")
    assert main(["build", str(root), *out]) == 0, capsys.readouterr().err
    # 1.2 and 3.4 busy cores, both rounded up.
    assert main(["explain", "box", "--lane", "chat", "--project", str(root)]) == 0
    assert "asked for 2 to 4" in capsys.readouterr().out
