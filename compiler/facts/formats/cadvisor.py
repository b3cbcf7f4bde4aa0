"""cadvisor's MachineInfo: what the kubelet's cadvisor knows of the machine.

Read from its source (google/cadvisor, utils/sysinfo/sysinfo.go):

- only online CPUs are in ``topology``, and num_cores counts them; num_physical_cores counts core
  ids and is wrong on two sockets;
- where the kernel has no NUMA, a "node" is a package, without memory;
- a cache of level 3 and up is the node's if as many CPUs share it as the node has, else it is among
  the ``uncore_caches`` of each core;
- a cache of level 1 or 2 is kept only if no other core shares it;
- the number of a cache is 0 where the kernel has none.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuListError, CpuSet, union
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import LlcPart, Note, NumaPart, Partial, ReadError

_MIB: Final = 1024 * 1024
_MAX_LEVEL: Final = 5
_MAX_NUMBER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _Cache:
    level: int
    number: int
    size: int
    instructions: bool


@dataclass(frozen=True, slots=True)
class _Core:
    cpus: CpuSet
    socket: int | None
    caches: tuple[_Cache, ...]
    uncore: tuple[_Cache, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    id: int
    memory: int
    cores: tuple[_Core, ...]
    caches: tuple[_Cache, ...]
    distances: tuple[int, ...]


# --- reading ---------------------------------------------------------------------------------


def _load(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReadError(f"not JSON: {error.msg.lower()}", line=error.lineno) from None
    except (ValueError, RecursionError):
        raise ReadError("not JSON that can be read") from None
    if not isinstance(found, dict):
        raise ReadError("not a JSON object")
    return found


def _objects(holder: Mapping[str, object], key: str, where: str) -> list[dict[str, object]]:
    value = holder.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ReadError(f"{where}{key} is not a list of objects")
    return value


def _number(holder: Mapping[str, object], key: str, where: str) -> int | None:
    value = holder.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_NUMBER:
        raise ReadError(f"{where}{key} is not a whole number")
    return value


def _numbers(holder: Mapping[str, object], key: str, where: str) -> tuple[int, ...]:
    value = holder.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(one) is int and one >= 0 for one in value):
        raise ReadError(f"{where}{key} is not a list of whole numbers")
    return tuple(value)


def _node(item: Mapping[str, object], place: int) -> _Node:
    where = f"topology[{place}]."
    identity = _number(item, "node_id", where)
    if identity is None:
        raise ReadError(f"{where}node_id is missing")
    return _Node(
        id=identity,
        memory=_number(item, "memory", where) or 0,
        cores=tuple(
            _core(core, f"{where}cores[{i}].")
            for i, core in enumerate(_objects(item, "cores", where))
        ),
        caches=_caches(item, "caches", where),
        distances=_numbers(item, "distances", where),
    )


def _core(item: Mapping[str, object], where: str) -> _Core:
    threads = _numbers(item, "thread_ids", where)
    if not threads:
        raise ReadError(f"{where}thread_ids is missing or empty")
    try:
        cpus = CpuSet(threads)
    except CpuListError as error:
        raise ReadError(f"{where}thread_ids: {error}") from None
    socket = _number(item, "socket_id", where)
    return _Core(
        cpus=cpus,
        socket=socket if socket is not None and socket >= 0 else None,
        caches=_caches(item, "caches", where),
        uncore=_caches(item, "uncore_caches", where),
    )


def _caches(holder: Mapping[str, object], key: str, where: str) -> tuple[_Cache, ...]:
    return tuple(
        _Cache(
            level=_number(item, "level", f"{where}{key}[{i}].") or 0,
            number=_number(item, "id", f"{where}{key}[{i}].") or 0,
            size=_number(item, "size", f"{where}{key}[{i}].") or 0,
            instructions=item.get("type") == "Instruction",
        )
        for i, item in enumerate(_objects(holder, key, where))
    )


# --- what it says ----------------------------------------------------------------------------


def _read(text: Text) -> tuple[Partial, ...]:
    info = _load(text.text)
    nodes = sorted(
        (_node(item, place) for place, item in enumerate(_objects(info, "topology", ""))),
        key=lambda node: node.id,
    )
    cores = [core for node in nodes for core in node.cores]
    if not cores:
        raise ReadError("topology names no CPU", help="take the whole MachineInfo")
    for previous, node in itertools.pairwise(nodes):
        if previous.id == node.id:
            raise ReadError(f"topology has node_id {node.id} twice")
    listed = _listed(cores)
    notes: list[Note] = []
    count = _number(info, "num_cores", "")
    certain = count is None or count == len(listed)
    if not certain:
        notes.append(
            Note(
                f"num_cores is {count}, but topology names {len(listed)} CPUs; which are online is "
                "unknown"
            )
        )
    return (
        Partial(
            reader="cadvisor",
            file=text.name,
            online=listed if certain else None,
            cpu_count=None if certain else count,
            cores=tuple(sorted((core.cpus for core in cores), key=lambda one: one.lowest)),
            packages=_packages(cores),
            llcs=_llcs(nodes, notes),
            numa=_numa(nodes, notes),
            notes=tuple(notes),
        ),
    )


def _listed(cores: Sequence[_Core]) -> CpuSet:
    listed = CpuSet()
    for core in cores:
        if twice := listed & core.cpus:
            raise ReadError(f"topology names CPU {twice} twice")
        listed |= core.cpus
    return listed


def _packages(cores: Sequence[_Core]) -> tuple[tuple[int, CpuSet], ...] | None:
    found: dict[int, CpuSet] = {}
    for core in cores:
        if core.socket is None:
            return None
        found[core.socket] = found.get(core.socket, CpuSet()) | core.cpus
    return tuple(sorted(found.items()))


def _numa(nodes: Sequence[_Node], notes: list[Note]) -> tuple[NumaPart, ...] | None:
    if all(node.memory == 0 and not node.distances for node in nodes) and all(
        {core.socket for core in node.cores} == {node.id} for node in nodes
    ):
        notes.append(
            Note(
                "no node has memory and each is numbered as its package is: cadvisor says so where "
                "the kernel has no NUMA nodes; they are unknown"
            )
        )
        return None
    ids = [node.id for node in nodes]
    return tuple(
        NumaPart(
            id=node.id,
            cpus=union(core.cpus for core in node.cores),
            memory_mib=node.memory // _MIB if node.memory > 0 else None,
            # In the order of the kernel's file, which is that of node ids.
            distances=dict(zip(ids, node.distances, strict=True))
            if len(node.distances) == len(ids)
            else {},
        )
        for node in nodes
    )


def _llcs(nodes: Sequence[_Node], notes: list[Note]) -> tuple[LlcPart, ...] | None:
    numbered = _are_numbered([core for node in nodes for core in node.cores])
    found: dict[tuple[object, ...], tuple[CpuSet, _Cache]] = {}
    unknown = CpuSet()
    for node in nodes:
        for key, cpus, cache in _last_caches(node, numbered=numbered):
            if cache is None:
                unknown |= cpus
                continue
            before = found.get(key)
            found[key] = (cpus if before is None else before[0] | cpus, cache)
    if unknown:
        notes.append(Note(f"the last-level cache of CPU {unknown} is not said clearly"))
    parts = [
        LlcPart(cpus=cpus, level=cache.level, size_kib=cache.size // 1024 or None)
        for cpus, cache in found.values()
    ]
    return tuple(sorted(parts, key=lambda part: part.cpus.lowest)) or None


def _last_caches(
    node: _Node, *, numbered: bool
) -> Iterator[tuple[tuple[object, ...], CpuSet, _Cache | None]]:
    """Yield of each core what identifies its last-level cache, its CPUs, and the cache."""
    shared = _top(node.caches)
    for core in node.cores:
        uncore, own = _top(core.uncore), _top(core.caches)
        if uncore is not None and (shared is None or uncore.level > shared.level):
            # Numbers are all that tells these caches apart; they may reach beyond the node.
            yield ("uncore", uncore.level, uncore.number), core.cpus, uncore if numbered else None
        elif shared is not None:
            # Two of one level cannot both be the whole node's.
            alone = sum(cache.level == shared.level for cache in node.caches) == 1
            yield ("node", node.id), core.cpus, shared if alone else None
        elif own is not None and own.level > 1:
            yield ("core", core.cpus.lowest), core.cpus, own
        else:
            # A level-2 cache that cores share is left out, so a level-1 cache proves nothing.
            yield (), core.cpus, None


def _top(caches: Sequence[_Cache]) -> _Cache | None:
    usable = [c for c in caches if not c.instructions and 1 <= c.level <= _MAX_LEVEL]
    return max(usable, key=lambda cache: cache.level, default=None)


def _are_numbered(cores: Sequence[_Core]) -> bool:
    """Return whether the kernel numbers caches: those of different cores then differ."""
    seen: set[tuple[int, bool, int]] = set()
    for core in cores:
        for cache in core.caches:
            key = (cache.level, cache.instructions, cache.number)
            if key in seen:
                return False
            seen.add(key)
    return len(cores) > 1 and bool(seen)


def _sniff(text: str) -> bool:
    if not text.lstrip().startswith("{") or '"num_cores"' not in text or '"topology"' not in text:
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return '"thread_ids"' in text  # damaged; the reader says where
    return isinstance(found, dict) and "num_cores" in found and "topology" in found


FORMAT: Final = Format("cadvisor", "cadvisor MachineInfo", _sniff, _read)
