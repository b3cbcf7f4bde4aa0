"""Did you mean: the known words nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MAX_LENGTH: Final = 64
"""Longer words get no suggestion: the comparison is quadratic, and no known word is so long."""


def nearest(word: str, candidates: Iterable[str], limit: int = 1) -> list[str]:
    """Return up to ``limit`` candidates that ``word`` may be a slip of, nearest first.

    Nearness is the number of letters to insert, delete, replace or swap with their neighbour
    (optimal string alignment), up to one in three letters.  Case, ``-`` and ``_`` hardly count,
    so ``match_labels`` finds ``matchLabels``.  Equally near candidates come in order of code
    points; the result does not depend on the order of ``candidates``.
    """
    if not 0 < len(word) <= _MAX_LENGTH:
        return []
    plain = _plain(word)
    ranked = []
    for candidate in sorted(set(candidates)):
        if candidate == word or len(candidate) > _MAX_LENGTH:
            continue
        other = _plain(candidate)
        allowed = max(len(plain), len(other)) // 3
        if abs(len(plain) - len(other)) > allowed:
            continue
        steps = distance(plain, other)
        if steps <= allowed:
            ranked.append((steps, distance(word, candidate), candidate))
    return [candidate for _, _, candidate in sorted(ranked)[:limit]]


def distance(a: str, b: str) -> int:
    """Return how many letters to insert, delete, replace or swap make ``b`` of ``a``."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            steps = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                steps = min(steps, before[j - 2] + 1)
            row.append(steps)
        before, above = above, row
    return above[-1]


def _plain(word: str) -> str:
    return word.replace("-", "").replace("_", "").casefold()
