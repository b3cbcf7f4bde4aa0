"""The regular expressions for command lines: a subset on which all readers agree.

Literals, ``.``, classes (``[abc]``, ``[^a-z]``), ``*``, ``+``, ``?``, ``|``, groups, and the
anchors ``^`` and ``$``; a backslash makes the punctuation character behind it literal.  Python's
``re``, RE2, and ``grep -E`` of GNU and busybox read such a text alike.  Where they would not, it
is refused: backslash classes, back references, ``(?...)``, ``{n,m}``, lazy and possessive
quantifiers, ``[:alpha:]``, empty alternatives.

A command line is the bytes of ``/proc/PID/cmdline``: the NULs at the end go (a program that
writes a title pads with them), the others read as spaces, and so do newlines, so that line-based
programs see one line.  Nothing is the command line of kernel threads and zombies: it matches no
pattern.  The expression is searched for, not anchored.  It works on bytes: ``.`` and a negated
class are one byte of a character that takes several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from compiler.patterns.automaton import Bytes, Cat, Nfa, Node, Repeat, bits
from compiler.patterns.cmdline_syntax import ANY, parse_expression
from compiler.patterns.cmdline_text import anchors_at_edges, expression_ere
from compiler.patterns.names import name_bytes
from compiler.patterns.relation import any_text

MAX_STATES: Final = 4096
"""Places visited to answer one question about what an expression does *not* match."""

MAX_PAIRS: Final = 65536
"""Pairs of states visited to find a command line that two expressions both match."""


@dataclass(frozen=True, order=True)
class CmdlineRegex:
    """A regular expression on command lines.  Equal and ordered by its text."""

    text: str

    def __post_init__(self) -> None:
        _node(self.text)

    @classmethod
    def parse(cls, text: str) -> CmdlineRegex:
        """Read an expression.

        Raises:
            PatternError: with the offset of what is not in the subset.
        """
        return cls(text)

    def matches(self, cmdline: str | bytes) -> bool:
        """Tell whether the expression is found in a command line, raw or already with spaces.

        Takes time in proportion to the length of both, whatever the expression.
        """
        line = normal_cmdline(name_bytes(cmdline))
        return line != b"" and self.automaton.accepts(line)

    @property
    def automaton(self) -> Nfa:
        """The automaton of the command lines that match, and of the empty one where it would."""
        return _automaton(self.text)

    @property
    def literal(self) -> bytes | None:
        """The bytes whose mere presence the expression asks for, when it is no more than that."""
        node = _node(self.text)
        parts = node.parts if isinstance(node, Cat) else (node,)
        out = bytearray()
        for part in parts:
            if not isinstance(part, Bytes) or part.members.bit_count() != 1:
                return None
            out.append(part.members.bit_length() - 1)
        return bytes(out)

    @property
    def is_empty(self) -> bool:
        """Whether no command line can match, as with ``a^b`` and ``^$``."""
        distances = self.automaton.distances
        return all(distances[state] is None for state in bits(self.automaton.follow[0]))

    @property
    def matches_all(self) -> bool:
        """Whether every command line matches, as with ``.`` and ``x*``.

        Raises:
            PatternTooComplex: this cannot be told within the bound on states.
        """
        return _matches_all(self.text)

    def as_ere(self) -> str:
        """Return a POSIX extended regular expression that is found in the same command lines.

        For ``grep -E`` under ``LC_ALL=C``, on command lines in which NUL and newline have become
        spaces; an empty line has to be skipped by the caller.  awk reads it too when
        :attr:`awk_safe`; pass it through ENVIRON, since ``-v`` would read its backslashes.
        """
        return expression_ere(_node(self.text))

    @property
    def awk_safe(self) -> bool:
        """Whether every awk reads :meth:`as_ere`: mawk 1.3.4 dies of a ``^`` or ``$`` inside."""
        return anchors_at_edges(_node(self.text))

    def __str__(self) -> str:
        return self.text


def normal_cmdline(data: bytes) -> bytes:
    """Return a raw command line as patterns see it: no NULs at the end, spaces for the others."""
    return data.rstrip(b"\0").replace(b"\0", b" ").replace(b"\n", b" ")


@lru_cache(maxsize=1024)
def _node(text: str) -> Node:
    return parse_expression(text)


@lru_cache(maxsize=1024)
def _automaton(text: str) -> Nfa:
    anything = Repeat(Bytes(ANY), "*")
    return Nfa(Cat((anything, _node(text), anything)))


@lru_cache(maxsize=1)
def line_automaton() -> Nfa:
    """Return the automaton of all command lines: one byte or more."""
    return Nfa(Repeat(Bytes(ANY), "+"))


@lru_cache(maxsize=1024)
def _matches_all(text: str) -> bool:
    return any_text([line_automaton()], _automaton(text), limit=MAX_STATES) is None
