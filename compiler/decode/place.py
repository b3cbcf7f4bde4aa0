"""Where pydantic found something: its location, the part of it that is in the file, and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.decode.shape import Shape, key_shape, shape_at
from compiler.diagnostics import Span
from compiler.model.base import Model
from compiler.source import Data, Document, Route

_KEY_STEP: Final = "[key]"
_SHOWN: Final = 60


class Place:
    """Where pydantic found something: its location, and the part of it that is in the file.

    Attributes:
        location: as reported, with steps that are in no file.
        route: the part of it that is in the file.
        parent: the same for the mapping or list around it.
        is_key: whether the key itself is meant, and not its value.
    """

    def __init__(self, doc: Document, model: type[Model], location: Sequence[str | int]) -> None:
        self.doc = doc
        self.model = model
        above = value_at(doc.data, existing(doc.data, location[:-1]))
        a_key_called_so = isinstance(above, dict) and _KEY_STEP in above
        self.is_key = location[-1:] == (_KEY_STEP,) and not a_key_called_so
        self.location = tuple(location[:-1] if self.is_key else location)
        self.route = existing(doc.data, self.location)
        self.parent = existing(doc.data, self.location[:-1])

    @property
    def shape(self) -> Shape:
        """What the model takes here."""
        if self.is_key:
            return key_shape(shape_at(self.model, self.location[:-1]))
        return shape_at(self.model, self.location)

    @property
    def value(self) -> Data:
        """What the file has here."""
        return self.route[-1] if self.is_key else value_at(self.doc.data, self.route)

    @property
    def span(self) -> Span:
        """What to underline."""
        if self.is_key:
            return self.doc.key_span(*self.route)
        return span_of(self.doc, self.route)

    @property
    def subject(self) -> str:
        """What to call it in a message."""
        if self.is_key:
            return f"the key `{cut(str(self.route[-1]))}`"
        return subject_of(self.route)

    @property
    def written(self) -> str:
        """The value as the user wrote it, or what it is."""
        if self.is_key:
            return str(self.route[-1])
        text = self.doc.text(*self.route)
        value = self.value
        if isinstance(value, dict):
            return "a mapping"
        if isinstance(value, tuple):
            return "a list"
        if value is None:
            return "nothing"
        return text if text is not None and "\n" not in text else str(value)


def existing(data: Data, location: Sequence[str | int]) -> Route:
    """Return the route in the document that a location means; unknown steps are skipped."""
    route: list[str | int] = []
    for step in location:
        if isinstance(data, dict) and isinstance(step, str):
            if step not in data:
                continue
            data = data[step]
        elif isinstance(data, tuple) and isinstance(step, int) and 0 <= step < len(data):
            data = data[step]
        else:
            continue
        route.append(step)
    return tuple(route)


def value_at(data: Data, route: Route) -> Data:
    """Return the value at a route that exists."""
    for step in route:
        data = data[step]  # type: ignore[index]
    return data


def span_of(doc: Document, route: Route) -> Span:
    """Return the value's place; of a value over several lines, the place of its key."""
    span = doc.span(*route)
    return span if span.line == span.end_line else key_span_of(doc, route)


def key_span_of(doc: Document, route: Route) -> Span:
    """Return the place of a key; of the whole document, that of its kind."""
    if not route:  # the document has no key; its kind is what a reader knows it by
        return doc.key_span("kind")
    return doc.key_span(*route)


def shown_span_of(doc: Document, route: Route) -> Span:
    """Return what to underline of a key that contradicts another: a word, or the key."""
    if route and isinstance(route[-1], int):
        return span_of(doc, route)
    return key_span_of(doc, route)


def subject_of(route: Route) -> str:
    """Return what to call the value at a route: its key, or its position in a list."""
    if not route:
        return "the document"
    last = route[-1]
    if isinstance(last, str):
        return f"`{cut(last)}`"
    names = [step for step in route if isinstance(step, str)]
    return f"item {last + 1} of `{cut(names[-1])}`" if names else f"item {last + 1}"


def in_mapping(route: Route) -> str:
    """Return " in `x`" for a mapping that has a name."""
    return f" in {subject_of(route)}" if route else ""


def cut(text: str) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
