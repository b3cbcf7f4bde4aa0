"""The live threads of a node, read from ``/proc``.

Two small files a thread (``stat`` and ``status``) and nothing else: at 10,000 threads every further
one costs a tenth of a second.  Threads vanish while they are read; that is normal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.verify.sysroot import DeniedError, Sysroot, text_of

MAX_THREADS: Final = 200_000
"""Threads that are looked at."""
USER_HZ: Final = 100
"""Ticks a second of the times in ``/proc``, on every architecture."""

PF_KTHREAD: Final = 0x0020_0000
PF_NO_SETAFFINITY: Final = 0x0400_0000
SCHED_FIFO: Final = 1
SCHED_RR: Final = 2
SCHED_DEADLINE: Final = 6

_ALLOWED: Final = re.compile(rb"^Cpus_allowed_list:[ \t]*([0-9,-]*)[ \t]*$", re.MULTILINE)
_FIELDS: Final = 39
"""Fields of ``stat`` behind the name up to the last that is used."""
_USED: Final = (6, 11, 12, 19, 36, 38)
"""Of these: flags, utime, stime, starttime, processor, policy."""


@dataclass(slots=True)
class LiveThread:
    """One thread as the kernel shows it."""

    pid: int
    tid: int
    comm: str
    """As in ``/proc``; see :func:`compiler.verify.sysroot.text_of`."""
    leader: str
    """Name of its process."""
    state: str
    """One letter; ``R`` runs or waits for a CPU."""
    flags: int
    ticks: int
    """CPU time since it started, in ticks of :data:`USER_HZ`."""
    start: int
    """When it started, in ticks since boot."""
    cpu: int
    """The CPU it runs on, or ran on last."""
    policy: int
    allowed: CpuSet

    @property
    def kernel(self) -> bool:
        """Whether it is a kernel thread."""
        return bool(self.flags & PF_KTHREAD)


@dataclass(slots=True)
class Scan:
    """What was seen of all threads, beside the threads."""

    processes: int = 0
    threads: int = 0
    unreadable: int = 0
    """Threads that are there and could not be read."""
    reason: str = ""
    """Why the first of these could not."""
    cut: bool = False
    """Whether there are more than :data:`MAX_THREADS`."""


class ProcReader:
    """Reads the threads of one node."""

    def __init__(self, root: Sysroot) -> None:
        self._root = root
        self._sets: dict[bytes, CpuSet | None] = {}
        self.scan = Scan()

    def processes(self, leave_out: int | None = None) -> Iterator[list[LiveThread]]:
        """Yield the threads of each process that has any, by process id.

        Args:
            leave_out: a process that is not looked at: ourselves.

        Raises:
            DeniedError: ``/proc`` cannot be listed.
        """
        for pid in self._root.numbers("/proc", MAX_THREADS):
            if pid == leave_out:
                continue
            if self.scan.threads >= MAX_THREADS:
                self.scan.cut = True
                return
            if threads := self._process(pid):
                self.scan.processes += 1
                self.scan.threads += len(threads)
                yield threads

    def _process(self, pid: int) -> list[LiveThread]:
        try:
            tids = self._root.numbers(f"/proc/{pid}/task", MAX_THREADS)
        except DeniedError as denied:
            self._missed(denied)
            return []
        found = [one for tid in tids if (one := self._thread(pid, tid)) is not None]
        leader = next((one.comm for one in found if one.tid == pid), None)
        if leader is None:
            leader = self._leader(pid)
            if leader is None:
                return []
        for one in found:
            one.leader = leader
        return found

    def _leader(self, pid: int) -> str | None:
        """Return a process's name where its first thread has ended before the others."""
        try:
            data = self._root.read(f"/proc/{pid}/comm")
        except DeniedError as denied:
            self._missed(denied)
            return None
        return None if data is None else text_of(data.removesuffix(b"\n"))

    def _thread(self, pid: int, tid: int) -> LiveThread | None:
        place = f"/proc/{pid}/task/{tid}/"
        try:
            stat = self._root.record(place + "stat")
            status = None if stat is None else self._root.record(place + "status")
        except DeniedError as denied:
            self._missed(denied)
            return None
        if stat is None or status is None:
            return None
        # The name may hold anything, also ") " and line ends.
        name, bracket, rest = stat.partition(b"(")[2].rpartition(b") ")
        fields = rest.split()
        if not bracket or len(fields) < _FIELDS:
            return None
        allowed = self._cpus(status)
        try:
            flags, user, system, start, cpu, policy = map(_number, map(fields.__getitem__, _USED))
        except ValueError:
            return None
        state = chr(fields[0][0])
        if allowed is None or state in "ZX":  # it has ended and runs nowhere
            return None
        comm = text_of(name)
        ticks = user + system
        return LiveThread(pid, tid, comm, "", state, flags, ticks, start, cpu, policy, allowed)

    def _cpus(self, status: bytes) -> CpuSet | None:
        match = _ALLOWED.search(status)
        if match is None:
            return None
        text = match[1]
        if text not in self._sets:
            try:
                self._sets[text] = CpuSet.parse(text.decode())
            except CpuListError:
                self._sets[text] = None
        return self._sets[text]

    def _missed(self, denied: DeniedError) -> None:
        self.scan.unreadable += 1
        self.scan.reason = self.scan.reason or str(denied)


def _number(field: bytes) -> int:
    """Return a field of ``stat``.

    Raises:
        ValueError: it is no number of 64 bits.
    """
    if len(field) > 20:
        raise ValueError("too long for 64 bits")
    return int(field)
