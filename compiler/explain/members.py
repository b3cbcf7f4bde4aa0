"""Which class and which step of the rollout a node is in, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.classes import NodeClass, classes_of
from compiler.decode import Loaded
from compiler.fleet import part, step_of, steps_of
from compiler.model.demand import Demand
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.model.selector import NodeSelector
from compiler.policy import Policy
from compiler.registry import CLUSTER_TARGETS
from compiler.words import counted, listed


@dataclass(frozen=True, slots=True)
class ClassAnswer:
    """The class of a node: the nodes that have one plan with it."""

    name: str
    nodes: tuple[str, ...]
    """Sorted; the node is one of them."""
    why: tuple[str, ...]
    """What sets it apart from each other class of nodes with an equal machine."""


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """The step of the rollout that a node is in."""

    step: int
    """From 1."""
    steps: int
    """How many there are, with the one for what no step takes."""
    why: str


def explain_class(policy: Policy, node: str) -> ClassAnswer:
    """Return the class of a node, and what sets it apart.

    Raises:
        ValueError: there is no such node.
    """
    classes = classes_of(policy)
    mine = next((one for one in classes if any(m.name == node for m in one.members)), None)
    if mine is None:
        raise ValueError(f"there is no node {node!r}")
    alike = [c for c in classes if c is not mine and c.key.machine == mine.key.machine]
    why = [line for other in alike for line in _apart(policy, node, mine, other)]
    if len(classes) == 1:
        why = ["the only one: nothing that a plan depends on differs between the nodes"]
    elif not alike:
        why = ["no other class has an equal machine"]
    return ClassAnswer(mine.name, tuple(member.name for member in mine.members), tuple(why))


def _apart(policy: Policy, node: str, mine: NodeClass, other: NodeClass) -> Iterator[str]:
    """Say what each of two classes with equal machines was given that the other was not."""
    sample = other.members[0]
    size = counted(len(other.members), "node")
    head = f"apart from {other.name} ({size}, such as {sample.name}): "
    me = next(member for member in mine.members if member.name == node)
    for kind, name in sorted(mine.key.choices - other.key.choices):
        yield head + _has(policy, me, kind, name)
    for kind, name in sorted(other.key.choices - mine.key.choices):
        yield f"{head}that one: {_has(policy, sample, kind, name)}"


def _has(policy: Policy, node: Loaded[NodeFacts], kind: str, name: str) -> str:
    documents: dict[str, tuple[Loaded[Intent] | Loaded[Demand], ...]] = {
        "intent": policy.intents,
        "demand": policy.demands,
    }
    for one in documents.get(kind, ()):
        if one.name == name:
            selector, place = one.model.spec.nodes, one.key_span("spec", "nodes")
            return f"{kind} {name} selects it by {_by(selector)}, {place}"
    if kind == "mode":
        _, place_of_mode = policy.enforce_of(node)
        return f"mode {name}" + (f", {place_of_mode}" if place_of_mode is not None else "")
    return f"{kind}: {' '.join(name.split())}"


def _by(selector: NodeSelector | None) -> str:
    """Say what of a node a selector looks at."""
    if selector is None:
        return "nothing"
    parts = [f"label {key}={value}" for key, value in sorted(selector.match_labels.items())]
    for one in selector.match_expressions:
        values = f" {', '.join(one.values)}" if one.values else ""
        parts.append(f"label {one.key} {one.operator}{values}")
    if selector.names is not None:
        parts.append("name")
    return listed(parts)


def explain_step(policy: Policy, node: str) -> StepAnswer | None:
    """Return the step of the rollout that a node is in; None where nothing has steps."""
    spec = policy.project.spec
    if not set(spec.targets.enabled) & set(CLUSTER_TARGETS):
        return None
    rollout, number = spec.rollout, step_of(spec.rollout, node)
    steps = steps_of(rollout)
    if not rollout.steps:
        return StepAnswer(number, steps, "no steps are written, so all nodes at once")
    if number > len(rollout.steps):
        return StepAnswer(number, steps, "no step that is written takes it")
    step = rollout.steps[number - 1]
    if step == "all":
        why = "all that is left"
    elif step.names is not None:
        why = "by name"
    else:
        why = f"its name falls at {part(node)} of 100, below percent {step.percent}"
    doc = policy.project_doc
    place = f", {doc.span('spec', 'rollout', 'steps', number - 1)}" if doc is not None else ""
    return StepAnswer(number, steps, why + place)
