"""Which CPUs a node has: online and the other masks of all sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.merge.log import Log, base_name
from compiler.facts.merge.order import choose
from compiler.facts.partial import LSCPU, Partial, ReadError
from compiler.model.facts import Cpus

_SEES_ALL_CPUS: Final = frozenset({"sysfs", "lscpu"})
"""Readers that list every online CPU whatever cgroup they ran in; others may see fewer."""

HOW_TO_GET_CPUS: Final = (
    f"add what `{LSCPU}` prints on the node, a snapshot of its "
    "/sys/devices/system, or what `tierc facts collect --bundle OUT.tar.gz` writes there"
)
"""What to do where no source says which CPUs or cores there are."""


def merge_online(log: Log, partials: Sequence[Partial]) -> CpuSet:
    """Return the online CPUs.

    A list that only lacks CPUs of another is no contradiction where its reader sees what its
    cgroup leaves to it, and then the longer list of a reader that sees all counts.

    Raises:
        ReadError: no source says it.
    """
    said = [(one, cpus) for one in partials if (cpus := _online(one))]
    if not said:
        readers = ", ".join(dict.fromkeys(f"{base_name(p.file)} ({p.reader})" for p in partials))
        raise ReadError(
            f"no source says which CPUs are online: {readers or 'there is no source'}",
            help=HOW_TO_GET_CPUS,
        )
    winner, online = said[0]
    for partial, cpus in said[1:]:
        if (
            winner.reader not in _SEES_ALL_CPUS
            and partial.reader in _SEES_ALL_CPUS
            and online < cpus
        ):
            winner, online = partial, cpus
    log.supplied(winner, "cpus")
    for partial, cpus in said:
        restricted = partial.reader not in _SEES_ALL_CPUS and cpus <= online
        if cpus == online and partial.merged:
            log.supplied(partial, "cpus")
        if cpus != online and not restricted:
            log.disagree("online CPUs", winner, online, partial, cpus)
    for partial in partials:
        if partial.cpu_count is not None and partial.cpu_count != len(online):
            log.about(
                partial,
                f"says that the node has {partial.cpu_count} CPUs, but {len(online)} are online "
                f"({online})",
            )
    return online


def seen_by(partial: Partial) -> CpuSet:
    """Return the CPUs that a source sees."""
    return _online(partial) or CpuSet()


def _online(partial: Partial) -> CpuSet | None:
    return partial.online or union(partial.cores or ()) or None


def merge_masks(log: Log, partials: Sequence[Partial], online: CpuSet) -> Cpus:
    """Return the online CPUs with the other masks of the kernel."""
    return Cpus(
        possible=_wider(log, partials, online, "possible", lambda p: p.possible),
        present=_wider(log, partials, online, "present", lambda p: p.present),
        online=online,
        isolated=_mask(log, partials, online, "isolated CPUs", lambda p: p.isolated),
        nohzFull=_mask(log, partials, online, "nohz_full CPUs", lambda p: p.nohz_full),
        allowed=_allowed(log, partials, online),
    )


def _wider(
    log: Log,
    partials: Sequence[Partial],
    online: CpuSet,
    name: str,
    get: Callable[[Partial], CpuSet | None],
) -> CpuSet | None:
    """Return the first mask that holds the online CPUs, as possible and present must."""
    for partial in partials:
        cpus = get(partial)
        if cpus is None:
            continue
        if online <= cpus:
            log.supplied(partial, "cpus")
            return cpus
        if partial.reader in _SEES_ALL_CPUS:
            log.about(partial, f"{name} CPUs {cpus} lack the online CPU {online - cpus}; not used")
    return None


def _mask(
    log: Log,
    partials: Sequence[Partial],
    online: CpuSet,
    fact: str,
    get: Callable[[Partial], CpuSet | None],
) -> CpuSet | None:
    sees = {id(p): seen_by(p) & online or online for p in partials}
    common = online
    for one in partials:
        if get(one) is not None:
            common &= sees[id(one)]
    return choose(log, partials, fact, get, family="cpus", cut=lambda value, _: value & common)


def _allowed(log: Log, partials: Sequence[Partial], online: CpuSet) -> CpuSet | None:
    """Return what the cgroup of the most trusted source leaves, if it is less than all.

    It is a limit of the place a tool ran in, so other sources are not compared with it.
    """
    for partial in partials:
        if partial.allowed is None:
            continue
        allowed = partial.allowed & online
        if allowed == online:
            return None
        if not allowed:
            log.about(partial, f"allowed CPUs {partial.allowed or 'none'} are not online; not used")
            continue
        log.supplied(partial, "cpus")
        if partial.reader != "sysfs" and not partial.merged:  # where it is said already
            log.about(
                partial,
                f"it sees CPUs {allowed} as allowed, of {online} online; recorded as allowed: "
                "leave it out if the limit is that of the place where it was made",
            )
        return allowed
    return None
