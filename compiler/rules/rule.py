"""What a lint rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from compiler.diagnostics import Code, Diagnostic
from compiler.pipeline import Compilation, CompiledClass

Check = Callable[[Compilation], Iterator[Diagnostic]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A code and the check that finds it.

    A rule looks at the whole compilation, which exists even where planning failed: a class then
    has a resolution and no plan.  It must not repeat what an error already says.
    """

    code: Code
    check: Check


def on(group: CompiledClass, finding: Diagnostic) -> Diagnostic:
    """Return the finding as one about the nodes of a class."""
    return replace(finding, nodes=group.nodes)
