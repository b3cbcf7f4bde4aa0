"""Real machines: every node that the corpus of topologies describes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random

from compiler.facts.importing import Source, by_node, merge_node
from compiler.facts.partial import ReadError
from compiler.facts.sniff import read_path
from compiler.facts.table import CpuRow
from compiler.model.facts import NodeFacts
from tests.pair_machines import Draft, add_gpus, given, overlaid


@cache
def corpus_machines(corpus: Path, largest: int | None = None) -> tuple[tuple[str, NodeFacts], ...]:
    """Return every node that ``tierc facts import`` makes of the corpus, with its files.

    Files that share the beginning of their names, up to the first dot, are also read together.

    Args:
        corpus: the directory.
        largest: bytes above which a file is left out; unpacking the largest takes seconds each.
    """
    files = [
        path
        for path in sorted(corpus.rglob("*"))
        if path.is_file() and (largest is None or path.stat().st_size <= largest)
    ]
    sources: dict[Path, Source] = {}
    for path in files:
        try:
            readings = read_path(path, path.name)
        except ReadError:
            continue
        sources[path] = Source(path.name, tuple(p for one in readings for p in one.partials))
    groups = [[path] for path in sources]
    stems = groupby(sources, key=lambda path: (path.parent, path.name.split(".")[0]))
    groups += [found for _, paths in stems if len(found := list(paths)) > 1]
    out = []
    for group in groups:
        label = "+".join(path.relative_to(corpus).as_posix() for path in group)
        try:
            nodes = by_node([sources[path] for path in group], name=None)
            for node, mine in nodes.items():
                out.append((label, merge_node(node, mine, fallback="m").facts))
        except ReadError:
            continue
    return tuple(out)


def from_corpus(rng: Random, machines: Sequence[tuple[str, NodeFacts]]) -> NodeFacts:
    """Return a real machine; mostly with GPUs where its file knew of none, and with a kubelet."""
    _, facts = rng.choice(machines)
    spec = facts.spec
    if rng.random() < 0.25:
        return _named(facts)
    if not any(device.type == "gpu" for device in spec.devices) and rng.random() < 0.8:
        draft = Draft(
            cores=[],
            nodes={node.id: node.cpus & spec.cpus.online for node in spec.numa},
            caches={llc.id: live for llc in spec.llcs if (live := llc.cpus & spec.cpus.online)},
        )
        draft.cores = [
            CpuRow(cpu=core.lowest, core=core) for group in spec.cores for core in group.cores()
        ]
        add_gpus(rng, draft)
        taken = {device.id for device in spec.devices}
        if taken.isdisjoint(row["id"] for row in draft.devices):
            more = given(spec)
            more["devices"] = (*more.get("devices", ()), *draft.devices)
            spec = spec.model_validate(more)
            facts = facts.model_copy(update={"spec": spec})
    return overlaid(rng, facts)


def _named(facts: NodeFacts) -> NodeFacts:
    return facts.model_copy(update={"metadata": facts.metadata.model_copy(update={"name": "m"})})
