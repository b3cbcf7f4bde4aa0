"""How many cores caches and NUMA nodes can give, remembered: branches are much alike.

A side is ``llc`` or ``numa``; its places and sets of them are as in :mod:`compiler.place.bound`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.place.bits import bits_of
from compiler.place.bound import able, fewest, fewest_in_groups
from compiler.place.ground import Ground

Part = tuple[int, int]
"""Some cores, as bits, and how many of them a set takes."""


class Rooms:
    """What the places of one machine can give to a set.

    Of some cores a set takes only so many, as later demands need the others (``scarce``).
    """

    def __init__(self, ground: Ground, scarce: Sequence[Part] = ()) -> None:
        self.ground = ground
        self.wide: list[Part] = []
        """Those that the rooms do not account for: in several nodes, or beside others."""
        apart: list[Part] = []
        seen = 0
        for cores, most in sorted(scarce, key=lambda part: part[0].bit_count()):
            new = not cores & seen
            if new:  # what is lost to several can only be added up where they differ
                apart.append((cores, most))
                seen |= cores
            if not new or sum([1 for node in ground.nodes if node & cores]) > 1:
                self.wide.append((cores, most))
        places = {*ground.llcs, *ground.nodes, *ground.clusters} if apart else ()
        self._scarce = {place: [part for part in apart if part[0] & place] for place in places}
        """Per place, those in it."""
        self._shared = any(
            sum([1 for cache in ground.llcs if cache & cores]) > 1 for cores, _ in apart
        )
        """Whether some are in several caches."""
        self._rooms: dict[tuple[str, int, int | None], Sequence[int]] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._fewest: dict[tuple[str, int, int | None, int, int], int | None] = {}
        self._able: dict[tuple[str, int, int | None, int, int, int], int] = {}

    def of(self, side: str, cores: int, llcs: int | None) -> Sequence[int]:
        """Return how many of some cores each place can give.

        Args:
            side: whether places are caches or NUMA nodes.
            cores: the cores, as bits.
            llcs: caches that a set of cores uses, where that is known: a NUMA node gives no more
                than so many of its caches hold.
        """
        if side == "llc" or llcs is None or llcs >= self.ground.most_clusters:
            llcs = None
        key = (side, cores, llcs)
        found = self._rooms.get(key)
        if found is None:
            found = self._rooms[key] = self._count(side, cores, llcs)
        return found

    def places(self, side: str, cores: int) -> int:
        """Return the places that have some of the cores, as bits."""
        key = (side, cores)
        found = self._places.get(key)
        if found is None:
            rooms = self.of(side, cores, None)
            found = self._places[key] = bits_of(place for place, room in enumerate(rooms) if room)
        return found

    def fewest(self, side: str, cores: int, llcs: int | None, have: int, count: int) -> int | None:
        """Return the fewest places that include those of ``have`` and hold ``count`` cores."""
        key = (side, cores, llcs, have, count)
        if key not in self._fewest:
            rooms = self.of(side, cores, llcs)
            found = fewest(rooms, have, count)
            if side == "llc" and found is not None and self._shared:
                nodes = self.of("numa", cores, None)
                found = fewest_in_groups(rooms, nodes, self.ground.node_of_llc, have, count)
            self._fewest[key] = found
        return self._fewest[key]

    def able(
        self, side: str, cores: int, llcs: int | None, have: int, count: int, number: int
    ) -> int:
        """Return the places that can be among ``number`` that hold ``count`` cores, as bits."""
        key = (side, cores, llcs, have, count, number)
        found = self._able.get(key)
        if found is None:
            found = self._able[key] = able(self.of(side, cores, llcs), have, count, number)
        return found

    def apart(
        self, side: str, parts: Iterable[Part], llcs: int | None, have: int
    ) -> list[tuple[int, int]]:
        """Return places that give cores of no part in common, and how many of each are needed.

        What is in none of the others' places needs places of its own, so the numbers add up.
        """
        found: list[tuple[int, int]] = []
        for cores, count in parts:
            if not count:
                continue
            mine = self.places(side, cores)
            least = self.fewest(side, cores, llcs, have & mine, count) or 0
            for other in [other for other in found if other[0] & mine]:
                found.remove(other)
                mine, least = mine | other[0], max(least, other[1])
            found.append((mine, least))
        return found

    def _count(self, side: str, cores: int, llcs: int | None) -> Sequence[int]:
        ground = self.ground
        places = ground.llcs if side == "llc" else ground.nodes
        rooms = [self._most(cores, place) for place in places]
        if llcs is not None:
            for node, clusters in enumerate(ground.of_node):
                if len(clusters) > llcs:
                    row = sorted([self._most(cores, cluster) for cluster in clusters])
                    rooms[node] = min(rooms[node], sum(row[-llcs:]))
        return rooms

    def _most(self, cores: int, place: int) -> int:
        """Return how many of some cores a set can take in a place."""
        mine = cores & place
        found = mine.bit_count()
        for scarce, most in self._scarce.get(place, ()):
            if (lost := (mine & scarce).bit_count() - most) > 0:
                found -= lost
        return found
