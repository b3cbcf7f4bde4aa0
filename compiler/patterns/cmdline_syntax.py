"""Reader of the regular-expression subset: text in, expression tree or a placed error out."""

from __future__ import annotations

from typing import Final

from compiler.patterns.automaton import Alt, Anchor, Bytes, Cat, Node, Repeat, byte_set
from compiler.patterns.errors import PatternError
from compiler.patterns.names import check_characters

MAX_TEXT: Final = 512
"""Bytes of an expression; its automaton has no more states than that and a few."""

MAX_DEPTH: Final = 32
"""Groups inside groups."""

ANY: Final = byte_set(range(1, 256)) & ~byte_set(b"\n")
"""The bytes of a command line: NUL and newline have become spaces."""

_QUANTIFIERS: Final = "*+?"
_GNU_ONLY: Final = "<>`'"
_WHAT: Final = "cmdline pattern"


def parse_expression(text: str) -> Node:
    """Read a whole expression.

    Raises:
        PatternError: with the offset of the first thing that is not in the subset.
    """
    if not text:
        raise PatternError(f"empty {_WHAT}")
    check_characters(text, _WHAT)
    if len(text.encode()) > MAX_TEXT:
        raise PatternError(f"{_WHAT} longer than {MAX_TEXT} bytes")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[int] = []
        """Places of the parentheses that are open, the outermost first."""

    def parse(self) -> Node:
        node = self._alternatives()
        if self._at < len(self._text):  # only a ) stops the loop early
            raise PatternError("unmatched ); write \\) for the character", self._at)
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alt(tuple(parts))

    def _sequence(self) -> Node:
        start = self._at
        parts: list[Node] = []
        while (char := self._peek()) and char not in "|)":
            item = self._quantified()
            # Flattened, so that plain text is one row of bytes however many each character has.
            parts.extend(item.parts if isinstance(item, Cat) and char not in "(" else (item,))
        if not parts and self._open and not char:
            raise _not_closed(self._open[-1])
        if not parts:
            raise PatternError(
                "empty alternative or group; put a ? behind a group that may be absent", start
            )
        return parts[0] if len(parts) == 1 else Cat(tuple(parts))

    def _quantified(self) -> Node:
        written = self._peek()
        atom = self._atom()
        operator = self._peek()
        if not operator or operator not in _QUANTIFIERS:
            return atom
        if written in "^$":
            raise PatternError(f"nothing to repeat: {operator} behind {written}", self._at)
        if operator == "+" and _begins_somewhere(atom):
            raise PatternError(
                "^ in what + repeats: the libraries of grep and busybox do not agree on it; repeat "
                "only what follows the ^",
                self._at,
            )
        self._at += 1
        self._no_second_quantifier(operator)
        return Repeat(atom, operator)

    def _no_second_quantifier(self, first: str) -> None:
        second = self._peek()
        if not second or second not in _QUANTIFIERS:
            return
        if second == "?":
            message = (
                f"lazy quantifier {first}? makes no difference to what is found; write {first}"
            )
        elif second == "+":
            message = f"possessive quantifier {first}+ is not in the subset; write {first}"
        else:
            message = f"quantifier {second} behind quantifier {first}; one is enough"
        raise PatternError(message, self._at)

    def _atom(self) -> Node:
        offset = self._at
        char = self._text[offset]
        self._at += 1
        if char == "(":
            return self._group(offset)
        if char == "[":
            return self._class(offset)
        if char == "\\":
            return self._escape(offset)
        if char == ".":
            return Bytes(ANY)
        if char in "^$":
            return Anchor(char)
        if char in _QUANTIFIERS:
            raise PatternError(f"nothing to repeat before {char}; write \\{char} for it", offset)
        if char == "{":
            raise PatternError("{n,m} is not in the subset; write \\{ for the character", offset)
        return _literal(char)

    def _group(self, offset: int) -> Node:
        if self._peek() == "?":
            raise PatternError(
                "(?...) is not in the subset: no flags, no look-around, and ( ) alone groups",
                offset,
            )
        self._open.append(offset)
        if len(self._open) > MAX_DEPTH:
            raise PatternError(f"more than {MAX_DEPTH} groups inside one another", offset)
        node = self._alternatives()
        if self._peek() != ")":
            raise _not_closed(offset)
        self._at += 1
        self._open.pop()
        return node

    def _escape(self, offset: int) -> Node:
        char = self._peek()
        if not char:
            raise PatternError("backslash at the end; write \\\\ for the character", offset)
        if char.isdigit() and char.isascii():
            raise PatternError(f"back reference \\{char} is not in the subset", offset)
        if char.isalnum() or not char.isascii():
            hint = _CLASS_HINTS.get(char, f"write {char} alone for the character")
            raise PatternError(f"\\{char} is not in the subset; {hint}", offset)
        if char in _GNU_ONLY:
            raise PatternError(
                f"\\{char} is an anchor to GNU programs; write {char} alone for the character",
                offset,
            )
        self._at += 1
        return _literal(char)

    def _class(self, offset: int) -> Node:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        members = 0
        first = True
        while first or self._peek() != "]":
            low = self._class_member(offset)
            high = low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                at = self._at
                self._at += 1
                high = self._class_member(offset)
                if high < low:
                    raise PatternError(f"range {low}-{high} is backwards", at - 1)
            members |= byte_set(range(ord(low), ord(high) + 1))
            first = False
        self._at += 1
        return Bytes(ANY & ~members if negated else members)

    def _class_member(self, offset: int) -> str:
        char = self._peek()
        at = self._at
        if not char:
            raise PatternError("unmatched [; write \\[ for the character", offset)
        if char == "\\":
            raise PatternError(
                "a backslash in [...] is itself to some programs and an escape to others; put"
                " ] first, ^ not first and - last, and a backslash outside as \\\\",
                at,
            )
        if char == "[" and self._text[at + 1 : at + 2] in (":", ".", "="):
            raise PatternError("[:...:] is not in the subset; write ranges like 0-9a-z", at)
        if not char.isascii():
            raise PatternError(
                f"{char} takes several bytes and a class is one byte; write ({char}|...)", at
            )
        self._at += 1
        return char


_CLASS_HINTS: Final = {
    "d": "write [0-9]",
    "D": "write [^0-9]",
    "w": "write [0-9A-Za-z_]",
    "W": "write [^0-9A-Za-z_]",
    "s": "write a space: arguments are separated by one",
    "S": "write [^ ]",
    "b": "write ( |^) or ( |$) for the edge of an argument",
    "A": "write ^",
    "Z": "write $",
    "z": "write $",
}


def _not_closed(offset: int) -> PatternError:
    return PatternError("the parenthesis ( is not closed; add ), or write \\( for it", offset)


def _literal(char: str) -> Node:
    data = char.encode()
    if len(data) == 1:
        return Bytes(1 << data[0])
    return Cat(tuple(Bytes(1 << byte) for byte in data))


def _begins_somewhere(node: Node) -> bool:
    """Return whether there is a ``^`` in it.

    The GNU C library overlooks what a repeated ``^`` has found: ``(^a)+`` is not found in ``aa``,
    though ``(^a)(^a)*`` is.  busybox asks it; GNU grep does not.
    """
    if isinstance(node, Anchor):
        return node.at == "^"
    if isinstance(node, (Alt, Cat)):
        return any(map(_begins_somewhere, node.parts))
    return isinstance(node, Repeat) and _begins_somewhere(node.body)
