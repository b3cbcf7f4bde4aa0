"""The order of the passes; nothing else knows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler import capability, safety
from compiler.artifact import Artifact, canonical_json
from compiler.assemble import assemble
from compiler.codes import resolution as resolution_codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink, Span
from compiler.model.facts import NodeFacts
from compiler.model.project import Enforce
from compiler.modes import UNENFORCED_LIMITS, Decision, decide
from compiler.place import Placement, place
from compiler.plan import MAX_BANDS, LeftOut, NodePlan
from compiler.policy import Policy
from compiler.registry import load
from compiler.requests import lane_requests
from compiler.resolve import check_above, check_policy, expand, resolve
from compiler.resolve.types import Expansion, Resolution
from compiler.select import selects
from compiler.topology import Topology, topology_of
from compiler.verdicts import degraded, refused, unplaceable, verdicts


@dataclass(frozen=True)
class CompiledClass:
    """Nodes with equal placement facts, intents and options, and their one plan.

    Attributes:
        nodes: names, sorted.
        sample: facts of the first of them.
        plan: None where the class cannot be planned.
        views: per emitted target, the plan as it sees it.
        skipped: targets asked for that emit nothing in this mode, and why.
    """

    nodes: tuple[str, ...]
    sample: Loaded[NodeFacts]
    expansions: tuple[Expansion, ...]
    decision: Decision
    resolution: Resolution
    topology: Topology
    plan: NodePlan | None
    views: Mapping[str, NodePlan]
    skipped: Mapping[str, str]


@dataclass(frozen=True)
class Compilation:
    """A compiled policy."""

    policy: Policy
    expansions: tuple[Expansion, ...]
    classes: tuple[CompiledClass, ...]

    def of_node(self, name: str) -> CompiledClass | None:
        """Return the class of a node, None where there is no such node."""
        return next((c for c in self.classes if name in c.nodes), None)


def compile_policy(policy: Policy, sink: Sink) -> Compilation:
    """Resolve, place and check every class of nodes; findings say what is wrong.

    A class with an error has no plan.  Errors of the policy itself leave all classes without.
    """
    expansions = tuple(expand(policy, intent, sink) for intent in policy.intents)
    acyclic = check_above(policy, sink)
    check_policy(policy, sink)
    if policy.intents and not policy.nodes and not policy.lost & {NodeFacts.__name__, ""}:
        first = policy.intents[0]
        sink.add(
            resolution_codes.NO_NODES.at(
                first.key_span("kind"),
                "no node facts: intents are checked by themselves, nothing is placed",
                help="run tierc facts collect -o nodes/NAME.yaml on a node",
            )
        )
    ready = acyclic and not sink.has_errors
    classes = []
    for key_nodes in _classes(policy):
        own = Sink()
        classes.append(_compile_class(policy, expansions, key_nodes, own, ready=ready))
        names = classes[-1].nodes
        sink.extend(own.map(lambda d, names=names: replace(d, nodes=names)))  # type: ignore[misc]
    return Compilation(policy, expansions, tuple(classes))


def _classes(policy: Policy) -> list[tuple[Loaded[NodeFacts], ...]]:
    """Group the nodes by everything a plan depends on, in order of their first names."""
    groups: dict[bytes, list[Loaded[NodeFacts]]] = {}
    for node in policy.nodes:
        enforce, _ = policy.enforce_of(node)
        facts = node.model.spec.model_dump(
            mode="json", exclude={"sources", "warnings", "virtualization"}
        )
        key = canonical_json(
            {
                "facts": facts,
                "intents": [intent.name for intent in policy.intents_of(node)],
                "demands": sorted(
                    d.name
                    for d in policy.demands
                    if selects(d.model.spec.nodes, node.name, node.model.metadata.labels)
                ),
                "enforce": enforce.model_dump(mode="json", exclude={"nodes"}),
            }
        )
        groups.setdefault(key, []).append(node)
    return [tuple(group) for group in groups.values()]


def _compile_class(
    policy: Policy,
    expansions: Sequence[Expansion],
    members: Sequence[Loaded[NodeFacts]],
    sink: Sink,
    *,
    ready: bool,
) -> CompiledClass:
    sample = members[0]
    selected = {intent.name for intent in policy.intents_of(sample)}
    mine = tuple(e for e in expansions if e.intent.name in selected)
    enforce, span = policy.enforce_of(sample)
    decision = decide(enforce, sample.model)
    _report_mode(decision, enforce, span or sample.key_span("kind"), sample, sink)
    topology = topology_of(sample.model)
    resolution = resolve(policy, mine, sample, sink)
    plan = None
    if ready and not sink.has_errors:
        plan = _plan(policy, decision, resolution, topology, sample, sink)
    views: dict[str, NodePlan] = {}
    skipped: dict[str, str] = {}
    if plan is not None:
        plan, views, skipped = _targets(policy, plan, resolution, sink)
        if sink.has_errors:
            plan, views = None, {}
    return CompiledClass(
        nodes=tuple(node.name for node in members),
        sample=sample,
        expansions=mine,
        decision=decision,
        resolution=resolution,
        topology=topology,
        plan=plan,
        views=views,
        skipped=skipped,
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
        target = load(name)
        if plan.mode not in target.modes:
            skipped[name] = f"emits nothing in mode {plan.mode}"
            continue
        left_out[name] = capability.gaps(plan, target)
    capability.report(plan, resolution, left_out, sink)
    listed = {name: rows for name, rows in left_out.items() if rows}
    full = plan.model_copy(update={"left_out": listed})
    return full, {n: capability.visible(full, rows) for n, rows in left_out.items()}, skipped


def emit(
    compilation: Compilation,
    *,
    nodes: Collection[str] | None = None,
    targets: Collection[str] | None = None,
) -> list[Artifact]:
    """Return the artifacts of all planned nodes, or of those named, sorted by path.

    Each target emits once a class, whatever number of nodes it has.
    """
    out: list[Artifact] = []
    for group in compilation.classes:
        wanted = [n for n in group.nodes if nodes is None or n in nodes]
        if group.plan is None or not wanted:
            continue
        files = [Artifact("plan.json", canonical_json(group.plan.data()))]
        for name, view in sorted(group.views.items()):
            if targets is None or name in targets:
                files += load(name).emit(view)
        out += [
            replace(file, path=f"nodes/{node}/{file.path}") for node in wanted for file in files
        ]
    return sorted(out, key=lambda a: a.path)
