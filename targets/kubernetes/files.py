"""The files below ``cluster/``, and the stream of all objects in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from compiler.artifact import Artifact, text_artifact
from compiler.fleet import ClusterOptions, Fleet, FleetClass
from compiler.model.cluster import KubernetesOptions, Rollout
from compiler.yamlout import dump
from targets.kubernetes.content import MAX_OBJECT, content_of
from targets.kubernetes.features import node_feature
from targets.kubernetes.objects import Object, common, config_map
from targets.kubernetes.pods import Daemon, daemon_set, map_names
from targets.kubernetes.rollout import steps

COMMON: Final = "cluster/common.yaml"
_MARK: Final = "---\n"
_WAVE: Final = re.compile(r'^    argocd\.argoproj\.io/sync-wave: "([0-9]+)"$', re.MULTILINE)
_KIND: Final = re.compile(r"^kind: ([A-Za-z]+)$", re.MULTILINE)
_FIRST: Final = ("Namespace", "PriorityClass", "ServiceAccount", "ConfigMap", "NodeFeature")


def options_of(options: ClusterOptions) -> KubernetesOptions:
    """Return the target's own options.

    Raises:
        TypeError: they are another target's.
    """
    if not isinstance(options.options, KubernetesOptions):
        raise TypeError(f"{type(options.options).__name__} is not the kubernetes target's")
    return options.options


def emit(fleet: Fleet, options: ClusterOptions) -> list[Artifact]:
    """Return ``cluster/common.yaml`` and a ``cluster/class-NAME.yaml`` for each class.

    Raises:
        ValueError: an object is larger than the cluster should be asked to take.
    """
    own = options_of(options)
    files = [_file(COMMON, ["What all classes share."], common(own))]
    for group in fleet.classes:
        path = f"cluster/class-{group.name}.yaml"
        head = f"Class {group.name}, mode {group.plan.mode}."
        files.append(_file(path, [head], class_objects(group, own, options.rollout)))
    return sorted(files, key=lambda file: file.path)


def class_objects(group: FleetClass, options: KubernetesOptions, rollout: Rollout) -> list[Object]:
    """Return the objects of a class, in the order to apply them."""
    content = content_of(group.files)
    labels = {"tierc.dev/class": group.name}
    objects = [
        config_map(name, options.namespace, shard, labels)
        for name, shard in zip(map_names(group, content), content.shards, strict=True)
    ]
    daemons = [
        Daemon(group, content, step, tuple(nodes))
        for step, nodes in steps(rollout, group.nodes).items()
    ]
    if options.select == "labels":
        objects += [node_feature(node, one, options) for one in daemons for node in one.nodes]
    return objects + [daemon_set(one, options) for one in daemons]


def _file(path: str, head: Sequence[str], objects: Iterable[Object]) -> Artifact:
    header = [*head, "Written by tierc: change the intents and build again rather than this file."]
    comment = "".join(f"# {line}\n" for line in header)
    texts = [dump(one) for one in objects]
    for text in texts:
        if len(text) > MAX_OBJECT:
            raise ValueError(f"an object of {path} has {len(text)} bytes, of {MAX_OBJECT} at most")
    return text_artifact(path, comment + _MARK + _MARK.join(texts))


def stream(artifacts: Sequence[Artifact]) -> bytes:
    """Return all objects as one YAML stream, in the order to apply them.

    That is: waves as Argo CD has them, in a wave what others need first, then by file and place.
    Empty where there is no class: what all classes share is nothing by itself, and applied with
    pruning it would remove the pods of all nodes.
    """
    documents: list[str] = []
    if all(artifact.path == COMMON for artifact in artifacts):
        return b""
    for artifact in sorted(artifacts, key=lambda one: one.path):
        _, *texts = re.split(r"^---\n", artifact.data.decode(), flags=re.MULTILINE)
        documents += texts
    documents.sort(key=_order)
    return "".join(_MARK + text for text in documents).encode()


def _order(document: str) -> tuple[int, int]:
    wave, kind = _WAVE.search(document), _KIND.search(document)
    name = kind[1] if kind else ""
    rank = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return (int(wave[1]) if wave else 0, rank)
