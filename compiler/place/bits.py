"""Sets of small numbers as the bits of an integer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def bits_of(numbers: Iterable[int]) -> int:
    """Return the set as bits."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def ones(mask: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def top(mask: int, count: int) -> int:
    """Return the ``count`` highest bits of ``mask``, which has at least so many."""
    if not count:
        return 0
    low, high = 0, mask.bit_length()
    # The largest shift that leaves that many bits.
    while high - low > 1:
        middle = (low + high) // 2
        if (mask >> middle).bit_count() >= count:
            low = middle
        else:
            high = middle
    return mask >> low << low
