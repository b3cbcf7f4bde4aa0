"""Lanes whose GPUs are in several localities: a lane for each, or one lane with cores near all.

Which GPU a process gets is not known when a plan is made.  A process that uses GPUs of one
locality needs CPUs there, wherever that is: the lane is a *family* with a member for each
locality.  A process that uses GPUs of several at once needs CPUs near all of them: the lane is one
and *spans* them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.codes import resolution as codes
from compiler.cpuset import CpuSet
from compiler.decode import Loaded
from compiler.diagnostics import Sink, Span
from compiler.model.base import Preference
from compiler.model.intent import Intent
from compiler.plan import Degradation
from compiler.resolve.localities import (
    Localities,
    Locality,
    apportion,
    device_suffix,
    localities_of,
    near_nics,
)
from compiler.resolve.types import ResolvedLane, ResolvedPart, Unmet
from compiler.resolve.values import Size, size_text
from compiler.topology import Topology
from compiler.words import counted, listed


@dataclass(frozen=True, slots=True)
class User:
    """An intent of a lane, and the GPUs its engines may get."""

    intent: Loaded[Intent]
    gpus: frozenset[str]
    """Ids."""

    @property
    def width(self) -> int:
        """GPUs that one of its engines uses at once."""
        return self.intent.model.spec.workload.tensor_parallel

    @property
    def takes_all(self) -> bool:
        """Whether a process uses all GPUs of the node."""
        return self.intent.model.spec.workload.gpus == "all"

    def gpus_in(self, place: Locality) -> int:
        """Return how many of its GPUs are in a locality."""
        return len(self.gpus.intersection(place.gpus))

    def engines_in(self, place: Locality) -> int:
        """Return how many of its engines the GPUs of a locality can serve, at most all."""
        return min(self.intent.model.spec.workload.instances, self.gpus_in(place) // self.width)


def divide(
    lane: ResolvedLane,
    users: Sequence[User],
    topology: Topology,
    size_in: Callable[[Locality], Size],
    sink: Sink,
) -> ResolvedLane:
    """Return the lane with its localities, where the GPUs it means are in more than one.

    Args:
        lane: the lane as one.
        users: its intents.
        topology: the machine.
        size_in: cores that a lane in one locality asks for.
        sink: takes a warning where engines need whole localities.
    """
    hard = "gpu-local" in lane.require
    if not hard and "gpu-local" not in lane.prefer:
        return lane
    found = localities_of(topology, lane.devices)
    places = found.known
    if hard:
        if found.unknown:
            return lane  # it is refused for what is not known
        places += tuple(Locality(device_suffix(id), CpuSet(), (id,)) for id in found.nowhere)
    users = [user for user in users if user.gpus]
    if not users:
        return lane
    if len(places) < 2:  # what is unknown is said of the lane as placed
        alone = replace(found, unknown=())
        return replace(lane, notes=_strays(lane, alone)) if places else lane
    lane = replace(lane, notes=_strays(lane, found))
    wide = [u for u in users if u.width > max(u.gpus_in(place) for place in places)]
    if wide and hard:
        lane = replace(lane, unmet=tuple(_too_wide(lane, user, places) for user in wide))
    if wide or any(user.takes_all for user in users):
        if "same-llc" in lane.require:  # what must be in one cache cannot be divided
            return replace(lane, notes=(*lane.notes, *_undivided(lane, places, topology)))
        return _spanning(lane, places, topology)
    if hard:
        for user in users:
            _warn_of_whole(lane, user, places, sink)
    hosts = [place for place in places if any(user.engines_in(place) for user in users)]
    small = [_too_small(lane, p, users) for p in places if p not in hosts]
    lane = replace(lane, notes=(*lane.notes, *small))
    if len(hosts) == 1:
        return _sized(replace(lane, devices=hosts[0].gpus), size_in(hosts[0]))
    parts, notes = [], list(lane.notes)
    for place in hosts:
        low, high = size_in(place)
        parts.append(_part(lane, place, topology, low, high, notes))
    return replace(
        lane,
        # As one lane, a family asks for no more than its members do together.
        min=min(lane.min, sum(part.min for part in parts)),
        divided="family",
        parts=_by_name(parts),
        notes=tuple(notes),
    )


def _sized(lane: ResolvedLane, size: Size) -> ResolvedLane:
    """Return the lane with a size, which is what it asked for from now on."""
    asked = replace(lane.cores.winner, value=size_text(size))
    return replace(lane, min=size[0], max=size[1], cores=replace(lane.cores, winner=asked))


def _spanning(lane: ResolvedLane, places: Sequence[Locality], topology: Topology) -> ResolvedLane:
    weights = [len(place.gpus) for place in places]
    lows = apportion(lane.min, weights)
    highs = [None] * len(places) if lane.max is None else apportion(lane.max, weights)
    notes = list(lane.notes)
    parts = [
        _part(lane, place, topology, low, high, notes)
        for place, low, high in zip(places, lows, highs, strict=True)
        if high != 0
    ]
    if len(parts) == 1:  # it has one core
        return lane
    return replace(lane, divided="spanning", parts=_by_name(parts), notes=tuple(notes))


def _part(
    lane: ResolvedLane,
    place: Locality,
    topology: Topology,
    low: int,
    high: int | None,
    notes: list[Degradation],
) -> ResolvedPart:
    name = f"{lane.name}@{place.suffix}"
    nics = None
    if "nic-local" in (*lane.require, *lane.prefer):
        nics = near_nics(topology, place.cpus) or None
        if nics is None and any(nic.cpus for nic in topology.of_type("nic")):
            text = f"no NIC is near CPUs {place.cpus or 'of it'}: nic-local means every NIC there"
            notes.append(Degradation(about=name, kind="no-near-nic", message=text))
    return ResolvedPart(name, low, high, size_text((low, high)), place.gpus, nics)


def _by_name(parts: Sequence[ResolvedPart]) -> tuple[ResolvedPart, ...]:
    return tuple(sorted(parts, key=lambda part: part.name))


def _strays(lane: ResolvedLane, found: Localities) -> tuple[Degradation, ...]:
    """Say which GPUs no part of the lane is near."""
    texts = []
    if found.unknown:
        ids = listed(found.unknown)
        texts.append(f"GPU locality unknown: which CPUs are near {ids} is not known")
    if found.nowhere and "gpu-local" not in lane.require:
        texts.append(f"no CPU is near {listed(found.nowhere)}")
    return tuple(
        Degradation(about=lane.name, kind="gpu-local", message=f"{text}; no part of it is there")
        for text in texts
    )


def _undivided(
    lane: ResolvedLane, places: Sequence[Locality], topology: Topology
) -> Iterator[Degradation]:
    """Say that a lane is in one cache, and so not near all of its GPUs."""
    overlap = any(all(llc & place.cpus for place in places) for llc in topology.llcs)
    if overlap or lane.max == 1:  # one cache may be near all, one core never is
        return
    names = listed([place.suffix for place in places])
    yield Degradation(
        about=lane.name,
        kind="not-divided",
        message=(
            f"its GPUs are in several localities ({names}), and no last-level cache has cores "
            "near all of them: as same-llc is required, it has no cores near some"
        ),
    )


def _required(lane: ResolvedLane, user: User) -> Span:
    """Return where gpu-local is required: by the intent itself, or by another of its lane."""
    word: Preference = "gpu-local"
    words = user.intent.model.spec.require
    return user.intent.span("spec", "require", words.index(word)) if word in words else lane.span


def _too_wide(lane: ResolvedLane, user: User, places: Sequence[Locality]) -> Unmet:
    largest = max(places, key=user.gpus_in)
    most = user.gpus_in(largest)
    return Unmet(
        span=_required(lane, user),
        message=(
            f"lane {lane.name} requires gpu-local, and an engine of {user.intent.name} uses "
            f"{user.width} GPUs at once (tensorParallel); the largest locality, {largest.suffix} "
            f"(CPUs {largest.cpus}), has {most}"
        ),
        help=(
            "write gpu-local under prefer, which gives it cores near all of its GPUs; or lower "
            f"tensorParallel to {most}"
        ),
    )


def _warn_of_whole(lane: ResolvedLane, user: User, places: Sequence[Locality], sink: Sink) -> None:
    """Warn where an engine needs all GPUs of a locality, wherever it starts."""
    hosts = [place for place in places if user.gpus_in(place) >= user.width]
    if user.width < 2 or any(user.gpus_in(place) > user.width for place in hosts):
        return
    names = " or ".join(place.suffix for place in hosts)
    sink.add(
        codes.WHOLE_LOCALITY.at(
            _required(lane, user),
            f"an engine of {user.intent.name} uses {user.width} GPUs (tensorParallel), and no "
            f"locality has more: it starts only where all GPUs of {names} are free",
            help=(
                "keep other users of GPUs to one locality, lower tensorParallel, or write "
                "gpu-local under prefer"
            ),
        )
    )


def _too_small(lane: ResolvedLane, place: Locality, users: Sequence[User]) -> Degradation:
    """Name the engine that is least too wide; an intent need not mean every GPU of the locality."""
    user = min((u for u in users if u.gpus_in(place)), key=lambda u: u.width - u.gpus_in(place))
    return Degradation(
        about=lane.name,
        kind="locality-too-small",
        message=(
            f"{place.suffix} has {counted(user.gpus_in(place), 'GPU')}, and an engine uses "
            f"{user.width} (tensorParallel): it has no cores there"
        ),
    )
