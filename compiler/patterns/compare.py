"""How two patterns of one kind relate: exact answers, with an example where there is one."""

from __future__ import annotations

from functools import lru_cache

from compiler.patterns.automaton import Nfa
from compiler.patterns.cmdline import MAX_PAIRS, MAX_STATES, CmdlineRegex, line_automaton
from compiler.patterns.errors import PatternTooComplex
from compiler.patterns.glob import Glob
from compiler.patterns.glob_shape import path_automaton
from compiler.patterns.names import COMM_BYTES
from compiler.patterns.relation import any_text, shortest

Pattern = Glob | CmdlineRegex


def contains(wide: Pattern, narrow: Pattern) -> bool:
    """Tell whether every name that ``narrow`` matches is matched by ``wide``.

    A pattern that matches nothing is contained in every other.

    Raises:
        ValueError: the patterns are of different kinds.
        PatternTooComplex: this cannot be told within the bound on states.  Happens to
            command-line patterns; globs are kept below it by what :class:`Glob` refuses.
    """
    _same_kind(wide, narrow)
    if isinstance(wide, Glob) and isinstance(narrow, Glob):
        quick = _contains_at_sight(wide, narrow)
        if quick is not None:
            return quick
    return _escapes(narrow, wide) is None


def intersects(a: Pattern, b: Pattern) -> bool:
    """Tell whether some name matches both.

    Raises:
        ValueError, PatternTooComplex: as :func:`contains`.
    """
    _same_kind(a, b)
    if isinstance(a, Glob) and isinstance(b, Glob):
        quick = _intersects_at_sight(a, b)
        if quick is not None:
            return quick
    return _common(*sorted((a, b), key=str)) is not None


def example(a: Pattern, b: Pattern | None = None) -> str | None:
    """Return a shortest name that matches ``a``, and ``b`` when given; None when there is none.

    Free places are filled with letters.  The empty name is given only when there is no other.

    Raises:
        ValueError, PatternTooComplex: as :func:`contains`.
    """
    if b is None:
        b = a
    _same_kind(a, b)
    return _text(_common(*sorted((a, b), key=str)))


def difference_example(a: Pattern, b: Pattern) -> str | None:
    """Return a name that ``a`` matches and ``b`` does not; None when there is none.

    It is a shortest one, unless the patterns are so full of wildcards that this takes too long.

    Raises:
        ValueError, PatternTooComplex: as :func:`contains`.
    """
    _same_kind(a, b)
    return _text(_difference(a, b))


def _text(data: bytes | None) -> str | None:
    # Whole characters always: literals are, and free places take the most readable byte there is.
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _same_kind(a: Pattern, b: Pattern) -> None:
    kinds = [p.kind if isinstance(p, Glob) else "cmdline" for p in (a, b)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"a {kinds[0]} pattern and a {kinds[1]} pattern have no names in common")


def _domain(pattern: Pattern) -> tuple[list[Nfa], int | None]:
    """Return what else a name of this kind must be accepted by, and how long it may be."""
    if isinstance(pattern, CmdlineRegex):
        return [line_automaton()], None
    if pattern.kind == "cgroup":
        return [path_automaton()], None
    return [], COMM_BYTES


@lru_cache(maxsize=65536)
def _common(a: Pattern, b: Pattern) -> bytes | None:
    domain, longest = _domain(a)
    limit = MAX_PAIRS if isinstance(a, CmdlineRegex) else None
    return shortest([a.automaton, b.automaton, *domain], longest=longest, limit=limit)


@lru_cache(maxsize=65536)
def _escapes(a: Pattern, b: Pattern) -> bytes | None:
    """Return some name that ``a`` matches and ``b`` does not."""
    domain, longest = _domain(a)
    inside = [a.automaton, *domain]
    if longest is not None:  # so short that the shortest is found at once
        return shortest(inside, b.automaton, longest=longest)
    limit = MAX_STATES if isinstance(a, CmdlineRegex) else MAX_PAIRS
    return any_text(inside, b.automaton, limit=limit)


@lru_cache(maxsize=4096)
def _difference(a: Pattern, b: Pattern) -> bytes | None:
    """Return the shortest such name, or some name where the shortest takes too long to find."""
    found = _escapes(a, b)
    if found is None or _domain(a)[1] is not None:
        return found
    try:
        return shortest([a.automaton, *_domain(a)[0]], b.automaton, limit=MAX_STATES)
    except PatternTooComplex:
        return found


def _contains_at_sight(wide: Glob, narrow: Glob) -> bool | None:
    """Answer the common cases without automata; None when it takes more."""
    big, small = wide.shape, narrow.shape
    if small.is_empty or big.prefix == b"" or big.text == small.text:
        return True
    if small.exact is not None:
        return wide.matches(small.exact)
    if big.exact is not None:
        return False
    if big.prefix is not None and small.prefix is not None:
        return small.prefix.startswith(big.prefix)
    one = small.sample
    if one is not None and not (one.startswith(big.head) and one.endswith(big.tail)):
        return False
    return None


def _intersects_at_sight(a: Glob, b: Glob) -> bool | None:
    one, two = a.shape, b.shape
    if one.is_empty or two.is_empty:
        return False
    short, long = sorted((one.head, two.head), key=len)
    if not long.startswith(short):
        return False
    short, long = sorted((one.tail, two.tail), key=len)
    if not long.endswith(short):
        return False
    if one.exact is not None:
        return b.matches(one.exact)
    if two.exact is not None:
        return a.matches(two.exact)
    both_prefixes = one.prefix is not None and two.prefix is not None
    if both_prefixes or one.prefix == b"" or two.prefix == b"":
        return True
    return None
