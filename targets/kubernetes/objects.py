"""What all objects share, and those that are the same for every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from compiler.artifact import SCRIPT_MODE
from compiler.model.cluster import KubernetesOptions
from compiler.yamlout import Plain
from targets.kubernetes.content import Entry, Shard

Object = dict[str, Plain]

ACCOUNT: Final = "tierc-node"
SHORT: Final = 10
"""Hexadecimal digits of a digest in names: 40 bits."""

_LABELS: Final = {
    "app.kubernetes.io/name": "tierc",
    "app.kubernetes.io/component": "node",
    "app.kubernetes.io/managed-by": "tierc",
}
_POD_SECURITY: Final = ("enforce", "audit", "warn")
_SYNC: Final = "argocd.argoproj.io/sync-options"
_WAVE: Final = "argocd.argoproj.io/sync-wave"


def metadata(
    name: str,
    namespace: str | None,
    *,
    wave: int = 0,
    sync: Sequence[str] = ("ServerSideApply=true",),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Return the metadata of an object; ``wave`` is its place in an ordered rollout."""
    where: Object = {"namespace": namespace} if namespace is not None else {}
    return {
        "name": name,
        **where,
        "labels": {**_LABELS, **(labels or {})},
        "annotations": {_WAVE: str(wave), _SYNC: ",".join(sync), **(annotations or {})},
    }


def config_map(name: str, namespace: str, shard: Shard, labels: Mapping[str, str]) -> Object:
    """Return an immutable ConfigMap; its name holds a hash of what is in it.

    It is removed after everything else, so that pods not replaced yet can start again.  Flux is
    told to leave ``${...}`` alone: in scripts it is a shell's.
    """
    binary = shard.binary_data
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            f"{name}-{shard.digest[:SHORT]}",
            namespace,
            sync=("ServerSideApply=true", "PruneLast=true"),
            labels=labels,
            annotations={"kustomize.toolkit.fluxcd.io/substitute": "disabled"},
        ),
        "immutable": True,
        "data": dict(shard.data),
        **({"binaryData": dict(binary)} if binary else {}),
    }


@cache
def runner() -> Shard:
    """Return the ConfigMap data with ``run.sh``."""
    text = (Path(__file__).parent / "templates" / "run.sh").read_bytes()
    return Shard((Entry("run.sh", "run.sh", SCRIPT_MODE, text),))


def runner_map(options: KubernetesOptions) -> Object:
    """Return the ConfigMap with ``run.sh``, which all pods share."""
    return config_map("tierc-run", options.namespace, runner(), {})


def common(options: KubernetesOptions) -> list[Object]:
    """Return the objects that depend on no class."""
    objects: list[Object] = []
    if options.create_namespace:
        level = {f"pod-security.kubernetes.io/{key}": "privileged" for key in _POD_SECURITY}
        space = metadata(
            options.namespace, None, sync=("ServerSideApply=true", "Prune=false"), labels=level
        )
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
    if options.create_priority_class and options.priority_class_name is not None:
        objects.append(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": metadata(options.priority_class_name, None),
                "value": 1_000_000,
                "globalDefault": False,
                "description": "pods that place the threads of their node",
            }
        )
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(ACCOUNT, options.namespace),
            "automountServiceAccountToken": False,
        }
    )
    objects.append(runner_map(options))
    return objects
