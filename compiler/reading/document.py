"""What reading yields: documents whose every key and value knows its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, Union

from compiler.diagnostics import Span

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 200_000
"""Values in one file, each use of an alias counted with all that it stands for."""
MAX_DOCUMENTS: Final = 5_000

Scalar: TypeAlias = str | int | float | bool | None
Data: TypeAlias = Union[Scalar, "tuple[Data, ...]", "dict[str, Data]"]
Route: TypeAlias = tuple[str | int, ...]
Position: TypeAlias = tuple[int, int, int, int]
"""First line, first column, last line, column after the last character; all from 0."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where one node is.

    Attributes:
        key: place of the key, when the node is the value of one.
        value: place of the value.
        text: a scalar exactly as written, quotes included; None for lists and mappings.
    """

    key: Span | None
    value: Span
    text: str | None


class Place:
    """A node of the tree of places; the parallel of one node of the data.

    Cheaper to make than a :class:`Mark`, of which few are ever asked for.  An alias shares the
    children of what it stands for, so a tree may share parts but has no cycle.
    """

    __slots__ = ("children", "key", "text", "value")

    def __init__(
        self,
        value: Position,
        text: str | None = None,
        children: dict[str, Place] | list[Place] | None = None,
        key: Position | None = None,
    ) -> None:
        self.value = value
        self.text = text
        self.children = children
        self.key = key

    def child(self, step: str | int) -> Place | None:
        """Return the node one step down, or None where there is none."""
        children = self.children
        if isinstance(children, dict):
            return children.get(step) if isinstance(step, str) else None
        if isinstance(children, list) and type(step) is int and 0 <= step < len(children):
            return children[step]
        return None


_FORGOTTEN: Final[dict[str, Place]] = {}
"""What stands for children that were forgotten; told by identity."""


class Marks(Mapping[Route, Mark]):
    """The marks of a document by route; ``()`` is the document itself.

    They take more memory than the data, and most are never asked for: those of documents in which
    nothing is wrong may be forgotten and are then read again when one is asked for.
    """

    __slots__ = ("_again", "_forgetful", "_path", "_root")

    def __init__(self, path: str, root: Place) -> None:
        self._path = path
        self._root = root
        self._again: Callable[[], Marks] | None = None
        self._forgetful = False

    def read_again_by(self, again: Callable[[], Marks]) -> None:
        """Say how to make the same marks anew."""
        self._again = again

    def forget(self, depth: int) -> None:
        """Forget what is deeper than ``depth`` steps, if it can be read again."""
        if self._again is not None:
            self._forgetful = True
            _forget(self._root, depth)

    def _whole(self) -> Place:
        if self._forgetful and self._again is not None:
            self._root = self._again()._root
            self._forgetful = False
        return self._root

    def _find(self, route: Route) -> Place | None:
        place: Place | None = self._root
        for step in route:
            if place is None:
                break
            if place.children is _FORGOTTEN:
                self._whole()
                return self._find(route)
            place = place.child(step)
        return place

    def __contains__(self, route: object) -> bool:
        return isinstance(route, tuple) and self._find(route) is not None

    def __getitem__(self, route: Route) -> Mark:
        place = self._find(route)
        if place is None:
            raise KeyError(route)
        key = None if place.key is None else _span(self._path, place.key)
        return Mark(key, _span(self._path, place.value), place.text)

    def __iter__(self) -> Iterator[Route]:
        return _routes((), self._whole())

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True)
class Document:
    """One document of a file.

    Attributes:
        path: the file, as the user would type it.
        index: position among the documents of its file, from 0; empty ones do not count.
        data: a mapping; lists are tuples, keys are texts.  Not to be changed: values that
            aliases stand for are shared.
        marks: the place of every node by route.
    """

    path: str
    index: int
    data: Data
    marks: Mapping[Route, Mark]

    def span(self, *route: str | int) -> Span:
        """Return the place of the value at ``route``.

        Steps that are not in the file are skipped: validators name steps of their own, and a
        key that is missing is best reported at the mapping that lacks it.
        """
        mark = self._mark(route)
        return mark.value if mark is not None else Span.of_file(self.path)

    def key_span(self, *route: str | int) -> Span:
        """Return the place of the key at ``route``, or of the value where there is no key."""
        mark = self._mark(route)
        if mark is None:
            return Span.of_file(self.path)
        return mark.key if mark.key is not None else mark.value

    def text(self, *route: str | int) -> str | None:
        """Return the scalar at ``route`` exactly as written; None for lists and mappings."""
        mark = self._mark(route)
        return mark.text if mark is not None else None

    def forget_places(self, depth: int) -> None:
        """Give back the memory of places deeper than ``depth`` steps.

        They are read again from the text when one is asked for.
        """
        if isinstance(self.marks, Marks):
            self.marks.forget(depth)

    @property
    def kind(self) -> str | None:
        """The document's ``kind``, if it is a text."""
        kind = self.data.get("kind") if isinstance(self.data, dict) else None
        return kind if isinstance(kind, str) else None

    @property
    def name(self) -> str | None:
        """The document's ``metadata.name``, if it is a text."""
        metadata = self.data.get("metadata") if isinstance(self.data, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        return name if isinstance(name, str) else None

    def _mark(self, route: Sequence[str | int]) -> Mark | None:
        whole = self.marks.get(tuple(route))
        if whole is not None:  # as nearly always
            return whole
        known: Route = ()
        for step in route:
            longer = (*known, step)
            if longer in self.marks:
                known = longer
        return self.marks.get(known)


@dataclass(frozen=True)
class Suppression:
    """A comment that asks to leave out findings on one line.

    Attributes:
        path: the file.
        line: the line it applies to, from 1.
        comment_span: the comment itself.
        codes: ids of the codes it names, in the order written, each once.
        reason: why, as written.
    """

    path: str
    line: int
    comment_span: Span
    codes: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class SourceFile:
    """One file as read.

    Attributes:
        path: the file, as the user would type it.
        lines: its text without line ends, for reports; bytes that are not UTF-8 are replaced.
        documents: what could be read, in order.
        suppressions: in order; none in JSON.
    """

    path: str
    lines: tuple[str, ...]
    documents: tuple[Document, ...]
    suppressions: tuple[Suppression, ...]


def _span(path: str, position: Position) -> Span:
    line, col, end_line, end_col = position
    return Span(path, line + 1, col + 1, end_line + 1, end_col + 1)


def _forget(place: Place, depth: int) -> None:
    if not place.children:
        return
    if depth == 0:
        place.children = _FORGOTTEN
        return
    below = place.children.values() if isinstance(place.children, dict) else place.children
    for child in below:
        _forget(child, depth - 1)


def _routes(route: Route, place: Place) -> Iterator[Route]:
    yield route
    if isinstance(place.children, dict):
        for key, child in place.children.items():
            yield from _routes((*route, key), child)
    elif place.children is not None:
        for index, child in enumerate(place.children):
            yield from _routes((*route, index), child)
