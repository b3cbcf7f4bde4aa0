"""Writing tests of a policy and running ``tierc test`` on them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from compiler.__main__ import main
from tests.policies import BOX, HEAD, intent, write

SERVE = intent(
    "serve",
    'workload: {match: [{comm: "engine*", cgroup: "system.slice/**"}]}\n'
    "protect: all\nlane: {cores: 2}",
)
BATCH = intent("batch", 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background')
POLICY = {"intents/serve.yaml": SERVE, "intents/batch.yaml": BATCH}
KUBE = BOX.replace("name: box", "name: kube").replace("pool: small", "pool: kube") + (
    "  overrides: {podsRoot: kubepods.slice}\n"
)


def policy_test(body: str, name: str = "t") -> str:
    """Return a PolicyTest document; its body begins on line 5."""
    text = dedent(body).strip("\n")
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    return f"{HEAD}kind: PolicyTest\nmetadata: {{name: {name}}}\nspec:\n{lines}"


PASSES = policy_test("lanes: [{name: serve}]", name="passes")
FAILS = policy_test("lanes: [{name: serve, cores: 1}]", name="fails")
BROKEN = policy_test("lanes: [{nmae: serve}]", name="broken")


class Runner:
    """A policy in a temporary directory, and the command in it."""

    def __init__(
        self, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.root = root
        self.capsys = capsys
        monkeypatch.chdir(root)
        monkeypatch.delenv("CI", raising=False)
        write(root, POLICY)

    def add(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def __call__(self, *args: str) -> tuple[int, str, str]:
        code = main(["test", *args])
        out, err = self.capsys.readouterr()
        return code, out, err

    def body(self, body: str) -> tuple[int, str]:
        self.add({"tests/t.yaml": policy_test(body)})
        code, out, err = self()
        assert err == ""
        return code, out


def failures(out: str) -> list[str]:
    """Return the lines of a report from the first failure on, without indent and summary."""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.startswith("FAIL ")), len(lines))
    return [line for line in lines[start:-1] if line]
