"""Checks of node facts that concern several values at once.

The model refuses what has no meaning by itself (a CPU in two groups, an id twice, a name that
leads nowhere).  Here is what contradicts itself or leaves placement to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from compiler.codes import facts as codes
from compiler.cpuset import CpuSet, union
from compiler.decode import Loaded
from compiler.diagnostics import Related, Severity, Sink
from compiler.facts.validate_devices import check_devices
from compiler.model.facts import FactsSpec, Llc, NodeFacts, Numa
from compiler.topology import reservation_unknown

KUBELET_NODES: Final = 8
"""NUMA nodes that the kubelet's Topology Manager takes without ``max-allowable-numa-nodes``."""


def validate(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    """Report what is wrong or doubtful in one node's facts, each at its own line."""
    for check in _CHECKS:
        check(loaded, sink)
    check_devices(loaded, sink)


def _llcs(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    for second, first, both in _overlaps([llc.cpus for llc in spec.llcs]):
        sink.add(
            codes.LLC_OVERLAP.at(
                loaded.span("spec", "llcs", second, "cpus"),
                f"llc {spec.llcs[second].id} and llc {spec.llcs[first].id} both hold CPU {both}",
                related=[
                    Related(loaded.span("spec", "llcs", first, "cpus"), "the other cache is here")
                ],
                help="give each CPU to one last-level cache",
            )
        )
    unknown = union(group.cpus for group in spec.cores if group.llc is None)
    if unknown:
        where = next(i for i, group in enumerate(spec.cores) if group.llc is None)
        every = unknown == spec.cpus.online
        sink.add(
            codes.LLC_UNKNOWN.at(
                loaded.span("spec", "cores", where),
                "the last-level cache of "
                + ("every CPU" if every else f"CPU {unknown}")
                + " is not known",
                help="same-llc has no effect there",
            )
        )


def _numa(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    for second, first, both in _overlaps([node.cpus for node in spec.numa]):
        sink.add(
            codes.NUMA_OVERLAP.at(
                loaded.span("spec", "numa", second, "cpus"),
                f"numa {spec.numa[second].id} and numa {spec.numa[first].id} both hold CPU {both}",
                related=[
                    Related(loaded.span("spec", "numa", first, "cpus"), "the other node is here")
                ],
                help="check which node the CPUs belong to",
            )
        )
    for index, node in enumerate(spec.numa):
        if node.role == "cpu" and not node.cpus:
            said = f"numa {node.id} has the role cpu, but no CPUs"
        elif node.role in ("memory", "gpu-memory") and node.cpus:
            said = f"numa {node.id} has the role {node.role}, but the CPUs {node.cpus}"
        else:
            continue
        sink.add(
            codes.NODE_ROLE.at(
                loaded.span("spec", "numa", index, "role"),
                said,
                help="correct the role or leave it out",
            )
        )


def _groups(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    """Compare what groups say of their cache and node with what these say of their CPUs."""
    spec = loaded.model.spec
    llcs = {llc.id: llc for llc in spec.llcs}
    nodes = {node.id: node for node in spec.numa}
    for index, group in enumerate(spec.cores):
        for name, id_, known, code in (
            ("llc", group.llc, llcs, codes.GROUP_OUTSIDE_LLC),
            ("numa", group.numa, nodes, codes.GROUP_OUTSIDE_NUMA),
        ):
            place: Llc | Numa | None = known.get(id_) if id_ is not None else None
            if place is None or group.cpus <= place.cpus:
                continue
            at = [one.id for one in (spec.llcs if name == "llc" else spec.numa)].index(place.id)
            list_name = "llcs" if name == "llc" else "numa"
            sink.add(
                code.at(
                    loaded.span("spec", "cores", index, name),
                    f"cores {group.cpus} name {name} {id_}, which lacks CPU "
                    f"{group.cpus - place.cpus}",
                    related=[
                        Related(
                            loaded.span("spec", list_name, at, "cpus"),
                            f"{name} {id_} holds {place.cpus or 'no CPU'}",
                        )
                    ],
                    help="make the two agree",
                )
            )
    _strays(loaded, spec, sink)


def _strays(loaded: Loaded[NodeFacts], spec: FactsSpec, sink: Sink) -> None:
    """Report CPUs that a cache or node holds and whose group names none, or another one."""
    online = spec.cpus.online
    for index, llc in enumerate(spec.llcs):
        members = union(group.cpus for group in spec.cores if group.llc == llc.id)
        elsewhere = union(one.cpus for one in spec.llcs if one is not llc)
        if stray := (llc.cpus & online) - members - elsewhere:
            sink.add(
                codes.GROUP_OUTSIDE_LLC.at(
                    loaded.span("spec", "llcs", index, "cpus"),
                    f"llc {llc.id} holds CPU {stray}, whose cores do not name it",
                    help=f"write llc: {llc.id} in their group of cores",
                )
            )
    for index, node in enumerate(spec.numa):
        members = union(group.cpus for group in spec.cores if group.numa == node.id)
        elsewhere = union(one.cpus for one in spec.numa if one is not node)
        if stray := (node.cpus & online) - members - elsewhere:
            sink.add(
                codes.GROUP_OUTSIDE_NUMA.at(
                    loaded.span("spec", "numa", index, "cpus"),
                    f"numa {node.id} holds CPU {stray}, whose cores do not name it",
                    help=f"write numa: {node.id} in their group of cores",
                )
            )


def _masks(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    name = "possible" if spec.cpus.possible is not None else "online"
    bound = spec.cpus.possible if spec.cpus.possible is not None else spec.cpus.online
    kubelet, overrides = spec.kubelet, spec.overrides
    lists: list[tuple[tuple[str, ...], CpuSet | None]] = [
        (("cpus", "present"), spec.cpus.present),
        (("cpus", "isolated"), spec.cpus.isolated),
        (("cpus", "nohzFull"), spec.cpus.nohz_full),
        (("cpus", "allowed"), spec.cpus.allowed),
        (("kubelet", "reserved"), kubelet.reserved if kubelet else None),
        (("kubelet", "exclusive"), kubelet.exclusive if kubelet else None),
        (("overrides", "isolated"), overrides.isolated),
        (("overrides", "allowed"), overrides.allowed),
    ]
    for route, cpus in lists:
        if route == ("cpus", "present") and spec.cpus.possible is None:
            continue
        if cpus is not None and (outside := cpus - bound):
            sink.add(
                codes.MASK_OUTSIDE.at(
                    loaded.span("spec", *route),
                    f"{'.'.join(route)} names CPU {outside}, which is not among the {name} "
                    f"CPUs {bound}",
                    help="remove it; the machine does not have it",
                )
            )


def _usable(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    cpus, overrides = spec.cpus, spec.overrides
    allowed, isolated = cpus.allowed, cpus.isolated
    at_allowed, at_isolated = ("cpus", "allowed"), ("cpus", "isolated")
    if overrides.allowed is not None:
        allowed, at_allowed = overrides.allowed, ("overrides", "allowed")
    if overrides.isolated is not None:
        isolated, at_isolated = overrides.isolated, ("overrides", "isolated")
    left = cpus.online if allowed is None else cpus.online & allowed
    if not left:
        sink.add(
            codes.NOTHING_LEFT.at(
                loaded.span("spec", *at_allowed),
                f"{'.'.join(at_allowed)} ({allowed or 'empty'}) leaves none of the online CPUs "
                f"{cpus.online}",
                related=[Related(loaded.span("spec", "cpus", "online"), "online CPUs")],
                help="widen it or leave it out",
            )
        )
    elif isolated is not None and left <= isolated:
        sink.add(
            codes.NOTHING_LEFT.at(
                loaded.span("spec", *at_isolated),
                f"{'.'.join(at_isolated)} ({isolated}) covers every usable CPU {left}",
                help="leave CPUs for the system; isolated ones are used only where asked for",
            )
        )


def _kubelet(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    if reservation_unknown(loaded.model.spec):
        sink.add(
            codes.STATIC_WITHOUT_RESERVED.at(
                loaded.span("spec", "kubelet", "policy"),
                "the kubelet's policy is static, and which CPUs it reserves is not known: it may "
                "give any other to a container, also those of a lane",
                help="add kubelet.reserved, which reservedSystemCPUs or the kubelet's log says; or "
                "write in overrides.allowed which CPUs are tierc's",
            )
        )


def _nodes_of_kubelet(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    kubelet = spec.kubelet
    if kubelet is None or not kubelet.present or kubelet.topology_policy == "none":
        return
    if len(spec.numa) > KUBELET_NODES:
        sink.add(
            codes.TOO_MANY_NODES.at(
                loaded.key_span("spec", "numa"),
                f"the node has {len(spec.numa)} NUMA nodes, and the kubelet's Topology Manager "
                f"takes {KUBELET_NODES} unless it is told otherwise",
                related=[Related(loaded.key_span("spec", "kubelet"), "the kubelet is here")],
                help="set its option max-allowable-numa-nodes, or keep its policy at none",
            )
        )


def _warnings(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    warnings = loaded.model.spec.warnings
    if warnings:
        more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
        sink.add(
            codes.COLLECTOR_WARNINGS.at(
                loaded.key_span("spec", "warnings"),
                f"the collector warned: {warnings[0]}{more}",
                help="what a warning names is unknown in these facts",
                severity=Severity.INFO,
            )
        )


_CHECKS: Sequence[Callable[[Loaded[NodeFacts], Sink], None]] = (
    _llcs,
    _numa,
    _groups,
    _masks,
    _usable,
    _kubelet,
    _nodes_of_kubelet,
    _warnings,
)


def _overlaps(sets: Sequence[CpuSet]) -> Iterable[tuple[int, int, CpuSet]]:
    """Yield (later, earlier, shared CPUs) for sets that share CPUs."""
    for second, cpus in enumerate(sets):
        for first in range(second):
            if both := cpus & sets[first]:
                yield second, first, both
