"""Parser events to documents.

The library's own composers lose the places of aliases, say nothing about duplicate keys, recurse
without limit and are several times slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from compiler.codes import reading as codes
from compiler.diagnostics import Related, Span
from compiler.reading.characters import SourceText, has_invisible
from compiler.reading.document import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_VALUES,
    Data,
    Document,
    Marks,
    Place,
    Position,
)
from compiler.reading.findings import Findings
from compiler.reading.lexical import Stretch
from compiler.reading.scalars import Doubt, resolve, shorten

# What may stand between the start of a node and its scalar: anchor, tag, blanks, comments.
_PROPERTIES: Final = re.compile(r"(?:[&!][^\s,\[\]{}]*|\s+|#[^\n]*)*")
_DOCUMENT_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
"""Keys of every document: one that is there twice is the beginning of a second document."""
_DIRECTIVE: Final = re.compile(r"^%[^\n]*", re.MULTILINE)


@dataclass(slots=True)
class _Anchor:
    """A value marked ``&name``; open (no data yet) while it is being read."""

    place: Span
    data: Data = None
    node: Place | None = None
    size: int = 0


class Composer:
    """Turns events into data and places.

    Nesting is bounded before each step down, so recursion is.
    """

    def __init__(
        self,
        source: SourceText,
        out: Findings,
        next_event: Callable[[], Any],
        events: Any,
        noting: bool,
    ) -> None:
        self.source = source
        self.out = out
        self.documents: list[Document] = []
        self.scalars: list[Stretch] = []
        self.end = 0
        self._noting = noting
        self._next = next_event
        self._events = events
        self._scalar_event = events.ScalarEvent
        self._values = 0
        self._anchors: dict[str, _Anchor] = {}

    def stream(self) -> None:
        """Read all documents."""
        events = self._events
        count = 0
        while True:
            event = self._next()
            kind = type(event)
            if kind is events.StreamEndEvent:
                self.end = len(self.source.text)
                return
            if kind is events.StreamStartEvent:
                continue
            # Only a document can start here, and its end follows its one node.
            self._directives(event)
            count += 1
            if count > MAX_DOCUMENTS:
                raise self.out.stop(
                    codes.TOO_MANY_DOCUMENTS,
                    self._span(event),
                    f"more than {MAX_DOCUMENTS} documents in one file",
                    help="split the file",
                )
            self._document()

    def _document(self) -> None:
        self._anchors = {}
        event = self._next()
        scalar = type(event) is self._scalar_event
        if scalar and not (event.value or event.style or event.anchor or event.tag):
            self.end = self._next().end_mark.index  # only blanks and comments
            return
        data, place = self._node(event, 1)
        self.end = self._next().end_mark.index
        if isinstance(data, dict):
            path = self.source.path
            self.documents.append(Document(path, len(self.documents), data, Marks(path, place)))
        elif place.text is None or not has_invisible(place.text):
            # With a no-break space behind the colon, all of `a: b` is one word: that is reported.
            what = "a list" if isinstance(data, tuple) else "a single value"
            self.out.add(
                codes.DOCUMENT_NOT_MAPPING.at(
                    self._span_of(place.value),
                    f"this document is {what}, not a mapping",
                    help="a document starts with `apiVersion:` and `kind:`; "
                    "put `---` between the documents of a file",
                )
            )

    def _directives(self, event: Any) -> None:
        for match in _DIRECTIVE.finditer(self.source.text, self.end, event.end_mark.index):
            self.out.add(
                codes.YAML_DIRECTIVE.at(
                    self.source.span(match.start(), match.end()),
                    f"the directive `{shorten(match.group())}` is not accepted",
                    help="delete the line; files are read the same under YAML 1.1 and 1.2",
                )
            )

    def _node(self, event: Any, depth: int) -> tuple[Data, Place]:
        """Read the node that ``event`` starts."""
        self._count(1, event)
        kind = type(event)
        if kind is self._events.AliasEvent:
            return self._alias(event)
        before = self._values
        anchor = None if event.anchor is None else self._anchor(event)
        if event.tag is not None:
            self._tag(event)
        if kind is self._scalar_event:
            data, place = self._scalar(event)
        else:
            if depth > MAX_DEPTH:
                raise self.out.stop(
                    codes.TOO_DEEP,
                    self._span(event),
                    f"lists and mappings are nested more than {MAX_DEPTH} deep",
                    help="no kind of document needs that; is a bracket doubled?",
                )
            if kind is self._events.MappingStartEvent:
                data, place = self._mapping(event, depth)
            else:
                data, place = self._sequence(event, depth)
        if anchor is not None:
            anchor.data, anchor.node = data, place
            anchor.size = self._values - before + 1
        return data, place

    def _sequence(self, start: Any, depth: int) -> tuple[Data, Place]:
        items: list[Data] = []
        places: list[Place] = []
        while type(event := self._next()) is not self._events.SequenceEndEvent:
            data, place = self._node(event, depth + 1)
            items.append(data)
            places.append(place)
        last = places[-1].value if places else None
        return tuple(items), Place(_extent(start, event, last), None, places)

    def _mapping(self, start: Any, depth: int) -> tuple[Data, Place]:
        data: dict[str, Data] = {}
        places: dict[str, Place] = {}
        merged: list[tuple[Data, Place]] = []
        last: Position | None = None
        doubled = False
        while type(event := self._next()) is not self._events.MappingEndEvent:
            merge = self._is_merge(event)
            key, key_at = (None, _position(event)) if merge else self._key(event, depth)
            first = None if key is None else places.get(key)
            if key is not None and first is not None:
                document = depth == 1 and key in _DOCUMENT_KEYS
                if not (document and doubled):
                    self._duplicate(key, key_at, first, document=document)
                doubled |= document
            value, place = self._node(self._next(), depth + 1)
            last = place.value
            if merge:
                merged.append((value, place))
            elif key is not None and first is None:
                place.key = key_at
                data[key] = value
                places[key] = place
        for value, place in merged:
            _merge(value, place, data, places)
        return data, Place(_extent(start, event, last), None, places)

    def _is_merge(self, event: Any) -> bool:
        if type(event) is not self._scalar_event or event.style or event.value != "<<":
            return False
        self._count(1, event)
        self._place(event)
        self.out.add(
            codes.MERGE_KEY.at(
                self._span(event),
                "the merge key `<<` means nothing in YAML 1.2",
                help='write the keys out; for a key that is really called so, write "<<"',
            )
        )
        return True

    def _key(self, event: Any, depth: int) -> tuple[str | None, Position]:
        """Read a key; None where it cannot be taken as a text."""
        if type(event) is not self._scalar_event:
            what = "an alias" if type(event) is self._events.AliasEvent else "a list or mapping"
            message = f"{what} cannot be a key"
            fix = "write the key as a text; in quotes if it starts with *, [ or {"
            if self.source.text.startswith("{{", max(0, event.start_mark.index - 1)):
                message = f"{what} cannot be a key; this looks like a template"
                fix = "render the template first and let tierc read the result, or quote the text"
            self.out.add(codes.KEY_NOT_STRING.at(self._span(event), message, help=fix))
            _, place = self._node(event, depth + 1)
            return None, place.value
        self._count(1, event)
        if event.anchor is not None:
            anchor = self._anchor(event)
            anchor.data, anchor.size = event.value, 1
            anchor.node = Place(_position(event), event.value)
        if event.tag is not None:
            self._tag(event)
        position, _, _ = self._place(event)
        key: str = event.value
        if not event.style:
            value, doubt = resolve(key)
            if not isinstance(value, str) or doubt is not None:
                self._odd_key(key, position, doubt)
        return key, position

    def _odd_key(self, key: str, position: Position, doubt: Doubt | None) -> None:
        if not key:
            message, fix = "a key is missing before the `:`", "write a key, or delete the line"
        else:
            shown = shorten(key)
            message = f"the key `{shown}` is not a text to all YAML readers"
            if doubt is None:
                message = f"the key `{shown}` is not a text"
            fix = f'quote it: "{shown}"'
        self.out.add(codes.KEY_NOT_STRING.at(self._span_of(position), message, help=fix))

    def _duplicate(self, key: str, key_at: Position, first: Place, *, document: bool) -> None:
        """Report a key that is there twice; of a whole ``document`` only the first such."""
        assert first.key is not None
        self.out.add(
            codes.DUPLICATE_KEY.at(
                self._span_of(key_at),
                f'duplicate key "{shorten(key)}"',
                related=[Related(self._span_of(first.key), "first defined here")],
                help="if a second document starts here, put `---` on a line of its own before it; "
                "else remove one of the two"
                if document
                else "remove one of the two",
            )
        )

    def _scalar(self, event: Any) -> tuple[Data, Place]:
        position, start, end = self._place(event)
        text = self.source.text[start:end]
        if event.style or event.tag is not None:
            return event.value, Place(position, text)
        value, doubt = resolve(event.value)
        if doubt is not None:
            code = codes.NUMBER_OUT_OF_RANGE if doubt.too_large else codes.AMBIGUOUS_SCALAR
            self.out.add(code.at(self._span_of(position), doubt.message, help=doubt.help))
        return value, Place(position, text)

    def _place(self, event: Any) -> tuple[Position, int, int]:
        """Return where a scalar is behind its anchor and tag; note its stretch of the text."""
        first, last = event.start_mark, event.end_mark
        start: int = first.index
        end: int = last.index
        style = event.style
        marked = event.anchor is not None or event.tag is not None
        if marked:
            match = _PROPERTIES.match(self.source.text, start, end)
            start = match.end() if match is not None else start
        if self._noting and start < end:
            self.scalars.append(Stretch(start, end, style))
        if style and style in "|>":
            # The parser's end is the start of the next line that is not part of the scalar.
            end = start + len(self.source.text[start:end].rstrip())
        elif not marked:
            return (first.line, first.column, last.line, last.column), start, end
        return self.source.position(start, end), start, end

    def _anchor(self, event: Any) -> _Anchor:
        at = event.start_mark
        place = self._span_of((at.line, at.column, at.line, at.column + len(event.anchor) + 1))
        first = self._anchors.get(event.anchor)
        if first is not None:
            self.out.add(
                codes.DUPLICATE_ANCHOR.at(
                    place,
                    f"the anchor `&{shorten(event.anchor)}` is already taken",
                    related=[Related(first.place, "first used here")],
                    help="rename one of the two",
                )
            )
        anchor = self._anchors[event.anchor] = _Anchor(place)
        return anchor

    def _alias(self, event: Any) -> tuple[Data, Place]:
        name = shorten(event.anchor)
        anchor = self._anchors.get(event.anchor)
        if anchor is None:
            self.out.add(
                codes.UNDEFINED_ALIAS.at(
                    self._span(event),
                    f"nothing before this is marked `&{name}`",
                    help=f'for a text that starts with *, write "*{name}"; '
                    "anchors do not reach from one document to the next",
                )
            )
            return f"*{event.anchor}", Place(_position(event), f"*{event.anchor}")
        if anchor.node is None:
            raise self.out.stop(
                codes.RECURSIVE_ALIAS,
                self._span(event),
                f"`*{name}` stands inside the value that `&{name}` marks",
                help="write the inner value out",
            )
        self._count(anchor.size, event)
        node = anchor.node
        return anchor.data, Place(_position(event), node.text, node.children)

    def _tag(self, event: Any) -> None:
        begin: int = event.start_mark.index
        bang = self.source.text.find("!", begin, event.end_mark.index or None)
        match = re.compile(r"![^\s,\[\]{}]*").match(self.source.text, max(bang, begin))
        start, end = match.span() if match is not None else (begin, begin)
        written = shorten(self.source.text[start:end])
        self.out.add(
            codes.EXPLICIT_TAG.at(
                self.source.span(start, end),
                f"the tag `{written}` is not accepted",
                help="delete it; quote the value if a text is meant",
            )
        )

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            alias = type(event) is self._events.AliasEvent
            raise self.out.stop(
                codes.TOO_MANY_VALUES,
                self._span(event),
                f"more than {MAX_VALUES} values in one file"
                + (", counting what this alias stands for" if alias else ""),
                help="write the values out instead of repeating aliases"
                if alias
                else "split the file",
            )

    def _span(self, event: Any) -> Span:
        return self._span_of(_position(event))

    def _span_of(self, position: Position) -> Span:
        line, col, end_line, end_col = position
        return Span(self.source.path, line + 1, col + 1, end_line + 1, end_col + 1)


def _position(event: Any) -> Position:
    start, end = event.start_mark, event.end_mark
    return start.line, start.column, end.line, end.column


def _extent(start: Any, end: Any, last: Position | None) -> Position:
    """Return where a list or mapping is.

    One without brackets ends with its last value: the parser's end is where the next thing
    starts, past blank lines and comments.
    """
    first = start.start_mark
    if start.flow_style or last is None:
        return first.line, first.column, end.end_mark.line, end.end_mark.column
    return first.line, first.column, last[2], last[3]


def _merge(value: Data, place: Place, data: dict[str, Data], places: dict[str, Place]) -> None:
    """Add what a reader of YAML 1.1 would: the merge is reported, its absence would cascade."""
    if isinstance(value, dict) and isinstance(place.children, dict):
        for key, inner in value.items():
            if key not in data:
                data[key] = inner
                places[key] = place.children[key]
    elif isinstance(value, tuple) and isinstance(place.children, list):
        for inner, child in zip(value, place.children, strict=True):
            if isinstance(inner, dict):
                _merge(inner, child, data, places)
