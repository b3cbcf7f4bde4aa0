"""What a model takes at a place: its keys, words and bounds, read off its annotations.

Places are the locations pydantic reports.  They have steps that are in no file (names of union
members); a step that leads nowhere is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo

from compiler.model.base import Model
from compiler.model.described import descriptions


@dataclass(frozen=True, slots=True)
class Spot:
    """One alternative of what may stand at a place: a type, and what is demanded of it."""

    kind: Any
    demands: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand at a place.

    Attributes:
        spots: the alternatives.
        field: model and key whose value this is, when the place is the value of a model's key.
    """

    spots: tuple[Spot, ...]
    field: tuple[str, str] | None = None

    def keys(self) -> dict[str, FieldInfo]:
        """Return the keys a mapping here may have, in the order of the model."""
        found: dict[str, FieldInfo] = {}
        for spot in self.spots:
            if _is_model(spot.kind):
                found.update(fields(spot.kind))
        return found

    def models(self) -> tuple[str, ...]:
        """Return the names of the models a mapping here may be."""
        return tuple(spot.kind.__name__ for spot in self.spots if _is_model(spot.kind))

    def about(self, key: str) -> str:
        """Return what the value of a key of a mapping here means; empty when nothing says it."""
        for spot in reversed(self.spots):  # as in keys, the last counts
            if _is_model(spot.kind) and key in fields(spot.kind):
                name = next(n for n, i in spot.kind.model_fields.items() if (i.alias or n) == key)
                # one backtick, as everywhere in messages
                return descriptions(spot.kind).get(name, "").replace("``", "`")
        return ""

    def words(self) -> tuple[str, ...]:
        """Return the words that may stand here, in the order of the model."""
        return tuple(
            word
            for spot in self.spots
            if get_origin(spot.kind) is Literal
            for word in get_args(spot.kind)
        )

    def bounds(self) -> tuple[float | None, float | None]:
        """Return the least and greatest number that may stand here."""
        low = high = None
        for spot in self.spots:
            for demand in spot.demands:
                low = demand.ge if isinstance(demand, Ge) else low
                high = demand.le if isinstance(demand, Le) else high
        return low, high  # type: ignore[return-value]

    def lengths(self) -> tuple[int | None, int | None]:
        """Return the least and greatest length of what may stand here."""
        low = high = None
        for spot in self.spots:
            for demand in spot.demands:
                low = demand.min_length if isinstance(demand, MinLen) else low
                high = demand.max_length if isinstance(demand, MaxLen) else high
        return low, high


def shape_at(model: type[Model], location: Sequence[str | int]) -> Shape:
    """Return what a document of kind ``model`` may have at ``location``."""
    shape = Shape((Spot(model),))
    for step in location:
        shape = _step(shape, step) or shape
    return shape


def key_shape(shape: Shape) -> Shape:
    """Return what the keys of a free mapping at ``shape`` may be."""
    spots: list[Spot] = []
    for spot in shape.spots:
        if _is_mapping(spot.kind):
            spots += _alternatives(get_args(spot.kind)[0])
    return Shape(tuple(spots))


@cache
def fields(model: type[Model]) -> Mapping[str, FieldInfo]:
    """Return a model's fields by their keys in files."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


@cache
def places_of_keys(model: type[Model]) -> Mapping[str, tuple[str, ...]]:
    """Return for every key of a kind where it stands, as ``spec.lane.cores``; lists as ``[]``."""
    found: dict[str, list[str]] = {}
    for key, place in _walk(model, ""):
        if place not in found.setdefault(key, []):
            found[key].append(place)
    return {key: tuple(places) for key, places in found.items()}


def _walk(model: type[Model], before: str) -> Iterator[tuple[str, str]]:
    for key, info in fields(model).items():
        here = f"{before}{key}"
        yield key, here
        yield from _inner(_alternatives(info.annotation), here)


def _inner(spots: Sequence[Spot], here: str) -> Iterator[tuple[str, str]]:
    for spot in spots:
        if _is_model(spot.kind):
            yield from _walk(spot.kind, f"{here}.")
        elif get_origin(spot.kind) is tuple:
            yield from _inner(_alternatives(get_args(spot.kind)[0]), f"{here}[]")
        elif _is_mapping(spot.kind):
            yield from _inner(_alternatives(get_args(spot.kind)[1]), f"{here}.NAME")


def _step(shape: Shape, step: str | int) -> Shape | None:
    spots: list[Spot] = []
    field: tuple[str, str] | None = None
    for spot in shape.spots:
        if _is_model(spot.kind):
            info = fields(spot.kind).get(step) if isinstance(step, str) else None
            if info is not None:
                spots += _alternatives(info.annotation, tuple(info.metadata))
                field = (spot.kind.__name__, str(step))
        elif get_origin(spot.kind) is tuple and isinstance(step, int):
            spots += _alternatives(get_args(spot.kind)[0])
        elif _is_mapping(spot.kind) and isinstance(step, str):
            spots += _alternatives(get_args(spot.kind)[1])
    return Shape(tuple(spots), field) if spots else None


def _alternatives(annotation: Any, demands: tuple[Any, ...] = ()) -> list[Spot]:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        own = tuple(
            part
            for item in extra
            for part in (item.metadata if isinstance(item, FieldInfo) else (item,))
        )
        return _alternatives(inner, (*demands, *own))
    if origin in (Union, UnionType):
        return [spot for part in get_args(annotation) for spot in _alternatives(part, demands)]
    return [Spot(annotation, demands)]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Model)


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)
