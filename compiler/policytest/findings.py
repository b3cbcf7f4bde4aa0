"""Findings in tests: which must be there, and which must not."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compiler.diagnostics import Diagnostic, Severity, Span
from compiler.model.policytest import FindingTest
from compiler.policytest.results import Failure
from compiler.policytest.worlds import World, is_in
from compiler.words import counted

_SHOWN = 5


def in_reach(world: World, nodes: Collection[str], *, all_nodes: bool) -> list[Diagnostic]:
    """Return the findings a test sees: of the policy itself, and of the nodes it selects."""
    return [d for d in world.findings if all_nodes or not d.nodes or set(d.nodes) & set(nodes)]


def describe(item: FindingTest) -> str:
    """Return what is asked for, as text."""
    parts = [item.code]
    parts += [f"{item.severity}"] if item.severity is not None else []
    parts += [f"about {item.intent}"] if item.intent is not None else []
    parts += [f"on {item.node}"] if item.node is not None else []
    parts += [f"in {item.file}"] if item.file is not None else []
    parts += [f"at line {item.line}"] if item.line is not None else []
    parts += [f"saying {item.message!r}"] if item.message is not None else []
    return " ".join(parts)


def check_present(
    world: World, reach: Sequence[Diagnostic], item: FindingTest, span: Span
) -> tuple[Failure, ...]:
    """Return the failure that a finding is not there, if it is not."""
    if any(_fits(world, found, item) for found in reach):
        return ()
    near = [found for found in reach if found.code == item.code]
    if near:
        got = f"{item.code}, but none that fits"
    elif reach:
        got = f"no {item.code}; findings are {', '.join(sorted({d.code for d in reach}))}"
    else:
        got = "no findings"
    return (Failure(span, f"a finding {describe(item)}", got, _listed(near)),)


def check_absent(
    world: World, reach: Sequence[Diagnostic], item: FindingTest, span: Span
) -> tuple[Failure, ...]:
    """Return the failure that a finding is there, if it is."""
    found = [one for one in reach if _fits(world, one, item)]
    if not found:
        return ()
    return (Failure(span, f"no finding {describe(item)}", _counted(found), _listed(found)),)


def check_none(
    world: World, reach: Sequence[Diagnostic], level: str, span: Span
) -> tuple[Failure, ...]:
    """Return the failure that there are findings of a severity or worse, if there are."""
    found = [one for one in reach if one.severity >= Severity.parse(level)]
    if not found:
        return ()
    words = {"error": "no error", "warning": "no warning or error", "info": "no finding"}
    return (Failure(span, words[level], _counted(found), _listed(found)),)


def _fits(world: World, found: Diagnostic, item: FindingTest) -> bool:
    if item.intent is not None:
        intents = [
            document
            for file in world.policy.files.values()
            for document in file.documents
            if document.kind == "Intent" and document.name == item.intent
        ]
        spans = (found.span, *(related.span for related in found.related))
        if not any(is_in(span, intent) for span in spans for intent in intents):
            return False
    return (
        found.code == item.code
        and item.severity in (None, found.severity.label)
        and (item.node is None or item.node in found.nodes)
        and item.file in (None, found.span.path)
        and item.line in (None, found.span.line)
        and (item.message is None or item.message in found.message)
    )


def _counted(found: Sequence[Diagnostic]) -> str:
    return counted(len(found), "finding")


def _listed(found: Sequence[Diagnostic]) -> tuple[str, ...]:
    rows = [f"{d.severity.label}[{d.code}]: {d.message}, {d.span}" for d in found[:_SHOWN]]
    more = len(found) - _SHOWN
    return (*rows, f"and {more} more") if more > 0 else tuple(rows)
