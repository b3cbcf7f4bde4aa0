"""Machines to draw and compare: retyped in few words from what such machines report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from compiler.model.facts import NodeFacts
from compiler.picture.machine_layout import machine_picture
from compiler.report.machine_text import render_machine_text
from tests.machines import gb10, gpu, hybrid, many_caches


def node(spec: Mapping[str, Any], *, name: str = "m", **labels: str) -> NodeFacts:
    """Make NodeFacts from a spec as it is written in a file."""

    def frozen(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(frozen, value))
        if isinstance(value, Mapping):
            return {key: frozen(one) for key, one in value.items()}
        return value

    return NodeFacts.model_validate(
        {
            "apiVersion": "tierc.dev/v1alpha1",
            "kind": "NodeFacts",
            "metadata": {"name": name, "labels": labels},
            "spec": frozen(spec),
        }
    )


def device(id_: str, bdf: str, cpus: str | None, **more: Any) -> dict[str, Any]:
    """Make a device with an address."""
    return {**gpu(id_, cpus, kind=id_.rstrip("0123456789")), "bdf": bdf, **more}


def workstation() -> NodeFacts:
    """16 cores with SMT in two L3, two GPUs, one of them of unknown place; CPU 31 isolated."""
    return node(
        {
            "arch": "x86_64",
            "cpus": {
                "possible": "0-31", "present": "0-31", "online": "0-31",
                "isolated": "15,31", "nohzFull": "15,31",
            },
            "cores": [
                {"cpus": "0-7,16-23", "smt": ["0-7", "16-23"], "llc": 0, "numa": 0, "package": 0},
                {"cpus": "8-15,24-31", "smt": ["8-15", "24-31"], "llc": 8, "numa": 0, "package": 0},
            ],
            "llcs": [
                {"id": 0, "level": 3, "cpus": "0-7,16-23", "sizeKiB": 32768},
                {"id": 8, "level": 3, "cpus": "8-15,24-31", "sizeKiB": 32768},
            ],
            "numa": [{"id": 0, "cpus": "0-31", "memoryMiB": 128680, "role": "cpu"}],
            "devices": [
                device("gpu0", "0000:01:00.0", "0-31", numa=0, model="NVIDIA RTX 6000 Ada"),
                device("gpu1", "0000:41:00.0", None, model="NVIDIA RTX 6000 Ada"),
                device("nic0", "0000:05:00.0", "0-31", numa=0, names=["enp5s0"], model="8086:15f3"),
            ],
            "kernel": {
                "release": "6.12.8", "preemptRt": False, "btf": True, "cgroup": "v2",
                "schedExt": {"supported": True, "state": "enabled", "ops": "lavd"},
                "cmdline": "isolcpus=15,31 nohz_full=15,31",
            },
            "kubelet": {"present": False},
            "warnings": ["gpu1: numa_node is -1 on a machine with several nodes"],
        },
        name="desk",
    )  # fmt: skip


def two_sockets() -> NodeFacts:
    """2 x 56 cores with SMT, 8 GPUs, 8 NICs, static kubelet: the usual AI server."""
    devices = []
    for i in range(8):
        near = "0-55,112-167" if i < 4 else "56-111,168-223"
        bus = 0x1A + 0x20 * i
        devices += [
            device(
                f"gpu{i}", f"0000:{bus:02x}:00.0", near, numa=i // 4,
                model="NVIDIA H100 80GB HBM3",
            ),
            device(
                f"nic{i}", f"0000:{bus + 1:02x}:00.0", near, numa=i // 4, names=[f"mlx5_{i}"],
                model="15b3:1021",
            ),
        ]  # fmt: skip
    rows = [
        {"cpus": f"{low},{high}", "smt": [low, high], "llc": i, "numa": i, "package": i}
        for i, (low, high) in enumerate((("0-55", "112-167"), ("56-111", "168-223")))
    ]
    return node(
        {
            "arch": "x86_64",
            "cpus": {"present": "0-223", "online": "0-223", "isolated": "", "nohzFull": ""},
            "cores": rows,
            "llcs": [
                {"id": i, "level": 3, "cpus": row["cpus"], "sizeKiB": 107520}
                for i, row in enumerate(rows)
            ],
            "numa": [
                {"id": i, "cpus": row["cpus"], "memoryMiB": 1031907, "role": "cpu"}
                for i, row in enumerate(rows)
            ],
            "devices": devices,
            "kubelet": {
                "present": True, "policy": "static", "reserved": "0-3,112-115",
                "exclusive": "4-11,116-123", "topologyPolicy": "restricted",
                "podsRoot": "kubepods.slice", "cgroupDriver": "systemd",
            },
            "kernel": {"release": "5.15.0-1042", "preemptRt": False, "cgroup": "v2",
                       "schedExt": {"supported": False}, "cmdline": ""},
        },
        name="h100-1",
    )  # fmt: skip


def grace(*, nodes: int = 9, kubelet: Mapping[str, Any] | None = None) -> NodeFacts:
    """GH200: 72 CPUs in node 0, one node of GPU memory, the others empty; no node near the GPU."""
    spec: dict[str, Any] = {
        "arch": "aarch64",
        "cpus": {"present": "0-71", "online": "0-71"},
        "cores": [{"cpus": "0-71", "llc": 0, "numa": 0, "package": 0}],
        "llcs": [{"id": 0, "level": 3, "cpus": "0-71", "sizeKiB": 116736}],
        "numa": [
            {"id": 0, "cpus": "0-71", "memoryMiB": 490000, "role": "cpu"},
            {"id": 1, "cpus": "", "memoryMiB": 97280, "role": "gpu-memory"},
            *({"id": i, "cpus": "", "memoryMiB": 0} for i in range(2, nodes)),
        ],
        "devices": [
            device("gpu0", "0009:01:00.0", "0-71", numa=0, model="NVIDIA GH200 480GB"),
            {"id": "mig0", "type": "gpu", "parent": "gpu0", "uuid": "MIG-0"},
            {"id": "mig1", "type": "gpu", "parent": "gpu0", "uuid": "MIG-1"},
        ],
    }
    if kubelet is not None:
        spec["kubelet"] = dict(kubelet)
    return node(spec, name="gh200")


def power9() -> NodeFacts:
    """2 x 8 cores SMT4, two cores a cache, packages 0 and 8, cores 0 and 1 offline."""
    rows, llcs = [], []
    for i in range(8):
        first = 8 + 8 * i
        cpus = f"{first}-{first + 7}"
        rows.append(
            {
                "cpus": cpus,
                "smt": [[first + t, first + 4 + t] for t in range(4)],
                "llc": i,
                "numa": 8 * (i // 4),
                "package": 8 * (i // 4),
            }
        )
        llcs.append({"id": i, "level": 3, "cpus": cpus, "sizeKiB": 10240})
    return node(
        {
            "arch": "ppc64le",
            "cpus": {"possible": "0-71", "present": "0-71", "online": "8-71"},
            "cores": rows,
            "llcs": llcs,
            "numa": [{"id": 0, "cpus": "8-39"}, {"id": 8, "cpus": "40-71"}],
            "devices": [
                device("gpu0", "0004:04:00.0", "8-39", numa=0, model="Tesla V100-SXM2-16GB"),
                device("gpu1", "0035:03:00.0", "40-71", numa=8, model="Tesla V100-SXM2-16GB"),
            ],
        },
        name="p9",
    )


def eight_sockets() -> NodeFacts:
    """8 x 28 cores with SMT, CPUs numbered round robin over the sockets."""
    rows = [
        {"cpus": f"{i}-{i + 440}:1/8", "smt": [f"{i}-{i + 216}:1/8", f"{i + 224}-{i + 440}:1/8"],
         "llc": i, "numa": i, "package": i}
        for i in range(8)
    ]  # fmt: skip
    return node(
        {
            "arch": "x86_64",
            "cpus": {"present": "0-447", "online": "0-447"},
            "cores": rows,
            "llcs": [{"id": i, "level": 3, "cpus": row["cpus"]} for i, row in enumerate(rows)],
            "numa": [{"id": i, "cpus": row["cpus"]} for i, row in enumerate(rows)],
        },
        name="big-8",
    )


def epyc() -> NodeFacts:
    """192 cores with SMT in 24 L3 of 8 cores."""
    return many_caches(24, 8)


def virtual() -> NodeFacts:
    """A virtual machine: 32 packages of one core in one node with one L3."""
    return node(
        {
            "arch": "x86_64",
            "cpus": {"online": "0-31"},
            "cores": [{"cpus": str(i), "llc": 0, "numa": 0, "package": i} for i in range(32)],
            "llcs": [{"id": 0, "level": 3, "cpus": "0-31"}],
            "numa": [{"id": 0, "cpus": "0-31"}],
            "virtualization": {"vm": True, "hypervisor": "kvm"},
        },
        name="vm",
    )


def sub_numa() -> NodeFacts:
    """One package, one L3, four NUMA nodes below it: the cache holds the nodes."""
    return node(
        {
            "arch": "x86_64",
            "cpus": {"online": "0-15"},
            "cores": [
                {"cpus": f"{4 * i}-{4 * i + 3}", "llc": 0, "numa": i, "package": 0}
                for i in range(4)
            ],
            "llcs": [{"id": 0, "level": 3, "cpus": "0-15"}],
            "numa": [{"id": i, "cpus": f"{4 * i}-{4 * i + 3}"} for i in range(4)],
        },
        name="snc",
    )


MACHINES: Final[Mapping[str, Callable[[], NodeFacts]]] = {
    "gb10": gb10,
    "hybrid": hybrid,
    "workstation": workstation,
    "two-sockets": two_sockets,
    "grace": grace,
    "power9": power9,
    "eight-sockets": eight_sockets,
    "epyc": epyc,
    "virtual": virtual,
    "sub-numa": sub_numa,
}


def draw(sample: NodeFacts, width: int = 80, **more: Any) -> str:
    """Draw a machine as text."""
    return render_machine_text(machine_picture(sample), width=width, **more)
