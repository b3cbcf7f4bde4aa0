"""All threads of the node beside the plan: whose rule is whose, and who is where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from compiler.explain.match import describe_condition
from compiler.features import MEANING
from compiler.plan import Band, NodePlan, Rule
from compiler.verify.affinity import AffinityJudge, Judgement
from compiler.verify.cgroups import CgroupTree, walk
from compiler.verify.lanes import LaneWatch, Worst
from compiler.verify.matching import RuleIndex
from compiler.verify.process import LiveThread, ProcReader
from compiler.verify.result import Known, LaneCount, Row, ThreadCount, UnitCount, UnusedRule, User
from compiler.verify.sysroot import DeniedError, Sysroot

MAX_ROWS: Final = 10_000
"""Threads that are kept as different."""
MAX_CMDLINE: Final = 1 << 17
"""Bytes of a command line; a longer one is not compared."""


@dataclass(slots=True)
class Census:
    """What was counted."""

    threads: ThreadCount = field(default_factory=ThreadCount)
    units: tuple[UnitCount, ...] = ()
    lanes: tuple[LaneCount, ...] = ()
    unused: tuple[UnusedRule, ...] = ()
    rows: list[Row] = field(default_factory=list)
    rows_left_out: int = 0
    matched: list[Row] = field(default_factory=list)
    """Every thread that has a rule, where that is asked for."""
    users: tuple[User, ...] = ()
    unread: str = ""
    """Why some threads could not be read."""
    cut: bool = False
    """Whether there are more threads than are looked at."""
    kernel: bool = False
    """Whether any kernel thread was seen."""
    no_tree: bool = False
    """Whether rules ask for control groups and their tree cannot be seen."""
    known: dict[int, Known] = field(default_factory=dict)
    """The rule of each thread by its id, where a scheduler is asked the same."""
    undecided: str = ""
    """One of the undecided threads and the rule it may have."""


class Counter:
    """Counts the threads of one plan."""

    def __init__(
        self,
        plan: NodePlan,
        view: str,
        root: Sysroot,
        tree: CgroupTree | None,
        judge: AffinityJudge,
        *,
        keep: bool,
        everything: bool = False,
    ) -> None:
        self._plan = plan
        self._keep = keep
        self._everything = everything
        self._root = root
        self._tree = tree
        self._judge = judge
        self._left_out = {
            id: f"{view} cannot match {MEANING.get(row.feature, row.feature)}"
            for row in plan.left_out.get(view, ())
            for id in row.rules
        }
        # A late-bound selector is inactive until something resolves it, never wider.
        self._index = RuleIndex(
            [r for r in plan.rules if r.match.pods is None and r.id not in self._left_out]
        )
        self._bands: Mapping[int, Band] = {band.id: band for band in plan.bands}
        names = {tier.id: tier.name for tier in plan.tiers}
        self._units = {
            unit.name: UnitCount(unit.name, names[unit.tier], unit.lane, unit.cpus)
            for unit in plan.units
        }
        self._lane_of = {unit.name: unit.lane for unit in plan.units}
        self._lanes = [LaneWatch(lane, names[lane.tier]) for lane in plan.lanes]
        self._used: set[int] = set()
        self._fits = 0
        self._users = Worst()
        self._out = Census()

    def count(self, reader: ProcReader, leave_out: int | None) -> Census:
        """Read all threads and return what was counted.

        Raises:
            DeniedError: ``/proc`` cannot be listed.
        """
        out = self._out
        late: list[list[LiveThread]] = []
        for threads in reader.processes(leave_out):
            if self._misses(threads):
                late.append(threads)
            else:
                self._process(threads)
        if late and self._tree is not None:  # started after the tree was walked
            self._tree = walk(self._root)
        for threads in late:
            self._process(threads)
        scan = reader.scan
        out.threads.processes, out.threads.threads = scan.processes, scan.threads
        out.threads.unreadable, out.unread, out.cut = scan.unreadable, scan.reason, scan.cut
        out.units = tuple(sorted(self._units.values(), key=lambda unit: unit.name))
        out.lanes = tuple(watch.done() for watch in self._lanes)
        out.users = self._users.worst()
        out.unused = tuple(self._unused())
        out.no_tree = self._tree is None and self._index.asks_for_cgroups
        return out

    def _misses(self, threads: list[LiveThread]) -> bool:
        """Return whether the group of a process matters and is not known."""
        if not self._index.asks_for_cgroups or threads[0].kernel or self._tree is None:
            return False
        return threads[0].pid not in self._tree.of_process

    def _process(self, threads: list[LiveThread]) -> None:
        pid = threads[0].pid
        cgroup = self._tree.of_process.get(pid) if self._tree is not None else None

        def cmdline() -> bytes | None:
            try:
                data = self._root.read(f"/proc/{pid}/cmdline", MAX_CMDLINE)
            except DeniedError:
                return None
            return b"" if data is None else data

        for thread in threads:
            if thread.kernel:
                self._out.kernel = True
                cgroup = cgroup or ""  # of the root, which need not list it
            found = self._index.find(
                thread.comm, thread.leader, cgroup, kernel=thread.kernel, cmdline=cmdline
            )
            self._fits |= found.fits
            if found.open is not None:
                self._out.threads.undecided += 1
                if not self._out.undecided:
                    self._out.undecided = (
                        f"{_name(thread)} may have rule {found.open.id} of {found.open.unit}"
                    )
                continue
            if self._keep:
                rule = found.rule
                self._out.known[thread.tid] = Known(
                    pid=thread.pid,
                    comm=thread.comm,
                    rule=None if rule is None else rule.id,
                    band=self._plan.default_band if rule is None else rule.band,
                )
            if found.rule is None:
                self._unmatched(thread)
            else:
                self._matched(thread, found.rule)

    def _unmatched(self, thread: LiveThread) -> None:
        band = self._bands[self._plan.default_band]
        if thread.kernel:
            self._out.threads.kernel_unmatched += 1
            return
        self._out.threads.unmatched += 1
        self._users.add(thread, None)
        for watch in self._lanes:
            watch.see(thread, None, None, band)

    def _matched(self, thread: LiveThread, rule: Rule) -> None:
        self._out.threads.matched += 1
        self._used.add(rule.id)
        unit = self._units[rule.unit]
        unit.threads += 1
        verdict = self._judge.judge(thread, rule)
        if verdict.kind == "right":
            unit.right += 1
        elif verdict.kind == "alone":
            unit.alone += 1
        elif verdict.kind == "cpuset":
            unit.skipped += 1
        else:
            unit.different += 1
        if self._everything or verdict.kind not in ("right", "alone"):
            self._row(thread, rule, verdict)
        for watch in self._lanes:
            watch.see(thread, rule.unit, self._lane_of[rule.unit], self._bands[rule.band])

    def _row(self, thread: LiveThread, rule: Rule, verdict: Judgement) -> None:
        row = Row(
            pid=thread.pid,
            tid=thread.tid,
            comm=thread.comm,
            rule=rule.id,
            unit=rule.unit,
            band=rule.band,
            kind=verdict.kind,
            allowed=thread.allowed,
            planned=verdict.planned,
            cpuset=verdict.cpuset,
        )
        if self._everything and len(self._out.matched) < MAX_ROWS:
            self._out.matched.append(row)
        if verdict.kind in ("right", "alone"):
            return
        if len(self._out.rows) >= MAX_ROWS:
            self._out.rows_left_out += 1
            return
        self._out.rows.append(row)

    def _unused(self) -> Iterable[UnusedRule]:
        places = {rule.id: n for n, rule in enumerate(self._index.rules)}
        for rule in self._plan.rules:
            if rule.id in self._used:
                continue
            reason = ""
            if rule.id in self._left_out:
                reason = self._left_out[rule.id]
            elif rule.match.pods is not None:
                reason = "late-bound: inactive until the pods are resolved on the node"
            elif self._fits >> places[rule.id] & 1:
                reason = "every thread it fits has an earlier rule"
            elif self._no_group(rule):
                reason = "no such control group now"
            elif rule.needs is not None:
                reason = f"the name exists only with {rule.needs}"
            yield UnusedRule(rule.id, rule.unit, describe_condition(rule.match), reason)

    def _no_group(self, rule: Rule) -> bool:
        if self._tree is None or rule.match.cgroup is None:
            return False
        return not self._index.any_group(rule, self._tree.paths)


def _name(thread: LiveThread) -> str:
    return f"{thread.pid}/{thread.tid} {thread.comm}"
