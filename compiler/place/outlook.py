"""What a branch of the search has to offer: the cost that none of its sets undercuts, and a set.

The columns are looked at from the left.  Each gives the least that a set can cost there when it
costs the least in all before; and cores that no such set takes are left out of what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compiler.place.aims import Reach
from compiler.place.bits import ones
from compiler.place.bound import essential, most_held, most_reached, places_to_reach
from compiler.place.branch import Branch
from compiler.place.cheapest import Cheapest, Rest, cheapest
from compiler.place.ground import Cost, Ground
from compiler.place.rooms import Part, Rooms
from compiler.place.state import Need, Places, State


class Seen(NamedTuple):
    """What a branch has to offer."""

    floor: Cost
    """No set costs less."""
    ids: int
    """Of the sets that cost so much, none has lower ids than this."""
    taken: int
    """A set that leaves room for the rest; it may do without what the branch says is used."""
    payable: int
    """Cores that a set can take which costs the least in all columns before the devices."""
    whole: bool = True
    """False: it costs more than the limit, and was looked at only so far."""


class Outlook:
    """Looks at branches of one search."""

    def __init__(self, ground: Ground, cores: int, rest: Rest | None) -> None:
        self._ground, self._cores, self._rest = ground, cores, rest
        self.rooms = Rooms(ground, () if rest is None else rest.scarce)
        self._known: dict[tuple[int, int], Cheapest | None] = {}

    def of(self, branch: Branch, limit: Cost | None, least: Cost) -> Seen | None:
        """Return what a branch has to offer; None: it has no set.

        It is looked at as far as it may cost ``limit`` or less.  No set of it costs less than
        ``least``, as is known from what it is a part of.
        """
        first = branch.first(self._ground)
        if first is None:
            return None
        found = self.cheapest(branch.cores, first)
        if found is None:
            return None
        return _View(self, self._ground, self._cores, branch, first, found, limit, least).seen()

    def cheapest(self, cores: int, first: int) -> Cheapest | None:
        """Return the cheapest set that has ``first`` and leaves room for the rest, or None."""
        key = (cores, first)
        if key not in self._known:
            self._known[key] = cheapest(self._ground, self._cores, self._rest, cores, first)
        return self._known[key]


class _View:
    """One branch, column by column."""

    def __init__(
        self,
        outlook: Outlook,
        ground: Ground,
        size: int,
        branch: Branch,
        first: int,
        found: Cheapest,
        limit: Cost | None,
        least: Cost,
    ) -> None:
        self._outlook, self._ground, self._size, self._branch = outlook, ground, size, branch
        self._first = first
        self._limit, self._least = limit, least
        self._floor: list[int] = []
        self._known: dict[tuple[object, ...], Places | None] = {}
        self._short = False
        self._state = State(found, branch.cores, first)
        self._payable = branch.cores
        self._taken = found.cores

    def seen(self) -> Seen | None:
        """Return what the branch has to offer; None: it has no set."""
        if not self._look(0):
            return None
        floor = tuple(self._floor)
        if self._beyond():
            floor = (*floor, *[0] * (len(self._ground.columns) - len(floor)))
            return Seen(floor, self._branch.cores, self._taken, self._payable, whole=False)
        if self._short:  # the next higher cost is a bound
            floor = (*floor[:-1], floor[-1] + 1, *[0] * (len(self._ground.columns) - len(floor)))
            return Seen(floor, self._branch.cores, self._taken, self._payable)
        taken = self._state.cheapest.cores
        return Seen(floor, taken, taken, self._payable)

    def _beyond(self) -> bool:
        floor, limit = self._floor, self._limit
        return limit is not None and tuple(floor) > limit[: len(floor)]

    def _look(self, number: int) -> bool:
        """Add the columns from a number on to the floor; False: no set costs what it says so far.

        The floor may end early: beyond the limit; or else it is short, and all sets that cost so
        much up to the last column but one cost more in the last.
        """
        if self._beyond():
            return True
        if number == len(self._ground.columns):
            return not self._state.narrowed or self._again()
        column = self._ground.columns[number]
        if isinstance(column, str):
            if (known := self._state.number(column)) is None:
                return self._add_places(column, number)
            self._floor.append(known - 1)
            return self._look(number + 1)
        if isinstance(column, Reach):
            self._add_reach()
        elif not self._add_sum():
            return False
        if self._short or not self._look(number + 1):
            del self._floor[number + 1 :]
            self._short = True
        return True

    def _add_places(self, side: str, number: int) -> bool:
        """Try with the fewest caches or NUMA nodes, then with more."""
        before = self._state
        places = self._places(side)
        if places is None:
            return False
        fewest, least = places.fewest, self._least
        if tuple(self._floor) == least[:number]:
            fewest = max(fewest, least[number] + 1)
        for used in range(fewest, len(self._sets(side)) + 1):
            self._state = before.using(side, used)
            self._floor.append(used - 1)
            if self._beyond():
                return True
            others = ("llc", "numa") if side == "numa" else ("numa", "llc")
            if all(self._narrow(one) for one in others[::-1]) and self._look(number + 1):
                return True
            del self._floor[number:]
        self._state = before
        return False

    def _again(self) -> bool:
        """Choose the cheapest set from what is left; return whether it costs as little."""
        state = self._state
        found = self._outlook.cheapest(state.cores, self._first)
        if found is None:
            return False
        self._state = state._replace(cheapest=found, narrowed=False)
        return all(
            self._sum(state.cheapest, column) == self._sum(found, column)
            for column in range(state.sums)
        )

    def _sum(self, found: Cheapest, column: int) -> int:
        return sum(
            [
                one.value[column] * n
                for one, n in zip(self._ground.classes, found.amounts, strict=True)
            ]
        )

    def _add_sum(self) -> bool:
        if self._state.narrowed and not self._again():
            return False
        state, classes = self._state, self._ground.classes
        cost = self._sum(state.cheapest, state.sums)
        least = self._least_sum()
        if least is None:
            return False
        self._floor.append(max(cost, least - 1))
        self._short = least > cost
        sums = state.sums + 1
        payable = forced = self._first
        if state.cheapest.dearest >= 0:
            # Cheapest bases of a matroid have equal lists of costs: none has a dearer core.
            end = classes[state.cheapest.dearest].value[:sums]
            # Of what is cheaper they take equally many: all, where the cheapest set took all.
            broken = min(state.cheapest.wholly, state.cheapest.dearest)
            whole = classes[broken].value[:sums]
            for one in classes:
                if one.value[:sums] > end:
                    break
                payable |= one.cores & state.cores
                if one.value[:sums] < whole:
                    forced |= one.cores & state.cores
        else:
            forced = payable
        self._state = state._replace(cores=payable, forced=state.forced | forced, sums=sums)
        return True

    def _least_sum(self) -> int | None:
        """Return what no set in as many caches and NUMA nodes sums up to less than; None: none is.

        So many places hold only so many of the cores that cost little.
        """
        state = self._state
        by_value: dict[int, int] = {}
        for one in self._ground.classes:
            value = one.value[state.sums]
            by_value[value] = by_value.get(value, 0) | one.cores & state.cores
        least = 0
        for side in ("llc", "numa"):
            number = state.number(side)
            if number is None or len(by_value) == 1:
                continue
            have, cores, held, cost = self._have(side), 0, 0, 0
            for value, mine in sorted(by_value.items()):
                cores |= mine
                now = min(self._size, most_held(self._rooms(side, cores), have, number))
                cost += value * (now - held)
                held = now
            if held < self._size:
                return None
            least = max(least, cost)
        return least

    def _add_reach(self) -> None:
        state, ground = self._state, self._ground
        self._payable = state.cores
        reached = ground.near(state.cores).bit_count()
        for side in ("llc", "numa"):
            number = state.number(side)
            if number is not None:
                gains = [ground.near(state.cores & place) for place in self._sets(side)]
                have = self._have(side)
                alike = self._alike().values()
                for mine, least in self._outlook.rooms.apart(side, alike, state.llcs, have):
                    if not any(gains[place] for place in ones(mine)):
                        number -= least
                        have &= ~mine
                reached = min(reached, most_reached(gains, have, number))
        self._state = state._replace(reached=reached)
        self._floor.append(ground.devices.bit_count() - reached)

    def _sets(self, side: str) -> tuple[int, ...]:
        return self._ground.llcs if side == "llc" else self._ground.nodes

    def _narrow(self, side: str) -> bool:
        """Leave out cores of places that cannot be among as many as there are; False: none can."""
        number = self._state.number(side)
        if number is None:
            return True
        places = self._places(side)
        if places is None or places.fewest > number:
            return False
        rest = self._state.cores
        kept = (1 << len(self._sets(side))) - 1
        rooms, llcs = self._outlook.rooms, self._state.llcs
        for cores, count in places.needs:
            kept &= rooms.able(side, cores, llcs, places.have, count, number)
        for place, cores in enumerate(self._sets(side)):
            if not kept >> place & 1:
                rest &= ~cores
        if rest != self._state.cores:
            self._state = self._state._replace(cores=rest, narrowed=True)
        return True

    def _places(self, side: str) -> Places | None:
        """Return what is known of the caches or NUMA nodes; None: there are no such sets."""
        state = self._state
        llcs = state.llcs if side == "numa" else None
        # The other parts of the state are the same until the number of sums changes.
        key = (side, state.sums, state.cores, state.forced, state.reached, llcs)
        if key not in self._known:
            self._known[key] = self._look_at(side)
        return self._known[key]

    def _look_at(self, side: str) -> Places | None:
        state, sets = self._state, self._sets(side)
        have = self._have(side)
        if not all(state.cores & sets[place] for place in ones(have)):
            return None
        number, needs = 1, []
        alike, rooms = self._alike(), self._outlook.rooms
        for wanted, count in self._wanted(alike):
            least = rooms.fewest(side, wanted, state.llcs, have, count)
            if least is None:
                return None
            number = max(number, least)
            needs.append(Need(wanted, count))
        apart = rooms.apart(side, alike.values(), state.llcs, have)
        number = max(number, sum([least for _, least in apart]))
        if state.reached is not None:
            if self._ground.near(state.cores).bit_count() < state.reached:
                return None
            gains = [self._ground.near(state.cores & place) for place in sets]
            number = max(number, places_to_reach(gains, have, state.reached))
        return Places(have, needs, number)

    def _alike(self) -> dict[tuple[int, ...], Part]:
        """Return the cores of each weight in the sums so far, and how many such a set takes."""
        state = self._state
        alike: dict[tuple[int, ...], Part] = {}
        for one, amount in zip(self._ground.classes, state.cheapest.amounts, strict=True):
            key = one.value[: state.sums]
            cores, count = alike.get(key, (0, 0))
            alike[key] = (cores | one.cores & state.cores, count + amount)
        return alike

    def _wanted(self, alike: dict[tuple[int, ...], Part]) -> Iterator[tuple[int, int]]:
        """Yield cores of which every such set takes at least so many.

        Sets that cost the least in the sums so far take equally many of each weight.  Of some
        cores a set takes only so many, as later demands need the others.
        """
        state = self._state
        parts = [(state.cores, self._size)]
        if len(alike) > 1:
            parts += [(cores, n) for cores, n in alike.values() if n and cores & ~state.forced]
        for cores, count in parts:
            yield cores, count
            for scarce, most in self._outlook.rooms.wide:
                # Otherwise it is no news.
                if most < count and most < (cores & scarce).bit_count():
                    yield cores & ~scarce, count - most

    def _rooms(self, side: str, cores: int) -> Sequence[int]:
        """Return how many of some cores each place can give."""
        return self._outlook.rooms.of(side, cores, self._state.llcs)

    def _have(self, side: str) -> int:
        """Return the caches or NUMA nodes that every such set uses, as bits."""
        state, ground, sets = self._state, self._ground, self._sets(side)
        have = self._branch.nodes
        if side == "llc":
            have = 0
            for cluster in ones(self._branch.clusters):
                have |= 1 << ground.llc_of[cluster]
        if state.forced:
            for number, place in enumerate(sets):
                if place & state.forced:
                    have |= 1 << number
        if state.reached is not None:
            devices = ground.near(state.cores)
            if devices.bit_count() == state.reached:
                have |= essential([ground.near(state.cores & place) for place in sets], devices)
        return have
