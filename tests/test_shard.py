"""`--shard I/N`: the parts together are the whole build, byte for byte."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from compiler import classplan
from compiler.__main__ import main
from compiler.shard import MAX_SHARDS, Shard, deal
from tests import cluster_fake
from tests.cluster_fake import PROJECT
from tests.conftest import ROOT
from tests.examples import read_tree
from tests.policies import BOX, intent, write

PAGE = (ROOT / "docs/build.md").read_text()
CHAT = intent("chat", "workload: {match: [{comm: server}]}\nprotect: all\nlane: {cores: 2}")
SLOW = 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background'
TINY = """\
apiVersion: tierc.dev/v1alpha1
kind: NodeFacts
metadata: {name: tiny}
spec: {cpus: {online: "0"}, cores: [{cpus: "0"}]}
"""
REQUIRES = intent("chat", "workload: {match: [{comm: server}]}\nprotect: all\nrequire: [leftovers]")
"""One core has no CPU left over beside the system; sixteen have."""
KINDS = {
    "box": BOX,
    "wide": BOX.replace("0-15", "0-31").replace("[0-7, 8-15]", "[0-15, 16-31]"),
    "thin": BOX.replace("0-15", "0-7").replace("[0-7, 8-15]", "[0-3, 4-7]"),
    "old": BOX.replace("cgroup: v2", "cgroup: v1"),
    "bare": TINY,
}


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster_fake.install(monkeypatch)


def policy(root: Path, nodes: int = 12) -> Path:
    """A fleet of five kinds of machines, each a class."""
    files = {"tierc.yaml": PROJECT, "intents/chat.yaml": intent("slow", SLOW)}
    for number in range(nodes):
        kind = list(KINDS)[number % len(KINDS)]
        old = "tiny" if kind == "bare" else "box"
        name = f"{kind}-{number // len(KINDS)}"
        files[f"nodes/{name}.yaml"] = KINDS[kind].replace(f"name: {old}", f"name: {name}")
    write(root, files)
    (root / "nodes/box.yaml").unlink()
    return root


def build(*args: object) -> int:
    return main(["build", *(str(arg) for arg in args)])


def tree(path: Path) -> dict[str, bytes]:
    return read_tree(path)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_union_of_the_shards_is_the_whole_build(tmp_path: Path, count: int) -> None:
    root = policy(tmp_path / "p")
    assert build(root, "-o", tmp_path / "whole") == 0
    order = sorted(range(count), key=lambda i: hashlib.sha256(bytes([i])).digest())
    for i in order:
        assert build(root, "-o", tmp_path / "parts", "--shard", f"{i}/{count}") == 0
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert build(root, "-o", tmp_path / "parts", "--check") == 0
    # Again: nothing is left to do for any of them.
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*")}
    for i in range(count):
        assert build(root, "-o", tmp_path / "parts", "--shard", f"{i}/{count}") == 0
        assert build(root, "-o", tmp_path / "parts", "--shard", f"{i}/{count}", "--check") == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "parts").rglob("*")} == before


def test_every_file_belongs_to_exactly_one_shard(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    assert build(root, "-o", tmp_path / "whole") == 0
    parts = []
    for i in range(3):
        assert build(root, "-o", tmp_path / f"{i}", "--shard", f"{i}/3") == 0
        parts.append(tree(tmp_path / f"{i}"))
        assert json.loads(parts[-1]["manifest.json"])["files"].keys() == parts[-1].keys() - {
            "manifest.json",
            "provenance.json",
        }
    own = [set(part) - {"manifest.json", "provenance.json"} for part in parts]
    assert sum(map(len, own)) == len(set().union(*own))
    whole = tree(tmp_path / "whole")
    assert {"manifest.json", "provenance.json"}.union(*own) == set(whole)
    assert "cluster/common.yaml" in own[0]
    # A class's objects are written by whoever writes its nodes.
    for part in parts:
        for path, data in part.items():
            if path.startswith("cluster/class-"):
                for node in json.loads(data)["nodes"]:
                    assert f"nodes/{node}/plan.json" in part


def test_a_shard_places_its_own_classes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = policy(tmp_path / "p")
    placed = []
    real = classplan.place

    def place(*args: Any, **kwargs: Any) -> Any:
        placed.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(classplan, "place", place)
    counts = []
    for i in range(3):
        placed.clear()
        assert build(root, "-o", tmp_path / "out", "--shard", f"{i}/3") == 0
        counts.append(len(placed))
    assert sorted(counts) == [1, 2, 2]


def test_what_is_gone_is_pruned_by_the_shards(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    out = tmp_path / "out"
    assert build(root, "-o", out) == 0
    (out / "notes").write_text("mine")
    for path in (root / "nodes").glob("thin-*"):  # a whole class
        path.unlink()
    (root / "nodes/box-1.yaml").unlink()  # one of several
    assert build(root, "-o", tmp_path / "whole") == 0
    gone = {p for p in tree(out) if "/thin-" in p or "/box-1/" in p}
    assert gone
    assert build(root, "-o", out, "--shard", "1/2") == 0
    assert gone <= set(tree(out)), "leftovers of nodes that are gone are the first shard's"
    assert build(root, "-o", out, "--shard", "0/2") == 0
    now = tree(out)
    assert now.pop("notes") == b"mine"
    assert now == tree(tmp_path / "whole")


def test_more_shards_than_classes_have_nothing_to_do(tmp_path: Path) -> None:
    root = policy(tmp_path / "p")
    out = tmp_path / "out"
    assert build(root, "-o", out, "--shard", "7/8") == 0
    assert set(tree(out)) == {"manifest.json", "provenance.json"}
    assert json.loads(tree(out)["manifest.json"])["files"] == {}


def test_an_error_of_the_policy_stops_every_shard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = policy(tmp_path / "p")
    (root / "intents/bad.yaml").write_text(
        intent("bad", "nodes: {names: [cpu-9]}\nworkload: {match: [{comm: a}]}\ndemotte: idle")
    )
    for i in range(3):
        assert build(root, "-o", tmp_path / "out", "--shard", f"{i}/3") == 1
        assert "nothing written" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_node_that_cannot_be_planned_stops_the_shard_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = PROJECT.replace("onUnplaceable: quarantine", "onUnplaceable: error")
    files = {"tierc.yaml": project, "nodes/tiny.yaml": TINY, "intents/chat.yaml": REQUIRES}
    root = write(tmp_path / "p", files)
    codes = [build(root, "-o", tmp_path / "out", "--shard", f"{i}/2") for i in range(2)]
    assert sorted(codes) == [0, 1]
    assert "tiny" in capsys.readouterr().err
    nodes = {path.split("/")[1] for path in tree(tmp_path / "out") if path.startswith("nodes/")}
    assert nodes == {"box"}
    assert build(root, "-o", tmp_path / "whole") == 1


def test_quarantine_is_the_same_in_parts(tmp_path: Path) -> None:
    slow = intent("slow", SLOW)
    files = {"tierc.yaml": PROJECT, "nodes/tiny.yaml": TINY, "intents/chat.yaml": slow}
    root = write(tmp_path / "p", files)
    assert build(root, "-o", tmp_path / "parts") == 0
    assert "nodes/tiny/plan.json" in tree(tmp_path / "parts")
    write(root, {**files, "intents/chat.yaml": REQUIRES})
    assert build(root, "-o", tmp_path / "whole") == 0
    for i in range(2):
        assert build(root, "-o", tmp_path / "parts", "--shard", f"{i}/2") == 0
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert "nodes/tiny/plan.json" not in tree(tmp_path / "parts")


def test_where_no_node_at_all_can_be_planned_no_shard_empties_the_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"nodes/box.yaml": TINY, "nodes/two.yaml": TINY.replace("tiny", "two").replace("0", "1")}
    files = {"tierc.yaml": PROJECT, "intents/chat.yaml": REQUIRES, **both}
    root = write(tmp_path / "p", files)
    (tmp_path / "out").mkdir()
    for i in range(2):
        assert build(root, "-o", tmp_path / "out", "--shard", f"{i}/2") == 2
        assert "no node could be planned" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_shards_at_once_wait_for_each_other(tmp_path: Path) -> None:
    root = policy(tmp_path / "p", nodes=5)
    command = [sys.executable, "-m", "compiler", "build", str(root), "-o", str(tmp_path / "out")]
    # The real target: a process of its own does not know the fake.
    running = [
        subprocess.Popen([*command, "--shard", f"{i}/3"], cwd=ROOT, stdout=subprocess.DEVNULL)
        for i in range(3)
    ]
    assert [process.wait() for process in running] == [0] * 3
    done = subprocess.run([*command, "--check"], cwd=ROOT, check=False, capture_output=True)
    assert done.returncode == 0
    assert done.stdout.endswith(b"out: up to date\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4/4", "of 4 the first is 0 and the last is 3"),
        ("1/0", f"N is from 1 to {MAX_SHARDS}"),
        ("0/1001", f"N is from 1 to {MAX_SHARDS}"),
        ("-1/4", "is not I/N"),
        ("1", "is not I/N"),
        ("/4", "is not I/N"),
        ("1/4/2", "is not I/N"),
        ("a/4", "is not I/N"),
        ("\u0661/4", "is not I/N"),
        ("1" * 40 + "/4", "is not I/N"),
        ("", "is not I/N"),
    ],
)
def test_a_wrong_shard_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    root = write(tmp_path / "p", {"intents/chat.yaml": CHAT})
    assert build(root, "-o", tmp_path / "out", f"--shard={text}") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_shard_goes_with_neither_node_nor_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write(tmp_path / "p", {"tierc.yaml": PROJECT, "intents/chat.yaml": CHAT})
    assert build(root, "-o", tmp_path / "out", "--shard", "0/2", "--node", "box") == 2
    assert "--node and --shard" in capsys.readouterr().err
    assert build(root, "--stdout", "kubernetes", "--shard", "0/2") == 2
    assert "--stdout and --shard exclude each other" in capsys.readouterr().err


def test_a_tree_of_another_plan_version_is_not_mixed_with_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = policy(tmp_path / "p")
    out = tmp_path / "out"
    assert build(root, "-o", out) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["planVersion"] -= 1
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert build(root, "-o", out, "--shard", "0/2") == 2
    assert "plan version" in capsys.readouterr().err


def test_dealing_is_even_and_does_not_depend_on_order() -> None:
    rows = [(name, (f"{name}1", f"{name}2")) for name in "bcdfgh"]
    shares = deal(rows, 4)
    assert deal(reversed(rows), 4) == shares
    sizes = [list(shares.of_class.values()).count(i) for i in range(4)]
    assert sizes == [2, 2, 1, 1]
    assert shares.owner("nodes/d1/plan.json") == shares.of_class["d"]
    assert shares.owner("cluster/class-d.yaml") == shares.of_class["d"]
    assert shares.owner("cluster/class-d-2.yaml") == shares.of_class["d"]
    for path in ("nodes/gone/plan.json", "cluster/common.yaml", "cluster/class-x.yaml", "other"):
        assert shares.owner(path) == 0
    assert Shard.parse("3/4") == Shard(3, 4)


# --- the page ----------------------------------------------------------------------------------


def test_the_job_of_the_page_is_one_that_kubernetes_takes() -> None:
    blocks = [b for b in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "kind: Job" in b]
    assert len(blocks) == 1
    documents = list(YAML(typ="safe").load_all(blocks[0]))
    (job,) = (d for d in documents if d["kind"] == "Job")
    versions = [f"1.{minor}" for minor in range(31, 36)]
    for document in documents:
        for version in versions:
            kubernetes_validate.validate(document, version, strict=True)
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["parallelism"] <= spec["completions"]
    (container,) = spec["template"]["spec"]["containers"]
    shard = container["args"][container["args"].index("--shard") + 1]
    index, _, count = shard.partition("/")
    assert index == "$(JOB_COMPLETION_INDEX)"
    assert int(count) == spec["completions"]
    # Every option of it is one of ours.
    args = [a.replace("$(JOB_COMPLETION_INDEX)", "0") for a in container["args"]]
    assert args[0] == "build"


def test_the_job_of_the_page_builds(tmp_path: Path) -> None:
    (block,) = (b for b in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "kind: Job" in b)
    job = next(d for d in YAML(typ="safe").load_all(block) if d["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
    root = policy(tmp_path / "policy", nodes=7)
    shutil.copytree(root, tmp_path / "work")
    for index in range(job["spec"]["completions"]):
        args = [
            a.replace("$(JOB_COMPLETION_INDEX)", str(index))
            .replace(mounts["policy"], str(tmp_path / "work"))
            .replace(mounts["rendered"], str(tmp_path))
            for a in container["args"]
        ]
        assert main(args) == 0
    assert build(root, "-o", tmp_path / "whole") == 0
    (out,) = (a for a in args if a.startswith(str(tmp_path)) and "work" not in a)
    assert tree(Path(out)) == tree(tmp_path / "whole")
