"""The manifest of pods that collect a fleet, and the command that prints it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from compiler.cli import app
from compiler.facts.daemonset.manifest import Options, manifest
from tests.daemonset_log import SCRIPT

# --- the manifest ------------------------------------------------------------------------------


def objects(text: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(text))


def by_kind(text: str) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in objects(text)}


def walk(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from walk(one)


OPTIONS = [
    Options(),
    Options(
        namespace="facts",
        create_namespace=True,
        image="registry.example/busybox@sha256:" + "0" * 64,
        selector={"accelerator": "true", "zone": "0123"},
        kubelet_root="/var/lib/kubelet",
    ),
]


@pytest.mark.parametrize("options", OPTIONS)
def test_the_script_arrives_unchanged_and_its_hash_is_its_name(options: Options) -> None:
    found = by_kind(manifest(options))
    config, spec = found["ConfigMap"], found["DaemonSet"]["spec"]["template"]["spec"]
    assert config["data"]["collect.sh"] == SCRIPT.read_text()
    assert config["immutable"] is True
    digest = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    assert config["metadata"]["name"] == f"tierc-facts-{digest[:10]}"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["script"]["configMap"]["name"] == config["metadata"]["name"]
    assert len(config["data"]["collect.sh"]) < 200_000


@pytest.mark.parametrize("options", OPTIONS)
def test_the_pods_may_do_nothing_but_read(options: Options) -> None:
    found = by_kind(manifest(options))
    assert sorted(found) == sorted(
        ["ConfigMap", "DaemonSet", "ServiceAccount"]
        + (["Namespace"] if options.create_namespace else [])
    )
    spec = found["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    host = {v["name"] for v in spec["volumes"] if "hostPath" in v}
    paths = {v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v}
    root = options.kubelet_root
    assert paths == {"/sys", "/proc"} | ({root} if root else set())
    for mount in container["volumeMounts"]:
        if mount["name"] in host:
            assert mount["readOnly"] is True
            assert mount["mountPath"].startswith("/host/")
    # Root only to read the state of the kubelet, which is root's.
    assert spec["securityContext"]["runAsNonRoot"] is (root is None)
    assert (spec["securityContext"]["runAsUser"] == 0) is (root is not None)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", **options.selector}
    assert container["image"] == options.image


def test_the_namespace_admits_the_pods_only_if_it_says_so() -> None:
    space = by_kind(manifest(OPTIONS[1]))["Namespace"]
    assert space["metadata"]["name"] == "facts"
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    for one in objects(manifest(OPTIONS[1])):
        if one["kind"] != "Namespace":
            assert one["metadata"]["namespace"] == "facts"


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("version", ["1.25", "1.31", "1.34"])
def test_kubernetes_accepts_the_objects(options: Options, version: str) -> None:
    try:
        validate = import_module("kubernetes_validate").validate
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("kubernetes-validate is not installed, and CI must not skip", pytrace=False)
        pytest.skip("kubernetes-validate is not installed")
    for one in objects(manifest(options)):
        validate(one, version, strict=True)


def test_the_manifest_reads_the_same_to_every_yaml_reader() -> None:
    text = manifest(OPTIONS[1])
    assert text.isascii()
    old = YAML(typ="safe", pure=True)
    old.version = (1, 1)
    assert list(old.load_all(text)) == objects(text)
    assert all(not isinstance(value, float) for one in objects(text) for value in walk(one))


# --- the command -------------------------------------------------------------------------------


def run(*args: str) -> subprocess.CompletedProcess[str]:
    result = CliRunner().invoke(app, ["facts", "daemonset", *args])
    return subprocess.CompletedProcess(args, result.exit_code, result.stdout, result.stderr)


def test_the_command_prints_the_manifest() -> None:
    done = run("--namespace", "ops", "--selector", "gpu=yes", "--create-namespace")
    assert done.returncode == 0
    assert done.stderr == ""
    found = by_kind(done.stdout)
    assert found["Namespace"]["metadata"]["name"] == "ops"
    spec = found["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["nodeSelector"]["gpu"] == "yes"
    again = run("--namespace", "ops", "--selector", "gpu=yes", "--create-namespace")
    assert again.stdout == done.stdout


def test_the_command_writes_a_file_once(tmp_path: Path) -> None:
    out = tmp_path / "collector.yaml"
    done = run("-o", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    assert "kubectl apply -f" in done.stderr
    assert out.read_text() == run().stdout
    assert run("-o", str(out)).returncode == 2
    out.write_text("mine")
    assert run("-o", str(out), "--force").returncode == 0
    assert out.read_text() == run().stdout
    assert list(tmp_path.iterdir()) == [out]
    assert run("-o", str(tmp_path / "no" / "such.yaml")).returncode == 2


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--namespace", "Upper"], "--namespace 'Upper' is not the name of a namespace"),
        (["--namespace", "a\nb"], "is not the name of a namespace"),
        (["--image", "busy box"], "--image 'busy box' is not the name of an image"),
        (["--image", ""], "is not the name of an image"),
        (["--selector", "x"], "--selector 'x' is not KEY=VALUE of a label"),
        (["--selector", "x=a b"], "is not KEY=VALUE of a label"),
        (["--selector", "x=1", "--selector", "x=2"], "is given twice"),
        (["--kubelet-root", "var/lib"], "is not an absolute path"),
        (["--kubelet-root", "/var/../etc"], "is not an absolute path"),
        (["--kubelet-root", "/proc/1"], "is a directory of the system"),
        (["--kubelet-root", "/etc"], "is a directory of the system"),
        (["--kubelet-root", "/etc/kubernetes"], "is a directory of the system"),
        (["--kubelet-root", "/var"], "is a directory of the system"),
        (["--kubelet-root", "/var/lib"], "is a directory of the system"),
        (["--selector", "kubernetes.io/os=windows"], "reads Linux nodes only"),
    ],
)
def test_wrong_options_are_named(args: list[str], words: str) -> None:
    done = run(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
