"""One machine as placement sees it, from its facts with the operator's overrides applied.

Which CPUs are whose:

* ``online``: what the kernel runs.  Everything below is cut to it, so that a CPU that is only
  possible, or an ``allowed`` list made for a larger machine, never reaches a plan.
* ``allowed``: what the cgroup of the collector or the operator leaves to tierc; unknown is all.
* ``kubelet_owned``: CPUs the kubelet gave to containers exclusively.  Under its *static* policy
  with a known reservation, every CPU outside ``reservedSystemCPUs`` is the kubelet's as well: it
  may give any of them to a container at any moment, so tierc plans on the reserved ones only.
  Where the reservation is not known, only the exclusive CPUs are taken out, and the others are the
  kubelet's to give away: see :func:`reservation_unknown`.
* ``isolated``: CPUs of ``isolcpus=`` that are allowed and not the kubelet's.  Not part of
  ``effective``; a lane gets them only when it asks.
* ``effective`` = online and allowed, less isolated and less kubelet_owned.

A core may be usable in part.  An *offline* sibling is nobody's, so the core counts as whole.  A
sibling that is not allowed or the kubelet's may be busy with somebody else's work: such a core is
``split``, the last choice of a lane and no choice of an exclusive one.  A core with isolated and
ordinary siblings (``mixed``) is in no lane: the isolated sibling was set aside for something else,
and a lane is never half isolated.  Its ordinary CPUs stay in the effective set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from compiler.cpuset import CpuSet
from compiler.model.facts import CoreKind, Device, FactsSpec, Kubelet, NodeFacts
from compiler.words import natural

KINDS_BY_SPEED: Final[tuple[CoreKind, ...]] = ("performance", "standard", "efficiency", "lowpower")
"""Core kinds, fastest first."""

Scope = Literal["llc", "numa", "package", "machine", "unknown"]
Confidence = Literal["measured", "inferred", "suspect", "unknown"]


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the CPUs that are siblings of each other."""

    cpus: CpuSet
    """What tierc may use of it: isolated CPUs only where the whole core is isolated.  May be
    empty."""
    siblings: CpuSet
    """All its online CPUs."""
    kind: CoreKind
    llc: int | None
    numa: int | None
    package: int | None
    isolated: bool
    """Whether ``cpus`` are isolated CPUs (all are or none is)."""
    capacity: int | None
    mixed: bool = False
    """Whether some usable siblings are isolated and some are not."""

    @property
    def split(self) -> bool:
        """Whether somebody else may use a part of the core."""
        return self.cpus != self.siblings


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device and the CPUs near it."""

    id: str
    type: Literal["gpu", "nic", "other"]
    model: str | None
    bdf: str | None
    uuid: str | None
    numa: int | None
    cpus: CpuSet | None
    """Local CPUs that are online; None: unknown.  Empty: known to be near no CPU, as a GPU on a
    node that has only memory."""
    scope: Scope
    confidence: Confidence
    parent: str | None = None
    """Id of the GPU that it is an instance (MIG) of."""


@dataclass(frozen=True, slots=True)
class NumaView:
    """A NUMA node and its online CPUs, possibly none."""

    id: int
    cpus: CpuSet


@dataclass(frozen=True)
class Topology:
    """A machine for placement; free of its name, equal for equal machines."""

    arch: str | None
    online: CpuSet
    allowed: CpuSet
    isolated: CpuSet
    kubelet_owned: CpuSet
    effective: CpuSet
    cores: tuple[Core, ...]
    """All cores that are online, by lowest CPU."""
    llcs: tuple[CpuSet, ...]
    """Online CPUs of each last-level cache, by lowest CPU; empty: unknown."""
    numas: tuple[NumaView, ...]
    """NUMA nodes by id."""
    devices: tuple[DeviceView, ...]
    """Devices by id, ``gpu2`` before ``gpu10``."""
    control_plane: bool
    """Whether a Kubernetes control plane is embedded in the node."""
    gpus: tuple[str, ...] | None = None
    """PCI addresses of the GPUs: see :func:`pci_addresses`."""
    nics: tuple[str, ...] | None = None
    """PCI addresses of the network devices."""
    reserved: CpuSet | None = None
    """CPUs that the kubelet's static policy leaves to the system; None: no such policy, or they
    are not known."""
    strict: bool | None = None
    """Whether the kubelet keeps ordinary pods off ``reserved``; None: not known."""
    reservation_unknown: bool = False
    """Whether the kubelet may give any CPU away: see :func:`reservation_unknown`."""
    nohz_full: CpuSet = field(default_factory=CpuSet)
    """Online CPUs of ``nohz_full=``; empty where that is not known."""
    pods_root: str | None = None
    """Cgroup below which all pods are; None: not known."""

    @property
    def smt(self) -> int:
        """The largest number of online siblings of a core."""
        return max(len(core.siblings) for core in self.cores)

    @property
    def kinds(self) -> tuple[CoreKind, ...]:
        """The kinds of core the machine has, fastest first."""
        present = {core.kind for core in self.cores}
        return tuple(kind for kind in KINDS_BY_SPEED if kind in present)

    @property
    def effective_cores(self) -> tuple[Core, ...]:
        """Cores with at least one CPU in ``effective``."""
        return tuple(core for core in self.cores if core.cpus & self.effective)

    @property
    def cpu_numas(self) -> tuple[NumaView, ...]:
        """NUMA nodes that have CPUs."""
        return tuple(node for node in self.numas if node.cpus)

    def device(self, name: str) -> DeviceView | None:
        """Return the device called ``name``, or None."""
        return next((device for device in self.devices if device.id == name), None)

    def of_type(self, kind: Literal["gpu", "nic", "other"]) -> tuple[DeviceView, ...]:
        """Return the devices of one type, by id; a GPU counts once, whatever its instances."""
        return tuple(
            device for device in self.devices if device.type == kind and device.parent is None
        )


def topology_of(facts: NodeFacts) -> Topology:
    """Return the view of a machine; overrides win over what was collected."""
    spec = facts.spec
    online = spec.cpus.online
    allowed = _first(spec.overrides.allowed, spec.cpus.allowed, online) & online
    owned = _kubelet_owned(spec.kubelet, online)
    usable = allowed - owned
    isolated = _first(spec.overrides.isolated, spec.cpus.isolated, CpuSet()) & usable
    llc_of = _llc_by_cpu(spec)
    cores = [
        _core(
            siblings,
            usable=siblings & usable,
            isolated=isolated,
            kind=group.kind,
            llc=group.llc if group.llc is not None else llc_of.get(siblings.lowest),
            numa=group.numa,
            package=group.package,
            capacity=group.capacity,
        )
        for group in spec.cores
        for siblings in group.cores()
    ]
    llcs = [live for llc in spec.llcs if (live := llc.cpus & online)]
    return Topology(
        arch=spec.arch,
        online=online,
        allowed=allowed,
        isolated=isolated,
        kubelet_owned=owned,
        effective=usable - isolated,
        cores=tuple(sorted(cores, key=lambda core: core.siblings.lowest)),
        llcs=tuple(sorted(llcs, key=lambda cpus: (cpus.lowest, cpus.mask))),
        numas=tuple(
            NumaView(node.id, node.cpus & online)
            for node in sorted(spec.numa, key=lambda node: node.id)
        ),
        devices=tuple(_device(d, spec) for d in sorted(spec.devices, key=lambda d: natural(d.id))),
        control_plane=spec.kubelet is not None and spec.kubelet.control_plane,
        gpus=pci_addresses(spec, "gpu"),
        nics=pci_addresses(spec, "nic"),
        reserved=_reserved(spec.kubelet, online),
        strict=None if spec.kubelet is None else spec.kubelet.strict_reservation,
        reservation_unknown=reservation_unknown(spec),
        nohz_full=(spec.cpus.nohz_full or CpuSet()) & online,
        pods_root=pods_root_of(spec),
    )


def pods_root_of(spec: FactsSpec) -> str | None:
    """Return the cgroup below which the node's pods live, the operator's word first."""
    if spec.overrides.pods_root is not None:
        return spec.overrides.pods_root
    return spec.kubelet.pods_root if spec.kubelet is not None else None


def pci_addresses(spec: FactsSpec, kind: Literal["gpu", "nic"]) -> tuple[str, ...] | None:
    """Return the PCI addresses of all devices of one type, in order; None where they are unknown.

    sysfs shows every function of the machine, so that what it does not show is not there; devices
    without an address (on other buses) are then left out.  Other sources need not look for both
    types: one that names none may not have looked, and a device it gives no address makes the list
    incomplete.  A part of a device (a MIG instance) has no address of its own.
    """
    whole = [one for one in spec.devices if one.type == kind and one.parent is None]
    found = {one.bdf for one in whole if one.bdf is not None}
    looked = any(one.reader == "sysfs" and "devices" in one.facts for one in spec.sources)
    if not looked and (not whole or any(one.bdf is None for one in whole)):
        return None
    return tuple(sorted(found, key=lambda bdf: (int(bdf.partition(":")[0], 16), bdf)))


def _first(*choices: CpuSet | None) -> CpuSet:
    return next(choice for choice in choices if choice is not None)


def _kubelet_owned(kubelet: Kubelet | None, online: CpuSet) -> CpuSet:
    if kubelet is None or not kubelet.present:
        return CpuSet()
    exclusive = (kubelet.exclusive or CpuSet()) & online
    reserved = _reserved(kubelet, online)
    return exclusive if reserved is None else (online - reserved) | exclusive


def _reserved(kubelet: Kubelet | None, online: CpuSet) -> CpuSet | None:
    if kubelet is None or not kubelet.present or kubelet.policy != "static":
        return None
    return kubelet.reserved & online if kubelet.reserved else None


def reservation_unknown(spec: FactsSpec) -> bool:
    """Tell whether the kubelet may give any CPU to a container, as far as is known.

    Its policy is static, and nothing says which CPUs it reserves for the system: it need not be
    told by a list, a quantity (``kubeReserved``) will do, and then it chooses them itself.  Where
    the operator says which CPUs are tierc's (``overrides.allowed``), these are.
    """
    kubelet = spec.kubelet
    return (
        kubelet is not None
        and kubelet.present
        and kubelet.policy == "static"
        and not kubelet.reserved
        and spec.overrides.allowed is None
    )


def _llc_by_cpu(spec: FactsSpec) -> dict[int, int]:
    """Fill in for groups that name no cache although one is known to hold their CPUs."""
    return {
        cpu: llc.id
        for llc in sorted(spec.llcs, key=lambda llc: llc.id, reverse=True)
        for cpu in llc.cpus & spec.cpus.online
    }


def _core(
    siblings: CpuSet,
    *,
    usable: CpuSet,
    isolated: CpuSet,
    kind: CoreKind,
    llc: int | None,
    numa: int | None,
    package: int | None,
    capacity: int | None,
) -> Core:
    ordinary = usable - isolated
    return Core(
        cpus=ordinary or usable,
        siblings=siblings,
        kind=kind,
        llc=llc,
        numa=numa,
        package=package,
        isolated=bool(usable) and not ordinary,
        capacity=capacity,
        mixed=bool(ordinary) and ordinary != usable,
    )


def _device(device: Device, spec: FactsSpec) -> DeviceView:
    cpus, numa = device.locality.cpus, device.numa
    scope: Scope = device.locality.scope
    confidence: Confidence = device.locality.confidence
    if cpus is None and numa is not None:
        node = next((n for n in spec.numa if n.id == numa), None)
        if node is not None and node.cpus:
            cpus, scope, confidence = node.cpus, "numa", "inferred"
    override = next((o for o in spec.overrides.devices if o.id == device.id), None)
    if override is not None and override.numa is not None:
        numa = override.numa
        node = next((n for n in spec.numa if n.id == numa), None)
        cpus, scope, confidence = (node.cpus if node else None), "numa", "measured"
    if override is not None and override.cpus is not None:
        cpus, scope, confidence = override.cpus, "unknown", "measured"
    return DeviceView(
        id=device.id,
        type=device.type,
        model=device.model,
        bdf=device.bdf,
        uuid=device.uuid,
        numa=numa,
        cpus=None if cpus is None else cpus & spec.cpus.online,
        scope=scope,
        confidence=confidence,
        parent=device.parent,
    )
