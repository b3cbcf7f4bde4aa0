"""Dividing one build among several processes: who compiles which classes and owns which files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_SHARDS: Final = 1000

_FORM: Final = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)
_CLASS_FILE: Final = re.compile(r"class-([a-z]+)(?:[.-]|$)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``count`` parts, counted from 0 as Kubernetes counts the pods of an Indexed Job."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``I/N``.

        Raises:
            ValueError: it is something else, or there is no part I of N; the message says which.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not I/N, such as 0/4 for the first of four")
        index, count = int(match[1]), int(match[2])
        if not 1 <= count <= MAX_SHARDS:
            raise ValueError(f"{text}: N is from 1 to {MAX_SHARDS}")
        if index >= count:
            raise ValueError(f"{text}: of {count} the first is 0 and the last is {count - 1}")
        return cls(index, count)


@dataclass(frozen=True, slots=True)
class Shares:
    """Which shard has which class.

    Attributes:
        of_class: class name -> index of its shard.
        of_node: node name -> index of the shard of its class.
    """

    of_class: Mapping[str, int]
    of_node: Mapping[str, int]

    def owner(self, path: str) -> int:
        """Return the index of the shard that writes or removes a path of the tree.

        Files of a node, and files of the cluster that have a class's name in theirs
        (``cluster/class-NAME.yaml``), belong to the shard of the class.  Everything else is the
        first one's, also what earlier builds left of nodes and classes that are gone.
        """
        parts = path.split("/")
        if len(parts) > 2 and parts[0] == "nodes":
            return self.of_node.get(parts[1], 0)
        if len(parts) > 1 and parts[0] == "cluster":
            match = _CLASS_FILE.match(parts[1])
            if match is not None:
                return self.of_class.get(match[1], 0)
        return 0


def deal(classes: Iterable[tuple[str, Iterable[str]]], count: int) -> Shares:
    """Deal classes (name, nodes) out to ``count`` shards, one by one in the order of names."""
    of_class: dict[str, int] = {}
    of_node: dict[str, int] = {}
    for place, (name, nodes) in enumerate(sorted((n, tuple(nodes)) for n, nodes in classes)):
        of_class[name] = place % count
        of_node.update((node, place % count) for node in nodes)
    return Shares(of_class, of_node)
