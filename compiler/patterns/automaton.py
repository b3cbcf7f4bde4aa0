"""Regular languages over bytes: expression trees and the position automata made from them.

Globs and command-line patterns are both turned into the small expression tree below; every
question about them (matches, contains, intersects) is asked of the automaton made from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


def byte_set(members: bytes | range) -> int:
    """Return a set of byte values as a 256-bit mask."""
    mask = 0
    for byte in members:
        mask |= 1 << byte
    return mask


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the set bits, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class Bytes:
    """One byte out of a set (a 256-bit mask)."""

    members: int


@dataclass(frozen=True, slots=True)
class Cat:
    """The parts one after another; no parts is the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """Any one of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` as often as the operator says: ``*``, ``+`` or ``?``."""

    body: Node
    operator: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start (``^``) or the end (``$``) of the text."""

    at: str


Node = Bytes | Cat | Alt | Repeat | Anchor


class Nfa:
    """A position automaton: state 0 is the start, every other state has just read one byte.

    ``sets[i]`` is what state *i* reads on entry, ``follow[i]`` the mask of states that may come
    next, ``accept`` the mask of states in which the text may end, ``distances[i]`` the fewest
    bytes still needed to accept (None when it cannot).
    """

    __slots__ = ("accept", "distances", "follow", "sets")

    def __init__(self, node: Node) -> None:
        builder = _Builder()
        last = builder.add(node, 0)
        self.sets = tuple(builder.sets)
        follow = []
        accept = 0
        for state, out in enumerate(builder.outs):
            mask, ends = builder.closure(out, last, at_start=state == 0)
            follow.append(mask)
            if ends:
                accept |= 1 << state
        self.follow = tuple(follow)
        self.accept = accept
        self.distances = self._distances()

    def next_states(self, mask: int) -> int:
        """Return every state that may follow one of ``mask``, whatever byte comes."""
        union = 0
        for state in bits(mask):
            union |= self.follow[state]
        return union

    def readers(self, byte: int) -> int:
        """Return the mask of states that read ``byte`` on entry."""
        mask = 0
        for state, members in enumerate(self.sets):
            mask |= (members >> byte & 1) << state
        return mask

    def accepts(self, text: bytes) -> bool:
        """Tell whether the whole text is accepted, in time linear in its length."""
        mask = 1
        for byte in text:
            after = 0
            for state in bits(self.next_states(mask)):
                after |= (self.sets[state] >> byte & 1) << state
            if not after:
                return False
            mask = after
        return bool(mask & self.accept)

    def _distances(self) -> tuple[int | None, ...]:
        result: list[int | None] = [None] * len(self.sets)
        before: list[list[int]] = [[] for _ in self.sets]
        for state, mask in enumerate(self.follow):
            for after in bits(mask):
                if self.sets[after]:
                    before[after].append(state)
        layer = list(bits(self.accept))
        steps = 0
        while layer:
            fresh = []
            for state in layer:
                if result[state] is None:
                    result[state] = steps
                    fresh.extend(before[state])
            layer = fresh
            steps += 1
        return tuple(result)


class _Builder:
    """Thompson's construction; nodes of the graph are joints, byte states hang between them."""

    def __init__(self) -> None:
        self.sets: list[int] = [0]  # state 0 reads nothing
        self.outs: list[int] = [0]  # the joint a state leads to
        self.free: list[list[int]] = [[]]  # joint -> joints reachable without reading
        self.guarded: list[list[tuple[str, int]]] = [[]]  # the same, only at ^ or $
        self.readers: list[list[int]] = [[]]  # joint -> states that read from it

    def joint(self) -> int:
        self.free.append([])
        self.guarded.append([])
        self.readers.append([])
        return len(self.free) - 1

    def add(self, node: Node, start: int) -> int:
        """Hang ``node`` on the joint ``start``; return the joint behind it."""
        if isinstance(node, Bytes):
            end = self.joint()
            self.sets.append(node.members)
            self.outs.append(end)
            self.readers[start].append(len(self.sets) - 1)
            return end
        if isinstance(node, Anchor):
            end = self.joint()
            self.guarded[start].append((node.at, end))
            return end
        if isinstance(node, Cat):
            for part in node.parts:
                start = self.add(part, start)
            return start
        if isinstance(node, Alt):
            end = self.joint()
            for part in node.parts:
                entry = self.joint()
                self.free[start].append(entry)
                self.free[self.add(part, entry)].append(end)
            return end
        entry, end = self.joint(), self.joint()
        self.free[start].append(entry)
        last = self.add(node.body, entry)
        self.free[last].append(end)
        if node.operator in "*+":
            self.free[last].append(entry)
        if node.operator in "*?":
            self.free[entry].append(end)
        return end

    def closure(self, joint: int, last: int, *, at_start: bool) -> tuple[int, bool]:
        """Return the states that can read next after ``joint``, and whether the text may end.

        Behind a ``$`` nothing can be read, so such joints count for the end only.
        """
        states = 0
        ends = False
        seen = {(joint, False)}
        stack = [(joint, False)]
        while stack:
            here, at_end = stack.pop()
            ends = ends or here == last
            if not at_end:
                for reader in self.readers[here]:
                    states |= 1 << reader
            steps = [(after, at_end) for after in self.free[here]]
            steps += [
                (after, at_end or at == "$")
                for at, after in self.guarded[here]
                if at == "$" or at_start
            ]
            for step in steps:
                if step not in seen:
                    seen.add(step)
                    stack.append(step)
        return states, ends
