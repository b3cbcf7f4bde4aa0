"""What a glob amounts to: its normal form, its special shapes, its automaton."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal

from compiler.patterns.automaton import Alt, Bytes, Cat, Nfa, Node, Repeat, byte_set
from compiler.patterns.names import COMM_BYTES

GlobKind = Literal["cgroup", "comm"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The facts about a glob that can be read off its normal form ``text``.

    ``exact``, ``prefix``, ``subtree`` and ``is_empty`` are those of
    :class:`~compiler.patterns.Glob`.  Every name that matches starts with ``head`` and ends
    with ``tail``; ``sample`` is one of the shortest, None when there is none.
    """

    text: str
    is_empty: bool
    exact: bytes | None
    prefix: bytes | None
    subtree: bytes | None
    head: bytes
    tail: bytes
    sample: bytes | None


@lru_cache(maxsize=4096)
def shape(text: str, kind: GlobKind) -> Shape:
    """Return the shape of a glob whose text has been checked."""
    normal = _normal(text, kind)
    is_empty = kind == "comm" and len(normal.replace("*", "").encode()) > COMM_BYTES
    exact = None if is_empty else _plain(normal)
    pieces = re.split(r"[*?]+", normal)
    head, tail = pieces[0], pieces[-1]
    prefix = subtree = None
    if kind == "comm":
        if normal.endswith("*"):
            prefix = _plain(normal[:-1])
    else:
        # `a` matches `a/**`, so the slash beside a ** is not always there
        if normal[len(head) :].startswith("**"):
            head = head.removesuffix("/")
        if normal[: len(normal) - len(tail)].endswith("**"):
            tail = tail.removeprefix("/")
        if normal.endswith("**"):
            subtree = _plain(normal[:-2].removesuffix("/"))
        start = normal.removesuffix("*/**")  # */** alone leaves out the root
        if normal == "**":
            prefix = b""
        elif start and start != normal:
            prefix = _plain(start)
    sample = None if is_empty else _sample(normal, kind).encode()
    return Shape(normal, is_empty, exact, prefix, subtree, head.encode(), tail.encode(), sample)


def _sample(normal: str, kind: GlobKind) -> str:
    if kind == "comm":
        return normal.replace("*", "").replace("?", "x")
    return "/".join(_component(part) for part in normal.split("/") if part != "**")


def _component(part: str) -> str:
    shortest = part.replace("*", "").replace("?", "x")
    # A component is never empty, and none of a path is `.` or `..`: a star must be a letter then.
    return part.replace("*", "x") if shortest in ("", ".", "..") else shortest


def _plain(text: str) -> bytes | None:
    """Return the bytes of a text without wildcards, None when it has one."""
    return None if "*" in text or "?" in text else text.encode()


def _normal(text: str, kind: GlobKind) -> str:
    """Return a text that matches the same names, equal for more of the globs that are equal.

    In a run of wildcards the ``?`` (cgroup: the components ``*``) come first and one star last.
    In a comm glob that needs all 15 bytes the stars go.
    """
    if kind == "comm":
        atoms = text.replace("*", "")
        if len(atoms.encode()) >= COMM_BYTES:
            return atoms
        return _sort_runs(text)
    components = [_sort_runs(c) if c != "**" else c for c in text.split("/")]
    parts: list[str] = []
    for wild, run in groupby(components, key=lambda c: c in ("*", "**")):
        members = list(run)
        if wild and "**" in members:
            members = [c for c in members if c == "*"] + ["**"]
        parts.extend(members)
    return "/".join(parts)


def _sort_runs(text: str) -> str:
    return re.sub(
        r"[*?]{2,}",
        lambda m: "?" * m[0].count("?") + ("*" if "*" in m[0] else ""),
        text,
    )


_NAME_BYTE: Final = Bytes(byte_set(range(1, 256)))
_SLASH: Final = Bytes(byte_set(b"/"))
_INNER: Final = Bytes(byte_set(range(1, 256)) & ~byte_set(b"/\n"))
_SEGMENT: Final = Repeat(_INNER, "+")


def _comm_node(text: str) -> Node:
    return Cat(tuple(_wild_nodes(text, _NAME_BYTE)))


def _wild_nodes(text: str, single: Bytes) -> list[Node]:
    nodes: list[Node] = []
    for byte in text.encode():
        if byte == ord("*"):
            nodes.append(Repeat(single, "*"))
        elif byte == ord("?"):
            nodes.append(single)
        else:
            nodes.append(Bytes(1 << byte))
    return nodes


def _cgroup_node(text: str) -> Node:
    components = text.split("/")
    if components == ["**"]:
        return Repeat(Cat((_SEGMENT, Repeat(Cat((_SLASH, _SEGMENT)), "*"))), "?")
    nodes: list[Node] = []
    slash_due = False
    for component in components:
        if component == "**" and not slash_due:  # in front: components with the slash behind them
            nodes.append(Repeat(Cat((_SEGMENT, _SLASH)), "*"))
            continue
        if component == "**":
            nodes.append(Repeat(Cat((_SLASH, _SEGMENT)), "*"))
            continue
        if slash_due:
            nodes.append(_SLASH)
        slash_due = True
        if component == "*":
            nodes.append(_SEGMENT)
        else:
            nodes.extend(_wild_nodes(component, _INNER))
    return Cat(tuple(nodes))


@lru_cache(maxsize=1)
def path_automaton() -> Nfa:
    """Return the automaton of real cgroup paths: no component is ``.`` or ``..``.

    Only wildcards could bring such a component about; empty ones they cannot.
    """
    dot = Bytes(byte_set(b"."))
    other = Bytes(_INNER.members & ~dot.members)
    name = Alt(
        (
            Cat((other, Repeat(_INNER, "*"))),
            Cat((dot, other, Repeat(_INNER, "*"))),
            Cat((dot, dot, _SEGMENT)),
        )
    )
    return Nfa(Repeat(Cat((name, Repeat(Cat((_SLASH, name)), "*"))), "?"))


@lru_cache(maxsize=4096)
def automaton(text: str, kind: GlobKind) -> Nfa:
    """Return the automaton of a glob whose text has been checked."""
    normal = shape(text, kind).text
    return Nfa(_comm_node(normal) if kind == "comm" else _cgroup_node(normal))
