"""Globs written for other programs: extended regular expressions and ``case`` patterns."""

from __future__ import annotations

from typing import Final

_ERE_SPECIAL: Final = frozenset(".*+?()[]{}|$")


def ere_literal(char: str) -> str:
    """Return an expression for one literal character.

    Brackets rather than backslashes, since a backslash passes through one more reader in awk.  A
    backslash itself is written twice inside brackets: in awk that is one backslash, in grep a
    set that names it twice.
    """
    if char == "\\":
        return "[\\\\]"
    if char == "^":
        return "\\^"
    return f"[{char}]" if char in _ERE_SPECIAL else char


def comm_ere(text: str) -> str:
    """Return the anchored expression of a comm glob."""
    return f"^{_body(text, '.')}$"


def cgroup_ere(text: str) -> str:
    """Return the anchored expression of a cgroup glob, for paths without a leading slash.

    ``**`` becomes ``.*``: on a path that has no empty component it can only take whole ones,
    because it stands between slashes.
    """
    if text == "**":
        return "^.*$"
    out: list[str] = []
    slash_due = False
    for component in text.split("/"):
        if component == "**":
            out.append("(/.*)?" if slash_due else "(.*/)?")
            continue
        if slash_due:
            out.append("/")
        slash_due = True
        out.append("[^/][^/]*" if component == "*" else _body(component, "[^/]"))
    return f"^{''.join(out)}$"


def _body(text: str, single: str) -> str:
    pieces = {"*": f"{single}*", "?": single}
    return "".join(pieces.get(char) or ere_literal(char) for char in text)


def comm_case(text: str) -> str:
    """Return the ``case`` pattern of a comm glob, all literals in single quotes."""
    out: list[str] = []
    literal = ""
    for char in text:
        if char in "*?":
            out.append(_quoted(literal))
            literal = ""
            out.append(char)
        else:
            literal += char
    out.append(_quoted(literal))
    return "".join(out)


def _quoted(literal: str) -> str:
    if not literal:
        return ""
    return "'" + literal.replace("'", "'\\''") + "'"
