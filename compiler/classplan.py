"""Compiling one class of nodes: resolved, placed, checked, and cut to what each target can do."""

from __future__ import annotations

from collections.abc import Sequence

from compiler import capability, safety
from compiler.assemble import assemble
from compiler.classes import NodeClass
from compiler.codes import resolution as resolution_codes
from compiler.compiled import CompiledClass
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink, Span
from compiler.model.facts import NodeFacts
from compiler.model.project import Enforce
from compiler.modes import UNENFORCED_LIMITS, Decision, decide
from compiler.place import Placement, place
from compiler.plan import MAX_BANDS, LeftOut, NodePlan
from compiler.policy import Policy
from compiler.registry import TARGETS, load
from compiler.requests import lane_requests
from compiler.resolve import resolve
from compiler.resolve.types import Expansion, Resolution
from compiler.topology import Topology, topology_of
from compiler.verdicts import degraded, refused, unplaceable, verdicts


def compile_class(
    policy: Policy,
    expansions: Sequence[Expansion],
    group: NodeClass,
    sink: Sink,
    *,
    ready: bool,
    wanted: bool,
) -> CompiledClass:
    """Return what becomes of a class; findings say what is wrong.

    Args:
        policy: whose nodes they are.
        expansions: of all its intents.
        group: the class.
        sink: takes the findings.
        ready: the policy itself has no error; otherwise there is no plan.
        wanted: place it; otherwise it is only resolved, so that what is wrong is found.
    """
    sample = group.members[0]
    selected = {intent.name for intent in policy.intents_of(sample)}
    mine = tuple(e for e in expansions if e.intent.name in selected)
    enforce, span = policy.enforce_of(sample)
    decision = decide(enforce, sample.model)
    _report_mode(decision, enforce, span or sample.key_span("kind"), sample, sink)
    topology = topology_of(sample.model)
    resolution = resolve(policy, mine, sample, sink)
    plan = None
    if ready and wanted and not sink.has_errors:
        plan = _plan(policy, decision, resolution, topology, sample, sink)
    views: dict[str, NodePlan] = {}
    skipped: dict[str, str] = {}
    if plan is not None:
        plan, views, skipped = _targets(policy, plan, resolution, sink)
        if sink.has_errors:
            plan, views = None, {}
    return CompiledClass(
        name=group.name,
        nodes=tuple(node.name for node in group.members),
        sample=sample,
        expansions=mine,
        decision=decision,
        resolution=resolution,
        topology=topology,
        plan=plan,
        views=views,
        skipped=skipped,
        mine=wanted,
    )


def _report_mode(
    decision: Decision, enforce: Enforce, span: Span, node: Loaded[NodeFacts], sink: Sink
) -> None:
    if not decision.refused:
        return
    hard = enforce.mode == "sched_ext"
    code = resolution_codes.MODE_REFUSED if hard else resolution_codes.MODE_FALLBACK
    verb = "cannot run" if hard else "falls back to CPU affinity instead of"
    instead = "use mode: auto or fallback" if hard else "use mode: fallback to say so"
    consent = decision.refused == (UNENFORCED_LIMITS,)
    sink.add(
        code.at(
            span,
            f"the node {verb} sched_ext: {'; '.join(decision.refused)}",
            related=[
                Related(node.key_span("spec", "kubelet" if consent else "kernel"), "these facts")
            ],
            help=f"add acceptUnenforcedCpuLimits: true to this entry to consent, or {instead}"
            if consent
            else f"{instead}, or change the node",
        )
    )


def _plan(
    policy: Policy,
    decision: Decision,
    resolution: Resolution,
    topology: Topology,
    node: Loaded[NodeFacts],
    sink: Sink,
) -> NodePlan | None:
    housekeeping = policy.project.spec.reserve.housekeeping
    unmet = [one for lane in resolution.lanes for one in lane.unmet]
    for one in unmet:
        sink.add(unplaceable(policy, node, one.span, one.message, one.help))
    if unmet:
        return None
    placed = place(
        topology,
        lane_requests(resolution),
        None if housekeeping == "auto" else housekeeping,
        system_tier=policy.ladder.system,
    )
    if not isinstance(placed, Placement):
        for refusal in placed:
            sink.add(refused(policy, refusal, resolution, node))
        return None
    plan = assemble(policy.ladder, decision.mode, resolution, topology, placed)
    if not _within_limits(policy, plan, resolution, node, sink):
        return None
    for row in plan.degradations:
        if row.kind == "reservation-unknown":
            continue  # said of each such node, at its facts (TRC609)
        sink.add(degraded(row, resolution, topology, node))
    for broken in verdicts(safety.check(plan), resolution):
        sink.add(
            broken.code.at(broken.span or node.key_span("spec"), broken.message, help=broken.help)
        )
    return plan


def _within_limits(
    policy: Policy, plan: NodePlan, resolution: Resolution, node: Loaded[NodeFacts], sink: Sink
) -> bool:
    """Report what only the finished plan shows: too many bands, required leftovers that are not."""
    bands = len(plan.bands)
    if bands > MAX_BANDS:
        sink.add(
            resolution_codes.TOO_MANY_RULES.at(
                node.key_span("spec"),
                f"the node needs {bands} bands (tier, place in its order, CPUs) and a scheduler "
                f"map holds {MAX_BANDS}",
                help="shorten chains of above, or let intents share a lane or a tier"
                + (
                    "; a lane for each locality of its GPUs multiplies its bands, gpus: all in "
                    "its workload makes it one"
                    if any(lane.family is not None for lane in plan.lanes)
                    else ""
                ),
            )
        )
    starved = [] if plan.leftovers else [u for u in resolution.units if u.leftovers]
    unmet = 0
    for intent in {u.draft.intent.name: u.draft.intent for u in starved if u.draft.intent}.values():
        words = intent.model.spec.require
        if "leftovers" not in words:
            continue
        unmet += 1
        sink.add(
            unplaceable(
                policy,
                node,
                intent.span("spec", "require", words.index("leftovers")),
                f"{intent.name} requires leftovers, and no CPU is outside lanes and housekeeping",
                "write leftovers under prefer, or lower cores.max of a lane",
            )
        )
    return bands <= MAX_BANDS and not unmet


def _targets(
    policy: Policy, plan: NodePlan, resolution: Resolution, sink: Sink
) -> tuple[NodePlan, dict[str, NodePlan], dict[str, str]]:
    left_out: dict[str, tuple[LeftOut, ...]] = {}
    skipped: dict[str, str] = {}
    for name in policy.project.spec.targets.enabled:
        if name not in TARGETS:  # it speaks of the cluster
            continue
        target = load(name)
        if plan.mode not in target.modes:
            skipped[name] = f"emits nothing in mode {plan.mode}"
            continue
        left_out[name] = capability.gaps(plan, target)
    # One that is about some words only enforces nothing else, and lacks nothing else.  What it
    # does, the others need not do.
    narrow = [name for name in left_out if load(name).concerns is not None]
    done = {word for name in narrow for word in load(name).supports}
    left_out = {
        name: tuple(row for row in rows if row.feature not in done)
        for name, rows in left_out.items()
    }
    whole = {name: rows for name, rows in left_out.items() if name not in narrow}
    partial = {name for name in whole if load(name).partial}
    capability.report(plan, resolution, whole, sink, partial, narrow)
    listed = {name: rows for name, rows in left_out.items() if rows}
    full = plan.model_copy(update={"left_out": listed})
    views = {
        name: full if name in partial else capability.visible(full, rows)
        for name, rows in left_out.items()
    }
    return full, views, skipped
