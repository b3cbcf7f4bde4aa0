"""Which inference engines run on the machine at hand, and in which cgroup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compiler.facts.tree import Tree, numbered
from compiler.model.profile import ProfileMatch
from compiler.patterns import CmdlineRegex, Glob
from compiler.profiles import builtin_profiles, stage_matches

_MAX_PROCESSES: Final = 100_000
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.@:-]+")
_CONTAINER: Final = re.compile(r"([a-z-]+-)[0-9a-f]{64}(\.scope)")
_PODS: Final = re.compile(r"(^|/)(kubelet-)?kubepods(\.slice)?(/|$)")


@dataclass(frozen=True, slots=True, order=True)
class Running:
    """An engine that runs, and a pattern of the cgroup it runs in."""

    engine: str
    cgroup: str


def running(sysroot: Path) -> tuple[Running, ...]:
    """Return the engines whose processes are below ``proc/``, by name.

    An engine of which no process is in a cgroup of its own (a service, a container, a pod) is left
    out: names alone are no evidence.
    """
    found: dict[str, Counter[str]] = {}
    tree = Tree.of_disk(sysroot)
    for engine, cgroup in _processes(tree):
        pattern = place(cgroup)
        if pattern is not None:
            found.setdefault(engine, Counter())[pattern] += 1
    return tuple(
        Running(engine, min(sorted(count), key=lambda text: -count[text]))
        for engine, count in sorted(found.items())
    )


def place(cgroup: str) -> str | None:
    """Return a pattern for where a process runs that outlives it; None if nothing is its own.

    The numbers of containers and pods change with every start, so they are not kept.
    """
    if _PODS.search(cgroup):
        return "@pods/**"
    steps = [step for step in cgroup.split("/") if step]
    if not steps or ".." in steps or steps[0] == "user.slice":
        return None  # the cgroup of a login: everything its user starts is in there
    for at, step in enumerate(steps):
        if container := _CONTAINER.fullmatch(step):
            steps[at] = f"{container[1]}*{container[2]}"
        elif _PLAIN.fullmatch(step) is None:
            return None
        if step.endswith((".service", ".scope")):
            return "/".join([*steps[: at + 1], "**"])
    if steps[0] == "docker" and len(steps) > 1:
        return "docker/*/**"
    return None


def _processes(tree: Tree) -> Iterator[tuple[str, str]]:
    rows = [
        (name, one.match)
        for name, profile in sorted(builtin_profiles().items())
        for found in stage_matches(profile.model, None, 1).values()
        for one in found
    ]
    for pid in numbered(tree.names("/proc"), "")[:_MAX_PROCESSES]:
        comm = tree.line(f"/proc/{pid}/comm")
        if not comm:
            continue
        for engine, match in rows:
            if _is(match, comm, tree, pid):
                yield engine, _cgroup(tree, pid)
                break


def _is(match: ProfileMatch, comm: str, tree: Tree, pid: int) -> bool:
    """Tell whether the main thread of a process is one of those that a row means."""
    if match.kthread is not None:
        return False
    for pattern in (match.comm, match.leader_comm):
        if pattern is not None and not Glob.comm(pattern).matches(comm):
            return False
    if match.cmdline is None:
        return True
    cmdline = tree.text(f"/proc/{pid}/cmdline") or ""
    return CmdlineRegex.parse(match.cmdline).matches(cmdline)


def _cgroup(tree: Tree, pid: int) -> str:
    for line in (tree.text(f"/proc/{pid}/cgroup") or "").splitlines():
        if line.startswith("0::/"):
            return line[4:]
    return ""
