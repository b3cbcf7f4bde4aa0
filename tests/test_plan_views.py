"""What a target sees of a plan: hiding what it cannot match must not widen anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.diagnostics import Diagnostic
from compiler.model.facts import NodeFacts
from compiler.pipeline import Compilation
from tests.machines import machines
from tests.policies import PROJECT, compiled, intent, linted, write
from tests.test_pipeline_properties import repository
from tests.test_resolve import errors, match

BPF = PROJECT.replace("mode: fallback", "mode: sched_ext") + "  targets: {bpf: {}}\n"


def build(tmp_path: Path, *documents: str) -> tuple[Compilation, tuple[Diagnostic, ...]]:
    return compiled(
        write(tmp_path, {"intents/all.yaml": "---\n".join(documents), "tierc.yaml": BPF})
    )


def test_a_hidden_keep_that_would_widen_a_demotion_is_an_error(tmp_path: Path) -> None:
    # bpf cannot read command lines; without the keep, x would be demoted with all that begin so
    _, findings = build(
        tmp_path,
        match("kept", "comm: x1, cmdline: serve", "keep: interactive"),
        match("low", 'comm: "x*"', "demote: background"),
    )
    (found,) = errors(findings)
    assert (found.code, found.span.line, found.related[0].span.line) == ("TRC500", 5, 12)
    assert found.message.endswith("whose threads would fall to low, at background")


def test_a_hidden_keep_is_left_out_by_name_where_another_rule_keeps_its_threads(
    tmp_path: Path,
) -> None:
    compilation, findings = build(
        tmp_path,
        match("kept", "comm: x1, cmdline: serve", "keep: interactive"),
        match("also", "comm: x1", "keep: system"),
        match("low", 'comm: "x*"', "demote: background"),
    )
    assert [f.code for f in findings] == ["TRC501"]
    assert [rule.unit for rule in compilation.classes[0].views["bpf"].rules] == ["also", "low"]


def test_node_software_is_safe_in_each_targets_view(tmp_path: Path) -> None:
    # the whole plan keeps sshd by its command line; the scheduler would see only the demotion
    _, findings = build(
        tmp_path,
        match("kept", "cmdline: sshd", "keep: system\nprecedence: 1"),
        match("low", "comm: sshd", "demote: idle"),
    )
    (found,) = errors(findings)
    assert found.code == "TRC901"
    assert found.message == (
        "without the rules that target bpf cannot match, low puts sshd (such as in "
        "system.slice/ssh.service) into tier idle, below background"
    )
    assert str(found.span) == "intents/all.yaml:13:29"
    assert [str(r.span) for r in found.related] == ["intents/all.yaml:5:32"]


def test_a_stage_of_which_no_way_is_left_is_an_error_and_one_of_several_a_note(
    tmp_path: Path,
) -> None:
    profile = """\
apiVersion: tierc.dev/v1alpha1
kind: EngineProfile
metadata: {name: mine}
spec:
  known: ["1.0", "2.0"]
  paths: {decode: [engine-step]}
  stages:
    engine-step:
      match:
        - {comm: "a*b", evidence: tried}
        - {cmdline: "^mine", evidence: tried}
"""
    one = intent("one", 'workload: {engine: mine, version: "1.0"}\nprotect: decode')
    _, findings = build(tmp_path, profile, one)
    assert {f.code for f in errors(findings)} == {"TRC500"}
    usable = profile.replace('"a*b"', '"a*"')
    _, findings = build(tmp_path, usable, one)
    assert not errors(findings)
    assert "TRC502" in [f.code for f in findings]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), facts=machines())
def test_every_view_of_an_accepted_plan_is_safe(
    tmp_path_factory: pytest.TempPathFactory, seed: int, facts: NodeFacts
) -> None:
    compilation, _ = linted(repository(tmp_path_factory.mktemp("p"), seed, facts))
    for group in compilation.classes:
        for view in group.views.values():
            assert not safety.check(view)
