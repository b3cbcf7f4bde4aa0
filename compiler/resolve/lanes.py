"""Lanes asked for on one node: joined by name, sized, with the devices they should be near."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink, Span
from compiler.model.base import NODE_STAGES, Preference
from compiler.model.facts import Device, NodeFacts
from compiler.model.intent import CoreRange, GpuModel, Intent, Share
from compiler.policy import Policy
from compiler.profiles import stage_matches
from compiler.resolve.types import Decided, Defined, ResolvedLane
from compiler.resolve.values import Size, decide, size_text
from compiler.select import selects

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
    orders: Mapping[str, int],
    sink: Sink,
) -> tuple[ResolvedLane, ...]:
    """Return the lanes of the node, highest tier first.

    Args:
        tiers: highest tier among each intent's units.
        orders: order of each intent inside its tier.
    """
    members: dict[str, list[Loaded[Intent]]] = {}
    for intent in intents:
        name = lane_name(intent)
        if name is not None:
            members.setdefault(name, []).append(intent)
    lanes = [
        lane
        for name, joined in members.items()
        if (lane := _lane(policy, name, joined, node, tiers, orders, sink)) is not None
    ]
    return tuple(sorted(lanes, key=lambda lane: (lane.tier, lane.order, lane.name)))


def _lane(
    policy: Policy,
    name: str,
    joined: Sequence[Loaded[Intent]],
    node: Loaded[NodeFacts],
    tiers: Mapping[str, int],
    orders: Mapping[str, int],
    sink: Sink,
) -> ResolvedLane | None:
    cores = decide(name, "cores", joined, lambda i: _written(policy, i, node, sink), sink)
    if cores is None and all(not _writes_cores(intent) for intent in joined):
        cores = _derived(policy, joined, sink)
    share: Decided[Share] | None = decide(name, "share", joined, _share, sink)
    if cores is None:
        return None
    if share is None:
        share = Decided(Defined("guarded", lane_span(joined[0]), joined[0].name, -1001))
    ranked = sorted(joined, key=lambda i: (-i.model.spec.precedence, i.name))
    prefer = tuple(dict.fromkeys(w for i in ranked for w in i.model.spec.prefer if w in PLACING))
    require = tuple(dict.fromkeys(w for i in ranked for w in i.model.spec.require))
    best = min(joined, key=lambda i: (tiers[i.name], orders[i.name], i.name))
    size: Size = cores.value
    return ResolvedLane(
        name=name,
        tier=tiers[best.name],
        order=orders[best.name],
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
        devices=_devices(joined, node, prefer, require, sink),
        intents=tuple(sorted(i.name for i in joined)),
        span=lane_span(best),
    )


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
    sizes = [_from_profile(policy, intent, lane_span(intent), sink) for intent in joined]
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
                help="measure it, or state the cores",
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
    policy: Policy, intent: Loaded[Intent], span: Span, sink: Sink
) -> tuple[int, int] | None:
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
        times = work.instances * (work.tensor_parallel if known.per_rank else 1)
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


def _devices(
    joined: Sequence[Loaded[Intent]],
    node: Loaded[NodeFacts],
    prefer: Sequence[Preference],
    require: Sequence[Preference],
    sink: Sink,
) -> tuple[str, ...]:
    if "gpu-local" not in (*prefer, *require):
        return ()
    gpus = [d for d in node.model.spec.devices if d.type == "gpu"]
    chosen: set[str] = set()
    for intent in joined:
        wanted = intent.model.spec.workload.gpus
        if isinstance(wanted, str):
            chosen |= {gpu.id for gpu in gpus}
            continue
        for i, item in enumerate(wanted):
            hits = {gpu.id for gpu in gpus if _is(gpu, item)}
            if not hits:
                what = (
                    f'whose model contains "{item.model}"'
                    if isinstance(item, GpuModel)
                    else f'"{item}"'
                )
                have = ", ".join(f"{g.id} {g.bdf or '?'} {g.model or ''}".strip() for g in gpus)
                sink.add(
                    codes.GPU_NOT_FOUND.at(
                        intent.span("spec", "workload", "gpus", i),
                        f"the node has no GPU {what}",
                        related=[
                            Related(node.key_span("spec", "devices"), f"it has: {have or 'none'}")
                        ],
                        help="correct the name, or select other nodes",
                    )
                )
            chosen |= hits
    return tuple(sorted(chosen))


def _is(gpu: Device, item: str | GpuModel) -> bool:
    if isinstance(item, GpuModel):
        return gpu.model is not None and item.model.lower() in gpu.model.lower()
    return item.lower() in {text.lower() for text in (gpu.bdf, gpu.uuid) if text is not None}
