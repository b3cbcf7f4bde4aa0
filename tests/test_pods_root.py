"""The pods root in node facts: a plain cgroup path, so that ``@pods`` never becomes a pattern."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.__main__ import main
from compiler.decode import decode
from compiler.decode.checks import MAX_BELOW_PODS
from compiler.diagnostics import Diagnostic, Sink
from compiler.model.base import MAX_CGROUP_PATH
from compiler.patterns import Glob
from compiler.source import parse_source
from tests.policies import BOX, intent, write

WRONG = (
    "/kubepods.slice",
    "kubepods.slice/",
    "",
    "/",
    ".",
    "..",
    "a/../b",
    "a/./b",
    "a//b",
    "kubepods*",
    "kubepods/**",
    "kube?ods",
    "[k]ubepods",
    "kube pods",
    "kube'pods",
    'kube"pods',
    "kubepods\n",
    "kube\npods",
    "kubépods",
    "kubepods\x7f",
)
RIGHT = (
    "kubepods",
    "kubepods.slice",
    "kubelet.slice/kubelet-kubepods.slice",
    "my\\x2dkube.slice/kubepods",
    "a@1:b_c/...d/.e/..f",
)
PODS = """
workload: {engine: vllm, version: "0.24.0", cgroup: "@pods/**"}
protect: [decode, {path: ttft, tier: interactive}]
"""


def facts(root: str, *, override: bool) -> str:
    key = "overrides: {" if override else "kubelet: {present: true, "
    return f"{BOX}  {key}podsRoot: {json.dumps(root)}}}\n"


def decoded(text: str) -> list[Diagnostic]:
    sink = Sink()
    for doc in parse_source("n.yaml", text.encode(), sink).documents:
        decode(doc, sink)
    return list(sink)


@pytest.mark.parametrize("override", [False, True], ids=["kubelet", "overrides"])
@pytest.mark.parametrize("root", WRONG)
def test_what_is_no_path_is_refused_by_lint_and_by_validate(
    root: str,
    override: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = facts(root, override=override)
    write(tmp_path, {"nodes/box.yaml": text, "intents/a.yaml": intent("a", PODS)})
    monkeypatch.chdir(tmp_path)
    line = len(text.splitlines())
    for command in (["lint"], ["facts", "validate", "nodes/box.yaml"]):
        assert main([*command, "--color", "never"]) == 1
        out, err = capsys.readouterr()
        assert err == ""
        assert out.count("error[TRC106]") == out.count("error[") == 1
        assert f"nodes/box.yaml:{line}:" in out
        help_ = out.split("error[TRC106]")[1].split("help: ")[1].split("\n")[0]
        assert re.search(r"; (write kubepods(\.slice)?|for example kubepods\.slice)\Z", help_)


@pytest.mark.parametrize("override", [False, True], ids=["kubelet", "overrides"])
@pytest.mark.parametrize("root", RIGHT)
def test_a_path_is_accepted_and_means_itself(
    root: str,
    override: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = facts(root, override=override)
    write(tmp_path, {"nodes/box.yaml": text, "intents/a.yaml": intent("a", PODS)})
    monkeypatch.chdir(tmp_path)
    assert main(["lint", "--color", "never"]) == 0, capsys.readouterr().out
    assert main(["facts", "validate", "nodes/box.yaml"]) == 0
    assert Glob.cgroup(f"{root}/**").matches(f"{root}/pod1/c")


@settings(max_examples=60)
@given(st.text(st.sampled_from("aZ9_.:\\@-/ *"), min_size=1, max_size=12))
def test_exactly_plain_paths_are_accepted(root: str) -> None:
    plain = all(part not in ("", ".", "..") for part in root.split("/"))
    plain = plain and not set(root) & {" ", "*"}
    assert (not decoded(facts(root, override=False))) == plain
    if plain:
        below = Glob.cgroup(f"{root}/**")
        assert below.matches(f"{root}/x")
        assert not below.matches(f"x{root}/x")


def test_a_path_and_a_pattern_below_it_are_never_too_long_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "r" * MAX_CGROUP_PATH
    assert not decoded(facts(root, override=False))
    (found,) = decoded(facts(root + "r", override=False))
    assert (found.code, "at most 128" in found.message) == ("TRC106", True)
    monkeypatch.chdir(tmp_path)
    parts = ["", "a" * 200, "b" * (MAX_BELOW_PODS - 202)]
    for more, code in (("", 0), ("b", 1)):
        pattern = f"@pods{'/'.join(parts)}{more}"
        body = f'workload: {{match: [{{cgroup: "{pattern}"}}]}}\ndemote: background'
        write(
            tmp_path,
            {"nodes/box.yaml": facts(root, override=True), "intents/a.yaml": intent("a", body)},
        )
        assert main(["lint", "--color", "never"]) == code
        out, err = capsys.readouterr()
        assert (err, "error[TRC111]" in out) == ("", bool(code))
        assert ("bytes behind @pods" in out) == bool(code)
