"""NodeFeature objects: requests to Node Feature Discovery to label a node for tierc."""

from __future__ import annotations

import hashlib
from typing import Final

from compiler.model.cluster import KubernetesOptions
from targets.kubernetes.objects import Object, metadata
from targets.kubernetes.pods import Daemon, node_labels, waves

NODE_LABEL: Final = "nfd.node.kubernetes.io/node-name"
MAX_LABEL: Final = 63
MAX_NAME: Final = 253


def node_feature(node: str, daemon: Daemon, options: KubernetesOptions) -> Object:
    """Return the NodeFeature of a node; NFD looks for them in its own namespace.

    No Node object is touched: NFD owns the labels that it sets.  It is pruned last, as DaemonSets
    are: until then they may select nodes by these labels.
    """
    name = f"tierc-{node}"
    if len(name) > MAX_NAME:
        name = f"tierc-{hashlib.sha256(node.encode()).hexdigest()}"
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": metadata(
            name,
            options.nfd_namespace,
            wave=waves(daemon, options)[0],
            sync=("ServerSideApply=true", "SkipDryRunOnMissingResource=true", "PruneLast=true"),
            labels={NODE_LABEL: node, "tierc.dev/class": daemon.group.name},
        ),
        "spec": {"labels": dict(node_labels(daemon, options))},
    }
