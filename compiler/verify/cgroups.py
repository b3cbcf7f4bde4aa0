"""Control groups of the node: which process is where, and the CPUs that a cpuset leaves it.

The host's tree is walked, because ``/proc/PID/cgroup`` hides what is outside the reader's
namespace.  It is cgroup v2, or ``unified`` or ``systemd`` beside v1, whichever is there first: what
the emitted scripts walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuListError, CpuSet
from compiler.verify.sysroot import DeniedError, Sysroot, text_of

CGROUPS: Final = "/sys/fs/cgroup"
MAX_GROUPS: Final = 100_000
"""Control groups that are looked at."""
_TREES: Final = (
    (CGROUPS, "cgroup.controllers"),
    (f"{CGROUPS}/unified", "cgroup.procs"),
    (f"{CGROUPS}/systemd", "cgroup.procs"),
)


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """The tree as it was when it was walked.

    Attributes:
        of_process: the path of each process's group from the root, without a leading slash.
        paths: of all groups, the root (empty) among them.
        cut: whether there are more than :data:`MAX_GROUPS`.
    """

    of_process: dict[int, str]
    paths: tuple[str, ...]
    cut: bool


def walk(root: Sysroot) -> CgroupTree | None:
    """Return the node's tree of control groups; None where none can be seen."""
    base = next((path for path, file in _TREES if root.exists(f"{path}/{file}")), None)
    if base is None:
        return None
    of_process: dict[int, str] = {}
    paths: list[str] = []
    todo = [""]
    while todo and len(paths) < MAX_GROUPS:
        path = todo.pop()
        paths.append(path)
        place = f"{base}/{path}" if path else base
        try:
            names = root.directories(place)
        except DeniedError:
            names = []
        todo += [f"{path}/{name}" if path else name for name in reversed(names)]
        try:
            members = root.read(f"{place}/cgroup.procs")
        except DeniedError:  # a threaded group has no list of processes: they are in the one above
            continue
        for line in (members or b"").split():
            if line.isdigit() and len(line) < 10 and line != b"0":  # 0: of another namespace
                of_process[int(line)] = path
    return CgroupTree(of_process, tuple(paths), bool(todo))


class Cpusets:
    """The CPUs that a thread's cpuset leaves it."""

    def __init__(self, root: Sysroot, online: CpuSet) -> None:
        self._root = root
        self._online = online
        self._known: dict[str, CpuSet | None] = {}

    def of_thread(self, pid: int, tid: int) -> tuple[str, CpuSet] | None:
        """Return a thread's cpuset, path and CPUs; None where that cannot be known."""
        try:
            data = self._root.record(f"/proc/{pid}/task/{tid}/cpuset")
            is_exact = data is not None
            if data is None:  # as in kernels without CONFIG_PROC_PID_CPUSET
                lines = (self._root.record(f"/proc/{pid}/task/{tid}/cgroup") or b"").splitlines()
                data = next((line[3:] for line in lines if line.startswith(b"0::")), b"")
        except DeniedError:
            return None
        group = text_of(data.removesuffix(b"\n"))
        if not group.startswith("/") or "/.." in group:  # outside our namespace
            return None
        limit = self._of_group(group)
        while limit is None and not is_exact and group != "/":  # of the nearest one that has it
            group = group.rpartition("/")[0] or "/"
            limit = self._of_group(group)
        return None if limit is None else (group, limit)

    def _of_group(self, group: str) -> CpuSet | None:
        if group not in self._known:
            self._known[group] = self._limit(group.rstrip("/"))
        return self._known[group]

    def _limit(self, group: str) -> CpuSet | None:
        for place in (
            f"{CGROUPS}{group}/cpuset.cpus.effective",
            f"{CGROUPS}/unified{group}/cpuset.cpus.effective",
            f"{CGROUPS}/cpuset{group}/cpuset.effective_cpus",
            f"{CGROUPS}/cpuset{group}/cpuset.cpus",
        ):
            try:
                text = self._root.line(place)
                if text:
                    return CpuSet.parse(text)
            except (DeniedError, CpuListError):
                continue
        return None if group else self._online  # the root's file is not there on every kernel
