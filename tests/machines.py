"""Machines for tests, as NodeFacts built from a few words, and strategies for random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, get_args

from hypothesis import strategies as st

from compiler.model.base import Preference
from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest


def facts(
    cores: Sequence[Mapping[str, Any]],
    *,
    online: str,
    llcs: Mapping[int, Any] | None = None,
    numa: Mapping[int, Any] | None = None,
    devices: Sequence[Mapping[str, Any]] = (),
    cpus: Mapping[str, Any] | None = None,
    kubelet: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    arch: str = "x86_64",
) -> NodeFacts:
    """Make NodeFacts from rows of core groups, as they are written in a file."""
    spec: dict[str, Any] = {
        "arch": arch,
        "cpus": {"online": online, **(cpus or {})},
        "cores": tuple(
            {**row, "smt": tuple(row["smt"])} if "smt" in row else dict(row) for row in cores
        ),
        "llcs": tuple({"id": i, "level": 3, "cpus": c} for i, c in (llcs or {}).items()),
        "numa": tuple({"id": i, "cpus": c} for i, c in (numa or {}).items()),
        "devices": tuple(devices),
        "overrides": dict(overrides or {}),
    }
    if kubelet is not None:
        spec["kubelet"] = dict(kubelet)
    return NodeFacts.model_validate(
        {
            "apiVersion": "tierc.dev/v1alpha1",
            "kind": "NodeFacts",
            "metadata": {"name": "m"},
            "spec": spec,
        }
    )


def gpu(
    name: str, cpus: str | None, *, numa: int | None = None, kind: str = "gpu"
) -> dict[str, Any]:
    """Make a device row."""
    row: dict[str, Any] = {"id": name, "type": kind}
    if numa is not None:
        row["numa"] = numa
    if cpus is not None:
        row["locality"] = {"cpus": cpus, "scope": "numa", "confidence": "measured"}
    return row


def gb10(**more: Any) -> NodeFacts:
    """Make a GB10: efficiency cores 0-4,10-14, performance cores 5-9,15-19, two caches."""
    rows = [
        {"cpus": cpus, "kind": kind, "llc": llc, "numa": 0}
        for llc, kind, cpus in (
            (0, "efficiency", "0-4"),
            (0, "performance", "5-9"),
            (1, "efficiency", "10-14"),
            (1, "performance", "15-19"),
        )
    ]
    return facts(
        rows,
        online="0-19",
        llcs={0: "0-9", 1: "10-19"},
        numa={0: "0-19"},
        devices=(gpu("gpu0", "0-19", numa=0),),
        arch="aarch64",
        **more,
    )


def pairs(cores: int, *, adjacent: bool, **more: Any) -> NodeFacts:
    """Make a one-cache SMT machine: siblings are (0,1), (2,3)... or (0,n), (1,n+1)..."""
    last = 2 * cores - 1
    smt = (
        [f"0-{last - 1}:1/2", f"1-{last}:1/2"]
        if adjacent
        else [f"0-{cores - 1}", f"{cores}-{last}"]
    )
    if cores == 1:
        smt = ["0", "1"]
    more.setdefault("numa", {0: f"0-{last}"})
    return facts(
        [{"cpus": f"0-{last}", "smt": smt, "llc": 0, "numa": 0}],
        online=f"0-{last}",
        llcs={0: f"0-{last}"},
        **more,
    )


def plain(cores: int, **more: Any) -> NodeFacts:
    """Make a machine of equal cores without SMT in one cache."""
    last = cores - 1
    return facts(
        [{"cpus": f"0-{last}", "llc": 0, "numa": 0}],
        online=f"0-{last}",
        llcs={0: f"0-{last}"},
        numa={0: f"0-{last}"},
        **more,
    )


def many_caches(caches: int, cores: int, **more: Any) -> NodeFacts:
    """Make a one-node machine with SMT pairs (i, n+i) and ``cores`` cores in each cache."""
    n = caches * cores
    rows, llcs = [], {}
    for i in range(caches):
        low, high = (
            f"{i * cores}-{(i + 1) * cores - 1}",
            f"{n + i * cores}-{n + (i + 1) * cores - 1}",
        )
        llcs[i] = f"{low},{high}"
        rows.append({"cpus": llcs[i], "smt": [low, high], "llc": i, "numa": 0})
    return facts(rows, online=f"0-{2 * n - 1}", llcs=llcs, numa={0: f"0-{2 * n - 1}"}, **more)


def two_nodes(**more: Any) -> NodeFacts:
    """Make 32 cores without SMT in two NUMA nodes, gpu0 near node 0."""
    more.setdefault("devices", (gpu("gpu0", "0-15", numa=0),))
    return facts(
        [{"cpus": "0-15", "llc": 0, "numa": 0}, {"cpus": "16-31", "llc": 1, "numa": 1}],
        online="0-31",
        llcs={0: "0-15", 1: "16-31"},
        numa={0: "0-15", 1: "16-31"},
        **more,
    )


def hybrid(**more: Any) -> NodeFacts:
    """Make a hybrid laptop: 4 SMT performance cores, 4 efficiency, 2 low-power outside the L3."""
    return facts(
        [
            {
                "cpus": "0-7",
                "smt": ["0-6:1/2", "1-7:1/2"],
                "llc": 0,
                "numa": 0,
                "kind": "performance",
            },
            {"cpus": "8-11", "llc": 0, "numa": 0, "kind": "efficiency"},
            {"cpus": "12-13", "llc": 12, "numa": 0, "kind": "lowpower"},
        ],
        online="0-13",
        llcs={0: "0-11", 12: "12-13"},
        numa={0: "0-13"},
        **more,
    )


def random_machine(rng: Random, max_cores: int, max_caches: int = 3) -> NodeFacts:
    """Make a machine with any mixture of the traits that placement looks at."""
    n = rng.choice([1, 2, *range(3, max_cores + 1), *range(max(1, max_cores - 3), max_cores + 1)])
    smt = rng.choice(["none", "some", "all"])
    widths = [{"none": 1, "all": 2, "some": rng.choice([1, 2])}[smt] for _ in range(n)]
    siblings = _numbered(rng, widths)
    cpus = sorted(cpu for core in siblings for cpu in core)
    caches = rng.choice([0, 1, *range(2, max_caches + 1), *range(2, max_caches + 1)])
    nodes = rng.choice([0, 1, 1, 2])
    kinds = rng.choice(
        [["standard"], ["performance", "efficiency"], ["performance", "efficiency", "lowpower"]]
    )
    cache_of = [rng.randrange(caches) if caches else None for _ in range(n)]
    node_of = [rng.randrange(nodes) if nodes else None for _ in range(n)]
    if rng.random() < 0.1:
        cache_of[0] = None
    rows = [
        {
            "cpus": siblings[core],
            "smt": [[cpu] for cpu in siblings[core]],
            "kind": rng.choice(kinds),
            **({} if cache_of[core] is None else {"llc": cache_of[core]}),
            **({} if node_of[core] is None else {"numa": node_of[core]}),
        }
        for core in range(n)
    ]

    def members(of: list[int | None], place: int) -> list[int]:
        return sorted(cpu for core in range(n) if of[core] == place for cpu in siblings[core])

    def some(share: float) -> list[int]:
        """Return about this share of the CPUs, mostly as whole cores."""
        if rng.random() < 0.7:
            return sorted(cpu for core in siblings if rng.random() < share for cpu in core)
        return [cpu for cpu in cpus if rng.random() < share]

    devices: list[dict[str, Any]] = []
    for name in ("gpu0", "gpu1", "nic0"):
        near = rng.choice(["absent", "all", "some", "some", "some", "unknown"])
        if near != "absent":
            row = gpu(name, None, kind=name[:3])
            if near != "unknown":
                row["locality"] = {"cpus": cpus if near == "all" else some(0.6), "scope": "numa"}
            devices.append(row)
    kubelet = {
        "present": True,
        "policy": rng.choice(["none", "static"]),
        "reserved": some(0.6),
        "exclusive": some(0.2),
        "controlPlane": rng.random() < 0.5,
    }
    masks: dict[str, Any] = {}
    if rng.random() < 0.4:
        masks["isolated"] = some(0.4)
    if rng.random() < 0.2:
        masks["allowed"] = some(0.7) or cpus
    return facts(
        rows,
        online=",".join(map(str, cpus)),
        llcs={cache: members(cache_of, cache) for cache in range(caches)},
        numa={node: members(node_of, node) for node in range(nodes)},
        devices=devices,
        cpus=masks,
        kubelet=kubelet if rng.random() < 0.2 else None,
    )


def _numbered(rng: Random, widths: Sequence[int]) -> list[list[int]]:
    """Number the CPUs of cores: siblings adjacent, or all first siblings first; maybe with gaps."""
    ids = iter(range(rng.choice([0, 0, 1]), 4 * len(widths)))
    if rng.random() < 0.5:
        return [[next(ids) for _ in range(width)] for width in widths]
    order = list(range(len(widths)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    siblings: list[list[int]] = [[] for _ in widths]
    for turn in (0, 1):
        for core in order:
            if turn < widths[core]:
                siblings[core].append(next(ids))
    return siblings


def machines(*, max_cores: int = 7, max_caches: int = 3) -> st.SearchStrategy[NodeFacts]:
    """Draw a machine; from a seed, because drawing part by part makes nearly all of them tiny."""
    return st.integers(0, 2**48).map(
        lambda seed: random_machine(Random(seed), max_cores, max_caches)
    )


def cached_machines(*, max_cores: int, max_caches: int) -> st.SearchStrategy[NodeFacts]:
    """Draw a machine of equal cores in many caches of any size, with ids in any order."""

    def make(seed: int) -> NodeFacts:
        rng = Random(seed)
        n = rng.randint(4, max_cores)
        caches = rng.randint(2, max_caches)
        of = [rng.randrange(caches) for _ in range(n)]
        kinds = rng.choice([["standard"], ["performance", "efficiency"]])
        nodes = rng.choice([1, 1, 2])
        node_of_cache = [rng.randrange(nodes) for _ in range(caches)]
        torn = rng.random() < 0.2  # a cache over two nodes
        node = [rng.randrange(nodes) if torn else node_of_cache[of[i]] for i in range(n)]
        return facts(
            [
                {"cpus": [i], "llc": of[i], "numa": node[i], "kind": rng.choice(kinds)}
                for i in range(n)
            ],
            online=f"0-{n - 1}",
            llcs={c: [i for i in range(n) if of[i] == c] for c in range(caches)},
            numa={k: [i for i in range(n) if node[i] == k] for k in range(nodes)},
        )

    return st.integers(0, 2**48).map(make)


WORDS: Final[tuple[Preference, ...]] = get_args(Preference)


def random_lane(rng: Random, name: str, most: int) -> LaneRequest:
    """Make a lane request of up to about ``most`` cores; most require nothing."""
    words = rng.sample(WORDS, len(WORDS))
    hard = rng.choice([0, 0, 0, 0, 1, 1, 2])
    soft = hard + rng.randrange(4)
    least = rng.randint(1, max(1, most // 2))
    return LaneRequest(
        name=name,
        tier=rng.randrange(3),
        order=rng.randrange(2),
        min=least,
        max=rng.choice([least, None, least + 1, least + most]),
        share=rng.choice(["open", "guarded", "guarded", "exclusive"]),
        prefer=tuple(words[hard:soft]),
        require=tuple(words[:hard]),
        devices=rng.choice([None, None, None, ("gpu0",), ("gpu1",), ()]),
    )


def lane_lists(lanes: int, most: int) -> st.SearchStrategy[list[LaneRequest]]:
    """Draw up to ``lanes`` requests."""

    def make(seed: int) -> list[LaneRequest]:
        rng = Random(seed)
        return [random_lane(rng, f"l{i}", most) for i in range(rng.randint(0, lanes))]

    return st.integers(0, 2**48).map(make)
