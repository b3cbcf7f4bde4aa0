"""What a format is: a name, how it is recognised, how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.facts.partial import Partial


@dataclass(frozen=True, slots=True)
class Text:
    """The decoded text of one file.

    Attributes:
        name: how messages name it: the path as given, or ``archive.tgz!member/path``.
        text: without byte order mark, line ends as in the file.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """One format of text.

    Attributes:
        name: short, such as ``hwloc-xml``.
        title: for people, such as "hwloc XML (lstopo --of xml)".
        sniff: whether a text looks like this format.  Must be cheap, raise nothing and claim no
            text of another format; it may look at the whole text.
        read: the partial facts of every node the text speaks of, in the order of the text.
            Raises :class:`~compiler.facts.partial.ReadError` when the text cannot be used.
    """

    name: str
    title: str
    sniff: Callable[[str], bool]
    read: Callable[[Text], tuple[Partial, ...]]
