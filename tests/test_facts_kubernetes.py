"""Node objects and labels, alone and in lists, as sources of facts."""

from __future__ import annotations

import json

import pytest

from compiler.facts.formats import kubernetes, labels
from compiler.facts.formats.format import Text
from compiler.facts.partial import ReadError
from tests.kubernetes_texts import as_list, one, read, refused, said

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
