"""Fleets for tests of the kubernetes target, its objects, and what a kubelet makes of them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from compiler.artifact import Artifact, canonical_json, script_artifact
from compiler.fleet import ClusterOptions, Fleet, FleetClass
from compiler.model.cluster import KubernetesOptions, Rollout
from compiler.plan import NodePlan
from targets.kubernetes import TARGET
from targets.taskset import TARGET as TASKSET
from tests.taskset_host import BANDS, FOUR
from tests.taskset_plans import plan, rule

Object = dict[str, Any]


def some_plan(mode: str = "fallback") -> NodePlan:
    """Return a plan of four CPUs with one rule."""
    return plan([rule(0, 0, comm="decode*")], on=FOUR, bands=BANDS, mode=mode)  # type: ignore[arg-type]


def files_of(one: NodePlan) -> list[Artifact]:
    """Return what a node with the taskset target gets."""
    return [Artifact("plan.json", canonical_json(one.data())), *TASKSET.emit(one)]


@cache
def _usual() -> tuple[NodePlan, tuple[Artifact, ...]]:
    one = some_plan()
    return one, tuple(files_of(one))


def group(
    name: str, nodes: Iterable[str], *extra: Artifact, files: Sequence[Artifact] | None = None
) -> FleetClass:
    """Return a class; its files are those of a small plan, and ``extra``."""
    one, own = _usual()
    listed = [*(own if files is None else files), *extra]
    return FleetClass(
        name, tuple(sorted(nodes)), one, tuple(sorted(listed, key=lambda file: file.path))
    )


def fleet(*classes: FleetClass, unplanned: Sequence[str] = ()) -> Fleet:
    return Fleet(tuple(sorted(classes, key=lambda one: one.name)), tuple(unplanned))


def options(rollout: object = None, **given: object) -> ClusterOptions:
    """Return options as a project file has them: keys in camelCase."""
    pace = Rollout.model_validate({"steps": rollout or ()}, strict=False)
    return ClusterOptions(KubernetesOptions.model_validate(given, strict=False), pace)


def emitted(of: Fleet, given: ClusterOptions | None = None) -> dict[str, bytes]:
    return {file.path: file.data for file in TARGET.emit(of, given or options())}


def read(text: bytes | str) -> list[Object]:
    """Return the documents of a text, comments and empty ones left out."""
    data = text.decode() if isinstance(text, bytes) else text
    return [one for one in YAML(typ="safe").load_all(data) if one is not None]


def objects(of: Fleet, given: ClusterOptions | None = None) -> list[Object]:
    """Return all objects, in the order of the stream."""
    return read(TARGET.stream(TARGET.emit(of, given or options())))


def of_kind(kind: str, found: Iterable[Object]) -> list[Object]:
    return [one for one in found if one["kind"] == kind]


def selected(daemon: Object, labels: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the nodes that a DaemonSet's affinity selects, as a scheduler reads it.

    Args:
        daemon: the object.
        labels: labels of each node.
    """
    affinity = daemon["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    def meets(term: Object, node: str) -> bool:
        assert term
        fields = term.get("matchFields", [])
        assert all(field["key"] == "metadata.name" for field in fields)
        assert all(len(field["values"]) == 1 for field in fields), "the API takes one value only"
        own = labels[node]
        return all(node in field["values"] for field in fields) and all(
            one["operator"] == "In" and own.get(one["key"]) in one["values"]
            for one in term.get("matchExpressions", [])
        )

    return {node for node in labels if any(meets(term, node) for term in terms)}


def unpack(volume: str, daemon: Object, found: Iterable[Object], where: Path) -> Path:
    """Do what a kubelet does for a projected volume; return its directory.

    The files are in a hidden directory, ``..data`` leads to it, and what is at the top are links.
    """
    maps = {one["metadata"]["name"]: one for one in of_kind("ConfigMap", found)}
    spec = daemon["spec"]["template"]["spec"]
    (projected,) = (one["projected"] for one in spec["volumes"] if one["name"] == volume)
    real = where / "..2026_11_30_12_00_00.1"
    real.mkdir(parents=True)
    for source in projected["sources"]:
        one = maps[source["configMap"]["name"]]
        assert "optional" not in source["configMap"]
        for item in source["configMap"]["items"]:
            key, path = item["key"], real / item["path"]
            data = one.get("data", {}).get(key)
            raw = base64.b64decode(one["binaryData"][key]) if data is None else data.encode()
            path.parent.mkdir(parents=True, exist_ok=True)
            assert not path.exists()
            path.write_bytes(raw)
            path.chmod(item["mode"])
    (where / "..data").symlink_to(real.name)
    for top in sorted(real.iterdir()):
        (where / top.name).symlink_to(f"..data/{top.name}")
    return where


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files below a directory: path -> bytes and permission bits."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def fake_script(text: str, path: str) -> Artifact:
    return script_artifact(path, f"#!/bin/sh\n{text}\n")
