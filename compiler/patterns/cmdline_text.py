"""An expression tree written as a POSIX extended regular expression."""

from __future__ import annotations

from typing import Final

from compiler.patterns.automaton import Alt, Anchor, Bytes, Cat, Node, Repeat, bits
from compiler.patterns.cmdline_syntax import ANY
from compiler.patterns.globtext import ere_literal


def expression_ere(node: Node) -> str:
    """Return the expression; under ``LC_ALL=C`` it means the same as the tree.

    Undecodable bytes cannot occur: every literal is a whole character.
    """
    return _bytes_of(node).decode()


def anchors_at_edges(node: Node, *, first: bool = True, last: bool = True) -> bool:
    """Tell whether every ``^`` begins and every ``$`` ends what it stands in, unrepeated."""
    if isinstance(node, Anchor):
        return first if node.at == "^" else last
    if isinstance(node, Alt):
        return all(anchors_at_edges(part, first=first, last=last) for part in node.parts)
    if isinstance(node, Cat):
        end = len(node.parts) - 1
        return all(
            anchors_at_edges(part, first=first and i == 0, last=last and i == end)
            for i, part in enumerate(node.parts)
        )
    return isinstance(node, Bytes) or anchors_at_edges(node.body, first=False, last=False)


def _bytes_of(node: Node) -> bytes:
    if isinstance(node, Bytes):
        return _set(node.members)
    if isinstance(node, Anchor):
        return node.at.encode()
    if isinstance(node, Alt):
        return b"|".join(_bytes_of(part) for part in node.parts)
    if isinstance(node, Cat):
        return b"".join(_grouped(part, isinstance(part, Alt)) for part in node.parts)
    # GNU and busybox take no quantifier behind a quantifier
    compound = isinstance(node.body, (Alt, Cat, Repeat, Anchor))
    return _grouped(node.body, compound) + node.operator.encode()


def _grouped(node: Node, wanted: bool) -> bytes:
    return b"(" + _bytes_of(node) + b")" if wanted else _bytes_of(node)


def _set(members: int) -> bytes:
    if members == ANY:
        return b"."
    if members.bit_count() == 1:
        byte = members.bit_length() - 1
        return ere_literal(chr(byte)).encode() if byte < 0x80 else bytes((byte,))
    inside = ANY & ~members
    if members >> 0x80:  # only a negated class reaches beyond ASCII
        return b"[^" + _members(inside, negated=True) + b"]"
    return b"[" + _members(members, negated=False) + b"]"


_RUNS: Final = (
    range(ord("0"), ord("9") + 1),
    range(ord("A"), ord("Z") + 1),
    range(ord("a"), ord("z") + 1),
)


def _members(members: int, *, negated: bool) -> bytes:
    """Return the inside of a bracket expression, its special characters where they are literal."""
    chars = set(bits(members))
    out = bytearray()
    if ord("]") in chars:
        out += b"]"
    plain = sorted(chars - set(b"]\\[^-"))
    index = 0
    while index < len(plain):
        first = plain[index]
        run = next((r for r in _RUNS if first in r), range(first, first + 1))
        last = first
        while last + 1 in chars and last + 1 in run:
            last += 1
        out += bytes(range(first, last + 1)) if last - first < 3 else b"%c-%c" % (first, last)
        index += last - first + 1
    if ord("[") in chars:
        out += b"["
    if ord("\\") in chars:
        out += b"\\\\"
    hyphen = ord("-") in chars
    if ord("^") in chars:
        if not out and not negated and hyphen:
            return b"-^"
        out += b"^"
    return bytes(out + b"-") if hyphen else bytes(out)
