"""What the files of the corpus say that have no ``field=value`` row in its manifest.

Read from the files and the words of the manifest by eye, never from what tierc makes of them.
Most of these files do not name the CPUs of the machine, so each is imported together with a list
of CPUs, as a user has to do it; which CPUs a node has is in the file, in the manifest's words, or
chosen here where both are silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.cpuset import CpuSet, union
from compiler.model.facts import Device, NodeFacts


@dataclass(frozen=True)
class Eye:
    """What one file says.

    Attributes:
        facts: parts of :func:`summary` that must be so.
        nodes: CPUs by NUMA node, for the list of CPUs that is imported with it.
        cpus: CPUs for that list where it must not say nodes; both empty: the file needs no list.
        also: other files of the corpus that are of the same machine and imported with it.
        named: whether the file names the node, so that no name is given.
    """

    facts: Mapping[str, Any]
    nodes: Mapping[int, str] = field(default_factory=dict)
    cpus: str = ""
    also: Sequence[str] = ()
    named: bool = False

    def lscpu(self) -> str | None:
        """Return the list of CPUs as ``lscpu -p`` prints it; None: not needed."""
        members = {node: CpuSet.parse(cpus) for node, cpus in self.nodes.items()}
        cpus = CpuSet.parse(self.cpus) or union(members.values())
        if not cpus:
            return None
        lines = ["# CPU,Core,Node" if members else "# CPU,Core"]
        for cpu in cpus:
            node = "".join(f",{number}" for number, one in members.items() if cpu in one)
            lines.append(f"{cpu},{cpu}{node}")
        return "\n".join(lines) + "\n"


def summary(facts: NodeFacts) -> dict[str, Any]:
    """Return the facts in the words of this table."""
    spec, kubelet = facts.spec, facts.spec.kubelet
    short = {device.id: device for device in spec.devices}
    return {
        "name": facts.metadata.name,
        "labels": dict(facts.metadata.labels),
        "arch": spec.arch,
        "release": spec.kernel.release,
        "online": str(spec.cpus.online),
        "cores": sum(len(group.cores()) for group in spec.cores),
        "siblings": str(spec.cores[0].cores()[0]),
        "packages": sorted({g.package for g in spec.cores if g.package is not None}),
        "llcs": [str(llc.cpus) for llc in spec.llcs],
        "numa": {node.id: str(node.cpus) for node in spec.numa},
        "kinds": [(kind.name, str(kind.cpus), kind.model) for kind in spec.kinds],
        "gpus": [_place(one) for one in spec.devices if one.type == "gpu"],
        "gpu ids": [(d.bdf, d.uuid, d.model, d.index) for d in spec.devices if d.type == "gpu"],
        "roots": [one.pcie_root for one in spec.devices if one.type == "gpu"],
        "nics": [(_id(one), one.numa) for one in spec.devices if one.type == "nic"],
        "near links": sorted(
            (_id(short[link.a]), _id(short[link.b]), link.kind)
            for link in spec.links
            if link.kind not in ("SYS", "NODE")
        ),
        "kubelet": None
        if kubelet is None
        else (kubelet.policy, _text(kubelet.shared_pool), _text(kubelet.exclusive)),
        "topology policy": kubelet and kubelet.topology_policy,
        "warnings": len(spec.warnings),
    }


def _text(cpus: CpuSet | None) -> str | None:
    return None if cpus is None else str(cpus)


def _id(device: Device) -> str:
    if device.bdf is not None:
        return device.bdf
    return device.names[0] if device.names else f"{device.type}{device.index}"


def _place(device: Device) -> tuple[str, int | None, str | None, str]:
    near = device.locality
    return _id(device), device.numa, _text(near.cpus), near.confidence


def gpus(*places: tuple[int | None, str | None], ids: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """GPUs by (NUMA node, CPUs), measured; each by its number unless ``ids`` has another name."""
    return [
        (ids[n] if ids else f"gpu{n}", node, cpus, "unknown" if cpus is None else "measured")
        for n, (node, cpus) in enumerate(places)
    ]


def halves(count: int) -> dict[int, str]:
    """Two nodes of interleaved CPUs."""
    return {n: str(CpuSet(range(n, count, 2))) for n in (0, 1)}


def blocks(number: int, size: int, stride: int = 0) -> dict[int, str]:
    """Nodes of neighbouring CPUs, and of the same ``stride`` higher if given."""
    return {
        n: str(
            CpuSet(range(n * size, (n + 1) * size))
            | CpuSet(range(stride + n * size, stride + (n + 1) * size) if stride else ())
        )
        for n in range(number)
    }


def on(nodes: Mapping[int, str], *numbers: int) -> list[tuple[int, str]]:
    return [(number, nodes[number]) for number in numbers]


V100 = halves(24)  # "true: 12 even / 12 odd"
DUAL = halves(128)
SIX = {0: "0-23,48-71", 1: "24-47,72-95"}
NPS4 = blocks(8, 16, 128)
RTX = {0: "0-55,112-167", 1: "56-111,168-223"}
APU = blocks(4, 24, 96)  # the lscpu report says so
APU_LSCPU = "smi-topo/mi300a-4apu.lscpu.txt"
MI210 = blocks(8, 8)
P4DE = {0: "0-23,48-71", 1: "24-47,72-95"}
GB300 = blocks(2, 72)
KFD210, KFD308 = blocks(2, 64), blocks(2, 112)  # cpu_cores_count of the nodes
ALDER = {"online": "0-19", "numa": {0: "0-19"}}
ALDER_ROWS = {**ALDER, "cores": 14, "siblings": "0-1", "packages": [0], "llcs": ["0-19"]}
MUST = "openshift-mustgather/"

EYE: dict[str, Eye] = {
    # nvidia-smi topo -m.  A list that was cut short is not believed: the node's CPUs are.
    "smi-topo/gb10-dgx-spark.topo.txt": Eye(
        {
            "gpus": gpus((0, "0-19")),
            "nics": [("rocep1s0f0", 0), ("rocep1s0f1", 0), ("roceP2p1s0f0", 0),
                     ("roceP2p1s0f1", 0)],
            "near links": [("roceP2p1s0f0", "roceP2p1s0f1", "PIX"),
                           ("rocep1s0f0", "rocep1s0f1", "PIX")],
            "warnings": 0,
        },
        {0: "0-19"},
    ),
    "smi-topo/dell-v100-2gpu-24cpu-truncated.topo.txt": Eye(
        {"gpus": gpus(*on(V100, 0, 1)), "nics": [], "near links": []}, V100
    ),
    "smi-topo/adroit-a100-4gpu-legacy-nic-columns-truncated.topo.txt": Eye(
        {"gpus": gpus(*on(DUAL, 0, 0, 1, 1)), "nics": [("mlx5_0", 0)]}, DUAL
    ),
    "smi-topo/epyc-4gpu-5nic-truncated-mixed.topo.txt": Eye(
        {
            "gpus": gpus(*on(DUAL, 0, 0, 1, 1)),
            "nics": [("roceo12399", 0), ("roceo12409", 0), ("rocep13s0f0", 0),
                     ("rocep55s0f0", 0), ("rocep181s0f0", 1)],
            "near links": [("roceo12399", "roceo12409", "PIX")],
        },
        DUAL,
    ),
    "smi-topo/6gpu-ansi-underline.topo.txt": Eye(
        {
            "gpus": gpus(*on(SIX, 0, 0, 0, 0, 1, 1)),
            "nics": [],
            "near links": [(f"gpu{n}", f"gpu{n + 1}", "PIX") for n in (0, 2, 4)],
            "warnings": 0,
        },
        SIX,
    ),
    "smi-topo/h100pcie-kvm-252cpu.topo.txt": Eye(
        {
            "gpus": gpus((0, "0-251")),
            "nics": [("mlx5_0", 0)],
            "near links": [("gpu0", "mlx5_0", "PHB")],
        },
        {0: "0-251"},
    ),
    "smi-topo/dgx-a100-8gpu-nps4.topo.txt": Eye(
        {
            "gpus": gpus(*on(NPS4, 3, 3, 1, 1, 7, 7, 5, 5)),
            # The file has ten NIC columns, and only the rows of the first two.
            "nics": [*((f"nic{n}", (3, 1, 7, 5)[n // 2]) for n in range(8)), ("nic8", None),
                     ("nic9", None)],
        },
        NPS4,
    ),
    "smi-topo/rtx4090-8gpu-all-sys.topo.txt": Eye(
        {
            "gpus": gpus(*on(RTX, 0, 0, 0, 0, 1, 1, 1, 1)),
            "nics": [("nic0", 1), ("nic1", 1)],
            "near links": [("gpu6", "nic0", "PHB"), ("gpu6", "nic1", "PHB"),
                           ("nic0", "nic1", "PIX")],
        },
        RTX,
    ),
    "smi-topo/coyote2-4gpu-4nic.topo.txt": Eye(
        {
            "gpus": gpus((0, "0-31"), (0, "0-31"), (1, "32-63"), (1, "32-63")),
            "nics": [("nic0", 0), ("nic1", 0), ("nic2", 1), ("nic3", 1)],
            "near links": [("nic0", "nic1", "PIX"), ("nic2", "nic3", "PIX")],
        },
        blocks(2, 32),
    ),
    # rocm-smi, and two summaries of lscpu that do not say cores.
    "smi-topo/mi210-8gpu-nps4-reversed.rocm-showtoponuma.txt": Eye(
        {"gpus": gpus(*on(MI210, 3, 2, 1, 0, 7, 6, 5, 4)), "warnings": 0}, MI210
    ),
    "smi-topo/mi300a-4apu.rocm-showtoponuma.txt": Eye(
        {"gpus": gpus(*on(APU, 0, 1, 2, 3))}, cpus="0-191", also=[APU_LSCPU]
    ),
    "smi-topo/mi300a-tpx-12gpu.rocm-showtoponuma.txt": Eye(
        {"gpus": gpus(*on(APU, *(n // 3 for n in range(12))))}, cpus="0-191", also=[APU_LSCPU]
    ),
    "smi-topo/mi300a-4apu.lscpu.txt": Eye({"numa": APU}, cpus="0-191"),
    "smi-topo/power9-traverse-4v100.lscpu.txt": Eye(
        {"online": "0-127",
         "numa": {0: "0-63", 8: "64-127", 252: "", 253: "", 254: "", 255: ""}},
        cpus="0-127",
    ),
    # The two stanzas, of ten cores each, are of one socket; which CPUs share an L3 it leaves out.
    "smi-topo/gb10-dgx-spark.lscpu.txt": Eye(
        {"arch": "aarch64", "online": "0-19", "cores": 20, "numa": {0: "0-19"}, "llcs": []}
    ),
    "lscpu-derived/alderlake.lscpu-J-e.json": Eye(ALDER_ROWS),
    "lscpu-derived/alderlake.lscpu-p.csv": Eye(ALDER_ROWS),
    "lscpu-derived/alderlake.lscpu-J.json": Eye(ALDER, cpus="0-19"),
    # NCCL.  g5 names no affinity and no classes: then what they are is unknown, not a GPU.
    "nccl-topo/aws-g5.48xl-topo.xml": Eye({"numa": P4DE, "gpus": [], "nics": []}, P4DE),
    "nccl-topo/aws-p4de-24xl-topo.xml": Eye(
        {
            "numa": P4DE,
            "gpus": gpus(
                *on(P4DE, 0, 0, 0, 0, 1, 1, 1, 1),
                ids=[f"0000:{bus}:1{f}.0" for bus in ("10", "20", "90", "a0") for f in "cd"],
            ),
            "nics": [(f"0000:{bus}:1b.0", n) for bus, n in
                     (("10", 0), ("20", 0), ("90", 1), ("a0", 1))],
        },
        cpus="0-95",
    ),
    "nccl-topo/azure-ncv4-topo.xml": Eye(
        {
            "numa": blocks(4, 24),
            "gpus": gpus(*on(blocks(4, 24), 0, 1, 2, 3),
                         ids=[f"000{n}:00:00.0" for n in (1, 2, 3, 4)]),
            # Below <nic>, which NCCL also writes for what it could not place.
            "nics": [("eth0", None)],
        },
        cpus="0-95",
    ),
    "nccl-topo/azure-ndv2-topo.xml": Eye(
        {
            "numa": blocks(2, 20),
            "gpus": gpus(*on(blocks(2, 20), 0, 0, 0, 0, 1, 1, 1, 1),
                         ids=[f"000{n}:00:00.0" for n in range(1, 9)]),
            "nics": [("0101:00:00.0", 0)],
        },
        cpus="0-39",
    ),
    "nccl-topo/azure-ndv5-topo.xml": Eye(
        {
            "numa": blocks(2, 48),
            "gpus": gpus(*on(blocks(2, 48), 0, 0, 0, 0, 1, 1, 1, 1),
                         ids=[f"000{d}:00:00.0" for d in "12389abc"]),
            "nics": [(f"010{n}:00:00.0", 0 if n < 5 else 1) for n in range(1, 9)],
        },
        cpus="0-95",
    ),
    # Kubernetes.
    "dra-resourceslices/azure_aks_examples-gb300-resourceslice-gpu.yaml": Eye(
        {
            "name": "aks-gpu-45139532-vmss000081",
            "gpus": gpus(*[(None, None)] * 4,
                         ids=[f"{d}:06:00.0" for d in ("0008", "0009", "0018", "0019")]),
            "roots": ["pci0008:00", "pci0009:00", "pci0018:00", "pci0019:00"],
        },
        GB300,
        named=True,
    ),
    "dra-resourceslices/azure_aks_examples-gb300-resourceslice-dranet.yaml": Eye(
        {
            "name": "aks-gpu-45139532-vmss000081",
            "gpus": [],
            "nics": [(f"010{n}:00:00.0", 0 if n < 3 else 1) for n in range(1, 5)],
        },
        GB300,
        named=True,
    ),
    "dra-resourceslices/azure_aks_examples-mi300x-resourceslice-dranet.yaml": Eye(
        {
            "name": "aks-gpu-37973606-vmss000000",
            "nics": [(f"010{n}:00:00.0", 0 if n < 5 else 1) for n in range(1, 9)],
        },
        blocks(2, 48),
        named=True,
    ),
    # Counts of CPUs in each zone: no list, so which CPUs a node has stays unknown.
    "nrt/nri-noderesourcetopology.yaml": Eye(
        {"name": "node1", "numa": {}, "topology policy": "single-numa-node"},
        cpus="0-109", named=True,
    ),
    "nrt/scheduler-plugins-worker-node-A.yaml": Eye(
        {"name": "worker-node-a", "numa": {}, "gpus": [], "topology policy": "single-numa-node"},
        cpus="0-7", named=True,
    ),
    "nrt/scheduler-plugins-worker-node-B.yaml": Eye(
        {"name": "worker-node-b", "numa": {}, "topology policy": "single-numa-node"},
        cpus="0-7", named=True,
    ),
    "kubelet/cpu_manager_state.none.json": Eye({"kubelet": ("none", None, "")}, cpus="0-63"),
    "kubelet/cpu_manager_state.strict-reservation.json": Eye(
        {"kubelet": ("static", "2-15,17-31,34-47,49-63", "")}, cpus="0-63"
    ),
    "kubelet/cpu_manager_state.two-pods.json": Eye(
        {"kubelet": ("static", "0,10-15,25-31", "1-9,16-24")}, cpus="0-31"
    ),
    "k8s-labels/gfd-t4-timesliced.json": Eye(
        {"labels": {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "8",
                    "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "16106127360"},
         "gpus": [], "numa": {}},
        cpus="0-3",
    ),
    "k8s-labels/gfd-vgpu-a100-40c.json": Eye(
        {"labels": {"nvidia.com/gpu.product": "GRID-A100-40C", "nvidia.com/gpu.replicas": "1",
                    "nvidia.com/gpu.memory": "40960"},
         "gpus": [], "numa": {}},
        cpus="0-3",
    ),
    f"{MUST}bare-metal-node-master.internal.yaml": Eye(
        {"name": "master.internal", "arch": "x86_64", "warnings": 0,
         "release": "5.14.0-427.59.1.el9_4.x86_64",
         "labels": {"kubernetes.io/hostname": "master.internal"}},
        cpus="0-111", named=True,
    ),
    f"{MUST}bare-metal-node-worker2.internal.yaml": Eye(
        {"name": "worker2.internal", "arch": "x86_64", "warnings": 0,
         "release": "5.14.0-427.59.1.el9_4.x86_64",
         "labels": {"node-role.kubernetes.io/worker": ""}},
        cpus="0-31", named=True,
    ),
    f"{MUST}sno-node-sno.yaml": Eye(
        {"name": "sno", "arch": "x86_64", "warnings": 0,
         "labels": {"kubernetes.io/hostname": "sno"}},
        cpus="0-11", named=True,
    ),
    # cadvisor: thread ids count, not the number of cores, which it gets wrong on two sockets.
    "cadvisor-machineinfo/bare-metal-master.internal.machineinfo.json": Eye(
        {"online": "0-111", "cores": 56, "siblings": "0,56", "packages": [0, 1],
         "numa": halves(112), "llcs": list(halves(112).values())},
    ),
    "cadvisor-machineinfo/sno-sno.machineinfo.json": Eye(
        {"online": "0-11", "cores": 12, "packages": [0], "numa": {0: "0-11"}, "llcs": ["0-11"]},
    ),
    # nvidia-smi -q -x: no affinity; on a machine with one node that is the one.
    **{
        f"nvidia-smi-qx/{name}.xml": Eye(
            {"gpu ids": [(bdf, uuid, model, 0)], "gpus": [(bdf, 0, "0-7", "inferred")]}, {0: "0-7"}
        )
        for name, bdf, uuid, model in (
            ("a10g", "0000:00:1e.0", "GPU-9a9a6c50-2a47-2f51-a902-b82c3b127e94", "NVIDIA A10G"),
            ("rtx-3080-v13", "0000:0c:00.0", "GPU-19d6d965-2acc-f646-00f8-4c76979aabb4",
             "NVIDIA GeForce RTX 3080"),
            ("rtx-4000-sff-ada-v13", "0000:06:00.0", "GPU-37037c3f-65c8-ec4d-24a9-420204ad8026",
             "NVIDIA RTX 4000 SFF Ada Generation"),
            ("tesla-t4", "0000:00:1e.0", "GPU-d37e67a5-91dd-3774-a5cb-99096249601a", "Tesla T4"),
        )
    },
    # KFD: location_id is bus << 8 | device << 3 | function.  The four partitions of an MI308 are
    # one function of the bus; the two GPUs of "topology-parsing" claim the same address.
    "rocm-kfd/topology-parsing-mi308.tar.gz": Eye(
        {
            "gpus": gpus(
                *on(KFD308, 0, 0, 0, 0, 1, 1, 1, 1),
                ids=[*(f"0000:{bus}:00.0" for bus in ("0a", "80", "a4", "c8")),
                     *(f"0001:{bus}:00.0" for bus in ("0b", "81", "a5", "c9"))],
            ),
            "warnings": 0,
        },
        KFD308,
    ),
    "rocm-kfd/topo-mi210-xgmi-pcie.tar.gz": Eye(
        {
            "gpus": gpus(
                *on(KFD210, 0, 0, 0, 0, 1, 1, 1, 1),
                ids=[f"0000:{bus}:00.0" for bus in
                     ("03", "26", "43", "63", "83", "a3", "c3", "e3")],
            )
        },
        KFD210,
    ),
    "rocm-kfd/topology-parsing.tar.gz": Eye(
        {"gpus": gpus((0, "0-19"), ids=["0000:19:00.0"]), "warnings": 1}, {0: "0-19"}
    ),
    # sbc-bench: the "cluster" column is the package, the last one the MIDR.
    "sbc-bench/4kiu.topology.txt": Eye(
        {"arch": "aarch64", "online": "0-255", "cores": 256, "packages": [56, 76], "kinds": [],
         "numa": {0: "0-127", 1: "128-255"}},
    ),
    "sbc-bench/XUpQ.topology.txt": Eye(
        {"arch": "aarch64", "online": "0-191", "cores": 192, "packages": [140], "kinds": [],
         "numa": {0: "0-191"}},
    ),
    "sbc-bench/fcm1253.topology.txt": Eye(
        {"arch": "aarch64", "online": "0-19", "cores": 20, "packages": [36],
         "numa": {0: "0-19"},
         "kinds": [("performance", "5-9,15-19", "Cortex-X925"),
                   ("efficiency", "0-4,10-14", "Cortex-A725")]},
    ),
}  # fmt: skip
"""File -> what it says."""
