"""Several sources of one node -> its facts, with a word for every disagreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.facts.compress import compress
from compiler.facts.merge.cpus import merge_cpus
from compiler.facts.merge.devices import gpu_memory_nodes, merge_devices
from compiler.facts.merge.log import Disagreement, Log, Remark
from compiler.facts.merge.name import node_name
from compiler.facts.merge.numa import merge_numa
from compiler.facts.merge.online import merge_masks, merge_online
from compiler.facts.merge.order import choose, ranked
from compiler.facts.merge.overrides import merge_overrides
from compiler.facts.merge.records import (
    merge_kernel,
    merge_kubelet,
    merge_labels,
    merge_virtualization,
)
from compiler.facts.merge.two import TwoMachines, two_machines
from compiler.facts.partial import Partial
from compiler.model.base import API_VERSION, NodeMetadata
from compiler.model.facts import FactsSpec, NodeFacts

__all__ = ["Disagreement", "Merged", "Remark", "merge"]


@dataclass(frozen=True, slots=True)
class Merged:
    """The facts of one node, and what has to be said about how they came to be.

    Attributes:
        facts: the facts; ``spec.warnings`` repeats the rest as text.
        disagreements: sources that contradict each other, with the winner.
        remarks: what was odd in a source or not believed.
        two: sources that look like two machines; to be said before anything else.
    """

    facts: NodeFacts
    disagreements: tuple[Disagreement, ...]
    remarks: tuple[Remark, ...]
    two: TwoMachines | None = None


def merge(partials: Sequence[Partial], *, name: str | None) -> Merged:
    """Return what several sources say of one node, as one.

    Each fact comes from the most trusted source that knows it (the order of
    :data:`~compiler.facts.partial.READERS`, then file names); a source that contradicts it is a
    disagreement.  The order of ``partials`` changes nothing.  CPU sets are cut to the online
    CPUs, and caches are numbered by their lowest CPU.

    Args:
        partials: what the sources say.
        name: the node's name; None takes the one that the sources give.

    Raises:
        ReadError: no source says which CPUs are online or which of them form a core, or there is
            no usable name.
    """
    log = Log()
    order = ranked(partials)
    two = two_machines(order)
    if two is not None:
        log.two_machines(two.one, two.other, two.message)
    for partial in order:
        log.notes(partial)
    online = merge_online(log, order)
    cpus = merge_masks(log, order, online)
    numa = merge_numa(log, order, online, gpu_memory_nodes(order))
    table = merge_cpus(log, order, online, numa)
    node = node_name(order, name)
    found = merge_devices(log, order, table, numa)
    arch = choose(log, order, "arch", lambda one: one.arch, family="arch")
    kernel, kubelet = merge_kernel(log, order), merge_kubelet(log, order)
    virtualization, labels = merge_virtualization(log, order), merge_labels(log, order)
    overrides = merge_overrides(log, order, found.devices)
    spec = FactsSpec(
        arch=arch,
        cpus=cpus,
        cores=compress(table.rows),
        kinds=table.kinds,
        llcs=table.llcs,
        numa=numa.nodes,
        devices=found.devices,
        links=found.links,
        kernel=kernel,
        kubelet=kubelet,
        virtualization=virtualization,
        overrides=overrides,
        sources=log.sources(),
        warnings=log.warnings(),
    )
    facts = NodeFacts(
        apiVersion=API_VERSION,
        kind="NodeFacts",
        metadata=NodeMetadata(name=node, labels=labels),
        spec=spec,
    )
    return Merged(facts, tuple(log.disagreements), tuple(log.remarks), two)
