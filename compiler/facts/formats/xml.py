"""XML of tools as elements that know their line; nothing is fetched and nothing expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from xml.parsers import expat

from compiler.facts.formats.format import Text
from compiler.facts.partial import ReadError
from compiler.facts.shown import clean

MAX_DEPTH: Final = 200
MAX_ELEMENTS: Final = 300_000
"""Four times what ``lstopo`` writes for a machine of 8,192 CPUs."""
MAX_ATTRIBUTES: Final = 200

_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})
_BLANK: Final = " \t\r\n"
_NAME: Final = re.compile(r"<([A-Za-z_][\w.:-]{0,99})(?=[\s/>])")
_AGAIN: Final = "write the file again with the tool that made it"


@dataclass(slots=True, eq=False)
class Element:
    """An element.

    Attributes:
        tag: its name.
        attributes: by name, as written.
        line: 1-based line of its start tag.
        children: elements in it, in order.
        text: the character data directly in it, without surrounding white space.
    """

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str | None:
        """Return an attribute without surrounding white space; None if there is none."""
        value = self.attributes.get(name)
        return None if value is None else value.strip()

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the children of that name."""
        return (child for child in self.children if child.tag == tag)

    def find(self, *path: str) -> Element | None:
        """Return the first child of the first name, its first child of the second, and so on."""
        here: Element | None = self
        for tag in path:
            here = next(here.all(tag), None) if here is not None else None
        return here

    def value(self, *path: str) -> str | None:
        """Return the text of :meth:`find`; None if it is not there."""
        found = self.find(*path)
        return None if found is None else found.text

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in the order of the document."""
        stack = [self]
        while stack:
            here = stack.pop()
            yield here
            stack.extend(reversed(here.children))


def root_tag(text: str) -> str | None:
    """Return the name of the root element, as far as the beginning of a text tells; else None.

    Cheap, for sniffing: the text may be malformed further on.
    """
    at, end = 0, len(text)
    while at < end:
        if text[at] in _BLANK:
            at += 1
        elif text.startswith("<?", at):
            at = _after(text, "?>", at)
        elif text.startswith("<!--", at):
            at = _after(text, "-->", at)
        elif text.startswith("<!DOCTYPE", at):
            close, bracket = text.find(">", at), text.find("[", at)
            at = _after(text, "]", at) if 0 <= bracket < close else at
            at = _after(text, ">", at)
        else:
            match = _NAME.match(text, at)
            return match.group(1) if match else None
    return None


def parse_xml(text: Text) -> Element:
    """Read one document.

    An encoding that it declares is passed over, since the text is decoded already.  A DOCTYPE is
    accepted, but its DTD is not read.

    Raises:
        ReadError: the document is malformed, declares or uses an entity of its own, or is deeper
            than :data:`MAX_DEPTH` or larger than :data:`MAX_ELEMENTS`.
    """
    body = text.text.lstrip(_BLANK)
    builder = _Builder(text.text.count("\n", 0, len(text.text) - len(body)))
    return builder.parse(body)


class _Builder:
    """Makes elements of the parser's events."""

    def __init__(self, skipped: int) -> None:
        """``skipped``: lines before the text that the parser sees."""
        self._skipped = skipped
        self._parser = parser = expat.ParserCreate(encoding="utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._declared
        parser.SkippedEntityHandler = self._skipped_entity
        self._root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def parse(self, body: str) -> Element:
        try:
            # A lone surrogate, which no encoder takes, reaches the parser as an invalid token.
            self._parser.Parse(body.encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as error:
            what = expat.errors.messages.get(error.code, "syntax error")
            raise ReadError(
                f"not well-formed XML: {what}", line=error.lineno + self._skipped, help=_AGAIN
            ) from None
        if self._root is None:
            raise ReadError("XML without an element", help=_AGAIN)
        return self._root

    def _line(self) -> int:
        return self._parser.CurrentLineNumber + self._skipped

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ReadError(f"XML of more than {MAX_ELEMENTS} elements", line=self._line())
        if len(self._open) >= MAX_DEPTH:
            raise ReadError(f"XML nested more than {MAX_DEPTH} deep", line=self._line())
        if len(attributes) > MAX_ATTRIBUTES:
            raise ReadError(
                f"<{clean(tag, 60)}> has more than {MAX_ATTRIBUTES} attributes", line=self._line()
            )
        element = Element(tag, attributes or _NO_ATTRIBUTES, self._line())
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, _tag: str) -> None:
        self._open.pop().text = "".join(self._texts.pop()).strip()

    def _characters(self, data: str) -> None:
        self._texts[-1].append(data)

    def _declared(self, name: str, *_details: object) -> None:
        raise ReadError(
            f"XML declares the entity {clean(name, 60)}; entities are not expanded",
            line=self._line(),
            help="remove the declaration; no tool that writes topologies makes one",
        )

    def _skipped_entity(self, name: str, _is_parameter: bool) -> None:
        raise ReadError(
            f"XML uses the entity {clean(name, 60)}, which it does not have", line=self._line()
        )


def _after(text: str, mark: str, start: int) -> int:
    """Return the position after the next ``mark``, or the end of the text."""
    found = text.find(mark, start)
    return len(text) if found < 0 else found + len(mark)
