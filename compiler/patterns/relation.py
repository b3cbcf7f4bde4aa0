"""The one search behind every question about patterns: a text in some, and not in another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import product
from typing import Final

from compiler.patterns.automaton import Nfa, bits
from compiler.patterns.errors import PatternTooComplex


def _preference() -> bytes:
    """Return all bytes, the most readable first."""
    first = b"xabcdefghijklmnopqrstuvwyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.:/ "
    graphic = bytes(range(0x21, 0x7F))
    rest = bytes(range(1, 0x100)) + b"\0"
    return bytes(dict.fromkeys(first + graphic + rest))


_PREFERENCE: Final = _preference()


def shortest(
    inside: Sequence[Nfa],
    outside: Nfa | None = None,
    *,
    longest: int | None = None,
    limit: int | None = None,
) -> bytes | None:
    """Return a shortest text that all of ``inside`` accept and ``outside`` does not.

    Only texts of at most ``longest`` bytes count.  Among equally short texts the bytes that no
    pattern names come first, then the readable ones.  The empty text is given only when there is
    no other; None when there is none at all.

    Raises:
        PatternTooComplex: more than ``limit`` places had to be visited.
    """
    return _Search(inside, outside, longest).run(by_length=True, limit=limit)


def any_text(inside: Sequence[Nfa], outside: Nfa, *, limit: int | None = None) -> bytes | None:
    """Return some text that all of ``inside`` accept and ``outside`` does not, None without one.

    Needs far fewer places than :func:`shortest` where patterns are full of wildcards.

    Raises:
        PatternTooComplex: more than ``limit`` places had to be visited.
    """
    return _Search(inside, outside, None).run(by_length=False, limit=limit)


class _Search:
    """A walk over single states of the automata inside, and sets of states of the one outside.

    Of two such sets in one place the smaller accepts less, so whatever the larger leads to, the
    smaller does too, and the larger is dropped when it comes second: the antichain method of De
    Wulf, Doyen, Henzinger and Raskin (CAV 2006).  By length, the walk is A* with the bytes the
    automata inside still need as its estimate; otherwise the smallest sets go first.
    """

    def __init__(self, inside: Sequence[Nfa], outside: Nfa | None, longest: int | None) -> None:
        self._inside = inside
        self._outside = outside
        self._longest = longest
        parts = [*inside, *([] if outside is None else [outside])]
        self._columns = _columns(parts)
        self._readers = [[part.readers(byte) for byte in self._columns] for part in inside]
        self._outside_readers = [
            0 if outside is None else outside.readers(byte) for byte in self._columns
        ]
        self._live = [
            sum(1 << state for state, steps in enumerate(part.distances) if steps is not None)
            for part in inside
        ]

    def run(self, *, by_length: bool, limit: int | None) -> bytes | None:
        """Return the first text found, as :func:`shortest` and :func:`any_text` promise."""
        start = (0,) * len(self._inside)
        start_set = 0 if self._outside is None else 1
        # (estimate, columns read so far, states inside, set outside); the columns make the order
        # total, so the same question takes the same way every time
        heap = [(0, 0, b"", start, start_set)]
        seen: dict[tuple[int, ...], list[int]] = {}
        visited = 0
        while heap:
            _, _, text, states, out_set = heappop(heap)
            known = seen.setdefault(states, [])
            if any(not (smaller & ~out_set) for smaller in known):
                continue
            known.append(out_set)
            visited += 1
            if limit is not None and visited > limit:
                raise PatternTooComplex(
                    f"comparing the patterns takes more than {limit} automaton states"
                )
            if text and self._found(states, out_set):
                return self._spell(text)
            for column, after, out_after in self._steps(states, out_set):
                size = len(text) + 1
                estimate = size + self._needed(after)
                if self._longest is not None and estimate > self._longest:
                    continue
                first, second = estimate, 0
                if not by_length:
                    first, second = out_after.bit_count(), estimate
                heappush(heap, (first, second, text + bytes((column,)), after, out_after))
        return b"" if self._found(start, start_set) else None

    def _steps(
        self, states: tuple[int, ...], out_set: int
    ) -> Iterator[tuple[int, tuple[int, ...], int]]:
        nexts = [
            part.follow[state] & live
            for part, state, live in zip(self._inside, states, self._live, strict=True)
        ]
        out_next = 0 if self._outside is None else self._outside.next_states(out_set)
        for column in range(len(self._columns)):
            masks = [n & r[column] for n, r in zip(nexts, self._readers, strict=True)]
            if all(masks):
                out_after = out_next & self._outside_readers[column]
                for after in product(*map(bits, masks)):
                    yield column, after, out_after

    def _needed(self, states: tuple[int, ...]) -> int:
        """Return a lower bound of the bytes still to come."""
        parts = zip(self._inside, states, strict=True)
        return max(part.distances[state] or 0 for part, state in parts)

    def _found(self, states: tuple[int, ...], out_set: int) -> bool:
        parts = zip(self._inside, states, strict=True)
        if not all(part.accept >> state & 1 for part, state in parts):
            return False
        return self._outside is None or not out_set & self._outside.accept

    def _spell(self, text: bytes) -> bytes:
        return bytes(self._columns[column] for column in text)


@lru_cache(maxsize=1024)
def _members(mask: int) -> bytes:
    return bytes(bits(mask))


def _columns(parts: Sequence[Nfa]) -> list[int]:
    """Return one byte, the most readable, of each class of bytes that no automaton tells apart.

    The largest class comes first.  For globs these are the bytes no pattern names, which fewest
    states read: with them first the antichain stays small.
    """
    signatures = [0] * 256
    distinct = {members: None for part in parts for members in part.sets}
    for number, members in enumerate(distinct):
        for byte in _members(members):
            signatures[byte] |= 1 << number
    classes: dict[int, list[int]] = {}
    for byte in _PREFERENCE:
        classes.setdefault(signatures[byte], []).append(byte)
    ordered = sorted(
        classes.items(), key=lambda item: (-len(item[1]), _PREFERENCE.index(item[1][0]))
    )
    return [members[0] for signature, members in ordered if signature]
