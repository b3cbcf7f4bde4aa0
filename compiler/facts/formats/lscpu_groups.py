"""Which CPUs of lscpu's rows form a core, a package, a last-level cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler.cpuset import CpuSet
from compiler.facts.formats.lscpu_row import COMMAND, Row, Table, holds_data, level
from compiler.facts.partial import LlcPart, Note

Numbered = tuple[tuple[int, CpuSet], ...]
"""CPUs by a number."""


def by_number(rows: Iterable[Row], key: Callable[[Row], int | None]) -> Numbered:
    """Return the CPUs with each number, ascending; rows without one are left out."""
    found: dict[int, list[int]] = {}
    for row in rows:
        value = key(row)
        if value is not None:
            found.setdefault(value, []).append(row.cpu)
    return tuple((value, CpuSet(cpus)) for value, cpus in sorted(found.items()))


# --- cores and packages ----------------------------------------------------------------------


def read_cores(
    table: Table, rows: Sequence[Row], notes: list[Note]
) -> tuple[tuple[CpuSet, ...] | None, bool]:
    """Return the cores, and whether it is certain that all CPUs are of one model.

    Rows with one core number are siblings if they share a cache of level 1 or 2 (the halves of an
    AMD Bulldozer module share only the instruction cache).  Where they share none they are cores of
    different models with the same number.
    """
    if any(row.core is None for row in rows):
        if "core" in table.columns and any(row.core is not None for row in rows):
            cpus = CpuSet(row.cpu for row in rows if row.core is None)
            notes.append(Note(f"CPU {cpus} has no core, so which CPUs form a core is unknown"))
        return None, False
    groups: dict[tuple[int | None, int | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.socket, row.core), []).append(row)
    near = _near_caches(table)
    cores: list[CpuSet] = []
    apart: list[list[Row]] = []
    threaded = False
    for group in groups.values():
        if len(group) == 1:
            cores.append(CpuSet((group[0].cpu,)))
            continue
        parts = _sharing(group, near)
        if parts is None:
            notes.append(
                Note(
                    f"CPUs {CpuSet(row.cpu for row in group)} have one core number, but no cache "
                    "shows that they are one core: lscpu numbers the cores of each model of CPU "
                    f"from 0; which CPUs form a core is unknown; record it with: {COMMAND}",
                    group[0].line,
                )
            )
            return None, False
        if len(parts) > 1:
            apart.append(group)
            threaded = threaded or len(parts) < len(group)
        cores += parts
    if (split := _split_cache(table, rows, cores)) is not None:
        notes.append(
            Note(
                f"CPUs {split} share a cache of level 1, but not a core number, as with "
                "lscpu --physical; which CPUs form a core is unknown"
            )
        )
        return None, False
    if apart:
        cpus = CpuSet(row.cpu for row in apart[0])
        same = f"CPUs {cpus} have one core number and share no cache of level 1 or 2"
        if threaded:
            notes.append(Note(f"{same}; which CPUs form a core is unknown", apart[0][0].line))
            return None, False
        notes.append(
            Note(
                f"{same}: lscpu numbers the cores of each model of CPU from 0; taken as different "
                "cores",
                apart[0][0].line,
            )
        )
    return tuple(sorted(cores, key=lambda core: core.lowest)), not apart


def _near_caches(table: Table) -> tuple[int, ...]:
    """Return the positions of the caches of level 1 and 2."""
    return tuple(place for place, name in enumerate(table.caches) if level(name) <= 2)


def _split_cache(table: Table, rows: Sequence[Row], cores: Sequence[CpuSet]) -> CpuSet | None:
    """Return the CPUs of a level-1 cache that several cores share; None if there is none.

    The physical core ids that ``lscpu -y`` prints are not those of siblings everywhere: the halves
    of an AMD Bulldozer module have two.
    """
    home = {cpu: place for place, core in enumerate(cores) for cpu in core}
    near = [place for place, name in enumerate(table.caches) if level(name) == 1]
    users: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        for place in near:
            if place < len(row.caches) and (cache := row.caches[place]) is not None:
                users.setdefault((place, cache), []).append(row.cpu)
    for cpus in users.values():
        if len({home[cpu] for cpu in cpus}) > 1:
            return CpuSet(cpus)
    return None


def _sharing(group: Sequence[Row], near: Sequence[int]) -> list[CpuSet] | None:
    """Return the parts of a group that share a near cache; None if a row's are not known."""
    owner: dict[tuple[int, int], int] = {}
    parent = list(range(len(group)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place, row in enumerate(group):
        keys = [
            (column, cache)
            for column in near
            if column < len(row.caches) and (cache := row.caches[column]) is not None
        ]
        if not keys:
            return None
        for key in keys:
            parent[root(owner.setdefault(key, place))] = root(place)
    parts: dict[int, list[int]] = {}
    for place, row in enumerate(group):
        parts.setdefault(root(place), []).append(row.cpu)
    return [CpuSet(cpus) for cpus in parts.values()]


def read_packages(rows: Sequence[Row], notes: list[Note], *, one_model: bool) -> Numbered | None:
    """Return the packages; None where nothing says them, or the numbers may mean several."""
    if all(row.socket is None for row in rows):
        return None
    if not one_model:
        # Sockets too are counted for each model: the only socket of two models is 0 twice.
        notes.append(
            Note(
                "lscpu numbers sockets for each model of CPU from 0, and there may be several "
                "models; packages are unknown"
            )
        )
        return None
    return by_number(rows, lambda row: row.socket)


# --- caches ----------------------------------------------------------------------------------


def read_llcs(table: Table, rows: Sequence[Row], notes: list[Note]) -> tuple[LlcPart, ...] | None:
    """Return the last-level caches: of each CPU the highest that is not for instructions only."""
    count = len(table.caches)
    groups: dict[tuple[int, int, bool], list[int]] = {}
    taken = _taken(table, rows)
    unknown: list[Row] = []
    for row in rows:
        full = len(row.caches) == count
        last = _last(table, row) if full else len(row.caches) - 1
        if last is None or last < 0:
            unknown.append(row)
            continue
        cache = row.caches[last]
        # A short row ends in its last-level cache, but at which level is not said.  It is a cache
        # of its own for certain only if no full row has that number at any level it may be of.
        if cache is None or (
            not full
            and (
                not holds_data(table.caches[last])
                or any((place, cache) in taken for place in range(last, count))
            )
        ):
            unknown.append(row)
            continue
        groups.setdefault((last, cache, full), []).append(row.cpu)
    if unknown and count:
        cpus = CpuSet(row.cpu for row in unknown)
        notes.append(
            Note(f"the last-level cache of CPU {cpus} is not said clearly", unknown[0].line)
        )
    parts = [
        LlcPart(cpus=CpuSet(cpus), level=level(table.caches[last]))
        for (last, _, _), cpus in groups.items()
    ]
    return tuple(sorted(parts, key=lambda part: part.cpus.lowest)) or None


def _taken(table: Table, rows: Sequence[Row]) -> set[tuple[int, int]]:
    """Return (position, number) of the caches of full rows."""
    return {
        (place, cache)
        for row in rows
        if len(row.caches) == len(table.caches)
        for place, cache in enumerate(row.caches)
        if cache is not None
    }


def _last(table: Table, row: Row) -> int | None:
    """Return the position of a full row's last-level cache."""
    places = [
        place
        for place, cache in enumerate(row.caches)
        if cache is not None and holds_data(table.caches[place])
    ]
    return max(places, key=lambda place: (level(table.caches[place]), place), default=None)
