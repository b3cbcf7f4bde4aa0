"""Which rule has a thread, for all threads of a node at once.

The answer is that of :func:`compiler.explain.match.match` for each rule in order, and a test holds
it to that.  What differs is the work: each name, group and command line is compared once, whatever
the number of threads, and gives the set of rules that it satisfies (bit N is the N-th rule); a
thread's rules are the intersection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.explain.match import Thread, seen_name
from compiler.patterns import CmdlineRegex, Glob, truncate_comm
from compiler.plan import Rule
from compiler.verify.sysroot import bytes_of

MAX_KEPT: Final = 1 << 16
"""Answers kept for each field; more different names than that are hostile."""


@dataclass(frozen=True, slots=True)
class Match:
    """What is known of a thread's rule.

    Attributes:
        rule: the first rule that surely has it; None where none has.
        open: an earlier rule that has it if what is unknown is so; None: the rule is certain.
        fits: all rules, as bits, that it surely fits, also behind the first.  Rules on command
            lines are in it only as far as they were asked.
    """

    rule: Rule | None
    open: Rule | None
    fits: int


class _Field:
    """The rules that look at one property of a thread."""

    def __init__(self, globs: Sequence[tuple[int, Glob]], all_rules: int) -> None:
        asked = 0
        self._exact: dict[bytes, int] = {}
        self._others: list[tuple[int, bytes, bytes, Glob]] = []
        for bit, glob in globs:
            asked |= bit
            if glob.is_empty:
                continue
            shape = glob.shape
            if shape.exact is not None and glob.kind == "comm":
                self._exact[shape.exact] = self._exact.get(shape.exact, 0) | bit
            else:
                self._others.append((bit, shape.head, shape.tail, glob))
        self.asked: Final = asked
        self._free = all_rules & ~asked
        self._known: dict[str, int] = {}

    def fits(self, value: str) -> int:
        """Return the rules that a value satisfies, with those that do not ask for it."""
        if not self.asked:
            return self._free
        known = self._known.get(value)
        if known is None:
            known = self._free | self._matches(value)
            if len(self._known) < MAX_KEPT:
                self._known[value] = known
        return known

    def _matches(self, value: str) -> int:
        data = bytes_of(value)
        found = self._exact.get(data, 0)
        for bit, head, tail, glob in self._others:
            if data.startswith(head) and data.endswith(tail) and glob.matches(data):
                found |= bit
        return found


class RuleIndex:
    """An ordered list of rules, ready to be asked."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules: Final = tuple(rules)
        everything = (1 << len(self.rules)) - 1

        def field(of: Callable[[Rule], str | None], make: Callable[[str], Glob]) -> _Field:
            rows = [
                (1 << n, make(text)) for n, r in enumerate(rules) if (text := of(r)) is not None
            ]
            return _Field(rows, everything)

        self._comm = field(lambda r: r.match.comm, Glob.comm)
        self._leader = field(lambda r: r.match.leader_comm, Glob.comm)
        self._kthread = field(lambda r: r.match.kthread, Glob.comm)
        self._cgroup = field(lambda r: r.match.cgroup, Glob.cgroup)
        self._cmdlines = {
            1 << n: CmdlineRegex.parse(rule.match.cmdline)
            for n, rule in enumerate(self.rules)
            if rule.match.cmdline is not None
        }
        self._by_cmdline = sum(self._cmdlines)
        self._late = sum(1 << n for n, r in enumerate(self.rules) if r.match.pods is not None)
        self._lines: dict[tuple[int, bytes], bool] = {}

    @property
    def asks_for_cgroups(self) -> bool:
        """Whether any rule looks at the control group."""
        return bool(self._cgroup.asked)

    def find(
        self,
        comm: str,
        leader: str,
        cgroup: str | None,
        *,
        kernel: bool,
        cmdline: Callable[[], bytes | None],
    ) -> Match:
        """Return the rule of a thread.

        Args:
            comm: its name as ``/proc`` shows it.
            leader: the name of its process.
            cgroup: its group from the root, without a leading slash; None: unknown.
            kernel: whether it is a kernel thread.
            cmdline: returns its raw command line, None where that is unknown; asked only where a
                rule depends on it.
        """
        seen = seen_name(Thread(comm=comm, kthread=kernel)) or ""
        sure = self._comm.fits(seen) & self._leader.fits(truncate_comm(leader))
        sure &= self._kthread.fits(seen) if kernel else ~self._kthread.asked
        if kernel:
            sure &= self._kthread.asked
        unknown = self._late
        if cgroup is None:
            unknown |= self._cgroup.asked
        else:
            sure &= self._cgroup.fits(cgroup)
        pending, sure = sure & self._by_cmdline, sure & ~self._by_cmdline
        could, sure = sure & unknown, sure & ~unknown
        first = sure & -sure
        line: bytes | None = None
        read = False
        while pending and (not first or pending & -pending < first):
            bit = pending & -pending
            pending &= ~bit
            if not read:
                line, read = cmdline(), True
            if line is None:
                could |= bit
            elif self._takes(bit, line):
                if bit & unknown:
                    could |= bit
                else:
                    sure |= bit
                    first = bit
        before = could & (first - 1) if first else could
        return Match(
            rule=self._rule(first),
            open=self._rule(before & -before),
            fits=sure,
        )

    def any_group(self, rule: Rule, paths: Iterable[str]) -> bool:
        """Return whether any of some control groups is one that a rule asks for."""
        bit = 1 << self.rules.index(rule)
        return any(self._cgroup.fits(path) & bit for path in paths)

    def _takes(self, bit: int, line: bytes) -> bool:
        key = (bit, line)
        known = self._lines.get(key)
        if known is None:
            known = self._cmdlines[bit].matches(line)
            if len(self._lines) < MAX_KEPT:
                self._lines[key] = known
        return known

    def _rule(self, bit: int) -> Rule | None:
        return self.rules[bit.bit_length() - 1] if bit else None
