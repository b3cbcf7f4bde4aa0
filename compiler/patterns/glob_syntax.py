"""What may be written in a glob, and what is refused with advice.

Texts that can only be meant as a class, an alternative or an escape are refused, rather than read
literally, because they would silently match nothing.
"""

from __future__ import annotations

import re
from typing import Final

from compiler.patterns.errors import PatternError, PatternTooComplex
from compiler.patterns.names import check_characters

MAX_COMM_TEXT: Final = 64
"""Bytes of a comm pattern. Only 15 can be matched; the rest is room to say what is wrong."""

MAX_CGROUP_TEXT: Final = 512
"""Bytes of a cgroup pattern: a pod's container in a node that is itself a container takes 300."""

MAX_COMPONENT: Final = 255
"""Bytes of one cgroup's name (NAME_MAX)."""

MAX_STARS: Final = 16
"""Components ``**`` and stars inside components of one cgroup pattern."""

MAX_WILD_BEHIND: Final = 8
"""Components of nothing but ``*`` and ``?`` behind a ``**``.

Each of them doubles what a comparison has to keep apart (is the last component such a one, and
the one before it, ...); this and the limit above keep comparisons of globs small.
"""

_CLASS: Final = re.compile(
    r"\[[!^]?(?:\w-\w)+[_.:-]*\]"  # [0-9], [a-zA-Z0-9_]
    r"|\[[!^][^\]]+\]"  # [!x]
    r"|\[\[:\w+:\]",  # [[:digit:]]
    re.ASCII,
)
_BRACES: Final = re.compile(r"\{[^{}/]*,[^{}/]*\}")
_PS_NAME: Final = re.compile(r"\[([^\[\]]+)\]")
_ESCAPE: Final = re.compile(r"\\[*?]")


def check_comm(text: str) -> None:
    """Refuse what is no glob on thread names.

    Raises:
        PatternError: as :meth:`compiler.patterns.Glob.comm` lists them.
    """
    _check_text(text, "comm pattern", MAX_COMM_TEXT)
    bracketed = _PS_NAME.fullmatch(text)
    if bracketed:
        inner = bracketed.group(1)
        raise PatternError(
            f"ps shows the names of kernel threads in brackets, the name itself has none:"
            f" write {inner} (or ?{inner}? for a name that does have them)",
            0,
        )


def _check_text(text: str, what: str, longest: int) -> None:
    if not text:
        raise PatternError(f"empty {what}")
    check_characters(text, what)
    if len(text.encode()) > longest:
        raise PatternError(f"{what} longer than {longest} bytes")
    escape = _ESCAPE.search(text)
    if escape:
        raise PatternError(
            f"a {what} has no escapes; write ? for a {escape[0][1]} in the name", escape.start()
        )
    char_class = _CLASS.search(text)
    if char_class:
        raise PatternError(
            f"a {what} has no classes like {char_class[0]}; write ? or * instead",
            char_class.start(),
        )
    braces = _BRACES.search(text)
    if braces:
        raise PatternError(
            f"a {what} has no alternatives like {braces[0]}; write one pattern for each",
            braces.start(),
        )


def check_cgroup(text: str) -> None:
    """Refuse what is no glob on cgroup paths.

    Raises:
        PatternError: as :meth:`compiler.patterns.Glob.cgroup` lists them.
    """
    what = "cgroup pattern"
    _check_text(text, what, MAX_CGROUP_TEXT)
    if text.startswith("/"):
        rest = text.removeprefix("/sys/fs/cgroup").strip("/")
        instead = f"write {rest}" if rest else "write **, which is every cgroup and the root"
        raise PatternError(
            f"a {what} starts at the cgroup root, without a leading slash: {instead}", 0
        )
    if text.endswith("/"):
        raise PatternError(
            f"trailing slash in a {what}: write {text.rstrip('/')} for the cgroup alone,"
            f" {text.rstrip('/')}/** with all below it",
            len(text) - 1,
        )
    offset = stars = behind = 0
    crossing = False
    for component in text.split("/"):
        _check_component(component, offset)
        stars += 1 if component == "**" else component.count("*")
        if component == "**":
            crossing = True
        elif crossing and not component.strip("*?"):
            behind += 1
        if stars > MAX_STARS:
            raise PatternTooComplex(f"more than {MAX_STARS} stars in a {what}", offset)
        if behind > MAX_WILD_BEHIND:
            raise PatternTooComplex(
                f"more than {MAX_WILD_BEHIND} components like {component} behind ** in a {what}",
                offset,
            )
        offset += len(component) + 1


def _check_component(component: str, offset: int) -> None:
    if not component:
        raise PatternError("empty component (//) in a cgroup pattern", offset)
    if component in (".", ".."):
        raise PatternError(f"component {component} in a cgroup pattern names no cgroup", offset)
    if "**" in component and component != "**":
        raise PatternError(
            f"** must be a whole component, not part of {component};"
            " inside a component * is enough",
            offset + component.index("**"),
        )
    if len(component.replace("*", "").encode()) > MAX_COMPONENT:
        raise PatternError(
            f"a component of a cgroup pattern longer than {MAX_COMPONENT} bytes matches nothing",
            offset,
        )
