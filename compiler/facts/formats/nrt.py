"""NodeResourceTopology (topology.node.k8s.io): NUMA nodes, their distances, the policy.

Zones count CPUs and do not name them.  What NRI plugins publish as ``shared cpuset`` of a zone is
what is free at the moment, which says nothing about the zone itself.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from compiler.facts.formats.kubernetes_object import KubernetesObject
from compiler.facts.partial import Note, NumaPart, Partial
from compiler.facts.shown import shown
from compiler.model.facts import Kubelet

_NUMA_TYPES: Final = frozenset({"node", "numa", "numanode", "numa node"})
_NUMA_NAME: Final = re.compile(r"(?:numa *)?node *[-#_ ]*([0-9]{1,5})", re.ASCII | re.IGNORECASE)
_MAX_NODE: Final = 1 << 16
_MAX_DISTANCE: Final = 255  # the ACPI SLIT has one byte

_POLICIES: Final = {
    "none": "none",
    "besteffort": "best-effort",
    "restricted": "restricted",
    "singlenumanode": "single-numa-node",
}
_SCOPES: Final = ("containerlevel", "podlevel")


def read_nrt(item: KubernetesObject, file: str, node: str) -> Partial:
    """Return what a NodeResourceTopology says of the node called ``node``."""
    notes: list[Note] = []
    ids = _ids(item, notes)
    numa = tuple(
        NumaPart(id=one, distances=MappingProxyType(_costs(item, place, ids, notes)))
        for place, one in sorted(ids.items(), key=lambda pair: pair[1])
    )
    policy = _policy(item, notes)
    return Partial(
        reader="nrt",
        file=file,
        node=node,
        numa=numa or None,
        kubelet=Kubelet(present=True, topologyPolicy=policy) if policy else None,
        notes=tuple(notes),
    )


def _ids(item: KubernetesObject, notes: list[Note]) -> dict[int, int]:
    """Return the ids of the zones that are NUMA nodes, by position in ``zones``."""
    found: dict[int, int] = {}
    others: dict[str, int] = {}
    for place in range(item.size("zones")):
        kind = item.text("zones", place, "type") or ""
        name = item.text("zones", place, "name") or ""
        line = item.line("zones", place)
        if kind.lower() not in _NUMA_TYPES:
            others.setdefault(kind, line)
            continue
        match = _NUMA_NAME.fullmatch(name.rpartition("/")[2].strip())
        if match is None or int(match[1]) >= _MAX_NODE:
            notes.append(Note(f"zone {shown(name)} names no NUMA node, not used", line))
        elif int(match[1]) in found.values():
            notes.append(Note(f"NUMA node {int(match[1])} has a second zone, not used", line))
        else:
            found[place] = int(match[1])
    for kind, line in sorted(others.items()):
        notes.append(Note(f"zones of type {shown(kind)} are not used", line))
    return found


def _costs(
    item: KubernetesObject, place: int, ids: dict[int, int], notes: list[Note]
) -> dict[int, int]:
    """Return the costs of a zone as distances, where they lead to NUMA nodes and are distances."""
    known = {item.text("zones", other, "name"): one for other, one in ids.items()}
    distances: dict[int, int] = {}
    for cost in range(item.size("zones", place, "costs")):
        route = ("zones", place, "costs", cost)
        other = known.get(item.text(*route, "name"))
        value = item.integer(*route, "value")
        if other is None:
            continue
        if value is None or not 1 <= value <= _MAX_DISTANCE:
            notes.append(
                Note(f"the cost of zone {ids[place]} is no distance, not used", item.line(*route))
            )
            return {}
        distances[other] = value
    return dict(sorted(distances.items()))


def _policy(item: KubernetesObject, notes: list[Note]) -> str | None:
    """Return the topology manager's policy: the attribute, else the older list of one word."""
    said: list[tuple[str, int]] = []
    for place in range(item.size("attributes")):
        if item.text("attributes", place, "name") == "topologyManagerPolicy":
            value = item.text("attributes", place, "value") or ""
            said.append((value, item.line("attributes", place)))
    for place in range(item.size("topologyPolicies")):
        value = item.text("topologyPolicies", place) or ""
        said.append((value, item.line("topologyPolicies", place)))
    for value, line in said:
        word = value.lower().replace("-", "")
        for scope in _SCOPES:
            word = word.removesuffix(scope)
        if word in _POLICIES:
            return _POLICIES[word]
        notes.append(Note(f"{shown(value)} is no topology manager policy that is known", line))
    return None
