"""Whatever people write, and whatever machine they have: an answer, and a safe plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.diagnostics import Severity
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from compiler.pipeline import emit
from compiler.yamlout import dump
from tests.machines import WORDS, machines, random_machine
from tests.policies import linted, write

INTERNAL = {"TRC900", "TRC920"}
"""Findings that are a fault of the compiler."""

COMMS = ("a", "a*", "ab*", "?b", "*", "vllm", "VLLM::Worker*", "sshd", "stress-ng*", "kubelet")
CGROUPS = ("ci.slice/**", "system.slice/**", "system.slice/x.service", "**/x/**", "a*/b")
TIERS = ("critical", "latency", "interactive", "system", "normal", "background", "idle")
PATHS = ("decode", "ttft", "prefill", "stream", "all")


def random_intent(rng: Random, name: str) -> dict[str, Any]:
    """Make an intent that is at least well-formed; most make sense."""
    spec: dict[str, Any] = {}
    match rng.choice(["engine", "engine", "group", "match", "match"]):
        case "engine":
            work: dict[str, Any] = {"engine": rng.choice(["vllm", "sglang"])}
            work["tensorParallel"] = rng.choice([1, 1, 2, 4])
            if rng.random() < 0.7:
                work["version"] = rng.choice(["0.24.0", "0.10.1", "0.9.0", "0.5.2"])
            if rng.random() < 0.5:
                work["cgroup"] = rng.choice(CGROUPS)
        case "group":
            work = {"group": rng.choice(["node-infra", "observability", "batch", "gpu-driver"])}
        case _:
            rows = []
            for _ in range(rng.randint(1, 3)):
                row = {}
                if rng.random() < 0.7:
                    row["comm"] = rng.choice(COMMS)
                if rng.random() < 0.3:
                    row["leaderComm"] = rng.choice(COMMS)
                if rng.random() < 0.4 or not row:
                    row["cgroup"] = rng.choice(CGROUPS)
                rows.append(row if rng.random() < 0.9 else {"kthread": rng.choice(COMMS)})
            work = {"match": rows}
    spec["workload"] = work
    verb = rng.choice(["protect", "protect", "demote", "keep", None])
    if verb == "protect":
        if "engine" in work and rng.random() < 0.8:
            items: list[Any] = list(rng.sample(PATHS, rng.randint(1, 2)))
            if rng.random() < 0.4:
                items[0] = {"path": items[0], "tier": rng.choice(TIERS[:3])}
            spec["protect"] = items
        else:
            spec["protect"] = "all"
    elif verb is not None:
        spec[verb] = rng.choice(TIERS[4:] if verb == "demote" else TIERS)
    words = rng.sample(WORDS, rng.choice([0, 0, 1, 2, 3]))
    hard = 1 if words and rng.random() < 0.2 else 0
    if words[:hard]:
        spec["require"] = words[:hard]
    if words[hard:]:
        spec["prefer"] = words[hard:]
    if rng.random() < 0.5:
        lane: dict[str, Any] = {"cores": rng.choice([1, 1, 2, {"min": 1, "max": 4}, "rest"])}
        if rng.random() < 0.3:
            lane["name"] = rng.choice(["x", "y"])
        if rng.random() < 0.4:
            lane["share"] = rng.choice(["open", "guarded", "exclusive"])
        spec["lane"] = lane
    if rng.random() < 0.3:
        spec["precedence"] = rng.randint(-1, 2)
    if rng.random() < 0.2:
        spec["above"] = [rng.choice(["i0", "i1", "i2"])]
    return {
        "apiVersion": "tierc.dev/v1alpha1",
        "kind": "Intent",
        "metadata": {"name": name},
        "spec": spec,
    }


def repository(root: Path, seed: int, facts: NodeFacts) -> Path:
    rng = Random(seed)
    documents = [random_intent(rng, f"i{i}") for i in range(rng.randint(1, 4))]
    project = {
        "apiVersion": "tierc.dev/v1alpha1",
        "kind": "Project",
        "spec": {
            "enforce": [{"mode": rng.choice(["observe", "fallback", "auto"])}],
            "targets": {"taskset": {}, "bpf": {}},
        },
    }
    files: Mapping[str, str] = {
        "tierc.yaml": dump(project),
        "intents/all.yaml": "---\n".join(dump(d) for d in documents),
        "nodes/box.yaml": facts_yaml(facts),
    }
    return write(root, files)


@settings(max_examples=120)
@given(seed=st.integers(0, 2**48), facts=machines(max_cores=9))
def test_every_accepted_plan_is_safe(
    tmp_path_factory: pytest.TempPathFactory, seed: int, facts: NodeFacts
) -> None:
    root = repository(tmp_path_factory.mktemp("p"), seed, facts)
    compilation, findings = linted(root)
    assert not [f for f in findings if f.code in INTERNAL], findings
    for finding in findings:
        assert finding.message
        assert finding.span.path
    (group,) = compilation.classes
    stopped = any(f.severity is Severity.ERROR for f in findings)
    if group.plan is None:
        assert stopped
        return
    assert not safety.check(group.plan)
    assert emit(compilation)


def test_the_random_policies_are_mostly_accepted_and_have_lanes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # The property above is worth something only when plans come out.

    planned = lanes = 0
    for seed in range(60):
        root = repository(tmp_path_factory.mktemp("p"), seed, random_machine(Random(seed), 9))
        compilation, _ = linted(root)
        plan = compilation.classes[0].plan
        planned += plan is not None
        lanes += bool(plan is not None and plan.lanes)
    assert planned >= 15
    assert lanes >= 8


@settings(max_examples=60)
@given(data=st.binary(max_size=400))
def test_arbitrary_bytes_give_findings_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    root = write(tmp_path_factory.mktemp("p"), {})
    (root / "intents").mkdir()
    (root / "intents/a.yaml").write_bytes(data)
    _, findings = linted(root)
    assert not [f for f in findings if f.code in INTERNAL]
