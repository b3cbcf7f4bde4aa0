"""Node facts as a document: the data in canonical order, and its YAML text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import BaseModel

from compiler import yamlout
from compiler.cpuset import CpuSet
from compiler.model.facts import NodeFacts
from compiler.yamlout import Plain

SCHEMA_COMMENT: Final = "yaml-language-server: $schema="
_MIN_RUNS: Final = 4
"""Runs of CPUs that are written as one stride item instead of one by one."""


def facts_yaml(facts: NodeFacts, *, schema: str | None = None) -> str:
    """Return the YAML of node facts; with ``schema``, its first line names the JSON Schema."""
    header = () if schema is None else (SCHEMA_COMMENT + schema,)
    return yamlout.dump(facts_data(facts), header=header)


def facts_data(facts: NodeFacts) -> dict[str, Plain]:
    """Return the plain data of node facts, keys in the order of the model.

    What is unknown (None), empty or not said to be anything but ``unknown`` is left out; an
    empty CPU list is kept, because it is something known.
    """
    return _model(facts)


def _model(model: BaseModel) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is None or (value == "unknown" and field.default == "unknown"):
            continue
        plain = _plain(value)
        if plain in ({}, []):
            continue
        data[field.alias or name] = plain
    return data


def _plain(value: object) -> Plain:
    if isinstance(value, BaseModel):
        return _model(value)
    if isinstance(value, CpuSet):
        return cpu_list(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} is no part of node facts")


def cpu_list(cpus: CpuSet) -> str:
    """Return the shortest common form: runs, and evenly spaced equal runs as ``0-30:1/2``."""
    runs = list(cpus.ranges())
    items: list[str] = []
    at = 0
    while at < len(runs):
        stop = at + 1
        first, last = runs[at]
        length = last - first
        if stop < len(runs):
            group = runs[stop][0] - first
            while (
                stop < len(runs)
                and runs[stop][0] - runs[stop - 1][0] == group
                and runs[stop][1] - runs[stop][0] == length
            ):
                stop += 1
            if stop - at >= _MIN_RUNS:
                items.append(f"{first}-{runs[stop - 1][1]}:{length + 1}/{group}")
                at = stop
                continue
        items.append(f"{first}" if first == last else f"{first}-{last}")
        at += 1
    return ",".join(items)
