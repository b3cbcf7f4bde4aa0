"""Nodes with GPUs in several places, as NodeFacts documents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.policies import HEAD

KERNEL = {
    "release": "6.17.0",
    "preemptRt": False,
    "btf": True,
    "schedExt": {"supported": True, "state": "disabled"},
    "cgroup": "v2",
}


def node(
    cores: Sequence[Mapping[str, Any]],
    devices: Sequence[Mapping[str, Any]],
    *,
    online: str,
    llcs: Mapping[int, str],
    numa: Mapping[int, str],
    arch: str = "x86_64",
    **spec: Any,
) -> str:
    """Return the document of a node called ``box``; facts are written in flow style."""
    body = {
        "arch": arch,
        "cpus": {"online": online, "isolated": ""},
        "cores": list(cores),
        "llcs": [{"id": i, "level": 3, "cpus": cpus} for i, cpus in llcs.items()],
        "numa": [{"id": i, "cpus": cpus} for i, cpus in numa.items()],
        "devices": list(devices),
        "kernel": KERNEL,
        **spec,
    }
    rows = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in body.items())
    return f"{HEAD}kind: NodeFacts\nmetadata: {{name: box, labels: {{pool: gpu}}}}\nspec:\n{rows}"


def device(
    id: str, cpus: str | None, *, bus: int, kind: str = "gpu", **more: Any
) -> dict[str, Any]:
    """Return a device with the CPUs near it, None where nothing is known of them."""
    row: dict[str, Any] = {"id": id, "type": kind, "bdf": f"0000:{bus:02x}:00.0", **more}
    if cpus is not None:
        row["locality"] = {"cpus": cpus, "scope": "numa", "confidence": "measured"}
    return row


SOCKETS = ("0-7,16-23", "8-15,24-31")


def two_sockets(
    left: int = 4, right: int = 4, extra: Sequence[Mapping[str, Any]] = (), **spec: Any
) -> str:
    """Return two sockets of 8 cores with two threads each, and GPUs near either."""
    near = [SOCKETS[0]] * left + [SOCKETS[1]] * right
    return node(
        [
            {"cpus": cpus, "smt": cpus.split(","), "llc": i, "numa": i, "package": i}
            for i, cpus in enumerate(SOCKETS)
        ],
        [*(device(f"gpu{i}", cpus, bus=16 + i) for i, cpus in enumerate(near)), *extra],
        online="0-31",
        llcs=dict(enumerate(SOCKETS)),
        numa=dict(enumerate(SOCKETS)),
        **spec,
    )


def small(cores: int, **spec: Any) -> str:
    """Return two NUMA nodes of ``cores`` cores with one thread, a GPU near each."""
    sides = (f"0-{cores - 1}", f"{cores}-{2 * cores - 1}")
    return node(
        [{"cpus": cpus, "llc": i, "numa": i} for i, cpus in enumerate(sides)],
        [device(f"gpu{i}", cpus, bus=16 + i) for i, cpus in enumerate(sides)],
        online=f"0-{2 * cores - 1}",
        llcs=dict(enumerate(sides)),
        numa=dict(enumerate(sides)),
        **spec,
    )


def chiplets() -> str:
    """Return 16 cores in four caches and two NUMA nodes; each GPU is near one cache.

    As on machines with MI250X, the order of the GPUs is not that of the caches.
    """
    caches = ("0-3", "4-7", "8-11", "12-15")
    return node(
        [{"cpus": cpus, "llc": i, "numa": i // 2, "package": 0} for i, cpus in enumerate(caches)],
        [device(f"gpu{i}", caches[near], bus=16 + i) for i, near in enumerate((3, 2, 0, 1))],
        online="0-15",
        llcs=dict(enumerate(caches)),
        numa={0: "0-7", 1: "8-15"},
    )


def grace() -> str:
    """Return two Grace chips, whose GPUs' memory is NUMA nodes 2 and 10, without CPUs."""
    sides = ("0-7", "8-15")
    return node(
        [{"cpus": cpus, "llc": i, "numa": i, "package": i} for i, cpus in enumerate(sides)],
        [device(f"gpu{i}", cpus, bus=16 + i, numa=(2, 10)[i]) for i, cpus in enumerate(sides)],
        online="0-15",
        llcs=dict(enumerate(sides)),
        numa={0: "0-7", 1: "8-15", 2: "", 10: "", 18: ""},
        arch="aarch64",
    )
