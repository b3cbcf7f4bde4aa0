"""Pod selectors as texts: canonical, and compared by what pods they can select.

A plan carries a selector as text, so that equal selectors are equal conditions.  The text is a
list of requirements joined by ``; ``: ``in namespace NAME``, ``key=value``, ``key Exists`` or
``key In (a,b)``.  A label key holds no space, so no label is mistaken for the namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from compiler.model.selector import PodSelector

_NAMESPACE: Final = "in namespace "


@dataclass(slots=True)
class _Label:
    """What a selector says about one label."""

    exists: bool = False
    absent: bool = False
    allowed: frozenset[str] | None = None
    forbidden: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    """``Gt`` and ``Lt``, compared as texts only."""

    @property
    def values(self) -> frozenset[str] | None:
        """Values that pass, None where all but the forbidden do."""
        return None if self.allowed is None else self.allowed - self.forbidden

    @property
    def impossible(self) -> bool:
        return (self.absent and self.exists) or self.values == frozenset()


@dataclass(slots=True)
class _Selector:
    namespaces: set[str] = field(default_factory=set)
    labels: dict[str, _Label] = field(default_factory=dict)


def pods_text(selector: PodSelector) -> str:
    """Return the canonical text of a selector: equal selectors, equal text."""
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for row in selector.match_expressions:
        values = f" ({','.join(sorted(set(row.values)))})" if row.values else ""
        parts.append(f"{row.key} {row.operator}{values}")
    if selector.namespace is not None:
        parts.append(_NAMESPACE + selector.namespace)
    return _joined(parts)


def pods_both(one: str, other: str) -> str:
    """Return the text of the selector that asks for everything both ask for."""
    return _joined((*one.split("; "), *other.split("; ")))


def pods_meet(one: str, other: str) -> bool:
    """Return whether some pod could be selected by both."""
    both = _read(pods_both(one, other))
    return len(both.namespaces) < 2 and not any(label.impossible for label in both.labels.values())


def pods_contain(wide: str, narrow: str) -> bool:
    """Return whether every pod that ``narrow`` selects, ``wide`` selects too."""
    big, small = _read(wide), _read(narrow)
    return big.namespaces <= small.namespaces and all(
        key in small.labels and _implied(label, small.labels[key])
        for key, label in big.labels.items()
    )


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(sorted(set(parts), key=lambda part: (not part.startswith(_NAMESPACE), part)))


def _implied(wide: _Label, narrow: _Label) -> bool:
    if not wide.others <= narrow.others or (wide.absent and not narrow.absent):
        return False
    if wide.exists and not narrow.exists:
        return False
    values = narrow.values
    if wide.allowed is not None and (values is None or not values <= wide.allowed):
        return False
    return (
        narrow.absent
        or wide.forbidden <= narrow.forbidden
        or (values is not None and values.isdisjoint(wide.forbidden))
    )


@lru_cache(maxsize=4096)
def _read(text: str) -> _Selector:
    out = _Selector()
    for part in text.split("; "):
        if part.startswith(_NAMESPACE):
            out.namespaces.add(part.removeprefix(_NAMESPACE))
            continue
        key, operator, values = _parts(part)
        label = out.labels.setdefault(key, _Label())
        if operator == "In":
            label.allowed = values if label.allowed is None else label.allowed & values
        elif operator == "NotIn":
            label.forbidden |= values
        elif operator in ("Gt", "Lt"):
            label.others |= {part}
        label.exists |= operator not in ("NotIn", "DoesNotExist")
        label.absent |= operator == "DoesNotExist"
    return out


def _parts(part: str) -> tuple[str, str, frozenset[str]]:
    words: Iterator[str] = iter(part.split(" "))
    key = next(words)
    operator = next(words, None)
    if operator is None:
        key, _, value = key.partition("=")
        return key, "In", frozenset((value,))
    return key, operator, frozenset(next(words, "()").strip("()").split(","))


def pods_take(text: str, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether a selector's text takes a pod of that namespace with exactly these labels."""
    wanted = _read(text)
    return wanted.namespaces <= {namespace} and all(
        _takes(label, labels.get(key)) for key, label in wanted.labels.items()
    )


def _takes(label: _Label, value: str | None) -> bool:
    if value is None:
        return not label.exists
    if label.absent or value in label.forbidden:
        return False
    if label.allowed is not None and value not in label.allowed:
        return False
    return all(_compares(other, value) for other in label.others)


def _compares(part: str, value: str) -> bool:
    _, operator, (bound,) = _parts(part)
    if not (value.isascii() and value.isdecimal()):
        return False
    return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
