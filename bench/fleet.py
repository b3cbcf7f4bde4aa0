"""A fleet: policy repositories of any number of nodes of ten kinds, and of any number of intents.

Like real fleets, no two nodes of a kind are equal: GPUs have UUIDs of their own and memory differs
by a few MiB.  Everything follows from the number of the node, so the same call gives the same
bytes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from compiler.cpuset import CpuSet
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts

API = "tierc.dev/v1alpha1"
KERNEL = "6.14.0-27-generic"


@dataclass(frozen=True)
class Kind:
    """Machines alike.

    Attributes:
        name: begins the names of the nodes.
        cores: of a socket; ``share`` of them have one last-level cache.
        gpus, nics: of the machine, the same number near each socket.
        scx: whether the kernel takes a sched_ext scheduler.
    """

    name: str
    arch: str
    sockets: int
    cores: int
    share: int
    threads: int
    gpu: str
    gpus: int
    nics: int = 2
    scx: bool = True


KINDS = (
    Kind("spark", "aarch64", 1, 20, 10, 1, "NVIDIA GB10", 1),
    Kind("ws", "x86_64", 1, 16, 8, 2, "NVIDIA RTX 6000 Ada", 1),
    Kind("ws4", "x86_64", 1, 32, 8, 2, "NVIDIA RTX A6000", 4, scx=False),
    Kind("l40s", "x86_64", 2, 32, 32, 2, "NVIDIA L40S", 4),
    Kind("a100", "x86_64", 2, 64, 8, 2, "NVIDIA A100-SXM4-80GB", 8, 8, scx=False),
    Kind("h100", "x86_64", 2, 56, 56, 2, "NVIDIA H100 80GB HBM3", 8, 10),
    Kind("h200", "x86_64", 2, 96, 8, 2, "NVIDIA H200", 8, 10),
    Kind("gh200", "aarch64", 1, 72, 72, 1, "NVIDIA GH200 480GB", 1),
    Kind("mi300", "x86_64", 2, 96, 8, 2, "AMD Instinct MI300X", 8, 8),
    Kind("cpu", "x86_64", 2, 24, 24, 2, "", 0),
)

PROJECT = f"""\
apiVersion: {API}
kind: Project
metadata: {{name: fleet}}
spec:
  enforce: [{{mode: auto, acceptUnenforcedCpuLimits: true}}]
  onUnplaceable: quarantine
  targets: {{taskset: {{}}, bpf: {{}}}}
"""

INTENTS = {
    "chat": """\
  nodes: {matchLabels: {pool: inference}}
  workload: {engine: vllm, version: "0.24.0", cgroup: "@pods/**"}
  protect: [decode, {path: ttft, tier: interactive}]
  prefer: [gpu-local, performance, whole-cores]
  lane: {name: serving, cores: {min: 3, max: 6}}
""",
    "embeddings": """\
  nodes: {matchLabels: {pool: inference}}
  workload: {match: [{comm: embed-server, cgroup: "@pods/**"}]}
  protect: all
  lane: {cores: 1}
""",
    "batch": """\
  workload:
    match:
      - {cgroup: "@pods/kubepods-besteffort.slice/**"}
      - {cgroup: "@pods/besteffort/**"}
  demote: background
  prefer: [leftovers]
""",
    "builds": """\
  workload: {match: [{cgroup: "ci.slice/**"}]}
  demote: idle
""",
    "node-infra": """\
  workload: {group: node-infra}
  keep: system
""",
}


def facts(kind: Kind, number: int) -> NodeFacts:
    """Return the facts of a node of a kind."""
    total = kind.sockets * kind.cores

    def cpus(first: int, count: int) -> CpuSet:
        cores = range(first, first + count)
        return CpuSet(core + total * plane for plane in range(kind.threads) for core in cores)

    caches = range(total // kind.share)
    sockets = [cpus(kind.cores * s, kind.cores) for s in range(kind.sockets)]
    online = f"0-{total * kind.threads - 1}"
    numa = [
        {
            "id": s,
            "cpus": str(local),
            "memoryMiB": 515_000 - number % 7,
            "distances": [10 if s == other else 32 for other in range(kind.sockets)],
            "role": "cpu",
        }
        for s, local in enumerate(sockets)
    ]
    groups = []
    for cache in caches:
        first = cache * kind.share
        planes = [
            str(CpuSet(range(first + total * p, first + total * p + kind.share)))
            for p in range(kind.threads)
        ]
        socket = first // kind.cores
        group = {"cpus": str(cpus(first, kind.share)), "llc": cache, "numa": socket}
        groups.append(
            {
                **group,
                "package": socket,
                "kind": "standard",
                **({"smt": planes} if kind.threads > 1 else {}),
            }
        )
    spec = {
        "arch": kind.arch,
        "cpus": {"possible": online, "present": online, "online": online, "isolated": ""},
        "cores": groups,
        "llcs": [
            {"id": c, "level": 3, "cpus": str(cpus(c * kind.share, kind.share)), "sizeKiB": 32768}
            for c in caches
        ],
        "numa": numa,
        "devices": _devices(kind, number, sockets),
        "kernel": {
            "release": KERNEL if kind.scx else "6.8.0-60-generic",
            "preemptRt": False,
            "btf": True,
            "schedExt": {"supported": kind.scx, "state": "disabled"},
            "cgroup": "v2",
        },
        "kubelet": {
            "present": True,
            "policy": "none",
            "cgroupDriver": "systemd",
            "podsRoot": "kubepods.slice",
        },
        "virtualization": {"vm": False, "container": False},
        "sources": [{"reader": "sysfs", "facts": ["cpus", "cores", "llcs", "numa", "devices"]}],
    }
    labels = {
        "kubernetes.io/arch": "arm64" if kind.arch == "aarch64" else "amd64",
        "node.kubernetes.io/instance-type": kind.name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "pool": "inference" if kind.gpus else "general",
    }
    document = {
        "apiVersion": API,
        "kind": "NodeFacts",
        "metadata": {"name": f"{kind.name}-{number:04d}", "labels": labels},
        "spec": spec,
    }
    return NodeFacts.model_validate_json(json.dumps(document))


def _devices(kind: Kind, number: int, sockets: list[CpuSet]) -> list[dict[str, object]]:
    devices: list[dict[str, object]] = []
    for i in range(kind.gpus + kind.nics):
        gpu = i < kind.gpus
        of = i if gpu else i - kind.gpus
        socket = of * kind.sockets // (kind.gpus if gpu else kind.nics)
        vendor = ("1002" if kind.gpu.startswith("AMD") else "10de") if gpu else "15b3"
        uuid = hashlib.sha256(f"{kind.name} {number} {i}".encode()).hexdigest()
        devices.append(
            {
                "id": f"gpu{of}" if gpu else f"nic{of}",
                "type": "gpu" if gpu else "nic",
                "vendor": vendor,
                "bdf": f"0000:{0x10 + 4 * i:02x}:00.0",
                "numa": socket,
                "locality": {
                    "cpus": str(sockets[socket]),
                    "scope": "numa",
                    "confidence": "measured",
                },
                **(
                    {"model": kind.gpu, "uuid": f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:24]}"}
                    if gpu
                    else {"names": [f"eth{of}"]}
                ),
            }
        )
    return devices


def intent(name: str, spec: str) -> str:
    """Return an Intent document; ``spec`` is the indented text of its body."""
    return f"apiVersion: {API}\nkind: Intent\nmetadata: {{name: {name}}}\nspec:\n{spec}"


def write_fleet(root: Path, nodes: int, kinds: int = len(KINDS)) -> Path:
    """Write a policy repository for ``nodes`` nodes, a file each, of the first ``kinds`` kinds."""
    _write(root / "tierc.yaml", PROJECT)
    for name, spec in INTENTS.items():
        _write(root / f"intents/{name}.yaml", intent(name, spec))
    for number in range(nodes):
        one = facts(KINDS[number % kinds], number // kinds)
        _write(root / f"nodes/{one.metadata.name}.yaml", facts_yaml(one))
    return root


def generated_intents(count: int) -> str:
    """Return one stream of many different intents, as a generator of a large team writes them."""
    documents = []
    for number in range(count):
        shapes = (
            f'  workload: {{match: [{{comm: "svc-{number:04d}*"}}]}}\n  demote: background\n',
            f'  workload:\n    match:\n      - {{cgroup: "team{number:04d}.slice/**"}}\n'
            "  demote: idle\n  prefer: [leftovers]\n",
            f'  nodes: {{matchLabels: {{pool: "p{number % 7}"}}}}\n'
            f"  workload: {{match: [{{comm: app-{number:04d}, cgroup: "
            f'"system.slice/app-{number:04d}.service/**"}}]}}\n  protect: all\n',
            f'  workload: {{match: [{{leaderComm: "job-{number:04d}"}}]}}\n  keep: normal\n',
        )
        documents.append(intent(f"generated-{number:04d}", shapes[number % len(shapes)]))
    return "---\n".join(documents)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
