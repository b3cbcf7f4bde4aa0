"""What is known of the sets of a branch that cost the least in the columns looked at so far."""

from __future__ import annotations

from typing import NamedTuple

from compiler.place.cheapest import Cheapest


class State(NamedTuple):
    """What is known of sets that cost the least in the columns so far."""

    cheapest: Cheapest
    """One of them, if only sums count."""
    cores: int
    """Cores that they can take."""
    forced: int
    """Cores that all of them take."""
    sums: int = 0
    """Columns so far that are sums."""
    llcs: int | None = None
    """Caches they use."""
    nodes: int | None = None
    """NUMA nodes they use."""
    reached: int | None = None
    """Devices they are near."""
    narrowed: bool = False
    """Whether there are fewer cores than the cheapest was chosen from."""

    def number(self, side: str) -> int | None:
        """Return the number of caches or NUMA nodes."""
        return self.llcs if side == "llc" else self.nodes

    def using(self, side: str, number: int) -> State:
        """Return the state with a number of caches or NUMA nodes."""
        return self._replace(llcs=number) if side == "llc" else self._replace(nodes=number)


class Need(NamedTuple):
    """Cores that the places of a side must hold."""

    cores: int
    """The cores in question, as bits."""
    number: int
    """How many of them."""


class Places(NamedTuple):
    """What is known of the caches or NUMA nodes of such sets."""

    have: int
    """Those that all use."""
    needs: list[Need]
    fewest: int
