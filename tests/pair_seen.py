"""A machine and what is asked of it, from facts and documents as written.

Nothing here uses the passes that make plans, so that a mistake there does not hide itself here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.cpuset import CpuSet
from compiler.model.facts import Device, NodeFacts

FASTEST_FIRST = ("performance", "standard", "efficiency", "lowpower")
PLACING = {
    "gpu-local",
    "nic-local",
    "same-llc",
    "performance",
    "efficiency",
    "whole-cores",
    "isolated",
}
Document = Mapping[str, Any]


# --- the machine, from its facts ----------------------------------------------------------------


@dataclass(frozen=True)
class SeenCore:
    """A physical core."""

    siblings: CpuSet
    usable: CpuSet
    """Allowed and not the kubelet's, isolated or not."""
    kind: str
    llc: int | None


class Seen:
    """A machine as its facts describe it."""

    def __init__(self, facts: NodeFacts) -> None:
        spec = facts.spec
        self.facts = facts
        self.labels = facts.metadata.labels
        self.online = spec.cpus.online
        allowed = spec.overrides.allowed
        if allowed is None:
            allowed = spec.cpus.allowed
        usable = self.online if allowed is None else self.online & allowed
        kubelet = spec.kubelet
        self.control_plane = kubelet is not None and kubelet.control_plane
        self.pods_root = spec.overrides.pods_root or (kubelet.pods_root if kubelet else None)
        if kubelet is not None and kubelet.present:
            usable -= kubelet.exclusive or CpuSet()
            if kubelet.policy == "static" and kubelet.reserved:
                usable &= kubelet.reserved
        # to a container: the static policy, and nobody says which CPUs are not given away
        self.may_lose_any = (
            kubelet is not None
            and (kubelet.present, kubelet.policy) == (True, "static")
            and not kubelet.reserved
            and spec.overrides.allowed is None
        )
        isolated = spec.overrides.isolated
        if isolated is None:
            isolated = spec.cpus.isolated or CpuSet()
        self.isolated = isolated & usable
        self.effective = usable - isolated
        self.cores = [
            SeenCore(core, core & usable, group.kind, self._cache(core, group.llc))
            for group in spec.cores
            for core in (
                [CpuSet(cpus) for cpus in zip(*group.smt, strict=True)]
                if group.smt
                else [CpuSet((cpu,)) for cpu in group.cpus]
            )
        ]
        self.kinds = [kind for kind in FASTEST_FIRST if any(c.kind == kind for c in self.cores)]
        self.gpus = {d.id: d for d in spec.devices if d.type == "gpu"}
        self.nics = {d.id: d for d in spec.devices if d.type == "nic"}

    def _cache(self, core: CpuSet, written: int | None) -> int | None:
        if written is not None:
            return written
        return next((llc.id for llc in self.facts.spec.llcs if core.lowest in llc.cpus), None)

    @property
    def effective_cores(self) -> list[SeenCore]:
        return [core for core in self.cores if core.siblings & self.effective]

    @property
    def wanted_housekeeping(self) -> int:
        """Cores for node software where there is room."""
        have = len(self.effective_cores)
        if have < 8:
            return 1
        return max(2, -(-have // 20)) + (2 if self.control_plane else 0)

    def cores_of(self, cpus: CpuSet) -> list[SeenCore]:
        return [core for core in self.cores if core.siblings & cpus]

    def can(self, word: str) -> bool:
        """Tell whether some core could be what a word asks."""
        if word in ("gpu-local", "nic-local"):
            devices = self.gpus if word == "gpu-local" else self.nics
            return any(
                (self.near(one) or CpuSet()) & (self.effective | self.isolated)
                for one in devices.values()
            )
        if word == "isolated":
            return bool(self.isolated)
        return word != "same-llc" or any(core.llc is not None for core in self.cores)

    def near(self, device: Device) -> CpuSet | None:
        """Return the CPUs near a device; None: unknown."""
        nodes = {node.id: node.cpus for node in self.facts.spec.numa}
        cpus = device.locality.cpus
        if cpus is None and device.numa is not None:
            cpus = nodes.get(device.numa) or None
        for known in self.facts.spec.overrides.devices:
            if known.id == device.id:
                if known.numa is not None:
                    cpus = nodes.get(known.numa)
                if known.cpus is not None:
                    cpus = known.cpus
        return None if cpus is None else cpus & self.online


# --- what is asked of it, from the documents -----------------------------------------------------


@dataclass
class Asked:
    """A lane as its intents ask for it."""

    name: str
    intents: list[Document]

    @property
    def require(self) -> set[str]:
        return {word for one in self.intents for word in one["spec"].get("require", ())}

    @property
    def prefer(self) -> set[str]:
        words = {word for one in self.intents for word in one["spec"].get("prefer", ())}
        return (words & PLACING) - self.require

    def devices(self, seen: Seen) -> set[str]:
        """Return the GPUs that the lane is to be near."""
        out: set[str] = set()
        for one in self.intents:
            spec = one["spec"]
            words = (*spec.get("require", ()), *spec.get("prefer", ()))
            if "engine" in spec["workload"] or "gpu-local" in words:
                out |= meant(seen, spec["workload"].get("gpus", "allocated"))
        return out


def meant(seen: Seen, gpus: Any) -> set[str]:
    whole = {id for id, device in seen.gpus.items() if device.parent is None}
    if isinstance(gpus, str):
        return whole
    out: set[str] = set()
    for item in gpus:
        for id, device in seen.gpus.items():
            if isinstance(item, str):
                hit = item in (device.bdf, device.uuid)
            else:
                hit = device.model is not None and item["model"].lower() in device.model.lower()
            if hit:
                out.add(device.parent or id)
    return out


def selects(seen: Seen, selector: Any) -> bool:
    """Tell whether a selector of one of the forms that are generated has the node."""
    if selector is None:
        return True
    if "names" in selector:
        return seen.facts.metadata.name in selector["names"]
    if "matchLabels" in selector:
        return bool(selector["matchLabels"].items() <= dict(seen.labels).items())
    (row,) = selector["matchExpressions"]
    if row["operator"] == "In":
        return seen.labels.get(row["key"]) in row["values"]
    assert row["operator"] == "DoesNotExist"
    return row["key"] not in seen.labels


def asked_lanes(seen: Seen, documents: Sequence[Document]) -> dict[str, Asked]:
    out: dict[str, Asked] = {}
    for one in documents:
        spec = one["spec"]
        if one["kind"] != "Intent" or not selects(seen, spec.get("nodes")):
            continue
        words = {*spec.get("require", ()), *spec.get("prefer", ())}
        if "lane" in spec or words & PLACING:
            name = spec.get("lane", {}).get("name", one["metadata"]["name"])
            out.setdefault(name, Asked(name, [])).intents.append(one)
    return out
