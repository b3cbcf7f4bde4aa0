"""Policies of the lab: intents compiled by tierc for a guest, from facts read in that guest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COLLECT: Final = ROOT / "compiler" / "facts" / "daemonset" / "collect.sh"


def project(mode: str = "sched_ext", targets: str = "taskset: {}, bpf: {}") -> str:
    """Return the project, the first document of a policy."""
    return f"""\
apiVersion: tierc.dev/v1alpha1
kind: Project
metadata: {{name: lab}}
spec:
  sources: {{intents: [intents/], nodes: [nodes/]}}
  enforce: [{{mode: {mode}}}]
  targets: {{{targets}}}
"""


def intent(name: str, workload: str, *effects: str) -> str:
    """Return an intent as one more document of a policy."""
    lines = "".join(f"  {effect}\n" for effect in effects)
    return f"""\
---
apiVersion: tierc.dev/v1alpha1
kind: Intent
metadata: {{name: {name}}}
spec:
  workload: {workload}
{lines}"""


ENGINE: Final = '{match: [{comm: "VLLM::EngineCor"}]}'
BATCH: Final = intent("batch", '{match: [{comm: "hog*"}]}', "demote: background")

FACTS_SCRIPT: Final = b"NODE_NAME=guest TIERC_ROOT=/ sh /lab/collect.sh\n"


class PolicyFailed(Exception):
    """tierc did not compile a policy; the message holds what it printed."""


def facts_files() -> dict[str, bytes]:
    """Return what a guest needs to print its facts."""
    return {"run.sh": FACTS_SCRIPT, "collect.sh": COLLECT.read_bytes()}


def build(console: str, documents: str, directory: Path) -> Path:
    """Compile intents for the guest that printed its facts; return the node's directory.

    Args:
        console: what the guest printed.
        documents: YAML documents of the project and its intents.
        directory: an empty one to work in.

    Raises:
        PolicyFailed: tierc ended with an error.
    """
    log = directory / "facts.log"
    log.write_text("".join(f"{line}\n" for line in console.splitlines() if "tierc-facts" in line))
    (directory / "nodes").mkdir()
    _tierc("facts", "import", str(log), "-o", str(directory / "nodes"))
    project, intents = documents.split("\n---\n", 1)
    (directory / "tierc.yaml").write_text(project + "\n")
    (directory / "intents").mkdir()
    (directory / "intents" / "lab.yaml").write_text(intents)
    out = directory / "out"
    _tierc("build", str(directory), "-o", str(out))
    return out / "nodes" / "guest"


def _tierc(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "compiler", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PolicyFailed(f"tierc {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
