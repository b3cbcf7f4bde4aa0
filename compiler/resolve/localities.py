"""Localities of GPUs: the sets of CPUs that some of them are equally near."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.topology import Core, Topology

_UNFIT: Final = re.compile(r"[^a-z0-9.-]+")
"""What cannot be in the name of a lane: names reach scripts and Kubernetes."""
_LONGEST: Final = 40
"""Characters of a device's id that are taken over."""


@dataclass(frozen=True, slots=True)
class Locality:
    """CPUs and the GPUs that are near exactly these."""

    suffix: str
    """What a lane there is called behind the ``@``: ``numa0``, ``llc3``, ``package1``, or the id
    of its first GPU where the CPUs are none of these."""
    cpus: CpuSet
    gpus: tuple[str, ...]
    """Ids, ``gpu2`` before ``gpu10``."""


@dataclass(frozen=True, slots=True)
class Localities:
    """The localities of some GPUs."""

    known: tuple[Locality, ...]
    """Those with CPUs, by lowest CPU."""
    nowhere: tuple[str, ...]
    """GPUs that are known to be near no CPU."""
    unknown: tuple[str, ...]
    """GPUs of which nothing is known."""


def localities_of(topology: Topology, gpus: Collection[str]) -> Localities:
    """Return the localities of the GPUs with the given ids; overrides of the facts are in force.

    Equal sets of near CPUs are one locality, whatever each GPU's source calls them.
    """
    sets: dict[CpuSet, list[str]] = {}
    unknown: list[str] = []
    for view in topology.of_type("gpu"):
        if view.id not in gpus:
            continue
        if view.cpus is None:
            unknown.append(view.id)
        else:
            sets.setdefault(view.cpus, []).append(view.id)
    nowhere = sets.pop(CpuSet(), [])
    known: list[Locality] = []
    for cpus in sorted(sets, key=lambda cpus: (cpus.lowest, cpus.mask)):
        ids = sets[cpus]
        suffix = _free(_suffix(topology, cpus, ids[0]), [one.suffix for one in known])
        known.append(Locality(suffix, cpus, tuple(ids)))
    return Localities(tuple(known), tuple(nowhere), tuple(unknown))


def device_suffix(id: str) -> str:
    """Return the id of a device as a part of a lane's name."""
    return _UNFIT.sub("-", id.lower())[:_LONGEST].strip("-.") or "gpu"


def near_nics(topology: Topology, cpus: CpuSet) -> tuple[str, ...]:
    """Return the ids of the NICs that are near some of the CPUs."""
    return tuple(nic.id for nic in topology.of_type("nic") if nic.cpus and nic.cpus & cpus)


def apportion(cores: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide cores over localities: one for each while they last, then by their GPUs.

    The first cores go to the localities with most GPUs.  Every further core goes where the GPUs
    are most for each core, this one counted; of equals to the first.  So no share shrinks when
    there is a core more.
    """
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    shares = [0] * len(weights)
    for i in order[:cores]:
        shares[i] = 1
    for _ in range(cores - len(weights)):
        # a/(n+1) > b/(m+1) as a*(m+1) > b*(n+1): no fractions
        best = 0
        for i in range(1, len(weights)):
            if weights[i] * (shares[best] + 1) > weights[best] * (shares[i] + 1):
                best = i
        shares[best] += 1
    return tuple(shares)


def _suffix(topology: Topology, cpus: CpuSet, first: str) -> str:
    for node in topology.numas:
        if node.cpus == cpus:
            return f"numa{node.id}"
    for word, groups in (
        ("llc", _groups(topology.cores, [core.llc for core in topology.cores])),
        ("package", _groups(topology.cores, [core.package for core in topology.cores])),
    ):
        for id, group in sorted(groups.items()):
            if group == cpus:
                return f"{word}{id}"
    return device_suffix(first)


def _groups(cores: Sequence[Core], ids: Sequence[int | None]) -> dict[int, CpuSet]:
    parts: dict[int, list[CpuSet]] = {}
    for core, id in zip(cores, ids, strict=True):
        if id is not None:
            parts.setdefault(id, []).append(core.siblings)
    return {id: union(sets) for id, sets in parts.items()}


def _free(suffix: str, taken: Collection[str]) -> str:
    number, name = 1, suffix
    while name in taken:
        number += 1
        name = f"{suffix}-{number}"
    return name
