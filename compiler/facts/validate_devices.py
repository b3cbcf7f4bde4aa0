"""Checks of a node's devices and of the overrides that name them."""

from __future__ import annotations

from compiler.codes import facts as codes
from compiler.cpuset import CpuSet
from compiler.decode import Loaded
from compiler.diagnostics import Related, Severity, Sink
from compiler.model.facts import Device, FactsSpec, NodeFacts
from compiler.suggest import nearest


def check_devices(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    """Report devices that exist twice or whose place is unknown or contradictory."""
    spec = loaded.model.spec
    known = {override.id for override in spec.overrides.devices}
    for index, device in enumerate(spec.devices):
        _node(loaded, spec, index, sink)
        if device.id not in known:
            _place(loaded, spec, index, sink)
    _twice(loaded, spec, sink)
    _overrides(loaded, spec, sink)


def _twice(loaded: Loaded[NodeFacts], spec: FactsSpec, sink: Sink) -> None:
    for name in ("bdf", "uuid"):
        firsts: dict[str, int] = {}
        for index, device in enumerate(spec.devices):
            value = getattr(device, name)
            # A part of a device has the address of the whole.
            if value is None or (name == "bdf" and device.parent is not None):
                continue
            first = firsts.setdefault(value, index)
            if first != index:
                sink.add(
                    codes.DUPLICATE_DEVICE.at(
                        loaded.span("spec", "devices", index, name),
                        f"{device.id} has the {name} {value} of {spec.devices[first].id}",
                        related=[
                            Related(loaded.span("spec", "devices", first, name), "first given here")
                        ],
                        help="remove one of the two devices",
                    )
                )


def _node(loaded: Loaded[NodeFacts], spec: FactsSpec, index: int, sink: Sink) -> None:
    device = spec.devices[index]
    if device.numa is None or any(node.id == device.numa for node in spec.numa):
        return
    sink.add(
        codes.UNKNOWN_NODE.at(
            loaded.span("spec", "devices", index, "numa"),
            f"{device.id} is on numa {device.numa}, which numa does not list",
            help=_nodes(spec),
        )
    )


def _nodes(spec: FactsSpec) -> str:
    ids = ", ".join(str(node.id) for node in spec.numa)
    return f"the node has numa {ids}" if ids else "the facts list no NUMA nodes; leave it out"


def _place(loaded: Loaded[NodeFacts], spec: FactsSpec, index: int, sink: Sink) -> None:
    device = spec.devices[index]
    near, online = device.locality.cpus, spec.cpus.online
    where = ("spec", "devices", index)
    if near is None:
        if device.parent is not None:
            return  # a part is where the whole is, which is reported itself
        node = next((n for n in spec.numa if n.id == device.numa), None)
        if node is not None and node.cpus:
            return  # the CPUs of its NUMA node are near it
        sink.add(
            codes.LOCALITY_UNKNOWN.at(
                loaded.span(*where, "id"),
                f"which CPUs are near {device.id} is not known",
                help="if you know it, add it under overrides.devices: "
                f"{{id: {device.id}, numa: {'N' if device.numa is None else device.numa}}}",
                severity=None if device.type == "gpu" else Severity.INFO,
            )
        )
        return
    if offline := near - online:
        rest = "" if near & online else "; none is left, so its locality is unknown"
        sink.add(
            codes.LOCAL_CPUS_OFFLINE.at(
                loaded.span(*where, "locality", "cpus"),
                f"CPU {offline} near {device.id} is not online{rest}",
                related=[Related(loaded.span("spec", "cpus", "online"), "online CPUs")],
                help="correct the list, or collect the facts again",
            )
        )
    own = _node_cpus(spec, device)
    if own and not (near & online) <= own:
        sink.add(
            codes.LOCALITY_CONTRADICTS.at(
                loaded.span(*where, "locality", "cpus"),
                f"{device.id} is on numa {device.numa} (CPUs {own}), but CPU "
                f"{(near & online) - own} counts as near it",
                related=[Related(loaded.span(*where, "numa"), "the node is named here")],
                help="correct the wrong one; the local CPUs count",
            )
        )


def _node_cpus(spec: FactsSpec, device: Device) -> CpuSet | None:
    return next((node.cpus for node in spec.numa if node.id == device.numa), None)


def _overrides(loaded: Loaded[NodeFacts], spec: FactsSpec, sink: Sink) -> None:
    ids = [device.id for device in spec.devices]
    nodes = {node.id for node in spec.numa}
    seen: dict[str, int] = {}
    for index, override in enumerate(spec.overrides.devices):
        where = ("spec", "overrides", "devices", index)
        if override.id not in ids:
            meant = nearest(override.id, ids)
            sink.add(
                codes.UNKNOWN_OVERRIDE.at(
                    loaded.span(*where, "id"),
                    f"overrides name {override.id}, which is none of the node's devices",
                    help=f"did you mean {meant[0]}?"
                    if meant
                    else (
                        f"the devices are {', '.join(ids)}" if ids else "the node has no devices"
                    ),
                )
            )
        elif override.id in seen:
            sink.add(
                codes.UNKNOWN_OVERRIDE.at(
                    loaded.span(*where, "id"),
                    f"overrides name {override.id} twice",
                    related=[
                        Related(
                            loaded.span(*where[:-1], seen[override.id], "id"), "first named here"
                        )
                    ],
                    help="put both corrections into one entry",
                )
            )
        elif override.numa is None and override.cpus is None:
            sink.add(
                codes.UNKNOWN_OVERRIDE.at(
                    loaded.span(*where, "id"),
                    f"the override of {override.id} says nothing",
                    help="give numa or cpus, or remove it",
                )
            )
        seen.setdefault(override.id, index)
        if override.numa is not None and override.numa not in nodes:
            sink.add(
                codes.UNKNOWN_NODE.at(
                    loaded.span(*where, "numa"),
                    f"the override of {override.id} names numa {override.numa}, which numa does "
                    "not list",
                    help=_nodes(spec),
                )
            )
        if override.cpus is not None and (offline := override.cpus - spec.cpus.online):
            sink.add(
                codes.LOCAL_CPUS_OFFLINE.at(
                    loaded.span(*where, "cpus"),
                    f"the override of {override.id} names CPU {offline}, which is not online",
                    related=[Related(loaded.span("spec", "cpus", "online"), "online CPUs")],
                    help="name online CPUs",
                )
            )
