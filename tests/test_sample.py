"""The sample that documents the language, with two engines and the groups: no false conflict."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from compiler.resolve.conditions import condition_meets
from tests.policies import BOX, HEAD, compiled, linted, write

SAMPLE = f"""\
{HEAD}kind: Intent
metadata: {{name: chat, labels: {{team: inference}}}}
spec:
  nodes:
    matchLabels: {{accelerator: gb10}}
    matchExpressions: [{{key: zone, operator: In, values: [a, b]}}]
    names: [box]
  workload:
    engine: vllm
    version: "0.24.0"
    tensorParallel: 1
    instances: 1
    traffic: steady
    gpus: allocated
    cgroup: "@pods/**"
  protect: [decode, {{path: ttft, tier: interactive}}]
  prefer: [gpu-local, performance]
  require: []
  lane: {{name: serving, cores: {{min: 2, max: 6}}, share: guarded}}
  above: [embeddings]
  irqs: lane
  knobs: auto
  precedence: 0
---
{HEAD}kind: Intent
metadata: {{name: batch}}
spec:
  workload:
    match:
    - {{comm: "stress-ng*"}}
    - {{cgroup: "ci.slice/**"}}
  demote: background
  prefer: [leftovers]
---
{HEAD}kind: Intent
metadata: {{name: node-infra}}
spec: {{workload: {{group: node-infra}}, keep: system}}
---
{HEAD}kind: Intent
metadata: {{name: embeddings}}
spec:
  workload: {{engine: sglang, version: "0.5.6", cgroup: "@pods/**"}}
  protect: decode
---
{HEAD}kind: Intent
metadata: {{name: watch}}
spec: {{workload: {{group: observability}}, demote: background}}
---
{HEAD}kind: Intent
metadata: {{name: builds}}
spec: {{workload: {{group: batch}}, demote: background}}
"""
NODE = BOX.replace("labels: {pool: small}", "labels: {accelerator: gb10, zone: a}") + (
    "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
)


def test_the_sample_lints_without_an_error_or_a_conflict(tmp_path: Path) -> None:
    files = {"intents/all.yaml": SAMPLE, "nodes/box.yaml": NODE}
    compilation, findings = linted(write(tmp_path, files))
    assert not [f for f in findings if f.severity.label == "error"], findings
    assert not [f for f in findings if f.code in ("TRC310", "TRC311", "TRC206", "TRC228")]
    plan = compilation.classes[0].plan
    assert plan is not None
    assert {unit.intent for unit in plan.units} == {
        "chat", "batch", "node-infra", "embeddings", "watch", "builds", None,
    }  # fmt: skip


def test_a_naive_reading_would_report_many_pairs(tmp_path: Path) -> None:
    # Two units conflict, naively, when some thread could be both and their tiers differ: a name on
    # one side and a cgroup on the other always could.  The test above is worth something only
    # because there are many such pairs.
    files = {"intents/all.yaml": SAMPLE, "nodes/box.yaml": NODE}
    compilation, _ = compiled(write(tmp_path, files))
    resolution = compilation.classes[0].resolution
    conditions = {
        unit.name: [m.condition for m in unit.draft.matchers] for unit in resolution.units
    }
    tiers = {unit.name: unit.tier for unit in resolution.units}
    naive = {
        (a, b)
        for a, b in combinations(sorted(conditions), 2)
        if tiers[a] != tiers[b]
        and any(condition_meets(x, y) for x in conditions[a] for y in conditions[b])
    }
    assert len(naive) >= 10
    assert ("batch", "node-infra") in naive  # ci.slice/** and sshd
    assert ("batch", "chat/engine-step") not in naive  # other names, other cgroups
