"""Kubernetes objects in YAML or JSON: lists taken apart, values asked for by route and type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.codes.reading import AMBIGUOUS_SCALAR, INVISIBLE_CHARACTER, MALFORMED_SUPPRESSION
from compiler.diagnostics import Severity, Sink
from compiler.facts.formats.format import Text
from compiler.facts.partial import ReadError
from compiler.facts.shown import shown
from compiler.source import Data, Document, parse_source

# What a policy may not have, and the output of other programs may: the value is kept as a text.
_TOLERATED: Final = frozenset(
    {AMBIGUOUS_SCALAR.id, INVISIBLE_CHARACTER.id, MALFORMED_SUPPRESSION.id}
)
_INTEGER: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_MILLI: Final = re.compile(r"([0-9]{1,15})m", re.ASCII)


@dataclass(frozen=True, slots=True)
class KubernetesObject:
    """One object of a file.

    Attributes:
        kind, api_version: as written, or as the list it stands in implies; may be empty.
        data: the object.
    """

    document: Document
    route: tuple[str | int, ...]
    kind: str
    api_version: str
    data: dict[str, Data]

    def line(self, *route: str | int) -> int:
        """Return the line of the value at ``route``, or of the nearest value around it."""
        return self.document.span(*self.route, *route).line

    def get(self, *route: str | int) -> Data:
        """Return the value at ``route``; None where there is none."""
        value: Data = self.data
        for step in route:
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, tuple) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def text(self, *route: str | int) -> str | None:
        """Return the text at ``route``; None where there is none, or it is empty."""
        value = self.get(*route)
        return value if isinstance(value, str) and value else None

    def integer(self, *route: str | int) -> int | None:
        """Return the whole number at ``route``, quoted or not."""
        return whole(self.get(*route))

    def mapping(self, *route: str | int) -> dict[str, Data]:
        """Return the mapping at ``route``; empty where there is none."""
        value = self.get(*route)
        return value if isinstance(value, dict) else {}

    def size(self, *route: str | int) -> int:
        """Return how many items the list at ``route`` has; 0 where there is none."""
        value = self.get(*route)
        return len(value) if isinstance(value, tuple) else 0

    @property
    def name(self) -> str:
        """``metadata.name``, for messages."""
        return self.text("metadata", "name") or "without a name"


def whole(value: Data) -> int | None:
    """Return a whole number from a number or a text such as ``112`` or ``112000m``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        return None
    if _INTEGER.fullmatch(value):
        return int(value)
    match = _MILLI.fullmatch(value)
    return int(match[1]) // 1000 if match and int(match[1]) % 1000 == 0 else None


def read_objects(text: Text) -> tuple[KubernetesObject, ...]:
    """Return the objects of a file: of every document, and of the lists among them.

    Raises:
        ReadError: the text is no YAML or JSON, is too large, or a part of it cannot be read.
    """
    # Only the line of what is found is used, so the name says no more than the syntax.
    name = "text.json" if text.text.lstrip().startswith("{") else "text.yaml"
    sink = Sink()
    source = parse_source(name, text.text.encode("utf-8", "surrogatepass"), sink)
    for found in sink.sorted():
        if found.severity is Severity.ERROR and found.code not in _TOLERATED:
            raise ReadError(found.message, line=found.span.line, help=found.help)
    result: list[KubernetesObject] = []
    for document in source.documents:
        if isinstance(document.data, dict):
            result += _objects(document, (), document.data, "", "")
    return tuple(result)


def _objects(
    document: Document,
    route: tuple[str | int, ...],
    data: dict[str, Data],
    kind: str,
    version: str,
) -> Iterator[KubernetesObject]:
    """Yield an object, or those of a list; items of a NodeList need not say that they are Nodes."""
    said_kind, said_version = data.get("kind"), data.get("apiVersion")
    kind = said_kind if isinstance(said_kind, str) else kind
    version = said_version if isinstance(said_version, str) else version
    items = data.get("items")
    if not kind.endswith("List") or not isinstance(items, tuple):
        yield KubernetesObject(document, route, kind, version, data)
        return
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            line = document.span(*route, "items", place).line
            raise ReadError(
                f"item {place + 1} of {shown(kind)} is no object",
                line=line,
                help="import what `kubectl get -o yaml` or `-o json` prints, unchanged",
            )
        implied = kind.removesuffix("List")
        yield from _objects(
            document, (*route, "items", place), item, implied, version if implied else ""
        )
