"""Dotted versions of engines, and ranges of them.

A version is a sequence of numbers; missing ones at the end are 0, so ``0.24`` is ``0.24.0``.
There are no pre-releases or suffixes: an engine profile speaks of releases.  A range is a
comma-separated list of comparisons that all hold (``>=0.10.1,<0.25``), one version, or ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

_VERSION: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,7}", re.ASCII)
_COMPARISON: Final = re.compile(r" *(>=|<=|==|>|<|)([0-9.]+) *", re.ASCII)


class VersionError(ValueError):
    """A text is not a version or a range; the message says what is, in lower case."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One release."""

    text: str
    """As written."""
    numbers: tuple[int, ...]
    """Without zeros at the end; what comparisons go by."""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read a version.

        Raises:
            VersionError: it is not 1 to 8 numbers of at most 9 digits, joined by dots.
        """
        if not _VERSION.fullmatch(text):
            raise VersionError(f"{text!r} is not a version; write numbers and dots, like 0.24.0")
        numbers = [int(part) for part in text.split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        return cls(text, tuple(numbers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.numbers == other.numbers

    def __lt__(self, other: Version) -> bool:
        return self.numbers < other.numbers

    def __hash__(self) -> int:
        return hash(self.numbers)

    def __str__(self) -> str:
        return self.text


_LOWEST: Final = Version("0", ())


@dataclass(frozen=True, slots=True)
class Range:
    """All versions between two ends.

    The order of versions is dense (between ``1`` and ``1.0.1`` lies ``1.0.0.1``) and begins at
    ``0``, so a range is empty exactly when its ends are the wrong way round, or equal and one of
    them is left out.
    """

    low: Version
    low_included: bool
    high: Version | None
    """None: no upper end."""
    high_included: bool

    @classmethod
    def parse(cls, text: str) -> Range:
        """Read a range.  One that no version is in is accepted; see :attr:`is_empty`.

        Raises:
            VersionError: a part is no comparison with a version.
        """
        result = cls(_LOWEST, True, None, False)
        if text.strip(" ") == "*":
            return result
        for part in text.split(","):
            match = _COMPARISON.fullmatch(part)
            if match is None:
                raise VersionError(
                    f"{part.strip()!r} is not a comparison with a version; write one like >=0.10.1"
                )
            version = Version.parse(match[2])
            result = result & _compared(match[1], version)
        return result

    @property
    def is_empty(self) -> bool:
        """Whether no version is in it."""
        if self.high is None or self.low < self.high:
            return False
        return not (self.low == self.high and self.low_included and self.high_included)

    def __contains__(self, version: Version) -> bool:
        if version < self.low or (version == self.low and not self.low_included):
            return False
        if self.high is None or version < self.high:
            return True
        return version == self.high and self.high_included

    def __and__(self, other: Range) -> Range:
        """Return the versions that are in both."""
        low = max(self.low, other.low)
        low_included = all(r.low_included for r in (self, other) if r.low == low)
        ends = [r.high for r in (self, other) if r.high is not None]
        if not ends:
            return Range(low, low_included, None, False)
        high = min(ends)
        high_included = all(r.high_included for r in (self, other) if r.high == high)
        return Range(low, low_included, high, high_included)


def contains(range_text: str, version: str) -> bool:
    """Tell whether a version is in a range.

    Raises:
        VersionError: one of the texts is malformed.
    """
    return Version.parse(version) in Range.parse(range_text)


def overlaps(range_text: str, known: Iterable[str]) -> bool:
    """Tell whether a range has a version between the lowest and highest of ``known``, inclusive.

    Raises:
        VersionError: one of the texts is malformed.
        ValueError: ``known`` is empty.
    """
    versions = sorted(Version.parse(text) for text in known)
    if not versions:
        raise ValueError("known versions are empty")
    span = Range(versions[0], True, versions[-1], True)
    return not (Range.parse(range_text) & span).is_empty


def intersects(one: str, other: str) -> bool:
    """Tell whether some version is in both ranges.

    Raises:
        VersionError: one of the texts is malformed.
    """
    return not (Range.parse(one) & Range.parse(other)).is_empty


def _compared(operator: str, version: Version) -> Range:
    if operator in ("", "=="):
        return Range(version, True, version, True)
    if operator in (">", ">="):
        return Range(version, operator == ">=", None, False)
    return Range(_LOWEST, True, version, operator == "<=")
