"""Kubernetes objects and labels as sources of facts.

The samples are retyped from the API's own reference, with other machines and other numbers than
the corpus has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats import kubernetes, labels
from compiler.facts.formats.format import Text
from compiler.facts.partial import Partial, ReadError


def read(text: str) -> tuple[Partial, ...]:
    assert kubernetes.FORMAT.sniff(text), "not recognised"
    assert not labels.FORMAT.sniff(text)
    return kubernetes.FORMAT.read(Text("objects", text))


def one(text: str) -> Partial:
    found = read(text)
    assert len(found) == 1
    return found[0]


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        kubernetes.FORMAT.read(Text("objects", text))
    assert caught.value.message[0].islower() or caught.value.message[0] in "'`"
    assert not caught.value.message.endswith(".")
    return caught.value


def said(partial: Partial) -> str:
    return "\n".join(f"{note.line}: {note.message}" for note in partial.notes)


# --- Node --------------------------------------------------------------------------------------

NODE = """\
apiVersion: v1
kind: Node
metadata:
  annotations:
    note: '{"kind": "Pod"}'
    volumes.kubernetes.io/controller-managed-attach-detach: "true"
  labels:
    kubernetes.io/arch: arm64
    kubernetes.io/hostname: gh-4
    nvidia.com/gfd.timestamp: "1700000000"
    nvidia.com/gpu.count: "7"
    nvidia.com/gpu.deploy.driver: paused-for-driver-upgrade
    nvidia.com/gpu.product: NVIDIA-GH200-480GB-MIG-1g.12gb-SHARED
    nvidia.com/mig.config.state: rebooting
  managedFields:
  - apiVersion: v1
    fieldsType: FieldsV1
    fieldsV1:
      f:metadata:
        f:labels:
          .: {}
    manager: kubelet
  name: gh-4
spec:
  podCIDR: 10.0.4.0/24
status:
  allocatable:
    cpu: 71500m
    nvidia.com/gpu: "7"
  capacity:
    cpu: "72"
    nvidia.com/gpu: "7"
  nodeInfo:
    architecture: arm64
    containerRuntimeVersion: containerd://1.7.27
    kernelVersion: 6.8.0-1021-nvidia-64k
    kubeletVersion: v1.33.1
    operatingSystem: linux
"""


def test_a_node_gives_its_name_labels_and_counts_but_no_devices() -> None:
    node = one(NODE)
    assert (node.reader, node.node, node.file) == ("node", "gh-4", "objects")
    assert node.arch == "aarch64"
    assert node.cpu_count == 72  # the capacity, not what is allocatable
    assert node.kernel is not None
    assert node.kernel.release == "6.8.0-1021-nvidia-64k"
    assert node.kubelet is not None
    assert node.kubelet.present
    assert node.kubelet.cri_socket is None  # the runtime is named, its socket is not
    assert not node.kubelet.control_plane
    # Seven of what?  MIG slices, handed out several times: nothing follows about GPUs.
    assert node.devices is None
    assert node.online is None
    assert dict(node.labels) == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": "gh-4",
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.product": "NVIDIA-GH200-480GB-MIG-1g.12gb-SHARED",
    }
    assert node.notes == ()


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("48", 48),
        ('"48"', 48),
        ("48000m", 48),
        ("47500m", None),
        ("0", None),
        ("-4", None),
        ("true", None),
        ("[48]", None),
        ("many", None),
        ('"4e1"', None),
    ],
)
def test_a_capacity_that_is_no_whole_number_of_cpus_is_unknown(
    written: str, count: int | None
) -> None:
    node = one(NODE.replace('cpu: "72"', f"cpu: {written}"))
    assert node.cpu_count == count
    expected = "" if count else "31: status.capacity.cpu is no whole number of CPUs, not used"
    assert said(node) == expected


@pytest.mark.parametrize(
    ("go", "arch"),
    [
        ("amd64", "x86_64"),
        ("ppc64le", "ppc64le"),
        ("s390x", "s390x"),
        ("riscv64", "riscv64"),
        ("arm", None),  # armv6l or armv7l
        ("mips", None),
    ],
)
def test_architectures_are_those_of_uname(go: str, arch: str | None) -> None:
    node = one(NODE.replace("architecture: arm64", f"architecture: {go}"))
    assert node.arch == arch
    assert said(node) == ("" if arch else f"34: architecture '{go}' is not known")


@pytest.mark.parametrize(
    ("label", "version", "embedded"),
    [
        ('node-role.kubernetes.io/control-plane: "true"', "v1.33.1+k3s1", True),
        ('node-role.kubernetes.io/master: "true"', "v1.23.1+k3s1", True),
        ("x.example/y: z", "v1.33.1+k3s1", False),  # an agent
        ('node-role.kubernetes.io/control-plane: ""', "v1.33.1", False),  # pods of their own
        ('node-role.kubernetes.io/control-plane: "true"', "v1.33.1+rke2r1", False),
        ("node.kubernetes.io/microk8s-controlplane: microk8s-controlplane", "v1.33.1", True),
    ],
)
def test_a_control_plane_counts_where_the_kubelet_is_in_its_process(
    label: str, version: str, embedded: bool
) -> None:
    text = NODE.replace("kubernetes.io/hostname: gh-4", label).replace("v1.33.1", version)
    kubelet = one(text).kubelet
    assert kubelet is not None
    assert kubelet.control_plane is embedded


def test_labels_that_the_model_refuses_are_left_out_and_named() -> None:
    text = NODE.replace(
        "    kubernetes.io/arch: arm64\n",
        "    kubernetes.io/arch: arm64\n    _bad: x\n    good.example/x: 'a b'\n    n: 7\n",
    )
    node = one(text)
    assert "_bad" not in node.labels
    assert "good.example/x" not in node.labels
    assert "n" not in node.labels
    assert said(node) == (
        "9: '_bad' is no label key, left out\n"
        "10: label good.example/x: 'a b' is no label value, left out\n"
        "11: label n: what it has is no label value, left out"
    )


def test_a_node_without_status_says_what_it_says() -> None:
    node = one("kind: Node\napiVersion: v1\nmetadata: {name: bare}\n")
    assert node.node == "bare"
    assert (node.arch, node.cpu_count, node.kernel, node.kubelet) == (None, None, None, None)


def test_windows_nodes_are_left_out() -> None:
    text = NODE.replace("operatingSystem: linux", "operatingSystem: windows")
    error = refused(text)
    assert "runs Windows" in error.message
    assert error.line == 38


# --- lists and mixtures ------------------------------------------------------------------------


def as_list(*objects: object, kind: str = "List") -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": list(objects)})


def node_object(name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **more}


def test_a_list_of_all_kinds_gives_every_object_in_order() -> None:
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "b",
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:07:00.0"}},
                }
            ],
        },
    }
    nrt = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "c"},
        "zones": [{"name": "node-0", "type": "Node"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    found = read(as_list(node_object("a"), pod, slice_, nrt, pod, node_object("b")))
    assert [(p.reader, p.node) for p in found] == [
        ("node", "a"),
        ("dra", "b"),
        ("nrt", "c"),
        ("node", "b"),
    ]
    assert said(found[0]) == "1: 2 objects of kind Pod (v1), not used"


def test_a_typed_list_need_not_name_the_kind_of_its_items() -> None:
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    assert [p.node for p in read(as_list(*items, kind="NodeList"))] == ["a", "b"]


def test_several_documents_and_empty_ones() -> None:
    text = f"---\n{NODE}---\n---\n{NODE.replace('name: gh-4', 'name: gh-5')}"
    assert [p.node for p in read(text)] == ["gh-4", "gh-5"]


def test_what_says_nothing_about_a_node_is_refused_by_name() -> None:
    error = refused(as_list({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}))
    assert "Pod (v1)" in error.message
    assert "kubectl get nodes" in error.help
    assert "no object" in refused(as_list()).message
    # Another group's kind of the same name.
    other = refused("kind: NodeResourceTopology\napiVersion: topology.crane.io/v1alpha1\n")
    assert "topology.crane.io" in other.message


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-", "x" * 254, 7, None])
def test_an_object_without_a_node_name_is_refused(name: object) -> None:
    metadata = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}
    assert "not used" in refused(json.dumps(metadata)).message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("kind: Node\napiVersion: v1\n  metadata: x\n", 3, ""),
        ('{"kind": "Node",\n "apiVersion": "v1",\n', 2, "end of the file"),
        ("kind: Node\napiVersion: v1\nkind: Node\n", 3, "duplicate key"),
        ("kind: List\napiVersion: v1\nitems:\n- 7\n", 4, "no object"),
        ("kind: Node\napiVersion: v1\na: " + "[" * 200 + "]" * 200 + "\n", 3, ""),
    ],
)
def test_broken_text_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    error = refused(text)
    assert error.line == line
    assert words in error.message


def test_values_that_a_policy_may_not_have_are_no_mistake_here() -> None:
    text = NODE.replace(
        "podCIDR: 10.0.4.0/24", "podCIDR: 10.0.4.0/24\n  when: 2025-01-02\n  o: 0o7"
    )
    assert one(text).node == "gh-4"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind: Pod\napiVersion: v1\n",
        "apiVersion: tierc.dev/v1alpha1\nkind: NodeFacts\nmetadata: {name: a}\n",
        "kind: Node\n",
        "a sentence about kind: Node and apiVersion: v1\n",
        '{"kind": "Pod", "apiVersion": "v1"}',
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
        "kind: NodeMetrics\napiVersion: metrics.k8s.io/v1beta1\n",
    ],
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not kubernetes.FORMAT.sniff(text)
    assert not labels.FORMAT.sniff(text)


# --- NodeResourceTopology ----------------------------------------------------------------------

NRT = """\
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata:
  name: n7
attributes:
- name: topologyManagerPolicy
  value: restricted
- name: topologyManagerScope
  value: pod
topologyPolicies: ["SingleNUMANodePodLevel"]
zones:
- name: node-4
  type: Node
  costs:
  - {name: node-0, value: 32}
  - {name: node-4, value: 10}
  resources:
  - {name: cpu, capacity: "20", allocatable: 18, available: 1500m}
- name: node-0
  type: Node
  costs:
  - {name: node-0, value: 10}
  - {name: node-4, value: 32}
  resources:
  - {name: cpu, capacity: 20, allocatable: "18", available: "4"}
"""


def test_zones_are_numa_nodes_with_distances_and_unknown_cpus() -> None:
    found = one(NRT)
    assert found.reader == "nrt"
    assert found.numa is not None
    assert [(n.id, n.cpus, dict(n.distances)) for n in found.numa] == [
        (0, None, {0: 10, 4: 32}),
        (4, None, {0: 32, 4: 10}),
    ]
    assert found.kubelet is not None
    assert found.kubelet.topology_policy == "restricted"  # the attribute wins
    assert found.cpu_count is None
    assert found.notes == ()


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("SingleNUMANodeContainerLevel", "single-numa-node"),
        ("SingleNUMANodePodLevel", "single-numa-node"),
        ("SingleNUMANode", "single-numa-node"),
        ("single-numa-node", "single-numa-node"),
        ("Restricted", "restricted"),
        ("RestrictedPodLevel", "restricted"),
        ("BestEffortContainerLevel", "best-effort"),
        ("None", "none"),
        ("Whatever", None),
    ],
)
def test_the_older_list_of_policies(word: str, policy: str | None) -> None:
    text = (
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\n"
        f"metadata: {{name: n}}\ntopologyPolicies: [{word}]\n"
    )
    found = one(text)
    assert (found.kubelet and found.kubelet.topology_policy) == policy
    assert bool(found.notes) is (policy is None)
    assert found.numa is None


def test_zones_of_plugins_that_are_no_numa_nodes_are_named_and_left_out() -> None:
    text = """\
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n}
zones:
- {name: "socket #0", type: socket}
- name: "NUMA node #1"
  type: numa node
  parent: "socket #0"
  costs: [{name: "socket #0", value: 5}]
  attributes: [{name: shared cpuset, value: 4-7}]
- {name: elsewhere, type: Node}
- {name: node-1, type: Node}
- {name: node-99999, type: Node}
- {name: node-2, type: Node, costs: [{name: node-2, value: 300}]}
"""
    found = one(text)
    assert found.numa is not None
    # What is free in a zone now is not what it consists of.
    assert [(n.id, n.cpus, dict(n.distances)) for n in found.numa] == [
        (1, None, {}),
        (2, None, {}),
    ]
    assert said(found) == (
        "11: zone 'elsewhere' names no NUMA node, not used\n"
        "12: NUMA node 1 has a second zone, not used\n"
        "13: zone 'node-99999' names no NUMA node, not used\n"
        "5: zones of type 'socket' are not used\n"
        "14: the cost of zone 2 is no distance, not used"
    )


# --- ResourceSlice -----------------------------------------------------------------------------


def resource_slice(
    driver: str,
    devices: list[dict[str, object]],
    *,
    version: str = "v1",
    name: str = "s",
    node: str | None = "n",
    pool: dict[str, object] | None = None,
) -> dict[str, object]:
    spec: dict[str, object] = {"driver": driver, "devices": devices}
    if node is not None:
        spec["nodeName"] = node
    spec["pool"] = pool or {"name": "n", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def device(name: str, **attributes: object) -> dict[str, object]:
    return {"name": name, "attributes": dict(typed(attributes))}


def typed(values: dict[str, object]) -> list[tuple[str, dict[str, object]]]:
    kinds: dict[type, str] = {bool: "bool", int: "int", str: "string", list: "strings"}
    return [(key.replace("__", "/"), {kinds[type(v)]: v}) for key, v in values.items()]


def gpu(bdf: str, **more: object) -> dict[str, object]:
    made = device("gpu-" + bdf, type="gpu", productName="NVIDIA H200", **more)
    attributes = made["attributes"]
    assert isinstance(attributes, dict)
    attributes["resource.kubernetes.io/pciBusID"] = {"string": bdf}
    return made


def test_gpus_of_the_driver_with_and_without_domains_in_names() -> None:
    h200 = gpu("00000000:1B:00.0", uuid="GPU-1", index=3)
    h200["attributes"] |= {  # type: ignore[operator]
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
        "resource.kubernetes.io/numaNode": {"int": 1},
    }
    found = one(as_list(resource_slice("gpu.nvidia.com", [h200])))
    assert (found.reader, found.node) == ("dra", "n")
    assert found.devices is not None
    (part,) = found.devices
    assert (part.type, part.bdf, part.uuid, part.index) == ("gpu", "0000:1b:00.0", "GPU-1", 3)
    assert (part.vendor, part.model) == ("10de", "NVIDIA H200")
    assert (part.pcie_root, part.numa, part.cpus) == ("pci0000:15", (1,), None)
    assert found.notes == ()


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_older_versions_keep_attributes_in_basic(version: str) -> None:
    made = gpu("0000:07:00.0", uuid="GPU-1")
    old = {"name": made["name"], "basic": {"attributes": made["attributes"]}}
    found = one(as_list(resource_slice("gpu.nvidia.com", [old], version=version)))
    assert found.devices is not None
    assert [d.bdf for d in found.devices] == ["0000:07:00.0"]


def test_mig_instances_name_their_gpu_and_share_its_address_with_no_one() -> None:
    bdf = {"resource.kubernetes.io/pciBusID": {"string": "0000:07:00.0"}}
    mig = device("mig-0", type="mig", uuid="MIG-a", parentUUID="GPU-1", profile="1g.18gb")
    mig["attributes"] |= bdf  # type: ignore[operator]
    possible = device("mig-1", type="mig", profile="2g.35gb", parentUUID="GPU-1")
    found = one(
        as_list(
            resource_slice("gpu.nvidia.com", [gpu("0000:07:00.0", uuid="GPU-1"), mig, possible])
        )
    )
    assert found.devices is not None
    whole, part = found.devices
    assert (whole.bdf, whole.uuid, whole.parent_uuid) == ("0000:07:00.0", "GPU-1", None)
    assert (part.bdf, part.uuid, part.parent_uuid) == (None, "MIG-a", "GPU-1")
    assert said(found).startswith("1: 1 of the devices of driver gpu.nvidia.com are no GPU")


@pytest.mark.parametrize(
    ("attributes", "numa", "note"),
    [
        ({"resource.kubernetes.io__numaNode": -1}, (), ""),
        ({"resource.kubernetes.io__numaNode": 0}, (0,), ""),
        ({"numa": 5}, (5,), ""),
        ({"dra.net__numaNode": 2}, (2,), ""),
        ({"resource.kubernetes.io__numaNode": 1, "numaNode": 0}, (1,), "1 and 0; the first"),
        ({"resource.kubernetes.io__numaNode": 10**9}, (), ""),
        ({"resource.kubernetes.io__numaNode": "x"}, (), ""),
    ],
)
def test_minus_one_is_unknown_and_the_standard_attribute_wins(
    attributes: dict[str, object], numa: tuple[int, ...], note: str
) -> None:
    found = one(as_list(resource_slice("gpu.nvidia.com", [gpu("0000:07:00.0", **attributes)])))
    assert found.devices is not None
    assert found.devices[0].numa == numa
    assert note in said(found)
    assert bool(note) is bool(found.notes)


def test_network_devices_are_those_with_an_address() -> None:
    nics = [
        device(
            "pci-0000-9d-00-1",
            **{
                "dra.net__pciAddress": "0000:9d:00.1",
                "dra.net__ifName": "ens9f1",
                "dra.net__rdmaDevice": "mlx5_1",
                "dra.net__numaNode": 1,
                "dra.net__pciVendor": "Mellanox Technologies",
                "dra.net__pciDevice": "MT2910 Family [ConnectX-7]",
                "resource.kubernetes.io__pcieRoot": ["pci0000:97"],
            },
        ),
        device("veth1", **{"dra.net__ifName": "veth1", "dra.net__virtual": True}),
        device("vf", **{"dra.net__pciAddress": "0000:9d:00.2", "dra.net__isSriovVf": True}),
    ]
    found = one(as_list(resource_slice("dra.net", nics)))
    assert found.devices is not None
    (part,) = found.devices
    assert (part.type, part.bdf, part.vendor) == ("nic", "0000:9d:00.1", "15b3")
    assert part.names == ("ens9f1", "mlx5_1")
    assert (part.numa, part.pcie_root) == ((1,), "pci0000:97")
    assert part.model == "MT2910 Family [ConnectX-7]"
    assert "2 of the devices" in said(found)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = resource_slice(
        "gpu.nvidia.com",
        [gpu("0000:01:00.0")],
        name="old",
        pool={"name": "p", "generation": 3, "resourceSliceCount": 1},
    )
    new = resource_slice(
        "gpu.nvidia.com",
        [gpu("0000:02:00.0")],
        name="new",
        pool={"name": "p", "generation": 4, "resourceSliceCount": 2},
    )
    found = one(as_list(old, new))
    assert found.devices is not None
    assert [d.bdf for d in found.devices] == ["0000:02:00.0"]
    assert "slice 'old' is out of date" in said(found)
    assert "pool 'p' has 2 slices, but 1 are here; devices are missing" in said(found)


def test_odd_devices_are_named_and_left_out() -> None:
    devices = [
        gpu("no address", uuid="GPU-2"),
        device("nameless", type="gpu"),
        gpu("0000:03:00.0"),
        gpu("0000:03:00.0"),
        device("vfio-3", type="vfio", **{"resource.kubernetes.io__pciBusID": "0000:03:00.0"}),
        gpu("0000:04:00.0", **{"resource.kubernetes.io__pcieRoot": "/dev/null"}),
    ]
    found = one(as_list(resource_slice("gpu.nvidia.com", devices)))
    assert found.devices is not None
    assert [(d.bdf, d.uuid) for d in found.devices] == [
        (None, "GPU-2"),
        ("0000:03:00.0", None),
        ("0000:04:00.0", None),
    ]
    assert found.devices[2].pcie_root is None
    notes = said(found)
    assert "'no address' is no PCI address" in notes
    assert "nameless has neither PCI address nor UUID" in notes
    assert "vfio-3 is gpu-0000:03:00.0 again" in notes
    assert "the PCIe root is none that is known" in notes


def test_slices_that_are_of_no_node_or_of_other_drivers() -> None:
    shared = resource_slice("gpu.nvidia.com", [gpu("0000:01:00.0")], node=None)
    assert "names no node" in refused(as_list(shared)).message
    other = one(as_list(resource_slice("fpga.example.com", [device("f")])))
    assert other.devices is None
    assert "1 of the devices of driver fpga.example.com" in said(other)


def cpu(number: int, **ids: object) -> dict[str, object]:
    own = {f"dra.cpu__{key}": value for key, value in {"cpuID": number, **ids}.items()}
    return device(f"cpudev{number:03}", **own)


def test_cpus_of_the_cpu_driver_over_several_slices() -> None:
    # Two packages of two cores; core ids repeat, as the kernel numbers them in each package.
    cpus = [
        cpu(n, coreID=n // 2 % 2, socketID=n // 4, numaNodeID=n // 4, cacheL3ID=7 * (n // 4))
        for n in range(8)
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    found = one(
        as_list(
            resource_slice("dra.cpu", cpus[:3], name="a", pool=pool),
            resource_slice("dra.cpu", cpus[3:], name="b", pool=pool),
        )
    )
    parse = CpuSet.parse
    assert found.online is None  # the driver keeps reserved CPUs back
    assert found.cores == (parse("0-1"), parse("2-3"), parse("4-5"), parse("6-7"))
    assert found.packages == ((0, parse("0-3")), (1, parse("4-7")))
    assert found.llcs is not None
    assert [(c.level, c.cpus) for c in found.llcs] == [(3, parse("0-3")), (3, parse("4-7"))]
    assert found.numa is not None
    assert [(n.id, n.cpus) for n in found.numa] == [(0, parse("0-3")), (1, parse("4-7"))]


def test_ids_that_one_cpu_lacks_are_unknown_for_all() -> None:
    cpus = [cpu(0, coreID=0, socketID=0, cacheL3ID=-1), cpu(1, coreID=1), cpu(1), cpu(9999)]
    found = one(as_list(resource_slice("dra.cpu", cpus)))
    assert (found.cores, found.packages, found.llcs, found.numa) == (None, None, None, None)
    assert "CPU 1 is there twice" in said(found)
    assert "CPU 9999 is outside 0-8191" in said(found)


def test_groups_of_cpus_by_numa_node() -> None:
    groups = [
        device("g0", **{"resource.kubernetes.io__numaNode": 0, "dra.cpu__cpuIDs": "0-3,8-11"}),
        device("g1", **{"dra.cpu__numaNodeID": 1, "dra.cpu__cpuIDs": "4-7"}),
        device("g2", **{"dra.cpu__numaNodeID": 2, "dra.cpu__cpuIDs": "9-8"}),
        device("g3", **{"dra.cpu__numaNodeID": 3, "dra.cpu__numCPUs": 4}),
    ]
    found = one(as_list(resource_slice("dra.cpu", groups)))
    assert found.numa is not None
    assert [(n.id, str(n.cpus)) for n in found.numa] == [(0, "0-3,8-11"), (1, "4-7")]
    assert "runs backwards" in said(found)


# --- NodeFeature and bare labels ---------------------------------------------------------------


def test_a_node_feature_gives_labels_and_the_kernel() -> None:
    feature = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": "x", "labels": {"nfd.node.kubernetes.io/node-name": "n9"}},
        "spec": {
            "features": {
                "attributes": {"kernel.version": {"elements": {"full": "6.12.9", "major": "6"}}},
                "instances": {"pci.device": {"elements": [{"attributes": {"class": "0302"}}]}},
            },
            "labels": {"feature.node.kubernetes.io/cpu-hardware_multithreading": "true"},
        },
    }
    found = one(json.dumps(feature))
    assert (found.reader, found.node) == ("labels", "n9")
    assert found.kernel is not None
    assert found.kernel.release == "6.12.9"
    assert list(found.labels) == ["feature.node.kubernetes.io/cpu-hardware_multithreading"]
    assert found.devices is None


def test_a_bare_mapping_of_labels() -> None:
    text = json.dumps(
        {
            "disk": "nvme",
            "nvidia.com/gfd.timestamp": "1",
            "nvidia.com/gpu.count": "7",
            "nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb-SHARED",
        },
        indent=2,
    )
    assert labels.FORMAT.sniff(text)
    (found,) = labels.FORMAT.read(Text("labels.json", text))
    assert (found.reader, found.node, found.devices) == ("labels", None, None)
    assert dict(found.labels) == {
        "disk": "nvme",
        "nvidia.com/gpu.count": "7",
        "nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb-SHARED",
    }


def test_labels_of_which_none_is_left_are_refused() -> None:
    text = '{"nvidia.com/gfd.timestamp": "1"}'
    assert labels.FORMAT.sniff(text)
    with pytest.raises(ReadError, match="no label that says something"):
        labels.FORMAT.read(Text("labels.json", text))


@pytest.mark.parametrize(
    "text",
    ['{"a": "b"}', '{"a/b": 1}', '{"a/b": {"c": "d"}}', '{"a/b": "c"', "[]", '{"/": "x"}', "{}"],
)
def test_other_json_is_no_labels(text: str) -> None:
    assert not labels.FORMAT.sniff(text)


# --- any input ---------------------------------------------------------------------------------

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "labels", "spec", "zones", "devices", "attributes", "items"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["Node", "NodeResourceTopology", "ResourceSlice", "NodeFeature", "List"]),
    body=st.dictionaries(
        st.sampled_from(["metadata", "spec", "status", "zones", "items", "topologyPolicies"]), _ANY
    ),
)
def test_no_object_is_more_than_an_error(kind: str, body: dict[str, object]) -> None:
    version = {
        "NodeResourceTopology": "topology.node.k8s.io/v1alpha2",
        "ResourceSlice": "resource.k8s.io/v1",
        "NodeFeature": "nfd.k8s-sigs.io/v1alpha1",
    }.get(kind, "v1")
    text = json.dumps({"apiVersion": version, "kind": kind, **body})
    try:
        found = read(text)
    except ReadError:
        return
    assert all(part.node for part in found)


# --- the corpus --------------------------------------------------------------------------------


def corpus(shared: Path, name: str) -> tuple[Partial, ...]:
    path = shared / "corpus" / "topology" / name
    text = path.read_text()
    formats = [f for f in (kubernetes.FORMAT, labels.FORMAT) if f.sniff(text)]
    assert len(formats) == 1
    return formats[0].read(Text(path.name, text))


@pytest.mark.parametrize(
    ("name", "node", "cpus"),
    [
        ("bare-metal-node-master.internal", "master.internal", 112),
        ("bare-metal-node-worker2.internal", "worker2.internal", 32),
        ("sno-node-sno", "sno", 12),
    ],
)
def test_nodes_of_the_corpus(shared: Path, name: str, node: str, cpus: int) -> None:
    (found,) = corpus(shared, f"openshift-mustgather/{name}.yaml")
    assert (found.node, found.cpu_count, found.arch) == (node, cpus, "x86_64")
    assert found.labels["node.openshift.io/os_id"] == "rhcos"
    assert found.notes == ()


def test_slices_of_the_corpus(shared: Path) -> None:
    def slices(name: str) -> Partial:
        (found,) = corpus(shared, f"dra-resourceslices/azure_aks_examples-{name}.yaml")
        assert found.notes == ()
        return found

    gpus = slices("gb300-resourceslice-gpu").devices
    assert gpus is not None
    assert [(d.bdf, d.pcie_root, d.numa) for d in gpus] == [
        (f"{domain}:06:00.0", f"pci{domain}:00", ()) for domain in ("0008", "0009", "0018", "0019")
    ]
    four, eight = slices("gb300-resourceslice-dranet"), slices("mi300x-resourceslice-dranet")
    assert four.node == "aks-gpu-45139532-vmss000081"
    assert four.devices is not None
    assert [d.numa for d in four.devices] == [(0,), (0,), (1,), (1,)]
    assert eight.devices is not None
    assert [(d.bdf, d.names) for d in eight.devices] == [
        (f"{0x101 + n:04x}:00:00.0", (f"mlx5_{n}",)) for n in range(8)
    ]


@pytest.mark.parametrize(
    ("name", "nodes", "zones"),
    [
        ("nri-noderesourcetopology", ["node1", "node1"], 4),
        ("scheduler-plugins-worker-node-A", ["worker-node-a"], 2),
        ("scheduler-plugins-worker-node-B", ["worker-node-b"], 2),
    ],
)
def test_zones_of_the_corpus(shared: Path, name: str, nodes: list[str], zones: int) -> None:
    found = corpus(shared, f"nrt/{name}.yaml")
    assert [p.node for p in found] == nodes
    for part in found:
        assert part.numa is not None
        assert [n.id for n in part.numa] == list(range(zones))
        assert part.kubelet is not None
        assert part.kubelet.topology_policy == "single-numa-node"


@pytest.mark.parametrize("name", ["gfd-t4-timesliced", "gfd-vgpu-a100-40c"])
def test_labels_of_the_corpus(shared: Path, name: str) -> None:
    (found,) = corpus(shared, f"k8s-labels/{name}.json")
    assert "nvidia.com/gpu.product" in found.labels
    assert "nvidia.com/gfd.timestamp" not in found.labels
    assert found.devices is None
