"""A target for the cluster that says what it was given; put in place of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from compiler.artifact import Artifact, canonical_json
from compiler.diagnostics import Severity
from compiler.fleet import ClusterOptions, Fleet, Problem
from compiler.registry import CLUSTER_TARGETS

PROJECT = """\
apiVersion: tierc.dev/v1alpha1
kind: Project
spec:
  enforce: [{mode: fallback}]
  onUnplaceable: quarantine
  targets: {taskset: {}, kubernetes: {}}
"""


@dataclass
class FakeTarget:
    """Writes a file a class and one for all; refuses what the test says."""

    name: str = "kubernetes"
    refuse: str = ""
    empty: bool = False

    def problems(self, fleet: Fleet, options: ClusterOptions) -> Sequence[Problem]:
        if not self.refuse:
            return []
        route = ("spec", "targets", "kubernetes")
        return [Problem(route, self.refuse, "change it", Severity.ERROR)]

    def emit(self, fleet: Fleet, options: ClusterOptions) -> Sequence[Artifact]:
        out = [Artifact("cluster/common.yaml", b"common\n")]
        for one in fleet.classes:
            said = {
                "nodes": list(one.nodes),
                "files": {file.path: len(file.data) for file in one.files},
                "fingerprint": one.plan.fingerprint,
            }
            out.append(Artifact(f"cluster/class-{one.name}.yaml", canonical_json(said)))
        return out

    def stream(self, artifacts: Sequence[Artifact]) -> bytes:
        return b"" if self.empty else b"---\n".join(a.data for a in artifacts)


TARGET = FakeTarget()


def install(monkeypatch: pytest.MonkeyPatch) -> FakeTarget:
    """Put a fresh fake in place of ``kubernetes``."""
    monkeypatch.setitem(CLUSTER_TARGETS, "kubernetes", "tests.cluster_fake:TARGET")
    fake = FakeTarget()
    monkeypatch.setattr("tests.cluster_fake.TARGET", fake)
    return fake
