"""Lanes asked for on one node: joined by name, sized, with the devices they should be near."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink, Span
from compiler.model.base import NODE_STAGES, Preference
from compiler.model.facts import NodeFacts
from compiler.model.intent import CoreRange, Intent, Share
from compiler.policy import Policy
from compiler.profiles import stage_matches
from compiler.resolve.families import User, divide
from compiler.resolve.gpus import gpus_of
from compiler.resolve.localities import Locality
from compiler.resolve.tiers import Orders
from compiler.resolve.types import Decided, Defined, ResolvedLane
from compiler.resolve.values import Size, decide, size_text
from compiler.select import selects
from compiler.topology import Topology, topology_of
from compiler.words import natural

PLACING: frozenset[str] = frozenset(
    ("gpu-local", "nic-local", "same-llc", "performance", "efficiency", "whole-cores", "isolated")
)
"""Preferences that need CPUs of one's own; ``leftovers`` does not."""


def lane_name(intent: Loaded[Intent]) -> str | None:
    """Return the lane the intent's units live in, None where it asks for no CPUs of its own.

    Asking what CPUs should be like is asking for CPUs: a lane need not be written out.
    """
    spec = intent.model.spec
    if spec.workload.group == "gpu-driver":
        return None
    if spec.lane is not None:
        return spec.lane.name or intent.name
    return intent.name if placing_words(intent) else None


def placing_words(intent: Loaded[Intent]) -> tuple[Preference, ...]:
    """Return what the intent asks its CPUs to be, required first."""
    spec = intent.model.spec
    return tuple(word for word in (*spec.require, *spec.prefer) if word in PLACING)


def wants_leftovers(intent: Loaded[Intent]) -> bool:
    """Return whether the intent's units live on the CPUs that are in no lane."""
    spec = intent.model.spec
    return lane_name(intent) is None and "leftovers" in (*spec.prefer, *spec.require)


def lane_span(intent: Loaded[Intent]) -> Span:
    """Return where the intent asks for its lane."""
    spec = intent.model.spec
    if spec.lane is not None:
        return intent.doc.key_span("spec", "lane")
    hard = any(word in PLACING for word in spec.require)
    return intent.doc.key_span("spec", "require" if hard else "prefer")


def lanes_of(
    policy: Policy,
    intents: Sequence[Loaded[Intent]],
    node: Loaded[NodeFacts],
    tiers: Mapping[str, int],
    orders: Orders,
    sink: Sink,
) -> tuple[ResolvedLane, ...]:
    """Return the lanes of the node, highest tier first.

    Args:
        tiers: highest tier among each intent's units.
        orders: of the intents inside those tiers.
    """
    members: dict[str, list[Loaded[Intent]]] = {}
    for intent in intents:
        name = lane_name(intent)
        if name is not None:
            members.setdefault(name, []).append(intent)
    topology = topology_of(node.model)
    lanes = [
        lane
        for name, joined in members.items()
        if (lane := _lane(policy, name, joined, node, topology, tiers, orders, sink)) is not None
    ]
    return tuple(sorted(lanes, key=lambda lane: (lane.tier, lane.order, lane.name)))


def _lane(
    policy: Policy,
    name: str,
    joined: Sequence[Loaded[Intent]],
    node: Loaded[NodeFacts],
    topology: Topology,
    tiers: Mapping[str, int],
    orders: Orders,
    sink: Sink,
) -> ResolvedLane | None:
    cores = decide(name, "cores", joined, lambda i: _written(policy, i, node, sink), sink)
    derived = cores is None and all(not _writes_cores(intent) for intent in joined)
    if derived:
        cores = _derived(policy, joined, sink)
    share: Decided[Share] | None = decide(name, "share", joined, _share, sink)
    if cores is None:
        return None
    if share is None:
        share = Decided(Defined("guarded", lane_span(joined[0]), joined[0].name, -1001))
    ranked = sorted(joined, key=lambda i: (-i.model.spec.precedence, i.name))
    prefer = tuple(dict.fromkeys(w for i in ranked for w in i.model.spec.prefer if w in PLACING))
    require = tuple(dict.fromkeys(w for i in ranked for w in i.model.spec.require))
    best = min(joined, key=lambda i: (tiers[i.name], orders.of(i.name, tiers[i.name]), i.name))
    size: Size = cores.value
    users = _users(joined, node, sink) if "gpu-local" in (*prefer, *require) else []

    def size_in(place: Locality) -> Size:
        if not derived:
            return size
        here = [(u.intent, u.engines_in(place)) for u in users]
        low = [_from_profile(policy, i, lane_span(i), n, sink) for i, n in here if n]
        known = [one for one in low if one is not None]
        return sum(low for low, _ in known), sum(high for _, high in known)

    lane = ResolvedLane(
        name=name,
        tier=tiers[best.name],
        order=orders.of(best.name, tiers[best.name]),
        min=size[0],
        max=size[1],
        share=share,
        cores=Decided(
            Defined(
                size_text(size), cores.winner.span, cores.winner.intent, cores.winner.precedence
            ),
            tuple(
                Defined(size_text(d.value), d.span, d.intent, d.precedence) for d in cores.losers
            ),
        ),
        prefer=tuple(w for w in prefer if w not in require),
        require=require,
        devices=tuple(sorted({gpu for user in users for gpu in user.gpus}, key=natural)),
        intents=tuple(sorted(i.name for i in joined)),
        span=lane_span(best),
    )
    return divide(lane, users, topology, size_in, sink)


def _users(joined: Sequence[Loaded[Intent]], node: Loaded[NodeFacts], sink: Sink) -> list[User]:
    """Return whose GPUs a lane is near: engines', and those of whoever asks for gpu-local.

    A helper that only joins the lane has no GPU to be near.
    """
    users = [User(intent, gpus_of(intent, node, sink)) for intent in joined]
    return [
        user
        for user in users
        if user.intent.model.spec.workload.engine is not None
        or "gpu-local" in placing_words(user.intent)
    ]


def _cores_text(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"


def _share(intent: Loaded[Intent]) -> Defined[Share] | None:
    lane = intent.model.spec.lane
    if lane is None or lane.share is None:
        return None
    return Defined(
        lane.share,
        intent.span("spec", "lane", "share"),
        intent.name,
        intent.model.spec.precedence,
    )


def _writes_cores(intent: Loaded[Intent]) -> bool:
    lane = intent.model.spec.lane
    return lane is not None and lane.cores is not None


def _written(
    policy: Policy, intent: Loaded[Intent], node: Loaded[NodeFacts], sink: Sink
) -> Defined[Size] | None:
    """Return the size an intent states; None where it states none or (reported) an unusable one."""
    lane = intent.model.spec.lane
    if lane is None or lane.cores is None:
        return None
    span = intent.span("spec", "lane", "cores")
    size: Size | None
    if isinstance(lane.cores, CoreRange):
        size = (lane.cores.min, lane.cores.max)
    elif lane.cores == "rest":
        size = (1, None)
    else:
        size = _measured(policy, intent, node, span, sink)
    if size is None:
        return None
    return Defined(size, span, intent.name, intent.model.spec.precedence)


def _derived(policy: Policy, joined: Sequence[Loaded[Intent]], sink: Sink) -> Decided[Size] | None:
    """Return the size that the profiles of all joined engines add up to."""
    sizes = [
        _from_profile(policy, i, lane_span(i), i.model.spec.workload.instances, sink)
        for i in joined
    ]
    known = [size for size in sizes if size is not None]
    if len(known) != len(sizes):
        return None
    total = (sum(low for low, _ in known), sum(high for _, high in known))
    first = joined[0]
    return Decided(Defined(total, lane_span(first), first.name, first.model.spec.precedence))


def _measured(
    policy: Policy, intent: Loaded[Intent], node: Loaded[NodeFacts], span: Span, sink: Sink
) -> Size | None:
    meta = node.model.metadata
    found = [
        d
        for d in policy.demands
        if d.model.spec.intent == intent.name
        and selects(d.model.spec.nodes, meta.name, meta.labels)
    ]
    if len(found) != 1:
        many = f"{len(found)} Demand documents match" if found else "no Demand document matches"
        sink.add(
            codes.LANE_SIZE.at(
                span,
                f"cores: measured, and {many} intent {intent.name} on this node",
                related=[Related(d.span("spec", "intent"), f"demand {d.name}") for d in found],
                help="write a Demand document with what was measured, or state the cores",
            )
        )
        return None
    demand = found[0].model.spec
    if demand.spin_suspect:
        sink.add(
            codes.LANE_SIZE.at(
                span,
                f"demand {found[0].name} looks like a spin loop: a polling engine keeps "
                f"{_cores_text(demand.cores.p99)} busy whether it works or waits",
                related=[Related(found[0].span("spec", "spinSuspect"), "marked here")],
                help="turn spinning off and measure again, or state the cores",
            )
        )
        return None
    low = max(1, math.ceil(demand.cores.p50))
    return low, max(low, math.ceil(demand.cores.p99))


def _from_profile(
    policy: Policy, intent: Loaded[Intent], span: Span, engines: int, sink: Sink
) -> tuple[int, int] | None:
    """Return the fewest and most cores of a number of engines, in the words of their profile."""
    work = intent.model.spec.workload
    if work.engine is None:
        sink.add(
            codes.LANE_SIZE.at(
                span,
                f"intent {intent.name} asks for CPUs of its own and does not say how many; only "
                "engines have a profile to size them",
                help="add lane: {cores: 2}, or {min: 2, max: 4}",
            )
        )
        return None
    profile = policy.profiles.get(work.engine)
    if profile is None:
        return None  # reported when the intent was expanded
    present = stage_matches(
        profile.model,
        work.version,
        work.tensor_parallel,
        narrowed=work.cgroup is not None or work.pods is not None,
    )
    low = high = 0
    for stage, rows in present.items():
        known = profile.model.spec.stages.get(stage)
        if not rows or known is None or known.cores is None or stage in NODE_STAGES:
            continue
        if all(row.match.needs is not None for row in rows):
            continue  # the stage exists only behind a switch; it must not size the lane
        times = engines * (work.tensor_parallel if known.per_rank else 1)
        low += known.cores.min * times
        high += known.cores.max * times
    if not low:
        sink.add(
            codes.LANE_SIZE.at(
                span,
                f"the profile of {work.engine} gives no cores for this version",
                help="add lane: {cores: 2}",
            )
        )
        return None
    return low, high
