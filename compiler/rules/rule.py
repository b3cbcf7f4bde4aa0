"""What a lint rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Span
from compiler.model.intent import Intent
from compiler.pipeline import Compilation, CompiledClass
from compiler.resolve.types import Expansion, Matcher

Check = Callable[[Compilation], Iterator[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A code and the check that finds it.

    A rule looks at the whole compilation, which exists even where planning failed: a class then
    has a resolution and no plan.  It must not repeat what an error already says.

    Attributes:
        yields_to: codes of earlier passes that say the same where they could run.  ``node``: the
            rule keeps quiet about a node for which the code was reported at all; ``place``: only
            at the same place.
    """

    code: Code
    check: Check
    yields_to: Mapping[str, Literal["node", "place"]] = field(default_factory=dict)


def on(group: CompiledClass, finding: Diagnostic) -> Diagnostic:
    """Return the finding as one about the nodes of a class."""
    return replace(finding, nodes=group.nodes)


def scopes(compilation: Compilation) -> Iterator[tuple[tuple[Expansion, ...], tuple[str, ...]]]:
    """Yield the intents that meet on nodes, with the nodes' names.

    Without any node all intents are taken to meet, so that a policy can be checked by itself.
    """
    if not compilation.classes:
        yield compilation.expansions, ()
    for group in compilation.classes:
        yield group.expansions, group.nodes


def place_of(intent: Loaded[Intent], matcher: Matcher) -> Span:
    """Return the user's line behind a matcher: for names of profiles and groups, the workload."""
    if matcher.span.path == intent.doc.path:
        return matcher.span
    work = intent.model.spec.workload
    return intent.span("spec", "workload", "engine" if work.engine is not None else "group")
