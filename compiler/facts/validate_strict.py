"""Checks for facts that somebody relies on: what placement would need and is not known."""

from __future__ import annotations

from dataclasses import replace

from compiler.codes import facts as codes
from compiler.cpuset import union
from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic, Severity, Sink
from compiler.facts.validate import validate
from compiler.model.facts import NodeFacts
from compiler.topology import topology_of
from compiler.words import listed


def validate_strict(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    """Report what is wrong, doubtful or unknown in one node's facts, each at its own line.

    All that :func:`compiler.facts.validate.validate` reports, and more.  An unknown place of a
    network device is a warning here.
    """
    own = Sink()
    validate(loaded, own)
    sink.extend(own.map(_raised))
    _arch(loaded, sink)
    _numa(loaded, sink)
    _devices(loaded, sink)
    _kernel(loaded, sink)
    _allowed(loaded, sink)


def _raised(found: Diagnostic) -> Diagnostic:
    if found.code == codes.LOCALITY_UNKNOWN.id and found.severity < Severity.WARNING:
        return replace(found, severity=Severity.WARNING)
    return found


def _arch(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    if loaded.model.spec.arch is None:
        sink.add(
            codes.ARCH_UNKNOWN.at(
                loaded.key_span("spec"),
                "the architecture is not known",
                help="add arch: what uname -m prints on the node",
            )
        )


def _numa(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    strays = union(group.cpus for group in spec.cores if group.numa is None)
    if not spec.numa:
        said = "no NUMA node is known"
    elif strays:
        said = f"the NUMA node of CPU {strays} is not known"
    else:
        return
    where = next(i for i, group in enumerate(spec.cores) if group.numa is None)
    sink.add(
        codes.NUMA_UNKNOWN.at(
            loaded.span("spec", "cores", where),
            said,
            help="collect the facts on the node, or add numa and name it in cores",
        )
    )


def _devices(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    views = {view.id: view for view in topology_of(loaded.model).devices}
    for index, device in enumerate(spec.devices):
        view = views[device.id]
        if device.parent is not None or not view.cpus:
            continue  # what is not known at all is TRC605's
        if view.confidence == "measured":
            continue
        how = f"is {view.confidence}" if view.confidence != "unknown" else "has no known origin"
        whole = view.cpus == spec.cpus.online
        sink.add(
            codes.LOCALITY_UNCERTAIN.at(
                loaded.span("spec", "devices", index, "id"),
                f"that CPU {view.cpus} is near {device.id} {how}",
                help="collect the facts on the node, or confirm it under overrides.devices",
                severity=Severity.INFO if whole else None,
            )
        )


def _kernel(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    kernel = loaded.model.spec.kernel
    unknown = [
        name
        for name, value in (
            ("release", kernel.release),
            ("preemptRt", kernel.preempt_rt),
            ("schedExt", kernel.sched_ext),
            ("cgroup", kernel.cgroup),
        )
        if value is None
    ]
    if unknown:
        route = ("spec", "kernel") if "kernel" in loaded.model.spec.model_fields_set else ("spec",)
        sink.add(
            codes.KERNEL_UNKNOWN.at(
                loaded.key_span(*route),
                f"of the kernel {listed(unknown)} {'is' if len(unknown) == 1 else 'are'} not known",
                help="collect the facts on the node, or add them under kernel",
            )
        )


def _allowed(loaded: Loaded[NodeFacts], sink: Sink) -> None:
    spec = loaded.model.spec
    if spec.cpus.allowed is None and spec.overrides.allowed is None:
        sink.add(
            codes.ALLOWED_UNKNOWN.at(
                loaded.key_span("spec", "cpus"),
                "allowed is not given, so all online CPUs are taken as allowed",
                help="if something else owns CPUs of the node, set overrides.allowed",
            )
        )
