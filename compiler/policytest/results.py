"""What running tests yields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from compiler.diagnostics import Diagnostic, Span


@dataclass(frozen=True, slots=True)
class Failure:
    """One expectation that does not hold.

    Attributes:
        span: the expectation.
        expected: what it asks for.
        got: what is so instead.
        why: reasons with file and line.
        help: what to do, where that is not plain; empty otherwise.
        nodes: nodes on which it fails, sorted; empty where it does not depend on a node.
    """

    span: Span
    expected: str
    got: str
    why: tuple[str, ...] = ()
    help: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One item of a test: a thread, a lane, a finding, the snapshot."""

    name: str
    span: Span
    failures: tuple[Failure, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all its expectations hold."""
        return not self.failures


@dataclass(frozen=True, slots=True)
class Result:
    """What one PolicyTest came to."""

    name: str
    span: Span
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A test, or a file of tests, that cannot run."""

    name: str
    span: Span
    findings: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Report:
    """The outcome of a run.

    Attributes:
        results: tests that ran, in order of file and line.
        broken: tests that could not, in the same order.
        snapshots: files to write under ``--update``, path and content.
    """

    results: tuple[Result, ...]
    broken: tuple[Broken, ...] = ()
    snapshots: tuple[tuple[str, bytes], ...] = ()

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(case.passed for result in self.results for case in result.cases)

    @property
    def failed(self) -> int:
        """How many cases failed."""
        return sum(not case.passed for result in self.results for case in result.cases)

    @property
    def succeeded(self) -> bool:
        """Whether nothing failed and nothing is broken."""
        return not self.failed and not self.broken


def merged(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return the failures with those alike but for their nodes made one, in order of place."""
    found: dict[Failure, set[str]] = {}
    for failure in failures:
        found.setdefault(replace(failure, nodes=()), set()).update(failure.nodes)
    rows = [replace(failure, nodes=tuple(sorted(nodes))) for failure, nodes in found.items()]
    return tuple(sorted(rows, key=lambda row: (row.span, row.nodes)))


def alternatives(words: Sequence[str]) -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
