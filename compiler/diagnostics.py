"""What the compiler has to say about its input: places, severities, codes and findings.

Nothing here renders; ``compiler.report`` does.  Every pass has the shape
``f(input, sink) -> output`` and speaks only through the :class:`Sink` it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum


class Severity(IntEnum):
    """How much a finding matters; larger is worse, so severities compare."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def label(self) -> str:
        """The lower-case word used in reports and in ``lint.severity``."""
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> Severity:
        """Return the severity called ``label``.

        Raises:
            KeyError: ``label`` is none of ``info``, ``warning``, ``error``.
        """
        return cls[label.upper()]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range in one input file.

    ``line`` and ``col`` count from 1 in characters (not bytes); ``end_col`` is the column after
    the last character.  ``path`` is as the user would type it, with ``/`` separators.
    """

    path: str
    line: int = 1
    col: int = 1
    end_line: int = 1
    end_col: int = 1

    @classmethod
    def of_file(cls, path: str) -> Span:
        """Return the place that stands for a whole file: its first character."""
        return cls(path)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col}"


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that explains a finding, and what is to be seen there."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Code:
    """The stable identity of one kind of finding.

    Attributes:
        id: ``TRC`` and three digits; never reused.  The first digit names the family:
            0 reading, 1 language, 2 lint rules, 3 resolution, 4 placement, 5 targets, 6 facts,
            7 the output tree and the node it is for, 9 the compiler itself.
        name: kebab-case short name.
        severity: what it is unless ``lint.severity`` says otherwise.
        doc: what ``tierc rule`` prints: what is wrong, why it matters, what to do (Markdown).
        adjustable: whether a user may change the severity or suppress it inline.  Only lint
            rules are: silencing a conflict would leave the compiler to guess.
    """

    id: str
    name: str
    severity: Severity
    doc: str
    adjustable: bool = False

    def at(
        self,
        span: Span,
        message: str,
        *,
        related: Iterable[Related] = (),
        help: str = "",
        severity: Severity | None = None,
    ) -> Diagnostic:
        """Return a finding of this kind at ``span``."""
        return Diagnostic(
            code=self.id,
            severity=self.severity if severity is None else severity,
            message=message,
            span=span,
            related=tuple(related),
            help=help,
        )


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: exactly one primary place, others related.

    Attributes:
        code: id of its :class:`Code`.
        severity: possibly changed by ``lint.severity``.
        message: one sentence in lower case without a full stop; names the thing as written.
        span: where to look first.
        related: further places, in the order in which they explain the finding.
        help: what to do about it; may have several lines; empty where nothing helps.
        nodes: nodes it was found on, sorted; empty where it does not depend on a node.
    """

    code: str
    severity: Severity
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    help: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def sort_key(self) -> tuple[Span, int, str, str]:
        """Report order: by place, worst first, then code and message."""
        return (self.span, -self.severity, self.code, self.message)


@dataclass(slots=True)
class Sink:
    """Collects findings; handed from pass to pass."""

    _found: list[Diagnostic] = field(default_factory=list)

    def add(self, diagnostic: Diagnostic) -> None:
        """Record one finding."""
        self._found.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Record several findings."""
        self._found.extend(diagnostics)

    def map(self, change: Callable[[Diagnostic], Diagnostic | None]) -> Sink:
        """Return a new sink with each finding changed, or left out where ``change`` says None."""
        return Sink([new for old in self._found if (new := change(old)) is not None])

    @property
    def has_errors(self) -> bool:
        """Whether anything of severity error was recorded."""
        return any(d.severity is Severity.ERROR for d in self._found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the findings in report order; the same finding on several nodes becomes one."""
        merged: dict[tuple[object, ...], Diagnostic] = {}
        for found in self._found:
            key = (
                found.code,
                found.severity,
                found.message,
                found.span,
                found.related,
                found.help,
            )
            before = merged[key].nodes if key in merged else ()
            merged[key] = replace(found, nodes=tuple(sorted({*before, *found.nodes})))
        return tuple(sorted(merged.values(), key=lambda d: d.sort_key))
