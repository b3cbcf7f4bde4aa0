"""The tier graph: who needs whom, who goes before whom.  The only user of networkx.

Nodes are plain strings; nothing here knows intents or files.  All results are independent of
insertion order and hash seed: networkx's own cycle finders are not, so cycles are taken from
strongly connected components and written canonically.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

# networkx is loaded where there are edges: it takes longer than reading most policies.


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """``source`` cannot work well unless ``target`` has at least tier ``tier`` (0 the highest).

    The tier caps what is passed on: a stage on a path of tier *interactive* is needed at that
    tier only, however high its neighbour stands for another path's sake.
    """

    source: str
    target: str
    tier: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The tier a node ends up with, and the needs that raised it, from the origin onwards."""

    tier: int
    chain: tuple[Need, ...] = ()


def inherit(base: Mapping[str, int], needs: Iterable[Need]) -> dict[str, Inherited]:
    """Raise every needed node to the tier of what needs it.

    Each node's tier becomes the highest over all chains of needs of the lowest tier on the chain
    (its origin's, capped by each need).  Nodes are settled highest tier first, so a node is
    final when it is taken; ties go by name, then by the shorter chain.

    Args:
        base: tier of every node before inheritance.
        needs: may name only nodes of ``base``.

    Raises:
        KeyError: a need names a node that ``base`` lacks.
    """
    out: dict[str, list[Need]] = {}
    for need in sorted(needs):
        if need.source not in base or need.target not in base:
            raise KeyError(need.target if need.source in base else need.source)
        out.setdefault(need.source, []).append(need)
    settled: dict[str, Inherited] = {}
    queue: list[tuple[int, int, str, tuple[Need, ...]]] = [
        (tier, 0, name, ()) for name, tier in base.items()
    ]
    heapq.heapify(queue)
    while queue:
        tier, length, name, chain = heapq.heappop(queue)
        if name in settled:
            continue
        settled[name] = Inherited(tier, chain)
        for step in out.get(name, ()):
            target = step.target
            if target not in settled and (passed := max(tier, step.tier)) < base[target]:
                heapq.heappush(queue, (passed, length + 1, target, (*chain, step)))
    return {name: settled[name] for name in sorted(settled)}


def cycles(edges: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Return one canonical cycle per strongly connected component that has any, sorted.

    A cycle begins with its smallest name, is a shortest one through that name, and among those
    the first in lexicographic order; it does not repeat its first name at the end.
    """
    pairs = sorted(set(edges))
    if not pairs:
        return ()
    import networkx as nx  # noqa: PLC0415

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edges_from(pairs)
    found = []
    for component in nx.strongly_connected_components(graph):
        start = min(component)
        if len(component) == 1 and not graph.has_edge(start, start):
            continue
        found.append(_shortest_cycle(graph.subgraph(component), start))
    return tuple(sorted(found))


def _shortest_cycle(graph: nx.DiGraph[str], start: str) -> tuple[str, ...]:
    paths: list[tuple[str, ...]] = [(start,)]
    seen = {start}
    while paths:
        longer = []
        for path in paths:
            for step in sorted(graph.successors(path[-1])):
                if step == start:
                    return path
                if step not in seen:
                    seen.add(step)
                    longer.append((*path, step))
        paths = longer
    raise AssertionError("a strongly connected component has a cycle through each of its nodes")


def depths(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return for each node the length of the longest chain of edges that ends in it.

    Raises:
        ValueError: the edges have a cycle; ask :func:`cycles` first.
    """
    names, pairs = sorted(set(nodes)), sorted(set(edges))
    if not pairs:
        return dict.fromkeys(names, 0)
    import networkx as nx  # noqa: PLC0415

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(pairs)
    if not nx.is_directed_acyclic_graph(graph):
        raise ValueError("edges have a cycle")
    depth: dict[str, int] = {}
    for node in nx.lexicographical_topological_sort(graph):
        depth[node] = max((depth[before] + 1 for before in graph.predecessors(node)), default=0)
    return depth


def ordered(count: int, before: Iterable[tuple[int, int]], keys: Sequence[str]) -> list[int]:
    """Return ``range(count)`` so that every (first, second) pair keeps its order.

    Among what the pairs leave free, smaller ``keys`` come first.

    Raises:
        ValueError: the pairs have a cycle.
    """
    pairs = sorted(set(before))
    if not pairs:
        return sorted(range(count), key=lambda i: (keys[i], i))
    import networkx as nx  # noqa: PLC0415

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(pairs)
    try:
        return list(nx.lexicographical_topological_sort(graph, key=lambda i: (keys[i], i)))
    except nx.NetworkXUnfeasible as error:
        raise ValueError("pairs have a cycle") from error
