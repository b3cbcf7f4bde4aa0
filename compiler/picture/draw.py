"""From a compiled policy to a picture.

What is drawn is bundled so that people can read it: stages that need each other are joined once
whatever number of paths they share, and an intent is joined once to the units of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from compiler.graph import Need, cycles
from compiler.model.base import Stage
from compiler.picture.model import Box, Edge, EdgeKind, Key, Picture, Rank
from compiler.picture.seen import Seen, seen_on, seen_unbound
from compiler.picture.words import cpu_text, fold, names_text, short
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import NodePlan
from compiler.policy import Ladder
from compiler.resolve.types import NODE_UNIT, ResolvedLane

REST: Final = "everything else"
"""Name of the box of what no rule matches.  No unit has it: names of intents hold no space."""

_STAGES: Final = {stage: i for i, stage in enumerate(get_args(Stage))}


@dataclass(frozen=True, slots=True)
class _Merged:
    """A unit over all classes drawn: as it is where its tier is highest, and how it differs."""

    seen: Seen
    differs: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        return self.seen.intent or NODE_UNIT

    @property
    def sort_key(self) -> tuple[bool, int, str, int, str]:
        stage = _STAGES.get(self.seen.stage, -1) if self.seen.stage else -1
        return (self.seen.intent is None, self.seen.order, self.group, stage, self.seen.name)


def policy_picture(compilation: Compilation) -> Picture:
    """Return the tiers of a whole policy: units of all classes of nodes, merged by name.

    Without any node the units are those the intents speak of by themselves.
    """
    policy = compilation.policy
    notes: list[str] = []
    if not compilation.classes:
        merged = [_Merged(seen) for seen in seen_unbound(policy, compilation.expansions)]
        notes.append("no node facts: drawn from the intents alone, no lane is placed")
        lanes: tuple[Key, ...] = tuple(
            Key(name, "not placed")
            for name in sorted({m.seen.lane for m in merged if m.seen.lane is not None})
        )
    else:
        merged = _merge(compilation.classes, policy.ladder)
        lanes = _asked_lanes(compilation.classes)
        notes += _unplanned(compilation.classes)
        selected = {e.intent.name for c in compilation.classes for e in c.expansions}
        idle = [i.name for i in policy.intents if i.name not in selected]
        if idle:
            notes.append(f"not drawn, they select no node: {', '.join(idle)}")
    what = "no node" if not policy.nodes else f"{len(policy.nodes)} nodes"
    if len(policy.nodes) == 1:
        what = f"node {policy.nodes[0].name}"
    elif len(compilation.classes) > 1:
        what += f" in {len(compilation.classes)} classes"
    title = f"Tiers of the policy: {len(policy.intents)} intents, {what}"
    rest = _rest(None)
    return _picture(compilation, title, merged, rest, lanes, notes)


def node_picture(compilation: Compilation, node: str) -> Picture:
    """Return the tiers of one node, with the CPUs of units and lanes.

    Raises:
        ValueError: the policy has no such node.
    """
    group = compilation.of_node(node)
    if group is None:
        raise ValueError(f"the policy has no node {node!r}")
    ladder = compilation.policy.ladder
    merged = [_Merged(seen) for seen in seen_on(group, ladder, cpus=True)]
    notes = _unplanned([group])
    if group.plan is None:
        lanes = _asked_lanes([group])
    else:
        lanes = _placed_lanes(group.plan)
        notes.append(f"housekeeping: CPUs {cpu_text(group.plan.housekeeping)}")
        notes.append(f"leftovers: CPUs {cpu_text(group.plan.leftovers)}")
    others = [name for name in group.nodes if name != node]
    title = f"Tiers of node {node}"
    if others:
        notes.insert(0, f"the same for {names_text(others)}")
    return _picture(compilation, title, merged, _rest(group), lanes, notes)


def _rest(group: CompiledClass | None) -> tuple[str, ...]:
    lines = ["what no rule matches"]
    if group is not None and group.plan is not None:
        band = group.plan.bands[group.plan.default_band]
        lines.append(f"CPUs {cpu_text(band.cpus)}")
    return tuple(lines)


def _picture(
    compilation: Compilation,
    title: str,
    merged: Sequence[_Merged],
    rest: tuple[str, ...],
    lanes: tuple[Key, ...],
    notes: Sequence[str],
) -> Picture:
    ladder = compilation.policy.ladder
    ordered = sorted(merged, key=lambda m: (m.seen.tier, m.sort_key))
    boxes: dict[int, list[Box]] = {}
    for one in ordered:
        boxes.setdefault(one.seen.tier, []).append(_box(one))
    boxes.setdefault(ladder.normal, []).append(Box(REST, REST, "default", None, rest))
    empty = [name for i, name in enumerate(ladder.names) if i not in boxes]
    notes = list(notes)
    if empty:
        notes.append(f"tiers without units: {', '.join(empty)}")
    bare = _without_units(compilation, {m.seen.intent for m in merged})
    if bare:
        notes.append(f"not drawn, they have no unit of their own: {', '.join(bare)}")
    return Picture(
        title=title,
        ranks=tuple(Rank(ladder.name(tier), tuple(boxes[tier])) for tier in sorted(boxes)),
        edges=tuple(
            sorted(
                (*_needs(compilation, ordered), *_above(compilation, ordered)),
                key=lambda e: (e.kind, e.source, e.target),
            )
        ),
        lanes=lanes,
        notes=tuple(notes),
    )


def _without_units(compilation: Compilation, drawn: set[str | None]) -> list[str]:
    if compilation.classes:
        shown = {e.intent.name for c in compilation.classes for e in c.expansions}
    else:
        shown = {e.intent.name for e in compilation.expansions}
    return sorted(shown - drawn)


def _box(one: _Merged) -> Box:
    seen = one.seen
    lines = [*fold(seen.reason), *seen.matchers]
    if seen.lane is not None:
        lines.append(short(f"lane {seen.lane}"))
    if seen.cpus is not None:
        lines.append(f"CPUs {cpu_text(seen.cpus)}")
    for text in one.differs:
        lines += fold(text)
    return Box(seen.name, one.group, seen.kind, seen.lane, tuple(lines), seen.why)


def _merge(classes: Sequence[CompiledClass], ladder: Ladder) -> list[_Merged]:
    """Join the units of all classes by name, and say where classes differ."""
    found: dict[str, list[tuple[CompiledClass, Seen]]] = {}
    for group in classes:
        for seen in seen_on(group, ladder, cpus=False):
            found.setdefault(seen.name, []).append((group, seen))
    return [_joined(rows, len(classes), ladder) for _, rows in sorted(found.items())]


def _joined(rows: Sequence[tuple[CompiledClass, Seen]], classes: int, ladder: Ladder) -> _Merged:
    best = min((seen for _, seen in rows), key=lambda s: s.tier)  # the first class on a tie
    differs: list[str] = []
    if len(rows) < classes:
        differs.append(f"only on {names_text(n for g, _ in rows for n in g.nodes)}")
    values: tuple[tuple[str, Callable[[Seen], str]], ...] = (
        ("tier", lambda s: ladder.name(s.tier)),
        ("effect", lambda s: s.kind),
        ("lane", lambda s: s.lane or "none"),
    )
    for word, value in values:
        by_value: dict[str, list[str]] = {}
        for group, seen in rows:
            by_value.setdefault(value(seen), []).extend(group.nodes)
        if len(by_value) > 1:
            parts = [f"{text} on {names_text(nodes)}" for text, nodes in sorted(by_value.items())]
            differs.append(f"{word} differs: {'; '.join(parts)}")
    if len({seen.matchers for _, seen in rows}) > 1:
        differs.append("patterns differ between nodes")
    return _Merged(best, tuple(differs))


def _placed_lanes(plan: NodePlan) -> tuple[Key, ...]:
    """Return the lanes of a plan; a family as one, which is what units are in."""
    keys = []
    for name in sorted({lane.family or lane.name for lane in plan.lanes}):
        lanes = plan.lanes_of(name)
        shares = " and ".join(sorted({lane.share for lane in lanes}))
        members = "".join(
            f"; {lane.name} {cpu_text(lane.cpus)}" for lane in lanes if lane.family is not None
        )
        keys.append(Key(name, f"CPUs {cpu_text(plan.cpus_of(name))}, {shares}{members}"))
    return tuple(keys)


def _asked_lanes(classes: Sequence[CompiledClass]) -> tuple[Key, ...]:
    asked: dict[str, dict[str, None]] = {}
    for group in classes:
        for lane in group.resolution.lanes:
            asked.setdefault(lane.name, {})[_asked(lane)] = None
        for unit in group.resolution.units:
            if unit.lane is not None:
                asked.setdefault(unit.lane, {})
    return tuple(Key(name, "; or ".join(asked[name]) or "size unknown") for name in sorted(asked))


def _asked(lane: ResolvedLane) -> str:
    return f"cores: {lane.cores.value}, {lane.share.value}"


def _unplanned(classes: Sequence[CompiledClass]) -> list[str]:
    nodes = [node for group in classes if group.plan is None for node in group.nodes]
    return [f"no plan, see the findings: {names_text(nodes)}"] if nodes else []


# --- edges -----------------------------------------------------------------------------------


def _all_needs(compilation: Compilation) -> set[Need]:
    if not compilation.classes:
        return {need for e in compilation.expansions for need in e.needs}
    return {n for c in compilation.classes for e in c.expansions for n in e.needs}


def _needs(compilation: Compilation, ordered: Sequence[_Merged]) -> list[Edge]:
    place = {m.seen.name: i for i, m in enumerate(ordered)}
    group = {m.seen.name: m.group for m in ordered}
    needs = sorted(n for n in _all_needs(compilation) if n.source in place and n.target in place)
    pairs = {(n.source, n.target): n.why for n in needs}
    raised = {(n.source, n.target): n.why for m in ordered for n in m.seen.chain}
    pairs |= {pair: why for pair, why in raised.items() if pair in pairs}
    joined = {tuple(sorted(pair, key=place.__getitem__)) for pair in pairs}
    kept = _bundled(joined, raised, group, place)
    out = []
    for upper, lower in sorted(kept):
        down, up = (upper, lower) in pairs, (lower, upper) in pairs
        source, target = (upper, lower) if down else (lower, upper)
        kind: EdgeKind = "need"
        for pair in ((upper, lower), (lower, upper)):
            if pair in raised:
                (source, target), kind = pair, "raise"
        out.append(Edge(source, target, kind, mutual=down and up, why=pairs[source, target]))
    return out


def _bundled(
    joined: Iterable[tuple[str, ...]],
    raised: Collection[tuple[str, str]],
    group: Mapping[str, str],
    place: Mapping[str, int],
) -> list[tuple[str, str]]:
    """Leave one of the edges that join an intent to the units of the node.

    Those units need each other, so that one edge says as much.  An edge that raises is kept in
    any case, and is then the one.
    """
    kept: list[tuple[str, str]] = []
    to_node: dict[str, list[tuple[str, str]]] = {}
    for upper, lower in sorted(joined, key=lambda p: (place[p[0]], place[p[1]])):
        ours = {group[upper], group[lower]} - {NODE_UNIT}
        if len(ours) == 1 and NODE_UNIT in (group[upper], group[lower]):
            to_node.setdefault(ours.pop(), []).append((upper, lower))
        else:
            kept.append((upper, lower))
    for _, edges in sorted(to_node.items()):
        lifting = [e for e in edges if e in raised or e[::-1] in raised]
        kept += lifting or edges[:1]
    return kept


def _above(compilation: Compilation, ordered: Sequence[_Merged]) -> list[Edge]:
    """Return the order edges, each from an intent's last box of its highest tier to the other's
    first one."""
    boxes: dict[str, list[Seen]] = {}
    for one in ordered:
        if one.seen.intent is not None:
            boxes.setdefault(one.seen.intent, []).append(one.seen)
    relations = sorted(
        {
            (intent.name, below)
            for intent in compilation.policy.intents
            for below in intent.model.spec.above
        }
    )
    bad = {
        pair
        for cycle in cycles(relations)
        for pair in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
    }
    return [
        Edge(
            _top(boxes[upper])[-1].name,
            _top(boxes[lower])[0].name,
            "above",
            cycle=(upper, lower) in bad,
            why=f"{upper} is above {lower}",
        )
        for upper, lower in relations
        if upper in boxes and lower in boxes
    ]


def _top(boxes: Sequence[Seen]) -> list[Seen]:
    best = min(seen.tier for seen in boxes)
    return [seen for seen in boxes if seen.tier == best]
