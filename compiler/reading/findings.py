"""The findings of reading one file, bounded."""

from __future__ import annotations

from typing import Final

from compiler.codes.reading import TOO_MANY_FINDINGS
from compiler.diagnostics import Code, Diagnostic, Sink, Span

MAX_FINDINGS: Final = 100
"""Findings of reading one file, after which the rest of it is not read."""


class StopReading(Exception):  # noqa: N818 - not an error: the finding is already recorded
    """The rest of a file cannot be read; what is wrong was already reported."""


class Findings:
    """What reading one file has to say; bounded, so that a hostile file gives no flood."""

    __slots__ = ("_count", "path", "sink")

    def __init__(self, path: str, sink: Sink) -> None:
        self.path = path
        self.sink = sink
        self._count = 0

    def add(self, found: Diagnostic) -> None:
        """Record a finding.

        Raises:
            StopReading: it was one too many.
        """
        if self._count >= MAX_FINDINGS:
            self.sink.add(
                TOO_MANY_FINDINGS.at(
                    found.span,
                    f"more than {MAX_FINDINGS} findings in this file; the rest was not read",
                    help="repair those shown first; often they have one cause",
                )
            )
            raise StopReading
        self._count += 1
        self.sink.add(found)

    def stop(self, code: Code, span: Span, message: str, *, help: str = "") -> StopReading:
        """Record a finding behind which nothing can be read, and return what to raise."""
        self.add(code.at(span, message, help=help))
        return StopReading()
