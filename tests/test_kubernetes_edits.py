"""Which objects a change of the policy changes, and which files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.emission import emit
from targets.kubernetes import TARGET
from tests.conftest import ROOT
from tests.kube_fleets import read
from tests.policies import BOX, HEAD, compiled, intent, write
from tests.test_kubernetes_options import decoded

Files = dict[str, str]
Edit = Callable[[Files], None]

SMALL = BOX.replace("pool: small", "pool: small, rack: r1")
LARGE = (
    BOX.replace("pool: small", "pool: large, rack: r1")
    .replace("online: 0-15", "online: 0-31")
    .replace("cpus: 0-15, smt: [0-7, 8-15]", "cpus: 0-31, smt: [0-15, 16-31]")
    .replace("cpus: 0-15", "cpus: 0-31")
)
LANE = "workload: {match: [{comm: decode}]}\nprotect: all\nlane: {cores: {min: 1, max: 2}}"
TRAIN = (
    "nodes: {matchLabels: {pool: large}}\nworkload: {match: [{comm: train}]}\ndemote: background"
)


def project(more: str = "") -> str:
    return (
        f"{HEAD}kind: Project\nspec:\n  enforce: [{{mode: fallback}}]\n"
        f"  targets: {{taskset: {{}}, kubernetes: {{{more}}}}}\n"
    )


def policy(more: str = "") -> Files:
    """Return a policy for two small nodes and a large one."""
    return {
        "tierc.yaml": project(more),
        "intents/serve.yaml": intent("serve", LANE),
        "intents/train.yaml": intent("train", TRAIN),
        "nodes/s1.yaml": SMALL.replace("name: box", "name: s1"),
        "nodes/s2.yaml": SMALL.replace("name: box", "name: s2"),
        "nodes/l1.yaml": LARGE.replace("name: box", "name: l1"),
    }


def built(root: Path, files: Files) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the files below ``cluster/``, and objects by kind, name without hash, and nodes."""
    write(root, files)
    (root / "nodes" / "box.yaml").unlink()
    compilation, found = compiled(root)
    assert not [one for one in found if one.severity.label == "error"], found
    cluster = [file for file in emit(compilation) if file.path.startswith("cluster/")]
    sizes = {c.name: "large" if c.nodes == ("l1",) else "small" for c in compilation.classes}
    objects = {}
    for one in read(TARGET.stream(cluster)):
        name = re.sub(r"-[0-9a-f]{10}$", "", one["metadata"]["name"])
        for own, size in sizes.items():
            name = name.replace(f"-{own}-", f"-{size}-")
        assert (one["kind"], name) not in objects
        objects[f"{one['kind']} {name}"] = json.dumps(one)
    paths = {
        re.sub(r"class-([a-z]+)", lambda m: f"class-{sizes[m[1]]}", file.path): file.data
        for file in cluster
    }
    return paths, objects


def put(path: str, old: str, new: str) -> Edit:
    def edit(files: Files) -> None:
        assert old in files[path]
        files[path] = files[path].replace(old, new)

    return edit


def rename(files: Files) -> None:
    files["intents/serve.yaml"] = intent("serving", LANE)


def add_node(files: Files) -> None:
    files["nodes/s3.yaml"] = SMALL.replace("name: box", "name: s3")


def remove_intent(files: Files) -> None:
    del files["intents/train.yaml"]


def both(*kinds: str) -> set[str]:
    return {f"{kind} tierc-{size}-{end}" for kind, end in map(str.split, kinds) for size in SIZES}


SIZES = ("small", "large")
PLAN, PODS = "ConfigMap plan0", "DaemonSet 1"
EDITS: dict[str, tuple[Edit, set[str], set[str]]] = {
    "rename an intent": (rename, both(PLAN, PODS), both(PLAN, PODS)),
    "change a comment": (put("intents/serve.yaml", "spec:", "# why\nspec:"), set(), set()),
    "a label that selects nothing": (put("nodes/s2.yaml", "rack: r1", "rack: r2"), set(), set()),
    "the lane of one class": (
        put("intents/train.yaml", "demote: background", "demote: idle"),
        {"ConfigMap tierc-large-plan0", "DaemonSet tierc-large-1"},
        {"ConfigMap tierc-large-plan0", "DaemonSet tierc-large-1"},
    ),
    "add a node": (add_node, {"DaemonSet tierc-small-1"}, {"NodeFeature tierc-s3"}),
    "remove an intent": (
        remove_intent,
        {"ConfigMap tierc-large-plan0", "DaemonSet tierc-large-1"},
        {"ConfigMap tierc-large-plan0", "DaemonSet tierc-large-1"},
    ),
}


@pytest.mark.parametrize("select", ["names", "labels"])
@pytest.mark.parametrize("edit", EDITS)
def test_what_an_edit_changes(edit: str, select: str, tmp_path: Path) -> None:
    change, by_names, by_labels = EDITS[edit]
    files = policy(f"select: {select}")
    old_paths, old = built(tmp_path / "old", files)
    change(files)
    new_paths, new = built(tmp_path / "new", files)
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    assert changed == (by_names if select == "names" else by_labels)
    touched = {
        p for p in old_paths.keys() | new_paths.keys() if old_paths.get(p) != new_paths.get(p)
    }
    sizes = {size for size in SIZES if any(f"-{size}-" in name for name in changed)}
    sizes |= {"small"} if "NodeFeature tierc-s3" in changed else set()
    assert touched == {f"cluster/class-{size}.yaml" for size in sizes}


def test_the_command_streams_and_writes_the_same_objects(tmp_path: Path) -> None:
    root = write(tmp_path / "policy", policy())
    (root / "nodes" / "box.yaml").unlink()

    def tierc(*args: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "compiler", "build", str(root), *args]
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=True)

    stream = tierc("--stdout", "kubernetes").stdout
    tierc("-o", str(tmp_path / "out"))
    files = sorted((tmp_path / "out" / "cluster").iterdir())
    assert [path.name[:6] for path in files] == ["class-", "class-", "common"]
    written = [one for path in files for one in read(path.read_bytes())]
    assert sorted(map(json.dumps, written)) == sorted(map(json.dumps, read(stream)))


# --- the page -------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def test_the_example_of_the_page_is_right() -> None:
    (text,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)
    project_, found = decoded(re.sub(r"(?m)^  ", "", text.removeprefix("spec:\n")))
    assert (project_ is not None, found) == (True, [])


def test_the_states_of_the_page_are_those_of_the_script() -> None:
    script = (ROOT / "targets" / "kubernetes" / "templates" / "run.sh").read_text()
    states = set(re.findall(r"state=([a-z]+)", script))
    assert set(re.findall(r"(?m)^\| `([a-z]+)` \| [^|]* \| (?:yes|no) \|$", PAGE)) == states
    assert len(states) == 9
