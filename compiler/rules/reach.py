"""Which sample threads a demotion would have, with the rules in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.decode import Loaded
from compiler.diagnostics import Span
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.plan import Condition
from compiler.policy import Ladder
from compiler.resolve.overlap import Candidate, rank
from compiler.resolve.types import Expansion, Matcher
from compiler.rules.rule import place_of
from compiler.rules.threads import SystemThread, takes
from compiler.rules.written import is_narrowed, item_takes_all


@dataclass(frozen=True)
class Demotion:
    """A place in an intent, and the sample threads that it puts below normal.

    Attributes:
        hits: in the order of the samples, at least one.
        nodes: where; empty in a policy without nodes.
    """

    place: Span
    intent: Loaded[Intent]
    tier: str
    hits: tuple[SystemThread, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class _Line:
    """One rule of the ordered list."""

    intent: Loaded[Intent] | None
    matcher: Matcher
    conditions: tuple[Condition, ...]
    """All must hold."""
    tier: int | None

    def demotes(self, ladder: Ladder) -> bool:
        return self.tier is not None and self.tier > ladder.normal

    def takes(self, thread: SystemThread, *, sure: bool) -> bool:
        for condition in self.conditions:  # noqa: SIM110 - asked of every line for every thread
            if not takes(condition, thread, sure=sure):
                return False
        return True


def demotions(compilation: Compilation, threads: Sequence[SystemThread]) -> Iterator[Demotion]:
    """Yield what is first to match one of the threads and gives it a tier below normal.

    A pattern that leaves out no thread at all is another rule's finding and not among them.
    """
    ladder = compilation.policy.ladder
    if not compilation.classes:
        yield from _of_lines(_alone(compilation.expansions), threads, ladder, ())
    for group in compilation.classes:
        yield from _of_lines(_of_class(group), threads, ladder, group.nodes)


def _of_class(group: CompiledClass) -> list[_Line]:
    units = {unit.name: unit for unit in group.resolution.units}
    return [
        _Line(
            units[rule.unit].draft.intent,
            rule.matcher,
            (rule.condition,),
            units[rule.tier_unit].own_tier,
        )
        for rule in group.resolution.rules
    ]


def _alone(expansions: Sequence[Expansion]) -> list[_Line]:
    """Return the rules as they would be ordered on a node that all intents select."""
    out = []
    for one in rank([Candidate(u, m) for e in expansions for u in e.units for m in u.matchers]):
        work = one.unit.intent.model.spec.workload if one.unit.intent is not None else None
        conditions = [one.matcher.condition]
        if work is not None and (work.cgroup is not None or work.pods is not None):
            pods = "some" if work.pods is not None else None
            conditions.append(Condition(cgroup=work.cgroup, pods=pods))
        tier = min((ask.tier for ask in one.unit.asks), default=None)
        out.append(_Line(one.unit.intent, one.matcher, tuple(conditions), tier))
    return out


def _of_lines(
    lines: Sequence[_Line], threads: Sequence[SystemThread], ladder: Ladder, nodes: tuple[str, ...]
) -> Iterator[Demotion]:
    # Another demotion that goes first hides nothing: it may be corrected before this one.
    spared = [not line.demotes(ladder) for line in lines]
    met = {
        i: [thread for thread in threads if line.takes(thread, sure=True)]
        for i, line in enumerate(lines)
        if line.intent is not None and not spared[i]
    }
    if not any(met.values()):  # as nearly always, and what follows takes longer
        return
    places = {i: place_of(intent, lines[i].matcher) for i in met if (intent := lines[i].intent)}
    wanted = {places[i] for i, some in met.items() if some}
    found: dict[Span, tuple[_Line, Loaded[Intent], set[SystemThread]]] = {}
    for i, place in places.items():
        line = lines[i]
        if place not in wanted or line.intent is None:
            continue
        if _takes_all(line.intent, line.matcher):
            continue  # another rule's finding
        taken = found.setdefault(place, (line, line.intent, set()))[2]
        for thread in met[i]:
            if thread not in taken and not any(
                lines[j].takes(thread, sure=False) for j in range(i) if spared[j]
            ):
                taken.add(thread)
    for place, (line, intent, taken) in found.items():
        if taken and line.tier is not None:
            hits = tuple(thread for thread in threads if thread in taken)
            yield Demotion(place, intent, ladder.name(line.tier), hits, nodes)


def _takes_all(intent: Loaded[Intent], matcher: Matcher) -> bool:
    work = intent.model.spec.workload
    return not is_narrowed(work) and any(
        item_takes_all(item)
        for i, item in enumerate(work.match or ())
        if matcher.span
        in {intent.span("spec", "workload", "match", i, key) for key in item.conditions}
    )
