"""A value that several intents define: who wins, and what it is to contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Diagnostic, Related, Sink
from compiler.model.intent import Intent
from compiler.resolve.types import Decided, Defined
from compiler.words import listed

T = TypeVar("T")
Size = tuple[int, int | None]
"""Fewest and most cores; None: all that is left."""


def decide(
    lane: str,
    what: str,
    joined: Sequence[Loaded[Intent]],
    define: Callable[[Loaded[Intent]], Defined[T] | None],
    sink: Sink,
) -> Decided[T] | None:
    """Pick the definition of highest precedence."""
    found = [d for intent in joined if (d := define(intent)) is not None]
    if not found:
        return None
    found.sort(key=lambda d: (-d.precedence, d.intent))
    top = [d for d in found if d.precedence == found[0].precedence]
    if any(d.value != top[0].value for d in top):
        sink.add(_conflict(lane, what, top))
    return Decided(found[0], tuple(found[1:]))


def _conflict(lane: str, what: str, top: Sequence[Defined[T]]) -> Diagnostic:
    """Say who defines a value how, and which line to change: those of the fewest, if they are few.

    All definitions are listed, also equal ones: whoever changes a line should see what agrees.
    """
    sayings: list[tuple[T, list[Defined[T]]]] = []
    for one in top:
        same = next((those for value, those in sayings if value == one.value), None)
        if same is None:
            sayings.append((one.value, [one]))
        else:
            same.append(one)
    sayings.sort(key=lambda saying: (-len(saying[1]), saying[1][0].intent))
    said = ", ".join(
        f"{listed([d.intent for d in those])} {'says' if len(those) == 1 else 'say'} {_say(value)}"
        for value, those in sayings
    )
    if what == "cores":
        said += {"1": " core", "rest": ""}.get(_say(sayings[-1][0]), " cores")
    subject = f"lane {lane}" if what == "cores" else f"lane {lane}, {what}"
    (value, most), (_, second) = sayings[:2]
    odd = top if len(most) == len(second) else [d for d in top if d.value != value]
    places = sorted(odd, key=lambda d: d.span)
    last = places[-1]
    names = listed([d.intent for d in places])
    have = f"{listed([d.intent for d in most])} {'has' if len(most) == 1 else 'have'} it"
    if odd is top:
        how = f"write the same {what} in {names}, keep it in one of them"
    else:
        lines = "this line" if len(odd) == 1 else f"the lines of {names}"
        how = f"change {lines} to {what}: {_written_as(value)}, as {have}"
    return codes.VALUE_CONFLICT.at(
        last.span,
        f"{subject}: {said}, at equal precedence",
        related=[
            Related(d.span, f"{d.intent} says {_say(d.value)}")
            for d in sorted(top, key=lambda d: d.span)
            if d is not last
        ],
        help=f"{how}, or give one intent a higher precedence",
    )


def _say(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return "rest" if value[1] is None else size_text(value)


def _written_as(value: object) -> str:
    """Return a value as a document has it."""
    if not isinstance(value, tuple):
        return str(value)
    low, high = value
    if high is None:
        return "rest"
    return str(low) if low == high else f"{{min: {low}, max: {high}}}"


def size_text(size: Size) -> str:
    """Return a lane's size for people."""
    low, high = size
    if high is None:
        return f"{low} or more, all that is left"
    return str(low) if low == high else f"{low} to {high}"
