"""`--stdout TARGET`: the stream and nothing else; and what a partial build owns of the cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from compiler.__main__ import BROKEN_PIPE, main
from tests import cluster_fake
from tests.cluster_fake import PROJECT, FakeTarget
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import BOX, intent, write

SLOW = intent("slow", 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background')
LEFTOVERS = intent("chat", "workload: {match: [{comm: c}]}\nprotect: all\nrequire: [leftovers]")
"""Not to be had on one core."""
TINY = """\
apiVersion: tierc.dev/v1alpha1
kind: NodeFacts
metadata: {name: tiny}
spec: {cpus: {online: "0"}, cores: [{cpus: "0"}]}
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTarget:
    return cluster_fake.install(monkeypatch)


def policy(root: Path, **files: str) -> Path:
    base = {"tierc.yaml": PROJECT, "intents/slow.yaml": SLOW, "nodes/two.yaml": box("two")}
    return write(root, base | {name.replace("__", "/") + ".yaml": t for name, t in files.items()})


def box(name: str) -> str:
    return BOX.replace("name: box", f"name: {name}")


def call(capfdbinary: pytest.CaptureFixture[bytes], *args: object) -> tuple[int, bytes, str]:
    code = main([str(arg) for arg in args])
    out, err = capfdbinary.readouterr()
    return code, out, err.decode()


# --- the stream --------------------------------------------------------------------------------


def test_the_stream_and_nothing_else(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = policy(tmp_path)
    code, out, err = call(capfdbinary, "build", root, "--stdout", "kubernetes")
    assert (code, err) == (0, "")
    assert out.startswith(b"common\n---\n")
    assert out.count(b"---\n") == 1
    assert b'"box",\n    "two"' in out
    assert sorted(p.name for p in root.iterdir()) == ["intents", "nodes", "tierc.yaml"]


def test_the_stream_is_of_what_a_tree_would_hold(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = policy(tmp_path / "p")
    _, out, _ = call(capfdbinary, "build", root, "--stdout", "kubernetes")
    assert call(capfdbinary, "build", root, "-o", tmp_path / "out")[0] == 0
    cluster = {k: v for k, v in read_tree(tmp_path / "out").items() if k.startswith("cluster/")}
    assert len(cluster) == 2
    assert fake.stream([*_artifacts(cluster)]) == out


def _artifacts(files: dict[str, bytes]) -> list[cluster_fake.Artifact]:
    order = sorted(files, key=lambda path: "common" not in path)
    return [cluster_fake.Artifact(path, files[path]) for path in order]


def test_findings_go_to_standard_error(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    protect = intent("bare", "workload: {match: [{comm: server}]}\nprotect: all")  # a warning
    code, out, err = call(
        capfdbinary, "build", policy(tmp_path, intents__bare=protect), "--stdout", "kubernetes"
    )
    assert code == 0
    assert "warning[" in err
    assert out.startswith(b"common\n")


def test_an_error_prints_nothing(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = policy(tmp_path, intents__bad=SLOW.replace("demote", "demotte").replace("slow", "bad"))
    code, out, err = call(capfdbinary, "build", root, "--stdout", "kubernetes", "--allow-empty")
    assert (code, out) == (1, b"")
    assert "tierc: nothing printed: " in err


def test_what_the_target_refuses_is_an_error_at_its_options(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    fake.refuse = "too many nodes"
    root = policy(tmp_path / "p")
    for more in (["--stdout", "kubernetes"], ["-o", tmp_path / "out"]):
        code, out, err = call(capfdbinary, "build", root, *more)
        assert (code, out) == (1, b"")
        assert "error[TRC510]: too many nodes" in err
        assert "tierc.yaml:6:26" in err  # the key kubernetes
    assert not (tmp_path / "out").exists()
    assert call(capfdbinary, "lint", root)[0] == 1


def test_nodes_without_a_plan_are_named(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = policy(tmp_path, intents__chat=LEFTOVERS, nodes__tiny=TINY)
    code, out, err = call(capfdbinary, "build", root, "--stdout", "kubernetes")
    assert code == 0
    assert "tierc: 1 node without a plan and not in the output: tiny\n" in err
    assert b"tiny" not in out


def test_nothing_planned_is_refused_unless_it_is_meant(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root = policy(tmp_path, intents__chat=LEFTOVERS, nodes__tiny=TINY)
    for name in ("box", "two"):
        (root / f"nodes/{name}.yaml").unlink()
    code, out, err = call(capfdbinary, "build", root, "--stdout", "kubernetes")
    assert (code, out) == (2, b"")
    assert "tierc: nothing to print: no node has a plan" in err
    code, out, _ = call(capfdbinary, "build", root, "--stdout", "kubernetes", "--allow-empty")
    assert (code, out) == (0, b"common\n")


def test_an_empty_stream_is_refused_unless_it_is_meant(
    tmp_path: Path, fake: FakeTarget, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    fake.empty = True
    root = policy(tmp_path)
    code, out, err = call(capfdbinary, "build", root, "--stdout", "kubernetes")
    assert (code, out) == (2, b"")
    assert "tierc: nothing to print: " in err
    assert call(capfdbinary, "build", root, "--stdout", "kubernetes", "--allow-empty")[:2] == (
        0,
        b"",
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--stdout", "kubernetes", "-o", "x"], "--stdout and -o exclude each other"),
        (["--stdout", "kubernetes", "--node", "box"], "--stdout and --node exclude each other"),
        (["--stdout", "kubernetes", "--target", "taskset"], "--stdout and --target exclude"),
        (["--stdout", "kubernetes", "--check"], "--stdout and --check exclude each other"),
        (["--stdout", "taskset"], "taskset writes files for each node"),
        (["--stdout", "bpf"], "the policy has no target 'bpf'; the project does not enable it"),
        (["--stdout", "kubernets"], "the policy has no target 'kubernets'; did you mean kuber"),
        (["--stdout", ""], "the policy has no target ''"),
        (["--allow-empty", "-o", "x"], "--allow-empty is about --stdout"),
        ([], "say where to write with -o DIR, or what to print with --stdout TARGET"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path,
    fake: FakeTarget,
    capfdbinary: pytest.CaptureFixture[bytes],
    args: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = policy(tmp_path / "p")
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capfdbinary, "build", root, *args)
    assert (code, out) == (2, b"")
    assert said in err
    assert not (tmp_path / "x").exists()


# --- as a process, with the real target --------------------------------------------------------


def tierc(*args: object, cwd: Path, **more: object) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "compiler", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=env, check=False, capture_output=True, **more)  # type: ignore[call-overload, no-any-return]


def test_the_stream_is_the_same_from_anywhere_and_is_yaml(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    inside = tierc("build", "--stdout", "kubernetes", cwd=root)
    below = tierc("build", "--stdout", "kubernetes", cwd=root / "intents")
    outside = tierc("build", root, "--stdout", "kubernetes", cwd=Path("/"))
    assert [p.returncode for p in (inside, below, outside)] == [0, 0, 0], below.stderr
    assert inside.stdout == below.stdout == outside.stdout
    documents = list(YAML(typ="safe").load_all(inside.stdout))
    assert {"DaemonSet", "ConfigMap"} <= {d["kind"] for d in documents}
    assert None not in documents


def test_a_reader_that_goes_away_is_no_crash(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    command = [sys.executable, "-m", "compiler", "build", str(root), "--stdout", "kubernetes"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == BROKEN_PIPE


def test_a_full_standard_output_is_said(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    command = [sys.executable, "-m", "compiler", "build", str(root), "--stdout", "kubernetes"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"tierc: cannot write to standard output: no space left on device\n"


# --- what a partial build owns -----------------------------------------------------------------

BEFORE = {"intents/slow.yaml": SLOW}
AFTER = {"intents/slow.yaml": SLOW.replace("background", "idle")}


@pytest.fixture
def old(tmp_path: Path, fake: FakeTarget) -> tuple[Path, Path]:
    """A policy that has changed since its tree was built; both nodes and the cluster do."""
    root = policy(tmp_path / "p")
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    (tmp_path / "out/cluster/class-gone.yaml").write_text("x")
    manifest = tmp_path / "out/manifest.json"
    listed = manifest.read_text().replace(
        '"cluster/common.yaml"',
        '"cluster/class-gone.yaml": {"mode": "0644", "sha256": '
        '"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "size": 1},\n'
        '    "cluster/common.yaml"',
    )
    manifest.write_text(listed)
    write(root, {"tierc.yaml": PROJECT, **AFTER})
    return root, tmp_path / "out"


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    paths = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    return paths - {"manifest.json", "provenance.json"}


def test_a_node_leaves_the_cluster_alone_and_says_so(
    old: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    before = read_tree(out)
    code, _, err = call(capfdbinary, "build", root, "-o", out, "--node", "box")
    assert code == 0
    assert err == (
        "tierc: cluster/ is left as it was: its objects speak of all nodes; build without --node "
        "to renew it\n"
    )
    paths = changed(before, read_tree(out))
    assert paths
    assert {"/".join(path.split("/")[:2]) for path in paths} == {"nodes/box"}


def test_a_target_of_nodes_leaves_the_cluster_alone_and_says_so(
    old: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    before = read_tree(out)
    code, _, err = call(capfdbinary, "build", root, "-o", out, "--target", "taskset")
    assert code == 0
    assert "tierc: cluster/ is left as it was and holds files of all targets" in err
    paths = changed(before, read_tree(out))
    assert {path.split("/")[0] for path in paths} == {"nodes"}
    assert {path.split("/")[1] for path in paths} == {"box", "two"}


def test_the_cluster_alone_is_complete_and_prunes_its_own(
    old: tuple[Path, Path], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    before = read_tree(out)
    code, _, err = call(capfdbinary, "build", root, "-o", out, "--target", "kubernetes")
    assert (code, err) == (0, "")
    now = read_tree(out)
    paths = changed(before, now)
    assert "cluster/class-gone.yaml" in paths
    assert {path.split("/")[0] for path in paths} == {"cluster"}
    # As complete as in a whole build: scripts of every target, of the plan as it is now.
    assert call(capfdbinary, "build", root, "-o", tmp_path / "whole")[0] == 0
    whole = read_tree(tmp_path / "whole")
    assert {p: d for p, d in now.items() if p.startswith("cluster/")} == {
        p: d for p, d in whole.items() if p.startswith("cluster/")
    }
    both = ["--target", "kubernetes", "--target", "taskset"]
    assert call(capfdbinary, "build", root, "-o", out, *both)[0] == 0
    assert read_tree(out) == whole


def test_check_follows_the_same_scope(
    old: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    for target, place in (("kubernetes", "cluster/"), ("taskset", "nodes/")):
        code, _, err = call(capfdbinary, "build", root, "-o", out, "--target", target, "--check")
        assert code == 1
        said = [line for line in err.splitlines() if "TRC708" in line]
        paths = {line.split("]: ")[1].split()[0] for line in said} - {"manifest.json"}
        assert paths
        assert all(path.startswith(place) for path in paths)


def test_a_node_and_the_cluster_do_not_go_together(
    old: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    args = ["--node", "box", "--target", "kubernetes"]
    code, _, err = call(capfdbinary, "build", root, "-o", out, *args)
    assert code == 2
    assert "--node and --target kubernetes exclude each other" in err


def test_a_policy_that_does_not_want_objects_any_more_has_them_removed(
    old: tuple[Path, Path], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, out = old
    write(root, {"tierc.yaml": PROJECT.replace(", kubernetes: {}", ""), **AFTER})
    assert call(capfdbinary, "build", root, "-o", out)[0] == 0
    assert not (out / "cluster").exists()
