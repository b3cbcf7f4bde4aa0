"""Machines and lanes for tests and benches of the placer: odd ones, coarse ones, large servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from compiler.model.base import Preference
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest
from compiler.topology import Topology
from tests.machines import facts, gpu


def odd_machine(rng: Random, max_cores: int) -> NodeFacts:
    """Make a machine as they are built: sockets, sub-NUMA nodes, caches, SMT, nodes without CPUs.

    Several caches to a node or several nodes to a cache; kinds mixed inside a cache; one, two or
    four threads a core, siblings side by side or far apart; distances that depend on the
    direction; CPUs offline, isolated, the kubelet's or not allowed.
    """
    nodes = rng.choice([1, 2, 2, 3, 4])
    per_node = rng.choice([1, 1, 2, 3]) if nodes < 4 else 1
    groups = nodes * per_node
    shared = nodes > 1 and per_node == 1 and rng.random() < 0.3  # a cache over two nodes
    cores = [max(1, max_cores // groups - rng.randrange(2)) for _ in range(groups)]
    total, width = sum(cores), rng.choice([1, 2, 2, 4])
    adjacent = rng.random() < 0.5

    def siblings(core: int) -> list[int]:
        first = core * width if adjacent else core
        return [first + t * (1 if adjacent else total) for t in range(width)]

    group_of = [group for group, number in enumerate(cores) for _ in range(number)]
    kinds = rng.choice([["standard"], ["performance", "efficiency"], ["performance", "lowpower"]])
    mixed = rng.random() < 0.6
    rows, online = [], []
    for core, group in enumerate(group_of):
        kind = rng.choice(kinds) if mixed else kinds[group % len(kinds)]
        mine = siblings(core)
        if width > 1 and rng.random() < 0.05:
            mine = mine[:-1]  # the others are offline
        online += mine
        cache = group // 2 if shared else group
        row = {"cpus": mine, "smt": [[cpu] for cpu in mine], "kind": kind}
        rows.append({**row, "llc": cache, "numa": group // per_node})

    def cpus(side: str, place: int) -> list[int]:
        return sorted(c for row in rows if row[side] == place for c in row["cpus"])

    memory = [nodes + 1 + 8 * i for i in range(rng.choice([0, 0, 1, 2]))]
    numa: dict[int, Sequence[int]] = {node: cpus("numa", node) for node in range(nodes)}
    numa.update({node: [] for node in memory})
    far = {a: [10 if a == b else rng.randint(11, 80) for b in numa] for a in numa}
    made = facts(
        rows,
        online=_text(online),
        llcs={cache: cpus("llc", cache) for cache in sorted({row["llc"] for row in rows})},
        numa=numa,
        devices=_devices(rng, numa, memory),
        cpus=_masks(rng, online, siblings, total),
        kubelet=_kubelet(rng, online) if rng.random() < 0.25 else None,
    )
    document = made.model_dump(by_alias=True)
    for row in document["spec"]["numa"]:
        row["distances"] = tuple(far[row["id"]])
    return NodeFacts.model_validate(document)


def _devices(
    rng: Random, numa: dict[int, Sequence[int]], memory: Sequence[int]
) -> list[dict[str, Any]]:
    devices = []
    for number in range(rng.choice([0, 1, 2, 4])):
        kind = rng.choice(["gpu", "gpu", "nic"])
        node = rng.choice([*numa])
        row = gpu(f"{kind}{number}", None, numa=node, kind=kind)
        if node in memory and rng.random() < 0.7:  # the driver knows which CPUs are near
            near = numa[rng.choice([n for n in numa if n not in memory])]
            row["locality"] = {"cpus": list(near), "scope": "numa"}
        devices.append(row)
    return devices


def _masks(rng: Random, online: Sequence[int], siblings: Any, total: int) -> dict[str, Any]:
    masks: dict[str, Any] = {}
    if rng.random() < 0.25:
        chosen = [cpu for core in range(total) if rng.random() < 0.3 for cpu in siblings(core)]
        masks["isolated"] = sorted({*chosen} & {*online})
    if rng.random() < 0.2:
        masks["allowed"] = [cpu for cpu in online if rng.random() < 0.8] or list(online)
    return masks


def _kubelet(rng: Random, online: Sequence[int]) -> dict[str, Any]:
    return {
        "present": True,
        "policy": rng.choice(["none", "static"]),
        "reserved": [cpu for cpu in online if rng.random() < 0.7],
        "exclusive": [cpu for cpu in online if rng.random() < 0.15],
    }


def _text(cpus: Iterable[int]) -> str:
    return ",".join(map(str, sorted(cpus)))


def coarse_machine(rng: Random, cells: int) -> NodeFacts:
    """Make a machine of few kinds of core but many cores: caches, nodes, devices near some."""
    caches, nodes = rng.randint(2, 5), rng.randint(1, 3)
    node_of = [rng.randrange(nodes) for _ in range(caches)]
    kinds = rng.choice([["standard"], ["standard"], ["performance", "efficiency"]])
    rows: list[tuple[int, int, str, int]] = []  # cache, node, kind, cores
    for i in range(rng.randint(3, cells)):
        cache = i % caches
        node = node_of[cache] if rng.random() < 0.95 else rng.randrange(nodes)
        rows.append((cache, node, rng.choice(kinds), rng.randint(1, 4)))
    owner = [row for row, (*_, cores) in enumerate(rows) for _ in range(cores)]
    if rng.random() < 0.5:
        rng.shuffle(owner)
    n = len(owner)

    def cpus(side: int, place: int) -> list[int]:
        return [cpu for cpu in range(n) if rows[owner[cpu]][side] == place]

    devices = []
    for number in range(rng.choice([0, 2, 3, 5])):
        side = rng.choice([0, 1])
        near = cpus(side, rng.choice(rows)[side])
        if rng.random() < 0.2:
            near = [cpu for cpu in range(n) if owner[cpu] % 3 == number % 3]
        kind = rng.choice(["gpu", "gpu", "nic"])
        where = {"cpus": near, "scope": "numa"}
        devices.append({**gpu(f"{kind}{number}", None, kind=kind), "locality": where})
    some = rng.randrange(len(rows))
    isolated = [cpu for cpu in range(n) if owner[cpu] == some] if rng.random() < 0.2 else []
    return facts(
        [
            {"cpus": [cpu], "llc": rows[of][0], "numa": rows[of][1], "kind": rows[of][2]}
            for cpu, of in enumerate(owner)
        ],
        online=f"0-{n - 1}",
        llcs={c: mine for c in range(caches) if (mine := cpus(0, c))},
        numa={k: mine for k in range(nodes) if (mine := cpus(1, k))},
        devices=devices,
        cpus={"isolated": isolated} if isolated else None,
    )


def server(rng: Random, *, cores: int = 256, caches: int = 16, gpus: int = 8) -> NodeFacts:
    """Make a large server: two threads a core, 2 to 8 NUMA nodes, GPUs near nodes or caches.

    Half are in pieces: the kubelet has given CPUs to containers, or CPUs are isolated.
    """
    nodes, per = rng.choice([2, 4, 8]), cores // caches
    rows, llcs = [], {}
    numa: dict[int, list[str]] = {node: [] for node in range(nodes)}
    hybrid = rng.random() < 0.1
    for cache in range(caches):
        planes = [f"{first}-{first + per - 1}" for first in (cache * per, cores + cache * per)]
        llcs[cache] = ",".join(planes)
        node = cache * nodes // caches
        numa[node].append(llcs[cache])
        kind = ("efficiency" if cache % 2 else "performance") if hybrid else "standard"
        rows.append({"cpus": llcs[cache], "smt": planes, "llc": cache, "numa": node, "kind": kind})
    near = {node: ",".join(cpus) for node, cpus in numa.items()}
    how = rng.choice(["node", "node", "cache", "socket"])
    devices = []
    for number in range(gpus):
        cpus = near[number * nodes // gpus]
        if how == "cache":
            cpus = llcs[number * caches // gpus]
        if how == "socket":
            half = number * 2 // gpus
            cpus = ",".join(near[node] for node in range(nodes) if node * 2 // nodes == half)
        devices.append(gpu(f"gpu{number}", cpus))
        if number % 2 == 0:
            devices.append(gpu(f"nic{number}", cpus, kind="nic"))
    share = rng.choice([0.0, 0.0, 0.1, 0.3, 0.6])
    exclusive = [
        cpu
        for core in range(cores)
        if rng.random() < share
        for cpu in ([core, core + cores] if rng.random() < 0.7 else [core + rng.choice([0, cores])])
    ]
    isolated: list[int] = []
    if rng.random() < 0.5:
        part = rng.choice([0.5, 1.0])
        for cache in rng.sample(range(caches), 2):
            isolated += [c for c in range(cache * per, (cache + 1) * per) if rng.random() < part]
    return facts(
        rows,
        online=f"0-{2 * cores - 1}",
        llcs=llcs,
        numa=near,
        devices=devices,
        cpus={"isolated": sorted([*isolated, *(cpu + cores for cpu in isolated)])},
        kubelet={"present": True, "policy": "none", "exclusive": exclusive} if exclusive else None,
    )


def server_lanes(rng: Random, topology: Topology, *, lanes: int = 8) -> list[LaneRequest]:
    """Ask for lanes on a server; some are families with a member for each locality of the GPUs."""
    words: list[Preference] = [
        "gpu-local",
        "nic-local",
        "same-llc",
        "whole-cores",
        "performance",
        "isolated",
        "efficiency",
    ]
    localities: dict[str, list[str]] = {}
    for device in topology.of_type("gpu"):
        localities.setdefault(str(device.cpus), []).append(device.id)
    found: list[LaneRequest] = []
    for number in range(lanes):
        left = 16 - len(found) - (lanes - number - 1)
        family = rng.random() < 0.35 and len(localities) <= left
        hard = rng.choices([(), ("whole-cores",), ("same-llc",), ("gpu-local",)], [60, 15, 10, 15])[
            0
        ]
        soft = [*(["gpu-local"] if family else []), *rng.sample(words, rng.randint(0, 3))]
        parts = [*localities.values()] if family else [None]
        least = rng.randint(1, max(1, len(topology.cores) // (3 * lanes * len(parts))))
        if hard == ("same-llc",):
            least = min(least, 8)
        row: dict[str, Any] = {
            "tier": rng.randrange(4),
            "order": number,
            "min": least,
            "max": rng.choice([least, least + 2, least * 2, least * 4, None]),
            "share": rng.choice(["guarded", "guarded", "open", "exclusive"]),
            "prefer": tuple(word for word in dict.fromkeys(soft) if word not in hard),
            "require": hard,
        }
        for place, devices in enumerate(parts):
            name = f"l{number}@{place}" if family else f"l{number}"
            found.append(
                LaneRequest(name=name, devices=None if devices is None else tuple(devices), **row)
            )
    return found
