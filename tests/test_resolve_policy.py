"""What is wrong with a policy as a whole, and documents in unusual places."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Sink
from compiler.project import load, locate
from tests.policies import BOX, PROJECT, compiled, intent, write
from tests.test_resolve import DEMAND, ask, build, errors, match, only, plan_of


def test_a_demand_for_an_intent_that_does_not_exist(tmp_path: Path) -> None:
    _, findings = build(tmp_path, match("jobs", "comm: a", "demote: idle"), DEMAND)
    found = only(findings, "TRC303")
    assert found.message == 'demand d is for intent "job", and no intent is called so'
    assert found.span.line == 11
    assert 'did you mean "jobs"?' in found.help


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("prefer: [leftovers]\nlane: {cores: 1}", "warning"),
        ("require: [leftovers]\nlane: {cores: 1}", "error"),
        ("require: [leftovers]\nlane: {name: x, cores: 1}\nprefer: [performance]", "error"),
    ],
)
def test_leftovers_beside_a_lane(tmp_path: Path, body: str, severity: str) -> None:
    _, findings = build(tmp_path, match("one", "comm: a", f"demote: idle\n{body}"))
    found = only(findings, "TRC326")
    assert (found.severity.label, found.span.line) == (severity, 7)


@pytest.mark.parametrize("policy", ["error", "quarantine"])
def test_required_leftovers_that_are_not_there(tmp_path: Path, policy: str) -> None:
    # one core: housekeeping has it, so nothing is left over
    box = """\
apiVersion: tierc.dev/v1alpha1
kind: NodeFacts
metadata: {name: box}
spec:
  arch: x86_64
  cpus: {online: "0", isolated: ""}
  cores: [{cpus: "0", llc: 0, numa: 0, kind: standard}]
  llcs: [{id: 0, level: 3, cpus: "0"}]
  numa: [{id: 0, cpus: "0", role: cpu}]
"""
    files = {
        "nodes/box.yaml": box,
        "tierc.yaml": PROJECT + f"  onUnplaceable: {policy}\n",
        "intents/a.yaml": match("low", "comm: a", "demote: idle\nrequire: [leftovers]"),
    }
    compilation, findings = compiled(write(tmp_path, files))
    assert compilation.classes[0].plan is None
    found = only(findings, "TRC400" if policy == "error" else "TRC401")
    assert (
        found.message
        == ("" if policy == "error" else "no plan for this node: ")
        + "low requires leftovers, and no CPU is outside lanes and housekeeping"
    )
    assert str(found.span) == "intents/a.yaml:7:13"


def test_a_group_loses_what_cannot_be_in_the_cgroup_without_a_word(tmp_path: Path) -> None:
    body = 'workload: {group: batch, cgroup: "user.slice/**"}\ndemote: background'
    compilation, findings = build(tmp_path, intent("low", body))
    assert not findings
    conditions = [rule.match for rule in plan_of(compilation).rules]
    assert conditions
    assert {c.cgroup for c in conditions} == {"user.slice/**"}


def test_a_protected_matcher_that_cannot_be_in_its_cgroup_is_an_error(tmp_path: Path) -> None:
    body = 'workload: {match: [{cgroup: "@pods/a"}], cgroup: "b/**"}\nprotect: all'
    box = "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
    _, findings = build(tmp_path, intent("one", body), box=BOX + box)
    (found,) = errors(findings)
    assert found.code == "TRC315"
    assert found.message.startswith('cgroup "b/**" cannot narrow "@pods/a"')


def test_other_documents_in_the_project_file_count(tmp_path: Path) -> None:
    extra = PROJECT + "---\n" + match("one", "comm: a", "demote: idle")
    beside = match("two", "comm: b", "demote: idle")
    compilation, findings = compiled(
        write(tmp_path, {"tierc.yaml": extra, "intents/b.yaml": beside})
    )
    assert not findings
    assert ask(compilation, comm="a").winner is not None
    second = extra + "---\n" + PROJECT
    _, findings = compiled(write(tmp_path, {"tierc.yaml": second, "intents/b.yaml": beside}))
    assert only(findings, "TRC323").message == "tierc.yaml has a second Project document"


def test_a_project_file_without_a_document_is_an_error(tmp_path: Path) -> None:
    files = {"tierc.yaml": "# later\n", "intents/a.yaml": match("one", "comm: a", "demote: idle")}
    compilation, findings = compiled(write(tmp_path, files))
    assert [(f.code, str(f.span)) for f in findings] == [("TRC327", "tierc.yaml:1:1")]
    assert compilation.classes[0].plan is None


def test_the_project_is_found_from_a_path_with_dots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "policy", {"intents/a.yaml": match("one", "comm: a", "demote: idle")})
    (tmp_path / "policy/tierc.yaml").unlink()
    write(tmp_path / "elsewhere", {})
    monkeypatch.chdir(tmp_path / "elsewhere")
    place = locate([Path("../policy/intents/a.yaml")])
    assert place.root == tmp_path / "policy/intents"
    assert [i.name for i in load(place, Sink()).intents] == ["one"]


@pytest.mark.parametrize("version", ["0.8.0", "0.10.0"])
def test_an_engine_without_titles_can_be_protected_by_what_it_lives_in(
    tmp_path: Path, version: str
) -> None:
    # before 0.10.1 every child looks like the API server, the data-parallel coordinator too
    body = f'workload: {{engine: vllm, version: "{version}"}}\nprotect: [decode, ttft]'
    compilation, findings = build(tmp_path, intent("chat", body))
    assert not errors(findings)
    answer = ask(compilation, comm="vllm", leader_comm="x", cgroup="x", cmdline="x")
    assert answer.winner is not None
    assert answer.winner.tier == "latency"


def test_a_profile_cannot_define_the_nodes_stages(tmp_path: Path) -> None:
    profile = """\
apiVersion: tierc.dev/v1alpha1
kind: EngineProfile
metadata: {name: mine}
spec:
  known: ["1.0", "2.0"]
  paths: {decode: [gpu-driver]}
  stages:
    gpu-driver: {match: [{kthread: x, evidence: tried}]}
"""
    one = intent("one", 'workload: {engine: mine, version: "1.0"}\nprotect: decode')
    _, findings = build(tmp_path, profile, one)
    assert any("belongs to the node" in f.message for f in errors(findings))


def test_a_users_profile_in_the_intents_file_does_not_move_findings(tmp_path: Path) -> None:
    profile = """\
apiVersion: tierc.dev/v1alpha1
kind: EngineProfile
metadata: {name: vllm}
spec:
  known: ["1.0", "2.0"]
  paths: {decode: [engine-step]}
  stages:
    engine-step: {match: [{comm: mine, evidence: tried}]}
"""
    body = 'workload: {{engine: vllm, version: "1.0"}}\nprotect: [{{path: decode, tier: {}}}]'
    _, findings = build(
        tmp_path,
        profile,
        intent("one", body.format("critical")),
        intent("two", body.format("latency")),
    )
    tie = only(findings, "TRC310")
    assert (tie.span.line, tie.related[0].span.line) == (21, 14)


LADDER = """\
apiVersion: tierc.dev/v1alpha1
kind: TierLadder
metadata: {name: mine}
spec:
  tiers:
    - {name: latency, slice: 2ms, weight: 1000}
    - {name: system, slice: 3ms, weight: 400}
    - {name: normal, slice: 5ms, weight: 100}
    - {name: background, slice: 20ms, weight: 10}
    - {name: scrap, slice: 20ms, weight: 1}
"""


def test_a_ladder_of_other_tiers_serves_every_verb(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        LADDER,
        intent("chat", 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode'),
        intent("infra", "workload: {group: node-infra}\nkeep: system"),
        match("low", "comm: a", "demote: scrap"),
    )
    assert not errors(findings)
    plan = plan_of(compilation)
    assert [tier.name for tier in plan.tiers][plan.bands[plan.default_band].tier] == "normal"
    answer = ask(compilation, comm="a", leader_comm="a", cgroup="x", cmdline="x")
    assert answer.winner is not None
    assert answer.winner.tier == "scrap"
    _, findings = build(
        tmp_path, LADDER, intent("infra", "workload: {group: node-infra}\nkeep: scrap")
    )
    assert only(findings, "TRC304").message.startswith("node software cannot go below background")


@pytest.mark.parametrize(
    "documents",
    [
        (),
        (intent("a", "nodes: {names: [other]}\nworkload: {engine: vllm}\nprotect: decode"),),
        (intent("node", 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode'),),
        (intent("a", 'workload: {match: [{kthread: x}], cgroup: "a/**"}\nlane: {cores: 1}'),),
        (intent("a", 'workload: {engine: vllm, cgroup: "@pods/**"}\nlane: {cores: 1}'),),
    ],
)
def test_odd_policies_have_an_answer(tmp_path: Path, documents: tuple[str, ...]) -> None:
    compilation, findings = build(tmp_path, *documents)
    (group,) = compilation.classes
    assert (group.plan is None) == bool(errors(findings))
