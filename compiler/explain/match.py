"""What is known of a thread, and whether a rule takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from compiler.patterns import CmdlineRegex, Glob, truncate_comm
from compiler.plan import Condition

Verdict = Literal["matches", "could", "no"]


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of a thread; None is unknown, and kernel threads are told apart."""

    comm: str | None = None
    leader_comm: str | None = None
    cgroup: str | None = None
    cmdline: str | None = None
    kthread: bool = False
    may_be_in_pod: bool = True

    def describe(self) -> str:
        """Return the known facts as text."""
        parts = [
            f'{word} "{value}"'
            for word, value in (
                ("kernel thread" if self.kthread else "comm", seen_name(self)),
                ("leader comm", _cut(self.leader_comm)),
                ("cgroup", self.cgroup),
                ("cmdline", self.cmdline),
            )
            if value is not None
        ]
        return ", ".join(parts)


_KWORKER = re.compile(r"(kworker/[0-9u][^-+]*)[-+].*", re.DOTALL)


def seen_name(thread: Thread) -> str | None:
    """Return the thread's name as a scheduler sees it; None: it is not known.

    /proc adds to a kworker's name what it works on, behind ``-`` or ``+``; the task has no such
    name.
    """
    if thread.kthread and thread.comm is not None and (own := _KWORKER.fullmatch(thread.comm)):
        return own[1]
    return _cut(thread.comm)


def _cut(name: str | None) -> str | None:
    return None if name is None else truncate_comm(name)


def match(condition: Condition, thread: Thread) -> tuple[Verdict, tuple[str, ...]]:
    """Tell whether a rule's condition takes a thread, and what is unknown where it could.

    Names are cut to the 15 bytes that a scheduler sees; /proc shows more for kernel threads.
    """
    unknown: list[str] = []
    comm, leader = seen_name(thread), _cut(thread.leader_comm)
    if thread.kthread != (condition.kthread is not None):
        return "no", ()
    for word, pattern, value in (
        ("kernel thread name", condition.kthread, comm),
        ("comm", condition.comm, comm),
        ("leader comm", condition.leader_comm, leader),
    ):
        if pattern is None:
            continue
        if value is None:
            unknown.append(f"{word} {pattern}")
        elif not Glob.comm(pattern).matches(value):
            return "no", ()
    if condition.cgroup is not None:
        if thread.cgroup is None:
            unknown.append(f"cgroup {condition.cgroup}")
        elif not Glob.cgroup(condition.cgroup).matches(thread.cgroup):
            return "no", ()
    if condition.cmdline is not None:
        if thread.cmdline is None:
            unknown.append(f"cmdline {condition.cmdline}")
        elif not CmdlineRegex.parse(condition.cmdline).matches(thread.cmdline):
            return "no", ()
    if condition.pods is not None:
        if not thread.may_be_in_pod:
            return "no", ()
        unknown.append(f"pods {condition.pods}")
    return ("could", tuple(unknown)) if unknown else ("matches", ())


def describe_condition(condition: Condition) -> str:
    """Return a condition as a person would write it."""
    words = {
        "kthread": condition.kthread,
        "comm": condition.comm,
        "leaderComm": condition.leader_comm,
        "cmdline": condition.cmdline,
        "cgroup": condition.cgroup,
        "pods": condition.pods,
    }
    return " and ".join(f'{word} "{text}"' for word, text in words.items() if text is not None)
