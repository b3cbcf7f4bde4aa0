"""What the intents of a node say of interrupts: who speaks of which device, and who wins.

An intent speaks of its GPUs where it is an engine's, asks for ``gpu-local``, lists GPUs or says
``irqs``.  One that says nothing has the default: interrupts of its GPUs go to its lane; without a
lane it speaks of none.  It speaks of NICs, in the same words, where it asks for ``nic-local``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.resolve.gpus import gpus_of
from compiler.resolve.lanes import lane_name, placing_words
from compiler.resolve.tiers import Orders
from compiler.resolve.types import IrqClaim
from compiler.words import listed


def claims_of(
    intents: Sequence[Loaded[Intent]],
    node: Loaded[NodeFacts],
    tiers: Mapping[str, int],
    orders: Orders,
    sink: Sink,
) -> tuple[IrqClaim, ...]:
    """Return what the intents say of interrupts, those that win first; conflicts are findings.

    Args:
        intents: those of the node.
        node: any node of the class.
        tiers: highest tier among the units that each intent speaks of.
        orders: of the intents inside those tiers.
        sink: takes the findings.
    """
    found = [
        claim
        for intent in intents
        if (claim := _claim(intent, node, tiers, orders, sink)) is not None
    ]
    ranked = tuple(sorted(found, key=lambda claim: (claim.rank, claim.intent.name)))
    _report_conflicts(ranked, sink)
    return ranked


def deciding(claims: Sequence[IrqClaim]) -> tuple[IrqClaim, ...]:
    """Return those of the claims on one device that decide: of highest rank, written ones first.

    They agree on where the interrupts go, unless a conflict was reported.
    """
    if not claims:
        return ()
    best = min(claim.rank for claim in claims)
    top = [claim for claim in claims if claim.rank == best]
    return tuple([claim for claim in top if claim.written] or top)


def _claim(
    intent: Loaded[Intent],
    node: Loaded[NodeFacts],
    tiers: Mapping[str, int],
    orders: Orders,
    sink: Sink,
) -> IrqClaim | None:
    spec = intent.model.spec
    words = placing_words(intent)
    lane = lane_name(intent)
    uses = (
        spec.workload.engine is not None
        or "gpu-local" in words
        or "gpus" in spec.workload.model_fields_set
    )
    if spec.irqs is None and lane is None:
        return None
    if spec.irqs is None and not uses and "nic-local" not in words:
        return None
    if spec.irqs == "lane" and lane is None:
        sink.add(
            codes.IRQS_WITHOUT_LANE.at(
                intent.span("spec", "irqs"),
                f"{intent.name} sends interrupts to its lane and has none: they are left as they "
                "are",
                help="add a lane, such as lane: {cores: 2}; or write irqs: housekeeping or leave",
            )
        )
    gpus = gpus_of(intent, node, Sink()) if uses or spec.irqs is not None else frozenset[str]()
    return IrqClaim(
        intent=intent,
        where="lane" if spec.irqs is None else spec.irqs,
        written=spec.irqs is not None,
        lane=lane,
        gpus=gpus,  # what the node lacks was reported where the intent's lane was made
        nics="nic-local" in words,
        tier=tiers[intent.name],
        order=orders.of(intent.name, tiers[intent.name]),
    )


def _report_conflicts(claims: Sequence[IrqClaim], sink: Sink) -> None:
    """Report intents of equal standing that send the interrupts of one device elsewhere."""
    ids = sorted(frozenset[str]().union(*(claim.gpus for claim in claims)))
    groups = [([c for c in claims if id in c.gpus], id) for id in ids]
    groups.append(([claim for claim in claims if claim.nics], "the NICs"))
    told: set[tuple[str, ...]] = set()
    for group, device in groups:
        top = [claim for claim in deciding(group) if claim.written]
        names = tuple(claim.intent.name for claim in top)
        if len({claim.where for claim in top}) < 2 or names in told:
            continue
        told.add(names)
        said = listed([f"{claim.intent.name} says {claim.where}" for claim in top])
        said_at = {claim.intent.span("spec", "irqs"): claim for claim in top}
        first, *others = sorted(said_at)
        sink.add(
            codes.IRQS_CONFLICT.at(
                first,
                f"interrupts of {device}: {said}, with equal standing",
                related=[
                    Related(at, f"{said_at[at].intent.name} says {said_at[at].where}")
                    for at in others
                ],
                help="say the same in all of them, or put one above the other, or give it a "
                "higher precedence",
            )
        )
