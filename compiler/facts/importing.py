"""Sources of one or many nodes -> the facts of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.facts.merge import Merged, merge
from compiler.facts.merge.order import ranked
from compiler.facts.partial import Partial, ReadError
from compiler.facts.shown import shown

_NAMELESS: Final = 20
"""Sources without a name that a message lists."""


@dataclass(frozen=True, slots=True)
class Source:
    """What one file, directory or archive says: ``name`` as the user typed it."""

    name: str
    partials: tuple[Partial, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes it speaks of, sorted."""
        return tuple(sorted({one.node for one in self.partials if one.node is not None}))


class UnclearNodesError(ReadError):
    """It cannot be told which source is of which node; ``source`` is the one to look at."""

    def __init__(self, message: str, *, source: str, help: str) -> None:
        super().__init__(message, help=help)
        self.source = source


class NodeError(ReadError):
    """The sources of one node do not make facts; ``sources`` are their names.

    ``reason`` is the message without the node.
    """

    def __init__(self, error: ReadError, *, node: str | None, sources: Sequence[str]) -> None:
        where = "" if node is None else f"node {node}: "
        super().__init__(f"{where}{error.message}", line=error.line, help=error.help)
        self.reason = error.message
        self.sources = tuple(sources)


def by_node(
    sources: Sequence[Source], *, name: str | None
) -> Mapping[str | None, tuple[Source, ...]]:
    """Return the sources of each node, by the node's name, sorted.

    Without ``name``: sources that name no node belong to the only node that others name; if none
    is named, all are of one node, with the key None.  With ``name``: all are of that node, and of
    a source that speaks of many (a directory, a list of nodes) what it says of that one and what
    names no node.

    Raises:
        UnclearNodesError: some sources name different nodes and others none; or one source holds
            the files of two machines that are then one node.
    """
    groups = _of_one(sources, name) if name is not None else _of_many(sources)
    for node, found in groups.items():
        for source in found:
            _one_machine(source, node)
    return groups


def _of_one(sources: Sequence[Source], name: str) -> dict[str | None, tuple[Source, ...]]:
    chosen = []
    for source in sources:
        if len(source.nodes) < 2:
            chosen.append(source)
            continue
        mine = tuple(one for one in source.partials if one.node in (None, name))
        if all(one.node is None for one in mine):
            raise UnclearNodesError(
                f"speaks of {len(source.nodes)} nodes, and none of them is {name}",
                source=source.name,
                help=f"it has {_some(source.nodes)}",
            )
        chosen.append(Source(source.name, mine))
    return {name: tuple(chosen)}


def _of_many(sources: Sequence[Source]) -> dict[str | None, tuple[Source, ...]]:
    names = sorted({node for source in sources for node in source.nodes})
    if len(names) < 2:
        return {names[0] if names else None: tuple(sources)}
    nameless = [one.name for one in sources if any(p.node is None for p in one.partials)]
    if nameless:
        what = "names no node, and other sources name"
        if len(nameless) > 1:
            which = ", ".join(map(shown, nameless[:_NAMELESS]))
            rest = len(nameless) - _NAMELESS
            more = f" and {rest} more" if rest > 0 else ""
            what = f"{len(nameless)} sources name no node ({which}{more}), and others name"
        raise UnclearNodesError(
            f"{what} {_some(names)}",
            source=nameless[0],
            help="give --name NODE to say that all files are of one node, or import the files of "
            "each node by themselves; an archive of a machine names it by proc/sys/kernel/hostname "
            "or etc/hostname in it",
        )
    groups: dict[str | None, tuple[Source, ...]] = {}
    for name in names:
        cut = [Source(s.name, tuple(p for p in s.partials if p.node == name)) for s in sources]
        groups[name] = tuple(one for one in cut if one.partials)
    return groups


def _one_machine(source: Source, node: str | None) -> None:
    machines = [one.file for one in source.partials if one.reader == "sysfs" and not one.merged]
    if len(machines) > 1:
        which = " and ".join(map(shown, machines[:2]))
        raise UnclearNodesError(
            f"holds the files of {len(machines)} machines, {which}, "
            + ("and no name for them" if node is None else f"and both would be {node}"),
            source=source.name,
            help="import the files of each machine by themselves",
        )


def _some(names: Sequence[str]) -> str:
    shown_ = ", ".join(names[:5])
    return shown_ if len(names) <= 5 else f"{shown_} and {len(names) - 5} more"


def merge_node(node: str | None, sources: Sequence[Source], *, fallback: str | None) -> Merged:
    """Return the facts of one node.

    Args:
        node: its name; None: the sources give none.
        sources: what is known of it.
        fallback: the name if there is none.

    Raises:
        NodeError: the sources do not make facts.
    """
    partials = [partial for source in sources for partial in source.partials]
    try:
        return merge(ranked(partials), name=node or fallback)
    except ReadError as error:
        raise NodeError(error, node=node, sources=[one.name for one in sources]) from error
