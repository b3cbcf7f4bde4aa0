"""What a lane's words mean on one machine: which cells it may use and what each core costs.

``require`` narrows the cells; ``prefer`` becomes columns of an integer cost, in the order
written.  A word the machine's facts cannot answer costs nothing and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from compiler.cpuset import CpuSet, union
from compiler.model.base import Preference
from compiler.model.facts import CoreKind
from compiler.place.cells import Cells, Traits
from compiler.place.fit import Demand
from compiler.place.request import LaneRequest, Refusal
from compiler.place.reserve import Option
from compiler.plan import Degradation
from compiler.topology import DeviceView, Topology

Weights = tuple[int, ...]
"""Cost of one core, per cell."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The devices a lane should be near, as bits of integers."""

    near: tuple[int, ...]
    """Per cell, the devices its cores are near."""
    devices: int
    """All of them."""

    def near_any(self, cells: Iterable[int]) -> int:
        """Return the devices that cores of the cells are near."""
        found = 0
        for cell in cells:
            found |= self.near[cell]
        return found


Column = Weights | Literal["llc", "numa"] | Reach
"""One part of a cost: a sum over cores; the number of caches or NUMA nodes used, less one; or the
number of devices that no core of the set is near."""

_DEVICE_TYPE: Final[dict[str, Literal["gpu", "nic"]]] = {"gpu-local": "gpu", "nic-local": "nic"}


@dataclass(frozen=True, slots=True)
class Aim:
    """A lane request read for one machine."""

    request: LaneRequest
    options: tuple[Option, ...]
    """The lane lies within one of these sets of cells."""
    grown: tuple[Option, ...]
    """And with more cores than its minimum, within one of these."""
    columns: tuple[Column, ...]
    """The cost, most important first: preferences, then split cores, caches, NUMA nodes, and
    devices without a near core where sets can differ in them."""
    words: tuple[Preference, ...]
    """The preference each of the first columns stands for."""
    notes: tuple[Degradation, ...]
    """What the facts could not answer."""

    def demand(self, cores: int) -> Demand:
        """Return the lane as a demand of a size."""
        return Demand(cores, self.options if cores <= self.request.min else self.grown)


def aim_of(request: LaneRequest, cells: Cells) -> Aim | tuple[Refusal, ...]:
    """Read a request for a machine; refusals where a requirement cannot be answered by facts."""
    refusals: list[Refusal] = []
    notes: list[Degradation] = []
    weights: dict[Preference, Column] = {}
    for word in (*request.require, *request.prefer):
        unknown = _unknown(word, request, cells.topology)
        if unknown and word in request.require:
            refusals.append(_refusal(request, word, unknown))
        elif unknown:
            notes.append(Degradation(about=request.name, kind=word, message=unknown))
        column = _column(word, request, cells)
        if column is not None:
            weights[word] = column
        if word in _DEVICE_TYPE and (idle := _no_information(word, request, cells.topology)):
            notes.append(Degradation(about=request.name, kind="no-locality", message=idle))
    if refusals:
        return tuple(refusals)
    words = tuple(word for word in dict.fromkeys(request.prefer) if word in weights)
    split: Column = tuple(int(cell.traits.split) for cell in cells.cells)
    options = _options(request, cells, weights)
    return Aim(
        request=request,
        options=options,
        grown=_grown(request, options, weights),
        columns=(*(weights[word] for word in words), split, "llc", "numa", *_reach(request, cells)),
        words=words,
        notes=tuple(notes),
    )


def devices_meant(
    word: Preference, request: LaneRequest, topology: Topology
) -> tuple[DeviceView, ...]:
    """Return the devices a locality word refers to; empty for the other words."""
    kind = _DEVICE_TYPE.get(word)
    if kind is None:
        return ()
    devices = topology.of_type(kind)
    ids = request.devices if kind == "gpu" else request.nics
    return devices if ids is None else tuple(d for d in devices if d.id in ids)


def local_cpus(devices: Iterable[DeviceView]) -> CpuSet:
    """Return the CPUs near any of the devices, as far as known."""
    return union(device.cpus for device in devices if device.cpus is not None)


def wanted_kind(word: Preference, topology: Topology) -> CoreKind:
    """Return the kind that ``performance`` or ``efficiency`` means on a machine.

    ``performance`` is the fastest kind it has; ``efficiency`` its efficiency cores, or the
    slowest kind where it has none.
    """
    kinds = topology.kinds
    if word == "performance":
        return kinds[0]
    return "efficiency" if "efficiency" in kinds else kinds[-1]


def _unknown(word: Preference, request: LaneRequest, topology: Topology) -> str:
    """Return why facts cannot answer a word, or nothing."""
    if word == "same-llc" and all(core.llc is None for core in topology.cores):
        return "which cores share a last-level cache is not known"
    if (kind := _DEVICE_TYPE.get(word)) is None:
        return ""
    name = kind.upper()
    devices = devices_meant(word, request, topology)
    if not devices:
        return (
            f"none of the machine's {name}s is meant"
            if topology.of_type(kind)
            else (f"the machine has no {name}")
        )
    blind = [device.id for device in devices if device.cpus is None]
    if blind:
        return f"{name} locality unknown: which CPUs are near {', '.join(blind)} is not known"
    return ""


def _no_information(word: Preference, request: LaneRequest, topology: Topology) -> str:
    """Say that devices near every CPU tell nothing, where CPUs differ in distance."""
    devices = [d for d in devices_meant(word, request, topology) if d.cpus is not None]
    if not devices or len(topology.cpu_numas) < 2:
        return ""
    if all(topology.online <= device.cpus for device in devices if device.cpus is not None):
        names = ", ".join(device.id for device in devices)
        nodes = ", ".join(str(node.id) for node in topology.cpu_numas)
        return (
            f"{names} local to every CPU of NUMA nodes {nodes}: {word} gives no locality "
            "information here"
        )
    return ""


def _column(word: Preference, request: LaneRequest, cells: Cells) -> Column | None:
    topology = cells.topology
    if word == "same-llc":
        return "llc" if any(core.llc is not None for core in topology.cores) else None
    if word == "leftovers":
        return None
    if word in _DEVICE_TYPE:
        devices = devices_meant(word, request, topology)
        ids = {device.id for device in devices if device.cpus is not None}
        return _weights(cells, lambda traits: not ids.isdisjoint(traits.near)) if ids else None
    if word in ("performance", "efficiency"):
        kind = wanted_kind(word, topology)
        return _weights(cells, lambda traits: traits.kind == kind)
    if word == "whole-cores":
        return _weights(cells, lambda traits: not traits.split)
    return _weights(cells, lambda traits: traits.isolated)


def _reach(request: LaneRequest, cells: Cells) -> tuple[Reach, ...]:
    """Return the devices of all locality words as a column; empty where it cannot decide.

    When all cells near any device are near the same ones, a set is near all of them or none, and
    the cost of the word has told these two apart already.
    """
    words = sorted({*request.require, *request.prefer} & _DEVICE_TYPE.keys())
    devices = [d for word in words for d in devices_meant(word, request, cells.topology)]
    bits = {d.id: 1 << i for i, d in enumerate(d for d in devices if d.cpus is not None)}
    near = tuple(sum(bits.get(id_, 0) for id_ in cell.traits.near) for cell in cells.cells)
    return (Reach(near, sum(bits.values())),) if len({*near} - {0}) > 1 else ()


def _weights(cells: Cells, good: Callable[[Traits], bool]) -> Weights:
    return tuple(int(not good(cell.traits)) for cell in cells.cells)


def _options(
    request: LaneRequest, cells: Cells, weights: dict[Preference, Column]
) -> tuple[Option, ...]:
    allowed = cells.where(
        lambda traits: not traits.mixed and not (traits.split and request.share == "exclusive")
    )
    for word in request.require:
        column = weights.get(word)
        if isinstance(column, tuple):
            allowed = frozenset(cell for cell in allowed if column[cell] == 0)
    isolated = cells.where(lambda traits: traits.isolated)
    wants_isolated = "isolated" in (*request.require, *request.prefer)
    parts = [allowed & isolated, allowed - isolated] if wants_isolated else [allowed - isolated]
    if "same-llc" in request.require:
        caches = sorted({c.traits.llc for c in cells.cells if c.traits.llc is not None})
        parts = [
            frozenset(cell for cell in part if cells.cells[cell].traits.llc == cache)
            for part in parts
            for cache in caches
        ]
    return tuple(part for part in parts if part)


def _grown(
    request: LaneRequest, options: tuple[Option, ...], weights: dict[Preference, Column]
) -> tuple[Option, ...]:
    """Return where a lane may grow: a member of a family that asks for it, near its GPUs only."""
    near = weights.get("gpu-local")
    if request.member_of is None or not isinstance(near, tuple):
        return options
    parts = (frozenset(cell for cell in option if near[cell] == 0) for option in options)
    return tuple(part for part in parts if part)


def _refusal(request: LaneRequest, word: Preference, why: str) -> Refusal:
    return Refusal(
        about=request.name,
        kind=f"require-{word}",
        message=f"lane {request.name} requires {word}, but {why}",
        help=(
            f"write {word} under prefer, or complete the facts of the node "
            "(spec.overrides holds what you know better)"
        ),
    )
