"""What a picture of a machine says in words: its kernel, its kubelet, what is unknown."""

from __future__ import annotations

from compiler.facts.write import cpu_list
from compiler.model.facts import FactsSpec, Kernel, Kubelet, Virtualization
from compiler.topology import Topology
from compiler.words import counted


def summary(spec: FactsSpec, topology: Topology) -> tuple[tuple[str, str], ...]:
    """Return a word and a text for each line; a line says what of it is unknown."""
    return (
        ("machine", _machine(spec, topology)),
        *((("cores", _kinds(spec)),) if spec.kinds else ()),
        ("kernel", _kernel(spec.kernel)),
        ("sched_ext", _sched_ext(spec.kernel)),
        ("kubelet", _kubelet(spec.kubelet)),
        *((("runs in", said),) if (said := _virtual(spec.virtualization)) else ()),
    )


def _machine(spec: FactsSpec, topology: Topology) -> str:
    packages = {core.package for core in topology.cores} - {None}
    sizes = sorted({len(core.siblings) for core in topology.cores})
    smt = "" if sizes == [1] else f", {' or '.join(map(str, sizes))} per core"
    parts = [
        spec.arch or "arch unknown",
        counted(len(topology.cores), "core"),
        counted(len(topology.online), "CPU") + smt,
        counted(len(packages), "package") if packages else "packages unknown",
        counted(len(spec.numa), "NUMA node") if spec.numa else "NUMA unknown",
        counted(len(topology.llcs), "last-level cache")
        if topology.llcs
        else "last-level caches unknown",
    ]
    return ", ".join(parts)


def _kinds(spec: FactsSpec) -> str:
    said = []
    for row in spec.kinds:
        model = f" {row.model}" if row.model else ""
        said.append(f"{row.name}{model} ({row.evidence})")
    return ", ".join(said)


def _kernel(kernel: Kernel) -> str:
    rt = {True: "PREEMPT_RT", False: None, None: "PREEMPT_RT unknown"}[kernel.preempt_rt]
    parts = [
        kernel.release or "release unknown",
        rt,
        f"cgroup {kernel.cgroup or 'unknown'}",
        kernel.cmdline or None,
    ]
    return ", ".join(part for part in parts if part is not None)


def _sched_ext(kernel: Kernel) -> str:
    ext = kernel.sched_ext
    if ext is None:
        return "unknown"
    if not ext.supported:
        return "not in this kernel"
    return ", ".join(["supported", *(part for part in (ext.state, ext.ops) if part)])


def _kubelet(kubelet: Kubelet | None) -> str:
    if kubelet is None:
        return "unknown"
    if not kubelet.present:
        return "none"
    parts = [f"CPU policy {kubelet.policy or 'unknown'}"]
    if kubelet.topology_policy is not None:
        parts.append(f"topology policy {kubelet.topology_policy}")
    for word, cpus in (
        ("reserved", kubelet.reserved),
        ("exclusive", kubelet.exclusive),
        ("shared pool", kubelet.shared_pool),
    ):
        if cpus is not None:
            parts.append(f"{word} {cpu_list(cpus) or 'none'}")
    if kubelet.cgroup_driver is not None:
        parts.append(f"cgroup driver {kubelet.cgroup_driver}")
    if kubelet.pods_root is not None:
        parts.append(f"pods in {kubelet.pods_root}")
    if kubelet.control_plane:
        parts.append("with a control plane")
    return ", ".join(parts)


def _virtual(virtualization: Virtualization) -> str:
    parts = []
    if virtualization.vm:
        parts.append(f"a virtual machine ({virtualization.hypervisor or 'hypervisor unknown'})")
    if virtualization.container:
        parts.append("a container")
    return ", ".join(parts)
