"""What every run pays before it does anything: which modules are there, and what is read lazily."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compiler import profiles
from compiler.model.base import Metadata, Model
from compiler.model.described import descriptions
from compiler.model.intent import Match
from compiler.model.profile import ProfileMatch
from compiler.profiles import Profiles

ROOT = Path(__file__).resolve().parent.parent

INTENT = """\
apiVersion: tierc.dev/v1alpha1
kind: Intent
metadata: {name: builds}
spec:
  workload: {match: [{comm: "cc1*"}]}
  demote: idle
"""

# What a policy without node facts and without tests does not need.
IDLE = ("compiler.place", "compiler.safety", "compiler.tree", "compiler.explain", "jinja2", "rich")

LOADED = """\
import atexit, gc, json, sys
from compiler.__main__ import main
atexit.register(lambda: print(gc.isenabled()))  # runs last: what is registered later goes first
code = main(["lint", sys.argv[1]])
print(json.dumps({"code": code, "modules": sorted(sys.modules), "gc": gc.get_threshold()}))
"""


def test_linting_intents_alone_loads_nothing_that_places(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(INTENT)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, tmp_path / "a.yaml"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    *_, told, collecting = done.stdout.splitlines()
    seen = json.loads(told)
    assert seen["code"] == 0
    assert "compiler.rules.match_all" in seen["modules"]  # the rules were run
    assert [m for m in seen["modules"] if m.startswith(IDLE)] == []
    assert seen["gc"][0] > 10_000
    assert collecting == "False"  # no search for garbage in what the kernel takes back anyway


def test_a_description_is_the_text_below_the_field() -> None:
    assert descriptions(Metadata) == {
        "name": "Unique among documents of the same kind.",
        "labels": "Free labels, for people and selectors.",
    }


def test_a_description_is_inherited() -> None:
    assert issubclass(ProfileMatch, Match)
    about = descriptions(ProfileMatch)
    assert about["comm"] == descriptions(Match)["comm"].strip()
    assert about["comm"].startswith("Glob on the thread's name")
    assert about["versions"] not in ("", about["comm"])


def test_profiles_are_read_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = profiles._load

    def load(name: str, model: type[Model]) -> object:
        read.append(name)
        return real(name, model)

    monkeypatch.setattr(profiles, "_load", load)
    own = profiles.builtin_profiles()["sglang"]
    read.clear()
    both = Profiles({"vllm": own, "other": own})
    assert list(both) == ["sglang", "vllm", "other"]
    assert len(both) == 3
    assert "vllm" in both
    assert "triton" not in both
    assert both.get("triton") is None
    assert both["vllm"] is own  # the user's goes before the built-in one
    assert list(both.own) == ["other", "vllm"]
    assert read == []
    assert both["sglang"] is own
    assert read == ["profiles/sglang.yaml"]
    with pytest.raises(KeyError):
        profiles.builtin_groups()["none"]
