"""Texts whose form a schema cannot judge: patterns of matchers, and version ranges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from compiler.codes.language import CONTRADICTION, EMPTY_RANGE, INVALID_PATTERN
from compiler.diagnostics import Diagnostic, Related, Span
from compiler.model.base import MAX_CGROUP_PATH
from compiler.patterns import CmdlineRegex, Glob, PatternError
from compiler.patterns.glob_syntax import MAX_CGROUP_TEXT
from compiler.source import Data, Document, Route
from compiler.versions import Range, Version, VersionError

PODS: Final = "@pods"
"""What stands for a node's pods root at the beginning of a cgroup pattern."""

MAX_BELOW_PODS: Final = MAX_CGROUP_TEXT - MAX_CGROUP_PATH
"""Bytes of a cgroup pattern behind ``@pods``, so that it fits whatever the pods root of a node."""

_READERS: Final[dict[str, Callable[[str], object]]] = {
    "comm": Glob.comm,
    "leaderComm": Glob.comm,
    "kthread": Glob.comm,
    "cgroup": Glob.cgroup,
    "cmdline": CmdlineRegex.parse,
}


MAX_FOUND: Final = 500
"""Findings after which the rest of a document is not looked at."""

_KINDS: Final = frozenset({"Intent", "EngineProfile", "WorkloadGroup"})


def check_texts(doc: Document, reported: Collection[Span]) -> list[Diagnostic]:
    """Return findings on pattern and version texts; none at places already ``reported``."""
    found: list[Diagnostic] = []
    if doc.kind not in _KINDS:
        return found
    for route, text in _texts(doc):
        if len(found) >= MAX_FOUND:
            break
        if reported and doc.span(*route) in reported:
            continue
        key = str(route[-1])
        if key == "versions":
            found += _check_range(doc, route, text)
        else:
            found += _check_pattern(doc, route, key, text)
    return found + list(_check_known(doc, reported))


def _check_pattern(doc: Document, route: Route, key: str, text: str) -> Iterator[Diagnostic]:
    shift = 0
    body = text
    if key == "cgroup" and text.startswith("@"):
        first, slash, rest = text.partition("/")
        if first != PODS:
            yield INVALID_PATTERN.at(
                doc.span(*route),
                f"`{first}` is not known in a cgroup pattern",
                help=f"write {PODS}{slash}{rest} for the pods of the node",
            )
            return
        if len(text.encode()) - len(PODS) > MAX_BELOW_PODS:
            yield INVALID_PATTERN.at(
                doc.span(*route),
                f"`{key}`: more than {MAX_BELOW_PODS} bytes behind {PODS}",
                help="shorten it, for example with * in long names",
            )
            return
        body, shift = text[1:], 1
    try:
        _READERS[key](body)
    except PatternError as error:
        offset = None if error.offset is None else error.offset + shift
        yield INVALID_PATTERN.at(
            _place(doc, route, text, offset),
            f"`{key}`: {error}",
            help="write it on one line, in quotes" if "\n" in text else "",
        )


def _check_range(doc: Document, route: Route, text: str) -> Iterator[Diagnostic]:
    try:
        empty = Range.parse(text).is_empty
    except VersionError:
        return  # its form was already judged
    if empty:
        yield EMPTY_RANGE.at(
            doc.span(*route),
            f"no version satisfies `{text}`",
            help="the first bound must be below the second, as in >=0.10.1,<0.25",
        )


def _check_known(doc: Document, reported: Collection[Span]) -> Iterator[Diagnostic]:
    route = ("spec", "known")
    if doc.kind != "EngineProfile" or doc.key_span(*route) in reported:
        return
    texts = [doc.text(*route, index) for index in (0, 1)]
    try:
        oldest, newest = (Version.parse((text or "").strip("'\"")) for text in texts)
    except VersionError:
        return  # its form was already judged
    if newest < oldest:
        yield CONTRADICTION.at(
            doc.span(*route, 1),
            f"the newest known version {newest} is older than the oldest, {oldest}",
            related=[Related(doc.span(*route, 0), "the oldest known version")],
        )


def _place(doc: Document, route: Route, text: str, offset: int | None) -> Span:
    """Return the place of one character of a scalar, where its notation has no escapes."""
    span, written = doc.span(*route), doc.text(*route)
    if offset is None or written is None or span.line != span.end_line:
        return span
    if written == text:
        start = span.col
    elif written[:1] in ("'", '"') and written[1:-1] == text:
        start = span.col + 1
    else:
        return span
    length = 1 if offset < len(text) else 0
    if not length:  # something is missing at the end: show the last character
        offset, length = max(len(text) - 1, 0), min(len(text), 1)
    return Span(span.path, span.line, start + offset, span.line, start + offset + length)


def _texts(doc: Document) -> Iterator[tuple[Route, str]]:
    """Yield the texts to check, in the order of the file."""
    stack: list[tuple[Route, Data]] = [((), doc.data)]
    while stack:
        route, value = stack.pop()
        if isinstance(value, dict):
            stack += [((*route, key), item) for key, item in reversed(value.items())]
        elif isinstance(value, tuple):
            stack += [((*route, index), item) for index, item in reversed([*enumerate(value)])]
        elif isinstance(value, str) and _is_checked(doc.kind, route):
            yield route, value


def _is_checked(kind: str | None, route: Route) -> bool:
    if kind == "Intent":
        narrow = route == ("spec", "workload", "cgroup")
        item = len(route) == 5 and route[:3] == ("spec", "workload", "match")
        return narrow or (item and route[-1] in _READERS)
    if kind == "EngineProfile":
        if len(route) == 6 and route[:2] == ("spec", "stages") and route[3] == "match":
            return route[-1] in _READERS or route[-1] == "versions"
        return len(route) == 4 and route[1] in ("polling", "knobs") and route[-1] == "versions"
    if kind == "WorkloadGroup":
        return len(route) == 4 and route[1] == "match" and route[-1] in _READERS
    return False
