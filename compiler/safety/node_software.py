"""Node software, without which a node is lost: no rule may starve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import NodePlan, Rule
from compiler.safety.parts import tier_named
from compiler.safety.processes import NODE_SOFTWARE, Process
from compiler.safety.violation import STARVED, Violation


class _Test:
    """One rule, ready to be tried on processes of the host: those are in no pod."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        match = rule.match
        self._names: list[Glob] = [
            Glob.comm(text) for text in (match.comm, match.leader_comm) if text is not None
        ]
        self._cgroup = None if match.cgroup is None else Glob.cgroup(match.cgroup)
        self._command = None if match.cmdline is None else CmdlineRegex.parse(match.cmdline)

    def takes_name(self, comm: str) -> bool:
        """Return whether the rule may have processes of a name."""
        return all(name.matches(comm) for name in self._names)

    def takes(self, process: Process, command: str) -> bool:
        """Return whether the rule has a process whose name it may have, started so."""
        return (self._cgroup is None or self._cgroup.matches(process.cgroup)) and (
            self._command is None or _matches(self._command, command)
        )


def check_node_software(plan: NodePlan) -> Iterator[Violation]:
    """Find processes without which a node is lost in a tier below background."""
    floor = tier_named(plan, "background")
    if floor is None:
        return
    bands = {band.id: band for band in plan.bands}
    names = {tier.id: tier.name for tier in plan.tiers}
    tests = [
        _Test(rule) for rule in plan.rules if rule.match.kthread is None and rule.match.pods is None
    ]
    named = {
        comm: [test for test in tests if test.takes_name(comm)]
        for comm in dict.fromkeys(process.comm for process in NODE_SOFTWARE)
    }
    by_command = any(test.rule.match.cmdline is not None for test in tests)
    for process in NODE_SOFTWARE:
        for command in process.commands if by_command else process.commands[:1]:
            rule = _first(named[process.comm], process, command)
            band = bands.get(plan.default_band if rule is None else rule.band)
            if band is None or band.tier <= floor.id:
                continue
            tier = names.get(band.tier, str(band.tier))
            told = command != process.commands[0] or (
                rule is not None and rule.match.cmdline is not None
            )
            started = f' started as "{command}"' if told else ""
            yield Violation(
                STARVED,
                f"{process.comm} in cgroup {process.cgroup}{started} gets tier {tier}, below "
                f"background, {_by(rule)}",
                rule=None if rule is None else rule.id,
                process=process.comm,
                cgroup=process.cgroup,
                command=command if told else "",
                tier=tier,
            )
            break


@lru_cache(maxsize=65536)
def _matches(pattern: CmdlineRegex, command: str) -> bool:
    """Remembered, since nodes and targets' views have mostly the same rules."""
    return pattern.matches(command)


def _first(tests: Sequence[_Test], process: Process, command: str) -> Rule | None:
    return next((test.rule for test in tests if test.takes(process, command)), None)


def _by(rule: Rule | None) -> str:
    return "as no rule matches it" if rule is None else f"by rule {rule.id} of unit {rule.unit}"
