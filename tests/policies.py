"""Writing small policy repositories and compiling them, through the public doors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from compiler.diagnostics import Diagnostic, Sink
from compiler.lint import judge, run_rules
from compiler.pipeline import Compilation, compile_policy
from compiler.project import Place, load

HEAD = "apiVersion: tierc.dev/v1alpha1\n"

BOX = (
    HEAD
    + """\
kind: NodeFacts
metadata: {name: box, labels: {pool: small}}
spec:
  arch: x86_64
  cpus: {online: 0-15, isolated: ""}
  cores:
    - {cpus: 0-15, smt: [0-7, 8-15], llc: 0, numa: 0, kind: standard}
  llcs: [{id: 0, level: 3, cpus: 0-15}]
  numa: [{id: 0, cpus: 0-15, role: cpu}]
  devices:
    - id: gpu0
      type: gpu
      bdf: "0000:01:00.0"
      model: NVIDIA RTX 6000 Ada
      numa: 0
      locality: {cpus: 0-15, scope: numa, confidence: measured}
  kernel:
    release: 6.17.0
    preemptRt: false
    btf: true
    schedExt: {supported: true, state: disabled}
    cgroup: v2
"""
)
"""8 cores with two threads each, one L3, one GPU near all of them."""

PROJECT = (
    HEAD
    + """\
kind: Project
spec:
  enforce: [{mode: fallback}]
"""
)


def intent(name: str, body: str) -> str:
    """Return an Intent document; ``body`` is the indented text of ``spec``."""
    text = dedent(body).strip("\n")
    lines = "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())
    return f"{HEAD}kind: Intent\nmetadata: {{name: {name}}}\nspec:\n{lines}"


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below ``root``; a project file and one node are there unless given."""
    everything = {"tierc.yaml": PROJECT, "nodes/box.yaml": BOX, **files}
    for name, text in everything.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def compiled(root: Path) -> tuple[Compilation, tuple[Diagnostic, ...]]:
    """Compile a repository; return it and the findings of the passes (not of the rules)."""
    sink = Sink()
    compilation = compile_policy(load(Place(root), sink), sink)
    return compilation, sink.sorted()


def linted(root: Path) -> tuple[Compilation, tuple[Diagnostic, ...]]:
    """Compile a repository, run the rules and judge; return it and all findings."""
    sink = Sink()
    policy = load(Place(root), sink)
    compilation = compile_policy(policy, sink)
    run_rules(compilation, sink)
    return compilation, judge(sink, policy, policy.files).findings


def codes(findings: tuple[Diagnostic, ...]) -> list[str]:
    """Return the codes of findings, in report order."""
    return [finding.code for finding in findings]
