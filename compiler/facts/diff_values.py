"""Two values of a fact, compared and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from compiler.cpuset import CpuSet
from compiler.facts.write import cpu_list

NOT_GIVEN: Final = "not given"
"""A value that is not there, and is not unknown for that: a label, an override, a device."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        section: the part of the model.
        what: the fact, such as ``online`` or ``0000:1b:00.0 numa``.
        a, b: its values in words; ``unknown`` or ``not given`` where there is no value.  ``none``
            is an empty list, or a text that says so.
        only_a, only_b: of CPU lists, the CPUs that only one of them has; else empty.
    """

    section: str
    what: str
    a: str
    b: str
    only_a: CpuSet = field(default_factory=CpuSet)
    only_b: CpuSet = field(default_factory=CpuSet)


def changed(
    section: str, what: str, a: object, b: object, *, missing: str = "unknown"
) -> Iterator[Change]:
    """Yield the difference of two values, if they differ; ``missing`` is the word for None."""
    if a == b:
        return
    only_a = only_b = CpuSet()
    if isinstance(a, CpuSet) and isinstance(b, CpuSet):
        only_a, only_b = a - b, b - a
    yield Change(section, what, in_words(a, missing), in_words(b, missing), only_a, only_b)


def in_words(value: object, missing: str) -> str:
    """Return a value as it stands in a message."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, CpuSet):
        return cpu_list(value) or "none"
    if isinstance(value, BaseModel):
        return ", ".join(
            f"{_name(value, name)} {in_words(found, missing)}"
            for name in type(value).model_fields
            if (found := getattr(value, name)) not in (None, ())
        )
    if isinstance(value, str):
        return value or "empty"
    if isinstance(value, Sequence):
        return ", ".join(in_words(one, missing) for one in value) or "none"
    return str(value)


def fields(
    section: str,
    what: str,
    a: BaseModel | None,
    b: BaseModel | None,
    *,
    skip: Sequence[str] = (),
    missing: str = "unknown",
) -> Iterator[Change]:
    """Yield the differences of two records, field by field, under the names that files use.

    If only one is there, that is the difference.
    """
    if a is None or b is None:
        said = [None if one is None else _shown(one, skip, missing) for one in (a, b)]
        yield from changed(
            section, what or section, *said, missing=missing if what == "" else NOT_GIVEN
        )
        return
    for name in type(a).model_fields:
        if name in skip:
            continue
        one, other = getattr(a, name), getattr(b, name)
        path = f"{what} {_name(a, name)}".strip()
        if isinstance(one, BaseModel) and isinstance(other, BaseModel):
            yield from fields(section, path, one, other, missing=missing)
        else:
            yield from changed(section, path, one, other, missing=missing)


def _shown(record: BaseModel, skip: Sequence[str], missing: str) -> str:
    parts = [
        f"{_name(record, name)} {in_words(value, missing)}"
        for name in type(record).model_fields
        if name not in skip and (value := getattr(record, name)) not in (None, ())
    ]
    return ", ".join(parts) or "there"


def _name(record: BaseModel, name: str) -> str:
    return type(record).model_fields[name].alias or name
