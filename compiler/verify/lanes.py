"""Who is in a lane that is not of it, and who uses most CPU time."""

from __future__ import annotations

import heapq
from typing import Final

from compiler.plan import Band, Lane
from compiler.verify.process import USER_HZ, LiveThread
from compiler.verify.result import LaneCount, User

MAX_USERS: Final = 20
"""Threads without a rule, and foreign threads of a lane, that are kept."""


class LaneWatch:
    """One lane, and the threads that may be in it."""

    def __init__(self, lane: Lane, tier: str) -> None:
        self._lane = lane
        self._names = {lane.name, lane.family}
        self._count = LaneCount(lane.name, lane.cpus, lane.share, tier)
        self._worst = Worst()

    def see(self, thread: LiveThread, unit: str | None, lane: str | None, band: Band) -> None:
        """Count a thread if it is of the lane, or foreign and may be there."""
        mine = self._lane
        if lane is not None and lane in self._names:
            self._count.own += 1
            return
        if mine.share == "open" or thread.kernel:
            return
        if mine.share == "guarded" and band.tier <= mine.tier:
            return
        there = (mine.cpus - band.cpus) & thread.allowed
        if not there:
            return
        self._count.may += 1
        running = thread.state == "R" and thread.cpu in there
        if running:
            self._count.now += 1
        self._worst.add(thread, unit, first=running)

    def done(self) -> LaneCount:
        """Return what was counted."""
        self._count.worst = list(self._worst.worst())
        return self._count


class Worst:
    """Keeps the threads that used most CPU time."""

    def __init__(self) -> None:
        self._heap: list[tuple[bool, int, int, int, User]] = []

    def add(self, thread: LiveThread, unit: str | None, *, first: bool = False) -> None:
        """Take a thread in; one that is ``first`` goes before all that are not."""
        key = (first, thread.ticks, -thread.pid, -thread.tid)
        if len(self._heap) >= MAX_USERS and key <= self._heap[0][:4]:
            return
        user = User(
            pid=thread.pid,
            tid=thread.tid,
            comm=thread.comm,
            cpu_seconds=thread.ticks / USER_HZ,
            cpu=thread.cpu,
            running=thread.state == "R",
            unit=unit,
        )
        push = heapq.heappush if len(self._heap) < MAX_USERS else heapq.heapreplace
        push(self._heap, (*key, user))

    def worst(self) -> tuple[User, ...]:
        """Return them, those marked as first before the others."""
        return tuple(row[4] for row in sorted(self._heap, key=lambda r: r[:4], reverse=True))
