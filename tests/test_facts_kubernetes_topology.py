"""NodeResourceTopology and ResourceSlice objects as sources of facts."""

from __future__ import annotations

import pytest

from compiler.cpuset import CpuSet
from tests.kubernetes_texts import as_list, one, refused, said

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
