"""What a Node object, and the NodeFeature object about it, say of a node."""

from __future__ import annotations

from typing import Final

from compiler.facts.formats.kubernetes_object import KubernetesObject
from compiler.facts.formats.labels import kept_labels
from compiler.facts.partial import Note, Partial
from compiler.facts.shown import clean, shown
from compiler.model.facts import Kernel, Kubelet

_ARCHES: Final = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
    "s390x": "s390x",
}
"""Go's names of architectures, and what ``uname -m`` prints; 32-bit ``arm`` is several."""
_SERVER_LABELS: Final = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
_MICROK8S: Final = "node.kubernetes.io/microk8s-controlplane"
NODE_OF_FEATURE: Final = "nfd.node.kubernetes.io/node-name"
"""Label of a NodeFeature with the name of its node."""


def read_node(item: KubernetesObject, file: str, node: str) -> Partial:
    """Return what a Node object says of the node called ``node``.

    Devices are left out: what the object counts as ``nvidia.com/gpu`` may be slices of GPUs.  The
    container runtime is named without its socket, so nothing follows from it either.
    """
    labels, label_notes = kept_labels(
        item.mapping("metadata", "labels"), lambda key: item.line("metadata", "labels", key)
    )
    notes = list(label_notes)
    info = ("status", "nodeInfo")
    arch = None
    if (said := item.text(*info, "architecture")) is not None:
        arch = _ARCHES.get(said)
        if arch is None:
            line = item.line(*info, "architecture")
            notes.append(Note(f"architecture {shown(said)} is not known", line))
    release = item.text(*info, "kernelVersion")
    version = item.text(*info, "kubeletVersion")
    return Partial(
        reader="node",
        file=file,
        node=node,
        labels=labels,
        arch=arch,
        cpu_count=_cpu_count(item, notes),
        kernel=Kernel(release=clean(release, 80)) if release else None,
        kubelet=Kubelet(present=True, controlPlane=_embedded(labels, version)) if version else None,
        notes=tuple(notes),
    )


def _cpu_count(item: KubernetesObject, notes: list[Note]) -> int | None:
    """Return the capacity; ``allocatable`` is less what is reserved, often with a fraction."""
    route = ("status", "capacity", "cpu")
    if item.get(*route) is None:
        return None
    count = item.integer(*route)
    if count is None or count < 1:
        notes.append(
            Note("status.capacity.cpu is no whole number of CPUs, not used", item.line(*route))
        )
        return None
    return count


def _embedded(labels: dict[str, str], version: str) -> bool:
    """Return whether the kubelet's process holds a control plane: a k3s server, or MicroK8s."""
    server = any(label in labels for label in _SERVER_LABELS)
    return ("+k3s" in version and server) or _MICROK8S in labels


def read_feature(item: KubernetesObject, file: str, node: str) -> Partial:
    """Return what an NFD NodeFeature object says: labels, and the kernel's release."""
    labels, notes = kept_labels(
        item.mapping("spec", "labels"), lambda key: item.line("spec", "labels", key)
    )
    release = item.text("spec", "features", "attributes", "kernel.version", "elements", "full")
    return Partial(
        reader="labels",
        file=file,
        node=node,
        labels=labels,
        kernel=Kernel(release=clean(release, 80)) if release else None,
        notes=notes,
    )
