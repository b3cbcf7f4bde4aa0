"""The order of the passes; nothing else knows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.classes import NodeClass, classes_of
from compiler.codes import resolution as resolution_codes
from compiler.compiled import Compilation, CompiledClass
from compiler.diagnostics import Sink, Span
from compiler.emission import cluster_targets, emit, fleet_of
from compiler.model.facts import NodeFacts
from compiler.policy import Policy
from compiler.resolve import check_above, check_policy, expand
from compiler.resolve.types import Expansion
from compiler.shard import Shard, deal

__all__ = ["Compilation", "CompiledClass", "any_plan", "compile_policy", "emit"]


def compile_policy(policy: Policy, sink: Sink, *, shard: Shard | None = None) -> Compilation:
    """Resolve, place and check every class of nodes; findings say what is wrong.

    A class with an error has no plan.  Errors of the policy itself leave all classes without.
    With a shard, the classes of other shards are resolved, so that what is wrong with the policy
    is found by every shard, and not placed.
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
    groups = classes_of(policy)
    shares = None
    if shard is not None:
        shares = deal(((g.name, (n.name for n in g.members)) for g in groups), shard.count)
    classes = []
    for group in groups:
        own = Sink()
        mine = shard is None or shares is None or shares.of_class[group.name] == shard.index
        classes.append(_compile_class(policy, expansions, group, own, ready=ready, wanted=mine))
        names = classes[-1].nodes
        sink.extend(own.map(lambda d, names=names: replace(d, nodes=names)))  # type: ignore[misc]
    compilation = Compilation(policy, expansions, tuple(classes), shard, shares)
    if not sink.has_errors:
        _check_cluster(compilation, sink)
    return compilation


def any_plan(compilation: Compilation) -> bool:
    """Return whether a node of the policy has a plan, be it another shard's."""
    if any(group.plan is not None for group in compilation.classes):
        return True
    others = {group.name for group in compilation.classes if not group.mine}
    return any(
        _compile_class(
            compilation.policy, compilation.expansions, group, Sink(), ready=True, wanted=True
        ).plan
        is not None
        for group in classes_of(compilation.policy)
        if group.name in others
    )


def _compile_class(
    policy: Policy,
    expansions: Sequence[Expansion],
    group: NodeClass,
    sink: Sink,
    *,
    ready: bool,
    wanted: bool,
) -> CompiledClass:
    # Placing is a tenth of all modules, and a policy without node facts has no class.
    from compiler.classplan import compile_class  # noqa: PLC0415

    return compile_class(policy, expansions, group, sink, ready=ready, wanted=wanted)


def _check_cluster(compilation: Compilation, sink: Sink) -> None:
    """Report what the targets for the cluster cannot express."""
    doc = compilation.policy.project_doc
    for target, options in cluster_targets(compilation):
        for problem in target.problems(fleet_of(compilation), options):
            place = doc.key_span(*problem.route) if doc else Span.of_file("tierc.yaml")
            sink.add(problem.at(place))
