"""The objects of the kubernetes target: what a cluster accepts, selects and shows to the pods."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from compiler.artifact import Artifact, text_artifact
from compiler.fleet import ClusterOptions, Fleet
from targets.kubernetes import TARGET
from targets.kubernetes.content import MAX_OBJECT
from tests.conftest import ROOT
from tests.kube_fleets import (
    Object,
    emitted,
    fake_script,
    files_of,
    fleet,
    group,
    objects,
    of_kind,
    options,
    read,
    selected,
    some_plan,
    tree,
    unpack,
)

VERSIONS = [f"1.{minor}" for minor in range(31, 38)]
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?\Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
KEY = re.compile(r"(?!\.\.)[A-Za-z0-9._-]{1,253}\Z")
IRQ = (fake_script("exit 0", "irq/apply.sh"), fake_script("exit 0", "irq/revert.sh"))
CPUSET = (fake_script("exit 0", "cpuset/apply.sh"), fake_script("exit 0", "cpuset/revert.sh"))

# Between them, values that mean something else to some reader of YAML.
ODD = ["on", "1e3", "0o17", "0x1f", "190.20.30", "2026-11-30", "null", "y", "12", "1.5", "no"]


def huge() -> Artifact:
    """Return a file of which no half fits into one object."""
    return text_artifact("plan-of-all.txt", "".join(f"line {n} <&>\n" for n in range(12_000)))


SMALL = fleet(group("ab", ["n1", "n2"]), group("cd", ["n3"]))
CASES: dict[str, tuple[Fleet, ClusterOptions]] = {
    "small": (SMALL, options()),
    "odd names": (fleet(group("ab", ODD)), options()),
    "all targets": (fleet(group("ab", ["n1"], *IRQ, *CPUSET)), options()),
    "huge": (fleet(group("ab", ["n1"], huge())), options()),
    "signs that Go writes long": (
        fleet(
            group("ab", ["n1"], text_artifact("a", "&" * 30_000), text_artifact("b", "<" * 9_000))
        ),
        options(),
    ),
    "labels": (
        fleet(group("ab", [f"n{i}" for i in range(120)]), group("cd", ODD)),
        options([{"percent": 30}], select="labels"),
    ),
    "rollout": (
        fleet(group("ab", [f"n{i}" for i in range(40)]), group("cd", ["m1", "m2"])),
        options([{"names": ["n3", "m2"]}, {"percent": 50}, "all"], maxUnavailable="25%"),
    ),
    "every option": (
        SMALL,
        options(
            namespace="placement",
            createNamespace=True,
            image="registry.example.org:5000/tools/busybox@sha256:" + "a" * 64,
            imagePullSecrets=["pull"],
            intervalSeconds=5,
            tolerations=[
                {"key": "gpu", "operator": "Equal", "value": "on", "effect": "NoSchedule"},
                {"key": "gpu", "operator": "Exists"},
            ],
            maxUnavailable=3,
            priorityClassName="placement",
            createPriorityClass=True,
            killSwitch="/var/lib/tierc/disabled",
        ),
    ),
    "bytes that are no text": (
        fleet(group("ab", ["n1"], Artifact("seed.bin", bytes(range(256)) * 9))),
        options(),
    ),
}


@cache
def made(name: str) -> tuple[dict[str, bytes], str]:
    """Return the files of a case, and its objects in JSON."""
    return emitted(*CASES[name]), json.dumps(objects(*CASES[name]))


def found_in(name: str) -> list[Object]:
    """Return the objects of a case, each time anew."""
    out: list[Object] = json.loads(made(name)[1])
    return out


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def validator() -> Any:
    try:
        return import_module("kubernetes_validate").validate
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("kubernetes-validate is not installed, and CI must not skip", pytrace=False)
        pytest.skip("kubernetes-validate is not installed")


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_object(version: str) -> None:
    validate = validator()
    shapes: dict[str, Object] = {}
    for name in CASES:
        for one in found_in(name):
            if one["kind"] != "NodeFeature":
                shapes.setdefault(json.dumps(strip(one), sort_keys=True), one)
    for one in shapes.values():
        validate(one, version, strict=True)
    assert len(shapes) > 30


def strip(one: Object) -> Object:
    """Return an object without what the validator does not look at."""
    return {**one, "data": sorted(one.get("data", {}))}


def test_the_validator_finds_what_is_wrong() -> None:
    validate = validator()
    (daemon, *_) = of_kind("DaemonSet", objects(SMALL))
    daemon["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(Exception, match="hostPid"):
        validate(daemon, "1.34", strict=True)


# --- what the validator does not look at --------------------------------------------------------


def test_names_labels_and_references_hold(case: str) -> None:
    found = found_in(case)
    names = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in found]
    assert len(set(names)) == len(names)
    for one in found:
        meta = one["metadata"]
        assert SUBDOMAIN.match(meta["name"])
        assert len(meta["name"]) <= (253 if one["kind"] in ("NodeFeature", "ConfigMap") else 57)
        assert one["kind"] in ("Namespace", "PriorityClass") or meta["namespace"]
        assert all(type(v) is str and LABEL.match(v) for v in meta["labels"].values())
        assert all(type(v) is str for v in meta["annotations"].values())
        assert meta["labels"]["app.kubernetes.io/name"] == "tierc"
        assert meta["labels"]["app.kubernetes.io/managed-by"] == "tierc"


def test_only_these_kinds_and_no_rights(case: str) -> None:
    assert {one["kind"] for one in found_in(case)} <= {
        "Namespace",
        "PriorityClass",
        "ServiceAccount",
        "ConfigMap",
        "NodeFeature",
        "DaemonSet",
    }
    (account,) = of_kind("ServiceAccount", found_in(case))
    assert account["automountServiceAccountToken"] is False


def test_config_maps_are_immutable_small_and_named_by_content(
    case: str,
) -> None:
    for path, data in made(case)[0].items():
        for text in re.split(rb"^---\n", data, flags=re.MULTILINE)[1:]:
            assert len(text) <= MAX_OBJECT, path
    for one in of_kind("ConfigMap", found_in(case)):
        assert one["immutable"] is True
        assert re.search(r"-[0-9a-f]{10}\Z", one["metadata"]["name"])
        text = json.dumps(one, separators=(",", ":"))
        go = len(text) + 5 * sum(text.count(char) for char in "<>&")
        assert go <= 200 * 1024
        for key in [*one.get("data", {}), *one.get("binaryData", {})]:
            assert KEY.match(key)
        notes = one["metadata"]["annotations"]
        assert notes["kustomize.toolkit.fluxcd.io/substitute"] == "disabled"
        assert notes["argocd.argoproj.io/sync-options"] == "ServerSideApply=true,PruneLast=true"
        assert notes["argocd.argoproj.io/sync-wave"] == "0"


def test_daemon_sets_are_whole(case: str) -> None:
    found = found_in(case)
    accounts = {one["metadata"]["name"] for one in of_kind("ServiceAccount", found)}
    keys = {
        one["metadata"]["name"]: {*one.get("data", {}), *one.get("binaryData", {})}
        for one in of_kind("ConfigMap", found)
    }
    used = set()
    seen: list[Object] = []
    for daemon in of_kind("DaemonSet", found):
        spec = daemon["spec"]
        # Or Argo CD prunes the old one of a node before the step in which the new one comes.
        notes = daemon["metadata"]["annotations"]
        assert notes["argocd.argoproj.io/sync-options"] == "ServerSideApply=true,PruneLast=true"
        pod = spec["template"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert spec["selector"]["matchLabels"] not in seen  # no two own the same pods
        seen.append(spec["selector"]["matchLabels"])
        assert pod["serviceAccountName"] in accounts
        (container,) = pod["containers"]
        volumes = [one["name"] for one in pod["volumes"]]
        assert volumes == [one["name"] for one in container["volumeMounts"]]
        for volume in pod["volumes"]:
            paths = set()
            for source in volume.get("projected", {}).get("sources", []):
                used.add(source["configMap"]["name"])
                for item in source["configMap"]["items"]:
                    assert item["key"] in keys[source["configMap"]["name"]]
                    assert item["path"] not in paths
                    assert ".." not in item["path"].split("/")
                    paths.add(item["path"])
    assert used == set(keys), "a ConfigMap that no pod uses"


def test_every_planned_node_is_selected_once_and_no_other(
    case: str,
) -> None:
    of, _ = CASES[case]
    found = found_in(case)
    nodes = {node for one in of.classes for node in one.nodes}
    labels: dict[str, dict[str, str]] = {node: {} for node in [*nodes, "stranger", "N1"]}
    for one in of_kind("NodeFeature", found):
        labels[one["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"]] = one["spec"][
            "labels"
        ]
    by_class: dict[str, list[str]] = {}
    for daemon in of_kind("DaemonSet", found):
        name = daemon["metadata"]["labels"]["tierc.dev/class"]
        by_class.setdefault(name, []).extend(sorted(selected(daemon, labels)))
    assert {k: sorted(v) for k, v in by_class.items()} == {
        one.name: list(one.nodes) for one in of.classes
    }


def test_a_node_without_a_plan_is_selected_by_nothing() -> None:
    of = replace(SMALL, unplanned=("n9",))
    for given in (options(), options(select="labels")):
        text = TARGET.stream(TARGET.emit(of, given)).decode()
        assert not re.search(r"\bn9\b", text)


# --- privileges -----------------------------------------------------------------------------------


def pod_of(of: Fleet, given: ClusterOptions | None = None) -> Object:
    (daemon, *_) = of_kind("DaemonSet", objects(of, given))
    pod: Object = daemon["spec"]["template"]["spec"]
    return pod


def host_mounts(pod: Object) -> dict[str, tuple[str, bool]]:
    """Return host path -> where the container sees it, and whether it may write."""
    (container,) = pod["containers"]
    paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    return {
        paths[m["name"]]: (m["mountPath"], not m.get("readOnly", False))
        for m in container["volumeMounts"]
        if m["name"] in paths
    }


BASE_MOUNTS = {
    "/var/lib/tierc": ("/var/lib/tierc", True),
    "/etc/tierc": ("/etc/tierc", False),
    "/sys/fs/cgroup": ("/host/cgroup", False),
}


@pytest.mark.parametrize(
    ("extra", "more"),
    [
        ((), {}),
        (
            IRQ,
            {
                "/proc/irq": ("/host/proc/irq", True),
                "/proc/interrupts": ("/host/proc/interrupts", False),
            },
        ),
        (CPUSET, {"/sys/fs/cgroup": ("/host/cgroup", True)}),
    ],
)
def test_a_pod_has_no_more_than_its_scripts_need(
    extra: tuple[Artifact, ...], more: dict[str, tuple[str, bool]]
) -> None:
    pod = pod_of(fleet(group("ab", ["n1"], *extra)))
    assert host_mounts(pod) == BASE_MOUNTS | more
    assert pod["hostPID"] is True
    assert not {"hostNetwork", "hostIPC", "hostUsers"} & set(pod)
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": False,
        "runAsUser": 0,
        "runAsGroup": 0,
        "capabilities": {"drop": ["ALL"], "add": ["SYS_NICE"]},
        "seLinuxOptions": {"type": "spc_t"},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    names = {one["name"] for one in container["env"]}
    assert ("TIERC_IRQS" in names) is (extra == IRQ)
    assert "livenessProbe" not in container
    assert container["resources"]["requests"]
    assert container["resources"]["limits"]


def test_nothing_below_etc_is_mounted_where_it_cannot_be_written() -> None:
    """A runtime cannot make /etc/tierc there, and such a pod never starts."""
    pod = pod_of(
        fleet(group("ab", ["n1"], *IRQ, *CPUSET)), options(killSwitch="/var/lib/tierc/disabled")
    )
    assert sorted(host_mounts(pod)) == [
        "/proc/interrupts",
        "/proc/irq",
        "/sys/fs/cgroup",
        "/var/lib/tierc",
    ]
    (container,) = pod["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["TIERC_ETC"] == "/var/lib/tierc"
    assert host_mounts(pod)[env["TIERC_ETC"]] == ("/var/lib/tierc", True)
    (usual,) = pod_of(fleet(group("ab", ["n1"])))["containers"]
    assert "TIERC_ETC" not in {one["name"] for one in usual["env"]}


def test_defaults_are_careful() -> None:
    found = objects(SMALL)
    assert not of_kind("Namespace", found) + of_kind("PriorityClass", found)
    pod = pod_of(SMALL)
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "priorityClassName" not in pod
    assert pod["containers"][0]["image"] == "docker.io/library/busybox:1.37.0"
    for daemon in of_kind("DaemonSet", found):
        assert daemon["spec"]["updateStrategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 1},
        }


def test_every_option_is_obeyed() -> None:
    of, given = CASES["every option"]
    found = objects(of, given)
    (space,) = of_kind("Namespace", found)
    assert space["metadata"]["name"] == "placement"
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "Prune=false" in space["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
    assert {o["metadata"].get("namespace") for o in found} == {None, "placement"}
    (priority,) = of_kind("PriorityClass", found)
    assert (priority["metadata"]["name"], priority["globalDefault"]) == ("placement", False)
    pod = pod_of(of, given)
    assert pod["priorityClassName"] == "placement"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "on", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists"},
    ]
    (container,) = pod["containers"]
    assert container["image"].endswith("a" * 64)
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["TIERC_INTERVAL"] == "5"
    for daemon in of_kind("DaemonSet", found):
        assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 3}


# --- content --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"huge"}))
def test_the_pod_sees_the_tree_of_the_node(name: str, tmp_path: Path) -> None:
    """Where a file is cut, ``run.sh`` joins it: see test_kubernetes_run.py."""
    of, _ = CASES[name]
    found = found_in(name)
    for one in of.classes:
        for daemon in of_kind("DaemonSet", found):
            if daemon["metadata"]["labels"]["tierc.dev/class"] != one.name:
                continue
            where = unpack("plan", daemon, found, tmp_path / daemon["metadata"]["name"])
            assert tree(where / "node") == {f.path: (f.data, f.mode) for f in one.files}


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    of = fleet(group("ab", ["n1"], *IRQ))
    found = objects(of)
    (daemon,) = of_kind("DaemonSet", found)
    where = unpack("plan", daemon, found, tmp_path / "v")
    expected = {f"node/{f.path}": hashlib.sha256(f.data).hexdigest() for f in of.classes[0].files}
    lines = (where / "SHA256SUMS").read_text().splitlines()
    assert {line[66:]: line[:64] for line in lines} == expected


def test_paths_that_keys_cannot_have(tmp_path: Path) -> None:
    paths = ["a/b", "a__b", "a_b", "a@b", "a+b", ".hidden", "..odd", "a/.x", "x/" + "y" * 255]
    of = fleet(group("ab", ["n1"], *(text_artifact(path, path) for path in paths)))
    found = objects(of)
    (daemon,) = of_kind("DaemonSet", found)
    where = unpack("plan", daemon, found, tmp_path / "v")
    assert {p: (where / "node" / p).read_text() for p in paths} == {p: f"{p}\n" for p in paths}


def test_a_hash_is_of_content_only() -> None:
    """Neither nodes, class, order nor options are in it; a byte or a mode is."""

    def hashes(of: Fleet, given: ClusterOptions | None = None) -> tuple[str, list[str]]:
        found = objects(of, given)
        (daemon, *_) = of_kind("DaemonSet", found)
        names = [
            one["metadata"]["name"].rpartition("-")[2]
            for one in of_kind("ConfigMap", found)
            if "tierc.dev/class" in one["metadata"]["labels"]
        ]
        return daemon["spec"]["template"]["metadata"]["annotations"]["tierc.dev/plan"], names

    one = hashes(fleet(group("ab", ["n1"])))
    assert hashes(fleet(group("xy", ["n1", "n2"])), options(namespace="other")) == one
    files = files_of(some_plan())
    assert hashes(fleet(group("ab", ["n1"], files=files[::-1]))) == one
    changed = [replace(files[0], data=files[0].data + b"\n"), *files[1:]]
    assert hashes(fleet(group("ab", ["n1"], files=changed)))[0] != one[0]
    modes = [replace(files[0], mode=0o755), *files[1:]]
    other = hashes(fleet(group("ab", ["n1"], files=modes)))
    assert other[0] != one[0]
    assert other[1] != one[1]


# --- files, stream --------------------------------------------------------------------------------


def test_a_class_has_a_file_that_depends_on_nothing_else() -> None:
    both = emitted(SMALL)
    alone = emitted(fleet(SMALL.classes[0]))
    assert sorted(both) == [
        "cluster/class-ab.yaml",
        "cluster/class-cd.yaml",
        "cluster/common.yaml",
    ]
    assert alone == {path: both[path] for path in alone}
    assert sorted(alone) == ["cluster/class-ab.yaml", "cluster/common.yaml"]


def test_adding_a_node_changes_one_object() -> None:
    before, after = SMALL, fleet(group("ab", ["n1", "n2", "n4"]), group("cd", ["n3"]))
    for given, kinds in ((options(), ["DaemonSet"]), (options(select="labels"), ["NodeFeature"])):
        old = {json.dumps(one) for one in objects(before, given)}
        changed = [one for one in objects(after, given) if json.dumps(one) not in old]
        assert [one["kind"] for one in changed] == kinds


def test_the_stream_has_all_objects_in_the_order_to_apply_them() -> None:
    of, given = CASES["labels"]
    artifacts = TARGET.emit(of, given)
    stream = TARGET.stream(artifacts)
    assert stream.startswith(b"---\n")
    assert stream.isascii()
    assert not re.search(rb"^#", stream, re.MULTILINE)
    found = read(stream)
    assert sorted(map(json.dumps, found)) == sorted(
        json.dumps(one) for file in artifacts for one in read(file.data)
    )
    waves = [int(o["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]) for o in found]
    assert waves == sorted(waves)
    kinds = list(dict.fromkeys(one["kind"] for one in found))
    assert kinds == ["ServiceAccount", "ConfigMap", "NodeFeature", "DaemonSet"]
    assert TARGET.stream(artifacts[::-1]) == stream
    first = objects(*CASES["every option"])[:3]
    assert [one["kind"] for one in first] == ["Namespace", "PriorityClass", "ServiceAccount"]


def test_a_stream_without_classes_is_empty() -> None:
    """What all classes share is nothing to sync: pruning would remove the pods of all nodes."""
    assert TARGET.stream(TARGET.emit(fleet(unplanned=["n1"]), options())) == b""
    assert TARGET.stream([]) == b""


def test_a_script_that_looks_like_yaml_stays_a_text() -> None:
    text = '---\nkind: Node\n    argocd.argoproj.io/sync-wave: "9"\n---\n# a\n...\n%YAML\n'
    of = fleet(group("ab", ["n1"], text_artifact("a.txt", text)))
    found = objects(of)
    assert len(found) == 4
    (own,) = (one for one in of_kind("ConfigMap", found) if "node__a.txt" in one["data"])
    assert own["data"]["node__a.txt"] == text
    assert [one["kind"] for one in found].count("Node") == 0


# --- NodeFeature ----------------------------------------------------------------------------------


def strict(schema: Object) -> Object:
    """Return a schema of a CRD that takes no field that it does not list."""
    out = {key: strict(v) if isinstance(v, dict) else v for key, v in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


def features() -> list[Object]:
    found = of_kind("NodeFeature", found_in("labels"))
    assert len(found) == 120 + len(ODD)
    return found


def test_node_features_are_what_nfd_takes() -> None:
    fixture = ROOT / "tests" / "fixtures" / "kubernetes" / "nodefeature.yaml"
    check = jsonschema.Draft202012Validator(YAML(typ="safe", pure=True).load(fixture))
    for one in features():
        check.validate(one)
        assert one["metadata"]["namespace"] == "node-feature-discovery"
        for key in one["spec"]["labels"]:  # the only names that every release of NFD lets one set
            assert key.partition("/")[0].endswith(".feature.node.kubernetes.io")
    broken = {**features()[0], "spec": {"label": {}}}
    assert not check.is_valid(broken)


def test_node_features_fit_the_definition_of_nfd(shared: Path) -> None:
    crds = YAML(typ="safe", pure=True).load_all(shared / "peers" / "crds" / "nfd.yaml")
    (crd,) = (one for one in crds if one["spec"]["names"]["kind"] == "NodeFeature")
    (version,) = (v for v in crd["spec"]["versions"] if v["name"] == "v1alpha1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    check = jsonschema.Draft202012Validator(schema)
    for one in features():
        check.validate(one)
    assert crd["spec"]["scope"] == "Namespaced"
    assert not check.is_valid({**features()[0], "spec": {"label": {}}})


def test_a_long_name_of_a_node_still_names_its_object() -> None:
    node = ".".join(["n" * 60] * 4)
    assert len(f"tierc-{node}") > 240
    (one,) = of_kind(
        "NodeFeature", objects(fleet(group("ab", [node + ".nnnnnn"])), options(select="labels"))
    )
    assert len(one["metadata"]["name"]) <= 253
