"""Binding units to one class of nodes: ``@pods``, cgroup narrowing, units of the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Severity, Sink
from compiler.model.facts import NodeFacts
from compiler.patterns import Glob, PatternTooComplex, contains, intersects
from compiler.plan import Condition
from compiler.policy import Policy
from compiler.resolve.pods import pods_text
from compiler.resolve.types import NODE_UNIT, Expansion, Matcher, UnitDraft
from compiler.topology import pods_root_of

PODS = "@pods"


def pods_root(facts: NodeFacts) -> str | None:
    """Return the cgroup below which the node's pods live, the operator's word first."""
    return pods_root_of(facts.spec)


def on_node(cgroup: str, facts: NodeFacts) -> str | None:
    """Return a cgroup with ``@pods`` at its start replaced; None if the pods root is unknown."""
    if cgroup != PODS and not cgroup.startswith(f"{PODS}/"):
        return cgroup
    root = pods_root(facts)
    return None if root is None else root + cgroup[len(PODS) :]


def may_be_in_pod(facts: NodeFacts, cgroup: str | None) -> bool:
    """Return whether a thread may be in a pod, as far as its cgroup (None: unknown) tells.

    Outside the node's pods root there are no pods; a node without a kubelet has none.
    """
    root = pods_root(facts)
    if root is None:
        return facts.spec.kubelet is not None and facts.spec.kubelet.present
    return cgroup is None or cgroup == root or cgroup.startswith(f"{root}/")


def bind(
    policy: Policy, expansions: Sequence[Expansion], node: Loaded[NodeFacts], sink: Sink
) -> tuple[UnitDraft, ...]:
    """Return all units of the node, matchers narrowed and ``@pods`` replaced, sorted by name.

    A matcher that cannot be bound here is dropped with a finding: an error where its unit is
    protected, else a warning.  It is never bound wider than written.
    """
    units = [
        replace(unit, matchers=_bound(unit, node, sink))
        for expansion in expansions
        for unit in expansion.units
    ]
    units += _node_units(policy, expansions)
    return tuple(sorted((u for u in units if u.matchers), key=lambda u: u.name))


def _node_units(policy: Policy, expansions: Sequence[Expansion]) -> list[UnitDraft]:
    group = policy.groups["gpu-driver"]
    wanted = {need.target for e in expansions for need in e.needs}
    out = []
    for stage in ("gpu-driver", "gpu-irq"):
        name = f"{NODE_UNIT}/{stage}"
        asks = [ask for e in expansions for s, ask in e.node_asks if s == stage]
        if name not in wanted and not asks:
            continue
        matchers = tuple(
            Matcher(
                condition=_kthread(row.kthread),
                span=group.span("spec", "match", i, "kthread"),
                needs=row.needs,
                evidence=row.evidence,
            )
            for i, row in enumerate(group.model.spec.match)
            if row.stage == stage
        )
        out.append(
            UnitDraft(
                name=name,
                intent=None,
                stage=stage,
                matchers=matchers,
                asks=tuple(sorted(asks)),
                precedence=0,
                builtin=True,
            )
        )
    return out


def _kthread(text: str | None) -> Condition:
    if text is None:
        raise AssertionError("the gpu-driver group consists of kernel threads")
    return Condition(kthread=text)


def _bound(unit: UnitDraft, node: Loaded[NodeFacts], sink: Sink) -> tuple[Matcher, ...]:
    if unit.intent is None:
        return unit.matchers
    work = unit.intent.model.spec.workload
    protected = any(ask.effect == "protect" for ask in unit.asks)
    severity = Severity.ERROR if protected or not unit.asks else Severity.WARNING
    written = work.match is not None
    apart: list[tuple[Matcher, list[str]]] = []
    root = pods_root(node.model)
    out: list[Matcher] = []
    for matcher in unit.matchers:
        condition = matcher.condition
        if condition.kthread is not None and (work.cgroup or work.pods):
            continue  # kernel threads live in no cgroup: narrowed, they are nobody's
        cgroups = [text for text in (condition.cgroup, work.cgroup) if text is not None]
        if any(_uses_pods(text) for text in cgroups) and root is None:
            span = (
                unit.intent.span("spec", "workload", "cgroup")
                if work.cgroup is not None and _uses_pods(work.cgroup)
                else matcher.span
            )
            sink.add(
                codes.NO_PODS_ROOT.at(
                    span,
                    f"{PODS} is unknown: the node's facts name no pods root",
                    severity=severity,
                    related=[Related(node.key_span("spec"), "these facts")],
                    help="collect the facts on the node while its kubelet runs, or set "
                    "overrides: {podsRoot: kubepods.slice} in the node's facts",
                )
            )
            continue
        texts = [_replace_pods(text, root) for text in cgroups]
        cgroup = texts[0] if texts else None
        if len(texts) == 2:
            combined = _narrower(texts[0], texts[1])
            if combined is None:
                if written or intersects(Glob.cgroup(texts[0]), Glob.cgroup(texts[1])):
                    _unsatisfiable(unit, matcher, cgroups, texts, severity, sink)
                else:
                    apart.append((matcher, texts))
                continue
            cgroup = combined
        pods = pods_text(work.pods) if work.pods is not None else None
        out.append(
            replace(
                matcher, condition=condition.model_copy(update={"cgroup": cgroup, "pods": pods})
            )
        )
    if apart and not out:
        # One known way of several that cannot be in this cgroup is no mistake; none left is.
        matcher, texts = apart[0]
        _unsatisfiable(unit, matcher, texts, texts, severity, sink)
    return tuple(out)


def _uses_pods(text: str) -> bool:
    return text == PODS or text.startswith(PODS + "/")


def _replace_pods(text: str, root: str | None) -> str:
    return (root or "") + text[len(PODS) :] if _uses_pods(text) else text


def _narrower(one: str, other: str) -> str | None:
    a, b = Glob.cgroup(one), Glob.cgroup(other)
    if not intersects(a, b):
        return None
    try:
        if contains(b, a):
            return one
        return other if contains(a, b) else None
    except PatternTooComplex:
        return None


def _unsatisfiable(
    unit: UnitDraft,
    matcher: Matcher,
    written: list[str],
    texts: list[str],
    severity: Severity,
    sink: Sink,
) -> None:
    if unit.intent is None:
        return
    meet = intersects(Glob.cgroup(texts[0]), Glob.cgroup(texts[1]))
    why = "overlap, but neither contains the other" if meet else "have no path in common"
    sink.add(
        codes.CGROUP_UNSATISFIABLE.at(
            unit.intent.span("spec", "workload", "cgroup"),
            f'cgroup "{written[1]}" cannot narrow "{written[0]}": they {why}',
            severity=severity,
            related=[Related(matcher.span, "this matcher already has a cgroup")],
            help="write the combined pattern in workload.match instead"
            if meet
            else "drop one of the two: together they match nothing",
        )
    )
