"""The manifest: a namespace if asked for, the script in a ConfigMap, and who runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from compiler import yamlout
from compiler.yamlout import Plain

NAME: Final = "tierc-facts"
NAMESPACE: Final = "tierc-facts"
IMAGE: Final = "busybox:1.36"
"""Needs a shell and the usual tools, nothing else."""
KUBELET_ROOT: Final = "/var/lib/kubelet"

_ROOT: Final = "/host"
_SCRATCH: Final = "/scratch"
_NOBODY: Final = 65534
_LABELS: Final[Mapping[str, Plain]] = MappingProxyType(
    {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "tierc"}
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose.

    Attributes:
        namespace: where the objects live.
        create_namespace: whether the manifest makes it.
        image: an image with busybox.
        selector: labels of the nodes to collect from; empty: all Linux nodes.
        kubelet_root: the kubelet's directory, to read its CPU manager's state: needs root in the
            pod.  None: it stays unknown.
    """

    namespace: str = NAMESPACE
    create_namespace: bool = False
    image: str = IMAGE
    selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    kubelet_root: str | None = None


def script() -> str:
    """Return the collector, a script in POSIX sh."""
    return files("compiler.facts.daemonset").joinpath("collect.sh").read_text(encoding="utf-8")


def manifest(options: Options) -> str:
    """Return the objects as a stream of YAML documents."""
    text = script()
    config = f"{NAME}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    objects: list[tuple[dict[str, Plain], tuple[str, ...]]] = []
    if options.create_namespace:
        objects.append((_namespace(options), ()))
    objects += [
        (
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": _metadata(options, NAME),
                "automountServiceAccountToken": False,
            },
            ("No rights at all: the pods never talk to the API server.",),
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    **_metadata(options, config),
                    # Flux would take the script's variables for its own.
                    "annotations": {"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
                },
                "immutable": True,
                "data": {"collect.sh": text},
            },
            ("The hash of the script is in the name: a new script rolls the pods.",),
        ),
        (_daemonset(options, config), ()),
    ]
    return "---\n".join(yamlout.dump(data, header=header) for data, header in objects)


def _metadata(options: Options, name: str) -> dict[str, Plain]:
    return {"name": name, "namespace": options.namespace, "labels": dict(_LABELS)}


def _namespace(options: Options) -> dict[str, Plain]:
    # Directories of the host are more than the baseline policy allows, also read-only.
    labels = {
        **_LABELS,
        "pod-security.kubernetes.io/enforce": "privileged",
        "pod-security.kubernetes.io/warn": "privileged",
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": options.namespace, "labels": labels},
    }


def _daemonset(options: Options, config: str) -> dict[str, Plain]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(options, NAME),
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "100%"},
            },
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": _pod(options, config),
            },
        },
    }


def _pod(options: Options, config: str) -> dict[str, Plain]:
    host = {"sys": "/sys", "proc": "/proc"}
    if options.kubelet_root is not None:
        host["kubelet"] = options.kubelet_root
    user = _NOBODY if options.kubelet_root is None else 0
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {"kubernetes.io/os": "linux", **dict(sorted(options.selector.items()))},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": user != 0,
            "runAsUser": user,
            "runAsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(options, host)],
        "volumes": [
            {"name": "script", "configMap": {"name": config}},
            {"name": "work", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
            *(
                {"name": name, "hostPath": {"path": path, "type": "Directory"}}
                for name, path in host.items()
            ),
        ],
    }


def _container(options: Options, host: Mapping[str, str]) -> dict[str, Plain]:
    environment: list[Plain] = [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TIERC_ROOT", "value": _ROOT},
        {"name": "TIERC_WORK", "value": _SCRATCH},
    ]
    if options.kubelet_root is not None:
        environment.append({"name": "KUBELET_ROOT", "value": options.kubelet_root})
    return {
        "name": "collect",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "/script/collect.sh", "hold"],
        "env": environment,
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "script", "mountPath": "/script", "readOnly": True},
            {"name": "work", "mountPath": _SCRATCH},
            *(
                {"name": name, "mountPath": f"{_ROOT}{path}", "readOnly": True}
                for name, path in host.items()
            ),
        ],
    }
