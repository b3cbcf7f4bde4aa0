"""Which source counts first, and the first value of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compiler.facts.merge.log import Log
from compiler.facts.partial import READERS, Partial

V = TypeVar("V")


def ranked(partials: Iterable[Partial]) -> tuple[Partial, ...]:
    """Return the sources, most trusted first, in an order that is the same for any input order.

    Sources of one reader are ordered by file name; two of one file by what they say.

    Raises:
        ValueError: a reader is not in :data:`~compiler.facts.partial.READERS`.
    """
    found = list(partials)
    keys = [(READERS.index(one.reader), one.file) for one in found]
    full = [
        (*key, repr(one) if keys.count(key) > 1 else "")
        for key, one in zip(keys, found, strict=True)
    ]
    order = sorted(range(len(found)), key=lambda i: full[i])
    return tuple(found[i] for i in order)


def choose(
    log: Log,
    partials: Sequence[Partial],
    fact: str,
    get: Callable[[Partial], V | None],
    *,
    family: str,
    show: Callable[[V], str] = str,
    cut: Callable[[V, V], V] = lambda value, _: value,
) -> V | None:
    """Return the most trusted value that is not None, and record who differs from it.

    Args:
        log: where disagreements and the supplier go.
        partials: most trusted first.
        fact: how messages name the value.
        get: the value of one source; None: not said.
        family: the family (:data:`~compiler.facts.merge.log.FAMILIES`) it belongs to.
        show: the value as text.
        cut: the part of its first argument that can be compared with the second.
    """
    said = [(one, value) for one in partials if (value := get(one)) is not None]
    if not said:
        return None
    winner, value = said[0]
    log.supplied(winner, family)
    for loser, other in said[1:]:
        if cut(value, other) != cut(other, value):
            log.disagree(fact, winner, show(value), loser, show(other))
        elif loser.merged:
            log.supplied(loser, family)
    return value
