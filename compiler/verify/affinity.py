"""Whether a thread's affinity is what its rule gives it: what the taskset scripts decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuSet
from compiler.plan import Band, NodePlan, Rule
from compiler.verify.cgroups import Cpusets
from compiler.verify.process import PF_NO_SETAFFINITY, SCHED_DEADLINE, LiveThread
from compiler.verify.result import Kind


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a thread compares.

    Attributes:
        kind: the verdict.
        planned: the CPUs it should have, as far as it can.
        cpuset: path of its cpuset where that was asked.
    """

    kind: Kind
    planned: CpuSet
    cpuset: str | None = None


class AffinityJudge:
    """Judges threads of one plan on one machine."""

    def __init__(
        self, plan: NodePlan, online: CpuSet, cpusets: Cpusets, *, scheduler: bool
    ) -> None:
        self._bands: Final[Mapping[int, Band]] = {band.id: band for band in plan.bands}
        self._effective = plan.machine.effective
        self._online = online
        self._cpusets = cpusets
        self._scheduler = scheduler

    def judge(self, thread: LiveThread, rule: Rule) -> Judgement:
        """Compare one thread with the CPUs of its rule."""
        band = self._bands[rule.band]
        want = band.cpus & self._online
        if self._scheduler:
            return Judgement(self._under_scheduler(thread, band, want), want)
        if (
            rule.spawns
            or band.cpus == self._effective
            or thread.policy == SCHED_DEADLINE
            or thread.flags & PF_NO_SETAFFINITY
            or (thread.kernel and len(thread.allowed) == 1 and thread.allowed != want)
        ):
            return Judgement("alone", thread.allowed)
        # In a family, a process may be bound to the member that its GPUs are near.
        bands = [band, *(self._bands[member.band] for member in rule.members)]
        if any(thread.allowed == one.cpus & self._online for one in bands):
            if len(thread.allowed) >= max(band.min_cpus, 1):
                return Judgement("right", thread.allowed)
            return Judgement("cpuset", want)
        return self._in_cpuset(thread, bands, want)

    def _under_scheduler(self, thread: LiveThread, band: Band, want: CpuSet) -> Kind:
        """A scheduler has its own domains; affinity may only not contradict them."""
        if not band.hard or thread.kernel:
            return "right"
        return "right" if len(thread.allowed & want) >= max(band.min_cpus, 1) else "pinned"

    def _in_cpuset(self, thread: LiveThread, bands: Sequence[Band], want: CpuSet) -> Judgement:
        least = max(bands[0].min_cpus, 1)
        known = self._cpusets.of_thread(thread.pid, thread.tid)
        group = limit = None
        if known is not None:
            group, limit = known
            if any(thread.allowed == one.cpus & self._online & limit for one in bands):
                enough = len(thread.allowed) >= least
                return Judgement("right" if enough else "cpuset", thread.allowed, group)
            want = want & limit
        if len(want) < least:
            return Judgement("cpuset", want, group)
        if not thread.allowed <= want:
            return Judgement("outside", want, group)
        if len(thread.allowed) < least:
            return Judgement("below", want, group)
        # Where the cpuset cannot be seen, what is left of the rule's CPUs may be all it allows.
        return Judgement("right" if limit is None else "narrower", want, group)
