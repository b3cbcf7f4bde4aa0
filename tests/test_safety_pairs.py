"""Plans are safe whatever the machine and the intents: thousands of random pairs of the two.

Each pair is made from its seed alone; a failure names it and prints the documents.  With ``-rP``
pytest prints what became of the pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compiler import safety
from compiler.artifact import Artifact
from compiler.diagnostics import Diagnostic, Severity
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from compiler.pipeline import CompiledClass, emit
from compiler.yamlout import dump
from tests.pair_checks import problems
from tests.pair_corpus import corpus_machines, from_corpus
from tests.pair_intents import Written, shuffled, written
from tests.pair_machines import generated
from tests.pair_outputs import artifact_problems, node_software
from tests.pair_seen import Seen
from tests.policies import codes, compiled, write

CHUNK = 50
QUICK = {"generated": 350, "corpus": 150}
"""Pairs that every run of the tests tries."""
ALL = {"generated": 7_000, "corpus": 3_000}
"""Pairs that CI tries."""
SMALL_FILE = 60_000
"""Bytes up to which the quick set reads files of the corpus."""

Machine = Callable[[Random], NodeFacts]


def chunks(kind: str) -> list[Any]:
    """Return the first seeds of chunks, those beyond the quick set marked slow."""
    return [
        pytest.param(first, marks=[] if first < QUICK[kind] else [pytest.mark.slow])
        for first in range(0, ALL[kind], CHUNK)
    ]


@dataclass
class Tally:
    """What became of a number of pairs."""

    planned: int = 0
    lanes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass
class Pair:
    """A machine and a policy, compiled."""

    facts: NodeFacts
    policy: Written
    files: dict[str, str]
    group: CompiledClass
    findings: tuple[Diagnostic, ...]
    artifacts: list[Artifact]


def compile_pair(
    root: Path, facts: NodeFacts, policy: Written, order: Sequence[dict[str, Any]]
) -> Pair:
    """Write documents in an order and compile them, through the public doors."""
    cut = len(order) // 2
    files = {
        "tierc.yaml": dump(policy.project),
        "intents/a.yaml": "---\n".join(map(dump, order[:cut])) or "# nothing yet\n",
        "intents/b.yaml": "---\n".join(map(dump, order[cut:])),
        "nodes/box.yaml": facts_yaml(facts),
    }
    compilation, findings = compiled(write(root, files))
    (group,) = compilation.classes
    return Pair(facts, policy, files, group, findings, emit(compilation))


def wrong(pair: Pair) -> list[str]:
    """Return everything that is wrong with what became of a pair."""
    out = _answer(pair)
    plan = pair.group.plan
    if plan is None:
        return out + [f"nothing is planned and {one.path} is written" for one in pair.artifacts]
    out += [f"safety: {one.message}" for one in safety.check(plan)]
    out += problems(pair.facts, pair.policy.documents, pair.policy.project, plan)
    out += artifact_problems(Seen(pair.facts).online, plan, pair.artifacts)
    for name, view in pair.group.views.items():
        out += [f"target {name}: {text}" for text in node_software(view)]
        if not any(one.path.split("/")[2] == name for one in pair.artifacts):
            out.append(f"target {name} is not emitted")
    messages = [one.message for one in pair.findings]
    out += [
        f"not reported: {row.message}"
        for row in plan.degradations
        if not any(row.message in message for message in messages)
        # said of each node, at its facts, and not of its class once more
        and not (row.kind == "reservation-unknown" and "TRC609" in codes(pair.findings))
    ]
    return out


def _answer(pair: Pair) -> list[str]:
    """Check that there is a plan or an error, and that findings have a place and a text."""
    out = []
    for one in pair.findings:
        if one.code in ("TRC900", "TRC920"):
            out.append(f"a fault of the compiler: {one.message}")
        lines = pair.files.get(one.span.path, "").count("\n")
        if not one.message or not 1 <= one.span.line <= lines:
            out.append(f"{one.code} at {one.span}: {one.message!r}")
    stopped = any(one.severity is Severity.ERROR or one.code == "TRC401" for one in pair.findings)
    if (pair.group.plan is None) != stopped:
        out.append(f"plan: {pair.group.plan is not None}, errors: {stopped}")
    return out


def run(root: Path, name: str, first: int, machine: Machine) -> Tally:
    """Compile and check a chunk of pairs."""
    tally = Tally()
    for seed in range(first, first + CHUNK):
        rng = Random(f"{name} {seed}")
        facts = machine(rng)
        policy = written(rng, facts)
        pair = compile_pair(root / str(seed), facts, policy, policy.documents)
        found = wrong(pair)
        if not found and seed % 10 == 0:
            order = shuffled(rng, policy.documents)
            other = compile_pair(root / f"{seed}-shuffled", facts, policy, order)
            if other.group.plan != pair.group.plan or other.artifacts != pair.artifacts:
                found.append("another order of documents makes another plan")
        if found:
            text = "\n".join(f"--- {path}\n{data}" for path, data in sorted(pair.files.items()))
            pytest.fail(f"{name} {seed}:\n" + "\n".join(found) + f"\n{text}", pytrace=False)
        _count(tally, pair)
    print(f"{name} {first}: {tally}")
    return tally


def _count(tally: Tally, pair: Pair) -> None:
    plan = pair.group.plan
    if plan is None:
        tally.refused.update(
            {one.code for one in pair.findings if one.severity is Severity.ERROR} or {"TRC401"}
        )
        return
    tally.planned += 1
    tally.lanes += bool(plan.lanes)
    tally.kinds.update([f"mode {plan.mode}", *(f"target {name}" for name in pair.group.views)])
    tally.kinds.update(f"share {lane.share}" for lane in plan.lanes)
    tally.kinds.update({"family" for lane in plan.lanes if lane.family is not None})
    tally.kinds.update({"isolated" for lane in plan.lanes if lane.isolated})
    tally.kinds.update({row.kind for row in plan.degradations})


@pytest.mark.parametrize("first", chunks("generated"))
def test_plans_for_generated_machines_are_safe(tmp_path: Path, first: int) -> None:
    tally = run(tmp_path, "generated", first, generated)
    assert tally.planned >= 0.3 * CHUNK  # about 60 %; refusals alone would prove nothing
    assert tally.lanes >= 0.2 * CHUNK


@pytest.mark.parametrize("first", chunks("corpus"))
def test_plans_for_real_machines_are_safe(tmp_path: Path, first: int, shared: Path) -> None:
    largest = SMALL_FILE if first < QUICK["corpus"] else None
    machines = corpus_machines(shared / "corpus" / "topology", largest)
    tally = run(tmp_path, "corpus", first, lambda rng: from_corpus(rng, machines))
    assert tally.planned >= 0.3 * CHUNK
    assert tally.lanes >= 0.2 * CHUNK
