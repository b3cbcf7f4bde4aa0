"""Names in tests: that what a test speaks of exists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.catalog import all_codes
from compiler.codes import policytest as codes
from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic
from compiler.model.facts import NodeFacts
from compiler.model.policytest import FindingTest, PolicyTest
from compiler.pipeline import Compilation
from compiler.policytest.load import Suite, facts_paths, nodes_of
from compiler.resolve.lanes import lane_name
from compiler.resolve.types import NODE_UNIT
from compiler.suggest import nearest

HOUSEKEEPING = "housekeeping"
LEFTOVERS = "leftovers"
_NODE_UNITS = (f"{NODE_UNIT}/gpu-driver", f"{NODE_UNIT}/gpu-irq")
_SHOWN = 8

_ANYWHERE = "lane, intent or unit"
_DEFINED_BY = {
    "unit": {"Intent", "EngineProfile"},
    "lane": {"Intent"},
    _ANYWHERE: {"Intent", "EngineProfile"},
    "tier": {"TierLadder"},
    "node": {"NodeFacts"},
}
"""Kinds whose documents define a name; intents that cannot be decoded still have theirs."""


def check_names(suite: Suite, compilation: Compilation) -> tuple[Diagnostic, ...]:
    """Return findings on names in tests that nothing has.

    Where a document of the policy could not be read, what it may have defined is not judged.
    """
    known = _Known(compilation)
    return tuple(d for test in suite.tests for d in _check(test, suite, known))


@dataclass(frozen=True)
class _Known:
    """The names a policy has, those of documents that cannot be read among them."""

    compilation: Compilation

    @cached_property
    def intents(self) -> frozenset[str]:
        files = self.compilation.policy.files.values()
        return frozenset(
            document.name
            for file in files
            for document in file.documents
            if document.kind == "Intent" and document.name is not None
        )

    @cached_property
    def units(self) -> frozenset[str]:
        expansions = self.compilation.expansions
        return frozenset({*_NODE_UNITS, *(u.name for e in expansions for u in e.units)})

    def lost(self, word: str) -> bool:
        """Return whether a document that may define such a name could not be read."""
        return bool(self.compilation.policy.lost & {"", *_DEFINED_BY.get(word, set())})

    def check(
        self,
        test: Loaded[PolicyTest],
        route: tuple[str | int, ...],
        word: str,
        name: str | None,
        known: Collection[str],
    ) -> Iterator[Diagnostic]:
        """Yield the finding that nothing has a name, unless what has it could not be read."""
        if name is None or name in known or self.lost(word):
            return
        close = nearest(name, known)
        others = f"known: {_listed(known)}" if known else ""
        yield codes.UNKNOWN_NAME.at(
            test.span(*route),
            f"there is no {word} {name!r}",
            help=f"did you mean {close[0]}?" if close else others,
        )

    @cached_property
    def lanes(self) -> frozenset[str]:
        names = (lane_name(intent) for intent in self.compilation.policy.intents)
        placed = (
            name
            for c in self.compilation.classes
            for lane in c.resolution.lanes
            for name in (
                lane.name,
                *(part.name for part in lane.parts if lane.divided == "family"),
            )
        )
        return frozenset({*(name for name in names if name is not None), *placed})


def _check(test: Loaded[PolicyTest], suite: Suite, known: _Known) -> Iterator[Diagnostic]:
    policy = known.compilation.policy
    spec = test.model.spec
    paths = facts_paths(test)
    if all(path in suite.facts for path in paths):
        nodes = [n for p in paths for n in suite.facts[p]] if paths else list(policy.nodes)
        yield from _check_nodes(test, nodes, known)
        names = [node.name for node in nodes]
    else:
        names = []
    tiers = policy.ladder.names
    for i, thread in enumerate(spec.threads):
        route: tuple[str | int, ...] = ("spec", "threads", i, "expect")
        expect = thread.expect
        yield from known.check(test, (*route, "intent"), "intent", expect.intent, known.intents)
        yield from known.check(test, (*route, "unit"), "unit", expect.unit, known.units)
        yield from known.check(test, (*route, "tier"), "tier", expect.tier, tiers)
        yield from known.check(test, (*route, "lane"), "lane", expect.lane, known.lanes)
        yield from _check_others(test, (*route, "notSharingWith"), expect.not_sharing_with, known)
    for i, lane in enumerate(spec.lanes):
        route = ("spec", "lanes", i)
        yield from known.check(test, (*route, "name"), "lane", lane.name, known.lanes)
        yield from known.check(test, (*route, "tier"), "tier", lane.tier, tiers)
        yield from _check_others(test, (*route, "notSharingWith"), lane.not_sharing_with, known)
    for key in ("present", "absent"):
        items: tuple[FindingTest, ...] = getattr(spec.findings, key, ())
        for i, item in enumerate(items):
            route = ("spec", "findings", key, i)
            yield from _check_code(test, route, item.code)
            yield from known.check(test, (*route, "intent"), "intent", item.intent, known.intents)
            if names:
                yield from known.check(test, (*route, "node"), "node", item.node, names)
            files = {*policy.files, *paths}
            yield from known.check(test, (*route, "file"), "file", item.file, files)


def _check_nodes(
    test: Loaded[PolicyTest], nodes: Sequence[Loaded[NodeFacts]], known: _Known
) -> Iterator[Diagnostic]:
    selector = test.model.spec.nodes
    if selector is None or not nodes:
        return
    have = [node.name for node in nodes]
    unknown = False
    for i, name in enumerate(selector.names or ()):
        for found in known.check(test, ("spec", "nodes", "names", i), "node", name, have):
            unknown = True
            yield found
    if not unknown and not nodes_of(test, nodes) and not known.lost("node"):
        yield codes.SELECTS_NO_NODE.at(
            test.key_span("spec", "nodes"),
            f"{test.name} selects none of the nodes ({_listed(have)})",
            help="all parts of nodes must hold on one node",
        )


def _check_others(
    test: Loaded[PolicyTest], route: tuple[str | int, ...], names: Sequence[str], known: _Known
) -> Iterator[Diagnostic]:
    everything = {HOUSEKEEPING, LEFTOVERS, *known.intents, *known.lanes, *known.units}
    for i, name in enumerate(names):
        yield from known.check(test, (*route, i), _ANYWHERE, name, everything)


def _check_code(
    test: Loaded[PolicyTest], route: tuple[str | int, ...], name: str
) -> Iterator[Diagnostic]:
    if name not in all_codes():
        # No suggestion: codes that look alike have nothing to do with each other.
        yield codes.UNKNOWN_NAME.at(
            test.span(*route, "code"),
            f"no finding has the code {name}",
            help="tierc rule lists all codes",
        )


def _listed(names: Collection[str]) -> str:
    """Return the first of some names: those of a tuple in its order, others sorted."""
    ordered = list(names) if isinstance(names, tuple) else sorted(names)
    more = len(ordered) - _SHOWN
    return ", ".join(ordered[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
