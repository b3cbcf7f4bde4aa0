"""What can be wrong with a pattern."""

from __future__ import annotations


class PatternError(ValueError):
    """A text is not a pattern of its kind; the message says what and what to write instead.

    The message is in lower case, without a final full stop.  ``offset`` is the place of the
    offending character in the pattern text, counted in characters from 0, or None when the whole
    text is meant.
    """

    offset: int | None

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class PatternTooComplex(PatternError):  # noqa: N818 - it *is* a PatternError, and says which
    """A pattern, or a question about two patterns, needs more automaton states than allowed.

    It never depends on what was asked before: the same question always gives the same answer.
    """
