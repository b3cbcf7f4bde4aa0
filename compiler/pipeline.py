"""The order of the passes; nothing else knows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler import capability, safety
from compiler.artifact import Artifact, canonical_json
from compiler.assemble import assemble
from compiler.codes import placement as placement_codes
from compiler.codes import resolution as resolution_codes
from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic, Related, Sink, Span
from compiler.model.facts import NodeFacts
from compiler.modes import Decision, decide
from compiler.place import LaneRequest, Placement, Refusal, place
from compiler.plan import MAX_BANDS, LeftOut, NodePlan
from compiler.policy import Policy
from compiler.registry import load
from compiler.resolve import check_above, check_policy, expand, resolve
from compiler.resolve.types import Expansion, Resolution
from compiler.select import selects
from compiler.topology import Topology, topology_of


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
    if policy.intents and not policy.nodes:
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
    _report_mode(decision, enforce.mode, span or sample.key_span("kind"), sample, sink)
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
    decision: Decision, asked: str, span: Span, node: Loaded[NodeFacts], sink: Sink
) -> None:
    if not decision.refused:
        return
    code = resolution_codes.MODE_REFUSED if asked == "sched_ext" else resolution_codes.MODE_FALLBACK
    verb = "cannot run" if asked == "sched_ext" else "falls back to CPU affinity instead of"
    sink.add(
        code.at(
            span,
            f"the node {verb} sched_ext: {'; '.join(decision.refused)}",
            related=[Related(node.key_span("spec", "kernel"), "these facts")],
            help="use mode: auto or fallback, or change the node"
            if asked == "sched_ext"
            else "use mode: fallback to say so, or change the node",
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
    requests = [
        LaneRequest(
            name=lane.name,
            tier=lane.tier,
            order=lane.order,
            min=lane.min,
            max=lane.max,
            share=lane.share.value,
            prefer=lane.prefer,
            require=lane.require,
            devices=lane.devices,
        )
        for lane in resolution.lanes
    ]
    placed = place(
        topology,
        requests,
        None if housekeeping == "auto" else housekeeping,
        system_tier=policy.ladder.system,
    )
    if not isinstance(placed, Placement):
        for refusal in placed:
            sink.add(_refused(policy, refusal, resolution, node))
        return None
    plan = assemble(policy.ladder, decision.mode, resolution, topology, placed)
    if not _within_limits(policy, plan, resolution, node, sink):
        return None
    for row in plan.degradations:
        sink.add(
            placement_codes.DEGRADED.at(
                _about(row.about, resolution, node), f"{row.about}: {row.message}"
            )
        )
    for broken in safety.check(plan):
        starved = broken.kind == safety.STARVED
        rule = resolution.rules[broken.rule] if starved and broken.rule is not None else None
        sink.add(
            broken.code.at(
                rule.matcher.span if rule is not None else node.key_span("spec"),
                broken.message,
                help="narrow the demotion, or keep node-infra with a higher precedence"
                if starved
                else "this is a fault of tierc; please report it with these documents",
            )
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
                help="shorten chains of above, or let intents share a lane or a tier",
            )
        )
    starved = [] if plan.leftovers else [u for u in resolution.units if u.leftovers]
    refused = 0
    for intent in {u.draft.intent.name: u.draft.intent for u in starved if u.draft.intent}.values():
        words = intent.model.spec.require
        if "leftovers" not in words:
            continue
        refused += 1
        quarantine = policy.project.spec.on_unplaceable == "quarantine"
        code = placement_codes.QUARANTINED if quarantine else placement_codes.UNPLACEABLE
        sink.add(
            code.at(
                intent.span("spec", "require", words.index("leftovers")),
                f"{intent.name} requires leftovers, and no CPU is outside lanes and housekeeping",
                related=[Related(node.key_span("spec", "cores"), f"the CPUs of {node.name}")],
                help="write leftovers under prefer, or lower cores.max of a lane",
            )
        )
    return bands <= MAX_BANDS and not refused


def _refused(
    policy: Policy, refusal: Refusal, resolution: Resolution, node: Loaded[NodeFacts]
) -> Diagnostic:
    quarantine = policy.project.spec.on_unplaceable == "quarantine"
    code = placement_codes.QUARANTINED if quarantine else placement_codes.UNPLACEABLE
    return code.at(
        _about(refusal.about, resolution, node),
        refusal.message,
        related=[Related(node.key_span("spec", "cores"), f"the CPUs of {node.name}")],
        help=refusal.help,
    )


def _about(about: str, resolution: Resolution, node: Loaded[NodeFacts]) -> Span:
    """Return the line a lane or unit comes from; the node's facts for anything else."""
    for lane in resolution.lanes:
        if lane.name == about:
            return lane.span
    for unit in resolution.units:
        if unit.name == about and unit.draft.intent is not None:
            return unit.draft.intent.key_span("spec", "workload")
    return node.key_span("spec", "cores")


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
        files: list[Artifact] = []
        files.append(Artifact("plan.json", canonical_json(group.plan.data())))
        for name, view in sorted(group.views.items()):
            if targets is None or name in targets:
                files += load(name).emit(view)
        out += [
            replace(file, path=f"nodes/{node}/{file.path}") for node in wanted for file in files
        ]
    return sorted(out, key=lambda a: a.path)
