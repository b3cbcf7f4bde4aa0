"""Threads in tests: which rule has them, on every class of nodes, and what that gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.cpuset import CpuSet
from compiler.diagnostics import Span
from compiler.explain import RuleAnswer, Thread, explain_thread, match
from compiler.model.policytest import GivenThread, ThreadExpectation
from compiler.pipeline import CompiledClass
from compiler.plan import Condition, NodePlan
from compiler.policy import Ladder
from compiler.policytest.names import HOUSEKEEPING, LEFTOVERS
from compiler.policytest.results import Failure, alternatives
from compiler.resolve.bind import may_be_in_pod, on_node
from compiler.resolve.pods import pods_take

SpanOf = Callable[..., Span]
"""The place of a key below the item that is tested."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What may become of a thread, and on what condition.

    Attributes:
        rule: the rule that has it, None where none has.
        unknown: conditions of the rule that what is given does not decide; empty: it has it.
    """

    rule: RuleAnswer | None
    tier: str
    cpus: CpuSet
    unknown: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    """Where no rule has it: names like the thread's that rules look for."""

    @property
    def lane(self) -> str | None:
        """The lane it gets."""
        return self.rule.lane if self.rule is not None else None

    @property
    def why(self) -> tuple[str, ...]:
        """The rule and its reasons."""
        rule = self.rule
        if rule is None:
            plain = f"no rule matches: tier {self.tier}, CPUs {self.cpus}"
            return (plain, *(f"a rule looks for the name {name}" for name in self.close))
        return (f"rule {rule.rule} of {rule.unit}: {rule.match}, {rule.at}", *rule.why)


def check_thread(
    group: CompiledClass,
    ladder: Ladder,
    given: GivenThread,
    expect: ThreadExpectation,
    span: SpanOf,
) -> Iterator[Failure]:
    """Yield what does not hold of a thread on a class that has a plan."""
    plan = group.plan
    assert plan is not None
    node = group.nodes[0]
    cgroup = given.cgroup
    if given.cgroup is not None:
        cgroup = on_node(given.cgroup, group.sample.model)
        if cgroup is None:
            yield Failure(
                span("given", "cgroup"),
                f"a node with pods, since the thread is in {given.cgroup}",
                "the node's facts name no pods root",
                help="set overrides: {podsRoot: kubepods.slice} in the node's facts",
            )
            return
    inside = given.pod is not None or may_be_in_pod(group.sample.model, cgroup)
    thread = Thread(given.comm, given.leader_comm, cgroup, given.cmdline, given.kthread, inside)
    outcomes = _outcomes(group, ladder, node, thread, given)
    undecided: list[tuple[Span, str]] = []
    for key, wanted, holds, shown in _demands(expect, plan):
        wrong = [outcome for outcome in outcomes if not holds(outcome)]
        place = span("expect", *key)
        if len(wrong) == len(outcomes):
            texts = list(dict.fromkeys(shown(outcome) for outcome in outcomes))
            only = outcomes[0].why
            why = only if len(outcomes) == 1 else tuple(_conditional(one) for one in outcomes)
            yield Failure(place, wanted, alternatives(texts), why)
        elif wrong:
            undecided.append((place, wanted))
    if undecided:
        missing = alternatives(_missing(outcomes, plan, given))
        yield Failure(
            min(place for place, _ in undecided),
            ", ".join(wanted for _, wanted in undecided),
            "it depends on what is not given",
            tuple(_conditional(outcome) for outcome in outcomes),
            f"add {missing} to given, {span('given')}",
        )


def _outcomes(
    group: CompiledClass, ladder: Ladder, node: str, thread: Thread, given: GivenThread
) -> list[Outcome]:
    """Return what may become of the thread, in rule order, up to what surely has it."""
    plan = group.plan
    assert plan is not None
    answer = explain_thread(group, ladder, node, thread)
    rules = [*answer.possible, *([answer.winner] if answer.winner is not None else [])]
    out: list[Outcome] = []
    for rule in sorted(rules, key=lambda rule: rule.rule):
        condition = plan.rules[rule.rule].match
        if condition.pods is not None and given.pod is not None:
            if not pods_take(condition.pods, given.pod.namespace, given.pod.labels):
                continue
            condition = condition.model_copy(update={"pods": None})
        _, unknown = match(condition, thread)
        out.append(Outcome(rule, rule.tier, CpuSet.parse(rule.cpus), unknown))
        if not unknown:
            return out
    cpus = CpuSet.parse(answer.default_cpus)
    out.append(Outcome(None, answer.default_tier, cpus, close=answer.close))
    return out


Demand = tuple[tuple[str | int, ...], str, Callable[[Outcome], bool], Callable[[Outcome], str]]
"""Key of the expectation, what it asks for, whether an outcome meets it, what it has instead."""


def _demands(expect: ThreadExpectation, plan: NodePlan) -> Iterator[Demand]:
    if expect.matched is not None:
        matched = expect.matched
        yield (
            ("matched",),
            "a rule that matches" if matched else "no rule that matches",
            lambda o: (o.rule is not None) == matched,
            _taken,
        )
    if expect.intent is not None:
        intent = expect.intent
        yield (
            ("intent",),
            f"a rule of intent {intent}",
            lambda o: o.rule is not None and o.rule.intent == intent,
            _taken,
        )
    if expect.unit is not None:
        unit = expect.unit
        yield (
            ("unit",),
            f"a rule of unit {unit}",
            lambda o: o.rule is not None and o.rule.unit == unit,
            _taken,
        )
    if expect.tier is not None:
        tier = expect.tier
        yield ("tier",), f"tier {tier}", lambda o: o.tier == tier, lambda o: f"tier {o.tier}"
    if expect.in_lane is not None:
        in_lane = expect.in_lane
        yield (
            ("inLane",),
            "a lane" if in_lane else "no lane",
            lambda o: (o.lane is not None) == in_lane,
            _lane,
        )
    if expect.lane is not None:
        lane = expect.lane
        yield ("lane",), f"lane {lane}", lambda o: o.lane == lane, _lane
    if expect.cpus_within is not None:
        within = expect.cpus_within
        yield (
            ("cpusWithin",),
            f"CPUs within {within}",
            lambda o: o.cpus <= within,
            lambda o: outside(o.cpus, within),
        )
    for i, (name, others) in enumerate(areas(plan, expect.not_sharing_with)):
        yield (
            ("notSharingWith", i),
            f"no CPU shared with {name}",
            lambda o, others=others: o.cpus.isdisjoint(others),  # type: ignore[misc]
            lambda o, others=others: shared(o.cpus, others),  # type: ignore[misc]
        )


def areas(plan: NodePlan, names: Sequence[str]) -> Iterator[tuple[str, CpuSet]]:
    """Yield the CPUs of everything on the node that has a name: lane, intent or unit.

    Of an intent or unit it is where its rules let threads run, of ``housekeeping`` and
    ``leftovers`` what the plan says.  What is not on this node has no CPUs there.
    """
    bands: Mapping[int, CpuSet] = {band.id: band.cpus for band in plan.bands}
    for name in names:
        cpus = {HOUSEKEEPING: plan.housekeeping, LEFTOVERS: plan.leftovers}.get(name, CpuSet())
        cpus = cpus | plan.cpus_of(name)
        for unit in plan.units:
            if name not in (unit.name, unit.intent):
                continue
            mine = [bands[rule.band] for rule in plan.rules if rule.unit == unit.name]
            for own in mine or [unit.cpus]:
                cpus = cpus | own
        yield name, cpus


def outside(cpus: CpuSet, within: CpuSet) -> str:
    """Return what a set has beyond another, as text."""
    return f"CPUs {cpus}; outside are {cpus - within}"


def shared(cpus: CpuSet, others: CpuSet) -> str:
    """Return what two sets share, as text."""
    return f"CPUs {cpus}; shared are {cpus & others}"


def _taken(outcome: Outcome) -> str:
    rule = outcome.rule
    if rule is None:
        return "no rule matches"
    return f"rule {rule.rule} of {rule.unit}"


def _lane(outcome: Outcome) -> str:
    if outcome.rule is None or outcome.lane is None:
        return "no lane"
    members = [f"{name} with GPUs {gpus}" for name, _, gpus in outcome.rule.members]
    return f"lane {outcome.lane}" + (f" ({', or '.join(members)})" if members else "")


def _conditional(outcome: Outcome) -> str:
    rule = outcome.rule
    if rule is None:
        return f"else {outcome.why[0]}"
    condition = f"if {' and '.join(outcome.unknown)}" if outcome.unknown else "else"
    lane = f", lane {rule.lane}" if rule.lane is not None else ""
    return f"{condition}: rule {rule.rule} of {rule.unit}, tier {rule.tier}{lane}, {rule.at}"


def _missing(outcomes: Sequence[Outcome], plan: NodePlan, given: GivenThread) -> list[str]:
    """Return the keys of ``given`` that would decide."""
    open_rules = [plan.rules[o.rule.rule].match for o in outcomes if o.rule and o.unknown]
    have = {
        "comm": given.comm,
        "leaderComm": given.leader_comm,
        "cgroup": given.cgroup,
        "cmdline": given.cmdline,
        "pod": given.pod,
    }
    return [
        key
        for key, value in have.items()
        if value is None and any(_asks(condition, key) for condition in open_rules)
    ]


def _asks(condition: Condition, key: str) -> bool:
    asked = {
        "comm": condition.comm,
        "leaderComm": condition.leader_comm,
        "cgroup": condition.cgroup,
        "cmdline": condition.cmdline,
        "pod": condition.pods,
    }
    return asked[key] is not None
