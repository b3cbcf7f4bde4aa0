"""Machines of every kind that people have, generated from a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from compiler.cpuset import CpuSet, union
from compiler.facts.compress import compress
from compiler.facts.table import CpuRow
from compiler.model.facts import CoreKind, NodeFacts

MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X")


@dataclass
class Draft:
    """A machine in the making; CPUs as sets, everything else as it is written in a file."""

    cores: list[CpuRow]
    """One row per core, of its lowest CPU; ``core`` holds all its CPUs."""
    nodes: dict[int, CpuSet]
    caches: dict[int, CpuSet]
    arch: str = "x86_64"
    devices: list[dict[str, Any]] = field(default_factory=list)

    @property
    def cpus(self) -> CpuSet:
        return union(row.core for row in self.cores)


# --- generated --------------------------------------------------------------------------------


def generated(rng: Random) -> NodeFacts:
    """Make a machine of 1 to 256 cores; small and middling ones more often than large ones."""
    most = rng.choices([4, 16, 64, 256], [2, 5, 5, 1])[0]
    draft = _cores(rng, rng.randint(max(1, most // 4), most))
    _memory_nodes(rng, draft)
    add_gpus(rng, draft)
    _nics(rng, draft)
    return _facts(rng, draft, possible=_offline(rng, draft))


def _cores(rng: Random, most: int) -> Draft:
    """Divide cores over sockets, NUMA nodes and caches, and number their CPUs."""
    sockets = rng.choice([1, 1, 2, 2, 2, 4]) if most >= 4 else 1
    per_socket = rng.choice([1, 1, 1, 2, 4])
    per_node = rng.choice([1, 1, 2, 4])  # caches of a node
    places = sockets * per_socket * per_node
    if places > most:
        sockets, per_socket, per_node, places = 1, 1, 1, 1
    size = max(1, most // places)
    llc_known = rng.random() < 0.9
    numa_known = rng.random() < 0.93
    torn = rng.random() < 0.05  # a cache over two nodes, as a hypervisor may show
    lame = rng.random() < 0.15  # caches of different sizes
    kinds = _kinds(rng)
    smt = rng.choice([1, 1, 2, 2, 2, 4])
    cells: list[tuple[int, int, int, CoreKind, int]] = []  # socket, node, cache, kind, width
    for place in range(places):
        node = place // per_node
        for n in range(rng.randint(1, size) if lame else size):
            kind = kinds(place, n)
            width = 1 if kind in ("efficiency", "lowpower") else smt
            at = rng.randrange(max(1, places // per_node)) if torn else node
            cells.append((node // per_socket, at, place, kind, width))
    rows = [
        CpuRow(
            cpu=cpus[0],
            core=CpuSet(cpus),
            llc=llc if llc_known else None,
            numa=node if numa_known else None,
            package=socket,
            kind=kind,
        )
        for cpus, (socket, node, llc, kind, _) in zip(
            _numbered(rng, [width for *_, width in cells], [row[0] for row in cells]),
            cells,
            strict=True,
        )
    ]
    ids = {row.numa for row in rows} - {None}
    gaps = rng.random() < 0.15  # node ids need not count up
    renamed = {node: 8 * node + 2 if gaps else node for node in ids if node is not None}
    rows = [
        CpuRow(
            cpu=row.cpu,
            core=row.core,
            llc=row.llc,
            numa=None if row.numa is None else renamed[row.numa],
            package=row.package,
            kind=row.kind,
        )
        for row in rows
    ]
    return Draft(
        cores=rows,
        nodes={
            node: union(row.core for row in rows if row.numa == node) for node in renamed.values()
        },
        caches={
            llc: union(row.core for row in rows if row.llc == llc)
            for llc in sorted({row.llc for row in rows if row.llc is not None})
        },
        arch=rng.choice(["x86_64", "x86_64", "aarch64"]),
    )


def _kinds(rng: Random) -> Any:
    """Return what kind the n-th core of a cache is."""
    match rng.choice(["one", "one", "one", "by cache", "mixed", "three"]):
        case "by cache":
            return lambda place, n: "performance" if place % 2 == 0 else "efficiency"
        case "mixed":
            return lambda place, n: "performance" if n % 2 == 0 else "efficiency"
        case "three":
            words: list[CoreKind] = ["performance", "efficiency", "lowpower"]
            return lambda place, n: rng.choice(words)
        case _:
            return lambda place, n: "standard"


def _numbered(rng: Random, widths: Sequence[int], sockets: Sequence[int]) -> list[list[int]]:
    """Number CPUs: siblings adjacent, or first siblings of all cores first; sockets in turn."""
    order = list(range(len(widths)))
    style = rng.choice(["adjacent", "planes", "planes", "interleaved", "shuffled"])
    if style == "interleaved":
        seen = Counter[int]()
        ranks = []
        for core in order:
            ranks.append((seen[sockets[core]], sockets[core]))
            seen[sockets[core]] += 1
        order.sort(key=lambda core: ranks[core])
    if style == "shuffled" and len(order) <= 64:
        rng.shuffle(order)
    ids = iter(range(rng.choice([0, 0, 0, 1]), 4096))
    out: list[list[int]] = [[] for _ in widths]
    if style == "adjacent":
        for core in order:
            out[core] = [next(ids) for _ in range(widths[core])]
        return out
    for turn in range(max(widths)):
        for core in order:
            if turn < widths[core]:
                out[core].append(next(ids))
    return out


def _memory_nodes(rng: Random, draft: Draft) -> None:
    if draft.nodes and rng.random() < 0.15:
        first = max(draft.nodes) + 1
        step = rng.choice([1, 8])
        for n in range(rng.choice([1, 2, 8])):
            draft.nodes[first + n * step] = CpuSet()


def _offline(rng: Random, draft: Draft) -> CpuSet | None:
    """Take some CPUs offline; return all that are possible, None where that is not told."""
    possible = draft.cpus
    if rng.random() < 0.2:
        gone = CpuSet(cpu for cpu in possible if rng.random() < 0.15) & (
            possible - CpuSet((possible.lowest,))
        )
        if rng.random() < 0.3:  # SMT off at run time
            gone = union(row.core - CpuSet((row.core.lowest,)) for row in draft.cores)
        draft.cores = [
            CpuRow(
                cpu=left.lowest,
                core=left,
                llc=row.llc,
                numa=row.numa,
                package=row.package,
                kind=row.kind,
            )
            for row in draft.cores
            if (left := row.core - gone)
        ]
        draft.nodes = {id: cpus - gone for id, cpus in draft.nodes.items()}
        draft.caches = {id: left for id, cpus in draft.caches.items() if (left := cpus - gone)}
        live = {row.llc for row in draft.cores}
        draft.caches = {id: cpus for id, cpus in draft.caches.items() if id in live}
    if rng.random() < 0.2:  # room for hot-plugging
        return possible | CpuSet(range(possible.highest + 1, possible.highest + 9))
    return possible if rng.random() < 0.5 else None


# --- devices ----------------------------------------------------------------------------------


def add_gpus(rng: Random, draft: Draft) -> None:
    count = rng.choice([0, 1, 1, 2, 2, 4, 4, 8])
    style = rng.choice(
        ["numa", "numa", "numa", "numa", "llc", "machine", "unknown", "half", "memory", "odd"]
    )
    model = rng.choice(MODELS)
    for n in range(count):
        row: dict[str, Any] = {
            "id": f"gpu{n}",
            "type": "gpu",
            "bdf": f"0000:{0x10 + 8 * n:02x}:00.0",
            "model": model if rng.random() < 0.9 else rng.choice(MODELS),
        }
        if rng.random() < 0.8:
            row["uuid"] = f"GPU-{n:08x}-0000-0000-0000-000000000000"
        if rng.random() < 0.05:
            del row["bdf"]
        draft.devices.append(row | _near(rng, draft, style, n, count))
    if count and rng.random() < 0.12:  # MIG instances of the first
        draft.devices += [
            {"id": f"gpu0-mig{i}", "type": "gpu", "parent": "gpu0", "uuid": f"MIG-{i:04x}"}
            for i in range(rng.choice([2, 7]))
        ]


def _nics(rng: Random, draft: Draft) -> None:
    count = rng.choice([0, 0, 1, 2, 8])
    style = rng.choice(["numa", "numa", "machine", "unknown", "half"])
    draft.devices += [
        {"id": f"nic{n}", "type": "nic", "bdf": f"0001:{0x10 + 4 * n:02x}:00.0"}
        | _near(rng, draft, style, n, count)
        for n in range(count)
    ]


def _near(rng: Random, draft: Draft, style: str, n: int, count: int) -> dict[str, Any]:
    """Say where a device is, in one of the ways in which sources know it."""
    nodes = [id for id, cpus in draft.nodes.items() if cpus]
    bare = [id for id, cpus in draft.nodes.items() if not cpus]
    if style == "half":
        style = rng.choice(["numa", "unknown"])
    if style == "numa" and nodes:
        node = nodes[n * len(nodes) // count]
        if rng.random() < 0.2:
            return {"numa": node}  # its CPUs follow from the node
        return _locality(draft.nodes[node], "numa", numa=node)
    if style == "llc" and draft.caches:
        ids = sorted(draft.caches)
        return _locality(draft.caches[ids[n % len(ids)]], "llc")
    if style == "machine":
        return _locality(draft.cpus, "machine")
    if style == "memory" and bare and nodes:
        node = bare[n % len(bare)]
        if rng.random() < 0.2:
            return {"numa": node}  # a node without CPUs: unknown which are near
        return _locality(draft.nodes[nodes[n % len(nodes)]], "numa", numa=node)
    if style == "odd":
        some = CpuSet(cpu for cpu in draft.cpus if rng.random() < 0.4)
        return _locality(some, "unknown")  # maybe half cores, maybe none
    return {}


def _locality(cpus: CpuSet, scope: str, **more: Any) -> dict[str, Any]:
    return {
        "locality": {"cpus": str(cpus), "scope": scope, "confidence": "measured"},
        **more,
    }


# --- what the kernel, the kubelet and the operator say ------------------------------------------


def _facts(rng: Random, draft: Draft, possible: CpuSet | None) -> NodeFacts:
    online = draft.cpus
    groups = compress(
        [
            CpuRow(
                cpu=cpu,
                core=row.core,
                llc=row.llc,
                numa=row.numa,
                package=row.package,
                kind=row.kind,
            )
            for row in draft.cores
            for cpu in row.core
        ]
    )
    nodes = sorted(draft.nodes)
    far = rng.random() < 0.5
    spec: dict[str, Any] = {
        "arch": draft.arch,
        "cpus": {"online": online, **({} if possible is None else {"possible": possible})},
        "cores": tuple(group.model_dump(by_alias=True, exclude_none=True) for group in groups),
        "llcs": tuple({"id": i, "level": 3, "cpus": c} for i, c in sorted(draft.caches.items())),
        "numa": tuple(
            {
                "id": i,
                "cpus": draft.nodes[i],
                "distances": tuple(
                    10 if i == other else rng.randint(11, 255) for other in nodes
                )  # not the same both ways
                if far
                else (),
            }
            for i in nodes
        ),
        "devices": tuple(draft.devices),
    }
    plain = NodeFacts.model_validate(
        {
            "apiVersion": "tierc.dev/v1alpha1",
            "kind": "NodeFacts",
            "metadata": {"name": "m"},
            "spec": spec,
        }
    )
    return overlaid(rng, plain)


def overlaid(rng: Random, facts: NodeFacts) -> NodeFacts:
    """Add what the kernel, a kubelet and an operator may have decided about a machine."""
    spec = facts.spec
    online = spec.cpus.online
    cores = [core for group in spec.cores for core in group.cores()]

    def some(share: float) -> CpuSet:
        """Return about this share of the CPUs, mostly as whole cores."""
        if rng.random() < 0.8:
            return union(core for core in cores if rng.random() < share)
        return CpuSet(cpu for cpu in online if rng.random() < share)

    cpus: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    if rng.random() < 0.2:
        cpus["isolated"] = some(0.3)
        if rng.random() < 0.5:
            cpus["nohz_full"] = cpus["isolated"]
    elif rng.random() < 0.1:
        cpus["nohz_full"] = some(0.5)
    if rng.random() < 0.15:
        cpus["allowed"] = some(0.7) or online
        if rng.random() < 0.3:  # a list made for a larger machine
            cpus["allowed"] |= CpuSet(range(online.highest + 1, online.highest + 17))
    if rng.random() < 0.06:
        overrides["isolated"] = some(0.3)
    if rng.random() < 0.06:
        overrides["allowed"] = some(0.8) or online
    gpus = [device.id for device in spec.devices if device.type == "gpu"]
    if gpus and rng.random() < 0.08:
        known: dict[str, Any] = {"id": rng.choice(gpus)}
        if spec.numa and rng.random() < 0.5:
            known["numa"] = rng.choice(spec.numa).id
        else:
            known["cpus"] = some(0.5)
        overrides["devices"] = (known,)
    kubelet = _kubelet(rng, some) if rng.random() < 0.35 else None
    kernel = {
        "release": rng.choice(["6.17.0", "6.8.0"]),
        "sched_ext": {"supported": rng.random() < 0.8},
        "cgroup": "v2",
    }
    if rng.random() < 0.1:
        kernel["preempt_rt"] = True
    changed = spec.model_copy(
        update={
            "cpus": spec.cpus.model_validate(
                {**given(spec.cpus), **{_alias(k): v for k, v in cpus.items()}}
            ),
            "kernel": spec.kernel.model_validate({_alias(k): v for k, v in kernel.items()}),
            "overrides": spec.overrides.model_validate(overrides),
        }
    )
    whole = {
        "apiVersion": facts.api_version,
        "kind": facts.kind,
        "metadata": {"name": "m", "labels": {"pool": rng.choice(["a", "b"])}},
        "spec": given(changed) | ({} if kubelet is None else {"kubelet": kubelet}),
    }
    return NodeFacts.model_validate(whole)


def _kubelet(rng: Random, some: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"present": True, "controlPlane": rng.random() < 0.25}
    if rng.random() < 0.8:
        out["podsRoot"] = rng.choice(["kubepods.slice", "kubepods"])
    out["policy"] = rng.choice(["none", "none", "static"])
    if out["policy"] == "static":
        if rng.random() < 0.8:
            out["reserved"] = some(0.6)
        if rng.random() < 0.5:
            out["strictReservation"] = rng.random() < 0.5
    if rng.random() < 0.3:
        out["exclusive"] = some(0.15)
    return out


def _alias(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def given(model: Any) -> dict[str, Any]:
    """Return a model as its own validator takes it."""
    return {
        field.alias or name: _value(value)
        for name, field in type(model).model_fields.items()
        if (value := getattr(model, name)) is not None
    }


def _value(value: Any) -> Any:
    if hasattr(type(value), "model_fields"):
        return given(value)
    return tuple(_value(item) for item in value) if isinstance(value, tuple) else value
