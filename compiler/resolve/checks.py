"""What is wrong with a policy's intents and demands whatever the nodes are."""

from __future__ import annotations

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Severity, Sink
from compiler.model.intent import Intent
from compiler.policy import Policy
from compiler.resolve.lanes import lane_name, placing_words
from compiler.suggest import nearest


def check_policy(policy: Policy, sink: Sink) -> None:
    """Report what speaks of nothing, and words that exclude each other."""
    names = [intent.name for intent in policy.intents]
    for demand in policy.demands:
        wanted = demand.model.spec.intent
        if wanted not in names:
            close = nearest(wanted, names)
            sink.add(
                codes.UNKNOWN_INTENT.at(
                    demand.span("spec", "intent"),
                    f'demand {demand.name} is for intent "{wanted}", and no intent is called so',
                    help=(f'did you mean "{close[0]}"? ' if close else "")
                    + "correct the name, or remove the demand",
                )
            )
    for intent in policy.intents:
        _leftovers(intent, sink)
        _says_nothing(intent, sink)
        _lane_name(intent, sink)


RESERVED_LANES = ("housekeeping", "leftovers", "shared", "all")
"""What plans, reports and tests call CPUs that are in no lane."""


def _lane_name(intent: Loaded[Intent], sink: Sink) -> None:
    name = lane_name(intent)
    if name not in RESERVED_LANES:
        return
    lane = intent.model.spec.lane
    written = lane is not None and lane.name is not None
    sink.add(
        codes.LANE_NAME.at(
            intent.span("spec", "lane", "name") if written else intent.span("metadata", "name"),
            f'a lane cannot be called "{name}": that is what CPUs in no lane are called',
            help="choose another name"
            if written
            else "rename the intent, or add lane: {name: ...}",
        )
    )


def _says_nothing(intent: Loaded[Intent], sink: Sink) -> None:
    spec = intent.model.spec
    asks = (spec.protect, spec.demote, spec.keep, spec.lane, spec.irqs)
    if all(ask is None for ask in asks) and not (spec.prefer or spec.require):
        sink.add(
            codes.SAYS_NOTHING.at(
                intent.key_span("spec", "workload"),
                f"intent {intent.name} asks for nothing",
                help="add protect, demote or keep",
            )
        )


def _leftovers(intent: Loaded[Intent], sink: Sink) -> None:
    spec = intent.model.spec
    if lane_name(intent) is None:
        return
    words = placing_words(intent)
    why = "lane" if spec.lane is not None else f"{words[0]}, which asks for a lane,"
    for key, hard in (("prefer", False), ("require", True)):
        given = getattr(spec, key)
        if "leftovers" in given:
            sink.add(
                codes.LEFTOVERS_WITH_LANE.at(
                    intent.span("spec", key, given.index("leftovers")),
                    f"{intent.name} has {why} and {key}s leftovers, which are CPUs in no lane",
                    severity=Severity.ERROR if hard else None,
                    help=f"drop leftovers, or drop {'lane' if spec.lane else words[0]}",
                )
            )
