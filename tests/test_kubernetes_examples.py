"""The kubernetes target over the examples: every object of every one is what a cluster takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compiler.diagnostics import Sink
from compiler.emission import emit
from compiler.model.cluster import KubernetesOptions, Rollout, RolloutStep
from compiler.model.project import IrqOptions
from compiler.pipeline import compile_policy
from compiler.project import Place, load
from targets.kubernetes import TARGET
from tests.conftest import ROOT
from tests.kube_fleets import Object, of_kind, read, tree, unpack
from tests.test_kubernetes_objects import VERSIONS, validator

EXAMPLES = sorted(
    path.parent.name
    for path in ROOT.glob("examples/*/tierc.yaml")
    if path.parent.name != "conflicts"
)


def built(name: str) -> tuple[dict[str, tuple[bytes, int]], list[Object]]:
    """Return the tree of an example built for Kubernetes too, and the objects of its stream."""
    sink = Sink()
    policy = load(Place(ROOT / "examples" / name), sink)
    spec = policy.project.spec
    targets = spec.targets.model_copy(
        update={"kubernetes": KubernetesOptions(), "irq": IrqOptions()}
    )
    steps = (RolloutStep(names=(policy.nodes[0].name,)), "all")
    spec = spec.model_copy(update={"targets": targets, "rollout": Rollout(steps=steps)})
    project = policy.project.model_copy(update={"spec": spec})
    compilation = compile_policy(replace(policy, project=project), sink)
    artifacts = emit(compilation)
    cluster = [file for file in artifacts if file.path.startswith("cluster/")]
    assert cluster, [d.message for d in sink]
    return {f.path: (f.data, f.mode) for f in artifacts}, read(TARGET.stream(cluster))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example(name: str, tmp_path: Path) -> None:
    files, found = built(name)
    planned = {path.split("/")[1] for path in files if path.startswith("nodes/")}
    seen = []
    for daemon in of_kind("DaemonSet", found):
        pod = daemon["spec"]["template"]["spec"]
        terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        where = unpack("plan", daemon, found, tmp_path / daemon["metadata"]["name"])
        for term in terms["nodeSelectorTerms"]:
            (node,) = term["matchFields"][0]["values"]
            seen.append(node)
            own = {
                path.removeprefix(f"nodes/{node}/"): file
                for path, file in files.items()
                if path.startswith(f"nodes/{node}/")
            }
            assert tree(where / "node") == own
    assert sorted(seen) == sorted(planned)
    validate = validator()
    for version in VERSIONS:
        for one in found:
            validate(one, version, strict=True)
    assert json.dumps(found) == json.dumps(built(name)[1])
