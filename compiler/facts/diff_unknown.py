"""What one of two machines' facts do not know, and so cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from compiler.model.facts import FactsSpec, NodeFacts
from compiler.topology import Topology, pci_addresses, topology_of

Family = Literal["arch", "caches", "NUMA nodes", "GPUs", "network devices"]

_TYPES: Final[dict[Family, Literal["gpu", "nic"]]] = {"GPUs": "gpu", "network devices": "nic"}


@dataclass(frozen=True, slots=True)
class Incomparable:
    """A family of facts that one side does not know.

    Attributes:
        family: what is not known; a node leaves it out of the fingerprint, and placement goes
            without it.
        unknown_in_a: whether it is the first that does not know it; else the second.
    """

    family: Family
    unknown_in_a: bool

    @property
    def message(self) -> str:
        """What is not known, such as ``arch is not known``."""
        return f"{self.family} {'is' if self.family == 'arch' else 'are'} not known"


def incomparable(a: NodeFacts, b: NodeFacts) -> tuple[Incomparable, ...]:
    """Return the families that exactly one of two knows."""
    mine, theirs = _known(a.spec), _known(b.spec)
    return tuple(
        Incomparable(family, unknown_in_a=not known)
        for family, known in mine.items()
        if known != theirs[family]
    )


def _known(spec: FactsSpec) -> dict[Family, bool]:
    known: dict[Family, bool] = {
        "arch": spec.arch is not None,
        "caches": bool(spec.llcs),
        "NUMA nodes": bool(spec.numa),
    }
    for family, kind in _TYPES.items():
        some = any(device.type == kind for device in spec.devices)
        known[family] = some or pci_addresses(spec, kind) is not None
    return known


def comparable(facts: NodeFacts, without: tuple[Incomparable, ...]) -> NodeFacts:
    """Return facts as if they did not know some families either."""
    families = {one.family for one in without}
    spec = facts.spec
    changes: dict[str, Any] = {}
    groups: dict[str, None] = {}
    devices = spec.devices
    if "arch" in families:
        changes["arch"] = None
    if "caches" in families:
        changes["llcs"] = ()
        groups["llc"] = None
    if "NUMA nodes" in families:
        changes["numa"] = ()
        groups["numa"] = None
        # The CPUs near a device stay; only the number of its node goes.
        devices = tuple(one.model_copy(update={"numa": None}) for one in devices)
    gone = {kind for family, kind in _TYPES.items() if family in families}
    changes["devices"] = tuple(one for one in devices if one.type not in gone)
    if groups:
        changes["cores"] = tuple(core.model_copy(update=groups) for core in spec.cores)
    return facts.model_copy(update={"spec": spec.model_copy(update=changes)})


def same_placement(a: NodeFacts, b: NodeFacts) -> bool:
    """Whether placement sees one machine in the facts of two, device names included.

    PCI addresses of a type count where both know all of them, as in the device fingerprint.
    """
    one, other = topology_of(a), topology_of(b)
    gpus = one.gpus is not None and other.gpus is not None
    nics = one.nics is not None and other.nics is not None

    def cut(topology: Topology) -> Topology:
        return replace(
            topology,
            gpus=topology.gpus if gpus else None,
            nics=topology.nics if nics else None,
        )

    return cut(one) == cut(other)
