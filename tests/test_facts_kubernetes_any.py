"""Any text as Kubernetes objects, and those of real clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.facts.formats import kubernetes, labels
from compiler.facts.formats.format import Text
from compiler.facts.partial import Partial, ReadError
from tests.kubernetes_texts import read

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
