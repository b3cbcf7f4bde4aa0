"""Options of the kubernetes target and the pace of a rollout: what is taken, refused, and done."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from compiler.artifact import text_artifact
from compiler.decode import decode
from compiler.diagnostics import Severity, Sink
from compiler.fleet import ClusterOptions, part, step_of
from compiler.model.cluster import KubernetesOptions, Rollout
from compiler.model.project import TasksetOptions
from compiler.source import parse_source
from targets.kubernetes import TARGET
from targets.kubernetes.content import MAX_DATA, Entry, content_of, key_of
from tests.conftest import ROOT
from tests.kube_fleets import (
    emitted,
    files_of,
    fleet,
    group,
    objects,
    of_kind,
    options,
    read,
    selected,
    some_plan,
)
from tests.policies import BOX, HEAD, compiled, intent, write


def decoded(spec: str) -> tuple[object, list[tuple[int, str, str]]]:
    """Return the project, and findings as line, message and help."""
    sink = Sink()
    body = "\n".join(f"  {line}" for line in spec.splitlines())
    text = f"{HEAD}kind: Project\nspec:\n{body}\n"
    source = parse_source("tierc.yaml", text.encode(), sink)
    (project,) = (decode(doc, sink) for doc in source.documents)
    return project, [(d.span.line, d.message, d.help) for d in sink]


BROKEN = [
    ("targets:\n  kubernetes: {namespce: a}", 5, "namespce"),
    ("targets:\n  kubernetes:\n    namespace: Tierc_System", 6, "Tierc_System"),
    ("targets:\n  kubernetes:\n    image: busybox", 6, "has no version"),
    ("targets:\n  kubernetes:\n    image: reg.example.org:5000/busybox", 6, "has no version"),
    ("targets:\n  kubernetes:\n    image: busybox:latest", 6, "has no version"),
    ('targets:\n  kubernetes:\n    image: "busybox@sha256:abc"', 6, "busybox@sha256:abc"),
    ("targets:\n  kubernetes:\n    imagePullSecrets: [a, b, a]", 6, '"a" is named twice'),
    ("rollout:\n  steps:\n  - spark-a", 6, "spark-a"),
    ('targets:\n  kubernetes:\n    image: "busy box:1"', 6, "busy box:1"),
    ('targets:\n  kubernetes:\n    image: "$(id):1"', 6, "$(id):1"),
    ("targets:\n  kubernetes:\n    select: label", 6, "label"),
    ("targets:\n  kubernetes:\n    maxNames: 0", 6, "maxNames"),
    ("targets:\n  kubernetes:\n    maxNames: 1001", 6, "maxNames"),
    ("targets:\n  kubernetes:\n    intervalSeconds: 0", 6, "intervalSeconds"),
    ("targets:\n  kubernetes:\n    maxUnavailable: 0", 6, "maxUnavailable"),
    ('targets:\n  kubernetes:\n    maxUnavailable: "0%"', 6, "not a percentage"),
    ("targets:\n  kubernetes:\n    maxUnavailable: 101%", 6, "not a percentage"),
    ("targets:\n  kubernetes:\n    labelPrefix: kubernetes.io", 6, "sets no labels"),
    ("targets:\n  kubernetes:\n    labelPrefix: node.kubernetes.io", 6, "sets no labels"),
    (
        "targets:\n  kubernetes:\n    labelPrefix: a_b.example.org",
        6,
        "not a DNS name",
    ),
    ("targets:\n  kubernetes:\n    createPriorityClass: true", 6, "priorityClassName"),
    (
        "targets:\n  kubernetes:\n    priorityClassName: system-node-critical\n"
        "    createPriorityClass: true",
        7,
        "Kubernetes' own",
    ),
    ("targets:\n  kubernetes:\n    tolerations: [{operator: Exists, value: a}]", 6, "no value"),
    ("targets:\n  kubernetes:\n    tolerations: [{value: a}]", 6, "needs a key"),
    ("targets:\n  kubernetes:\n    tolerations:\n    - {key: a, effect: NoRun}", 7, "NoRun"),
    ("targets:\n  kubernetes:\n    killSwitch: /tmp/disabled", 6, "/tmp/disabled"),
    ("rollout: [all]", 4, "rollout"),
    ("rollout:\n  steps:\n  - al", 6, "al"),
    ("rollout:\n  steps:\n  - all\n  - percent: 10", 6, "all must be the last step"),
    ("rollout:\n  steps:\n  - percent: 100", 6, "percent"),
    ("rollout:\n  steps:\n  - percent: 0", 6, "percent"),
    ("rollout:\n  steps:\n  - percent: 20\n  - percent: 20", 7, "20 after 20"),
    ("rollout:\n  steps:\n  - names: []", 6, "empty"),
    ("rollout:\n  steps:\n  - {names: [a], percent: 5}", 6, "takes one of names, percent"),
    ("rollout:\n  steps:\n  - {}", 6, "one of names, percent"),
    ("rollout:\n  steps:\n  - names: [a]\n  - names: [b, a]", 7, '"a" is named twice'),
    ("rollout:\n  steps:\n  - names: [a, a]", 6, '"a" is named twice'),
    ("rollout:\n  steps:\n  - names: [Node_A]", 6, "Node_A"),
]


@pytest.mark.parametrize(("spec", "line", "words"), BROKEN)
def test_a_wrong_option_is_found_at_its_line(spec: str, line: int, words: str) -> None:
    project, found = decoded(spec)
    assert project is None
    assert [row for row, _, _ in found] == [line], found
    assert words in found[0][1] + found[0][2], found


@pytest.mark.parametrize(
    "spec",
    [
        "targets: {kubernetes: {}}",
        "targets: {kubernetes: }",
        "targets: {kubernetes: {maxUnavailable: 10%}}",
        "targets: {kubernetes: {labelPrefix: x.profile.node.kubernetes.io}}",
        "targets: {kubernetes: {labelPrefix: example.org}}",
        "targets: {kubernetes: {priorityClassName: system-node-critical}}",
        "targets: {kubernetes: {tolerations: []}}",
        "targets: {kubernetes: {killSwitch: /var/lib/tierc/disabled}}",
        "rollout: {steps: []}",
        "rollout: {steps: [{percent: 1}, {names: [a]}, {percent: 99}, all]}",
    ],
)
def test_options_that_are_right(spec: str) -> None:
    project, found = decoded(spec)
    assert (project is not None, found) == (True, [])


# --- rollout --------------------------------------------------------------------------------------


def rollout(*steps: object) -> Rollout:
    return options(list(steps)).rollout


def test_a_node_is_in_the_first_step_that_takes_it() -> None:
    pace = rollout({"names": ["c1"]}, {"percent": 40}, {"names": ["c2"]}, "all")
    late = next(name for name in (f"n{i}" for i in range(99)) if part(name) >= 40)
    early = next(name for name in (f"n{i}" for i in range(99)) if part(name) < 40)
    assert [step_of(pace, n) for n in ("c1", early, late)] == [1, 2, 4]
    exact = next(name for name in (f"n{i}" for i in range(999)) if part(name) == 40)
    assert step_of(pace, exact) == 4  # 40 of a hundred parts are 0 to 39
    assert step_of(pace, "c2") == (2 if part("c2") < 40 else 3)
    assert step_of(rollout(), "any") == 1
    assert step_of(rollout("all"), "any") == 1
    assert step_of(rollout({"names": ["c1"]}), "any") == 2  # what no step takes comes last


def test_percent_counts_from_the_first_step_on() -> None:
    names = [f"gpu-{i:04}" for i in range(4000)]
    pace = rollout({"percent": 10}, {"percent": 50}, "all")
    counts = [sum(step_of(pace, n) == s for n in names) / 4000 for s in (1, 2, 3)]
    assert counts == pytest.approx([0.1, 0.4, 0.5], abs=0.03)
    first = {n for n in names if step_of(pace, n) == 1}
    assert first == {n for n in names if step_of(rollout({"percent": 10}), n) == 1}
    wider = rollout({"percent": 30}, "all")
    assert first < {n for n in names if step_of(wider, n) == 1}


def test_the_part_of_a_node_is_fixed_for_ever() -> None:
    """Worked out with sha256sum: the first 8 bytes of the digest, modulo 100."""
    assert part("gpu-a-01") == int("bead73ae487d5018", 16) % 100
    assert part("n1") == int("676b8bb84ce7267d", 16) % 100


def test_steps_are_waves() -> None:
    nodes = [f"n{i}" for i in range(30)]
    given_ = options([{"names": ["n3", "gone"]}, {"percent": 40}, "all"])
    found = of_kind("DaemonSet", objects(fleet(group("ab", nodes), group("cd", ["x1"])), given_))
    labels: dict[str, dict[str, str]] = {node: {} for node in [*nodes, "x1"]}
    seen = {}
    for daemon in found:
        step = int(daemon["metadata"]["labels"]["tierc.dev/step"])
        notes = daemon["metadata"]["annotations"]
        assert notes["argocd.argoproj.io/sync-wave"] == str(step)
        assert daemon["metadata"]["name"].endswith(f"-{step}")
        for node in selected(daemon, labels):
            seen[node] = step
    assert seen == {node: step_of(given_.rollout, node) for node in labels}
    assert seen["n3"] == 1
    assert len({daemon["metadata"]["labels"]["tierc.dev/class"] for daemon in found}) == 2
    # x1 is in one step, so its class has one object.
    assert sum(d["metadata"]["labels"]["tierc.dev/class"] == "cd" for d in found) == 1


@settings(max_examples=15)
@given(st.sets(st.sampled_from([f"n{i}" for i in range(60)]), min_size=2), st.data())
def test_adding_a_node_moves_no_other(nodes: set[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(nodes)))
    given_ = options([{"percent": 25}, {"percent": 75}, "all"])
    places = []
    for some in (nodes, nodes - {gone}):
        found = of_kind("DaemonSet", objects(fleet(group("ab", some, files=[])), given_))
        labels: dict[str, dict[str, str]] = {node: {} for node in nodes}
        places.append(
            {node: one["metadata"]["name"] for one in found for node in selected(one, labels)}
        )
    whole, rest = places
    del whole[gone]
    assert whole == rest


# --- what does not fit ----------------------------------------------------------------------------


def test_too_many_names_ask_for_labels() -> None:
    nodes = [f"n{i}" for i in range(6)]
    of = fleet(group("ab", nodes), group("cd", ["x"]))
    (one,) = TARGET.problems(of, options(maxNames=5))
    assert one.severity is Severity.ERROR
    assert one.route == ("spec", "targets", "kubernetes", "maxNames")
    assert "class ab (n0 and 5 more) has 6 nodes" in one.message
    assert "maxNames is 5" in one.message
    assert "select: labels" in one.help
    assert TARGET.problems(of, options(maxNames=6)) == []
    assert TARGET.problems(of, options(maxNames=5, select="labels")) == []
    # What counts is one object: of a rollout, a step.
    split = options([{"names": ["n0"]}, "all"], maxNames=5)
    assert TARGET.problems(of, split) == []


def test_long_names_do_not_fit_into_labels_nor_many_into_an_object() -> None:
    node = ".".join(["n" * 31] * 2)
    assert len(node) == 63
    of = fleet(group("ab", [node, f"{node}x"]))
    (one,) = TARGET.problems(of, options(select="labels"))
    assert f"node {node}x has 64 characters" in one.message
    assert TARGET.problems(of, options()) == []
    many = fleet(group("ab", [".".join([f"n{i:04}", *["x" * 60] * 4]) for i in range(900)]))
    (large,) = TARGET.problems(many, options(maxNames=1000))
    assert "do not fit into one object of 200 KiB" in large.message
    with pytest.raises(ValueError, match="of 204800 at most"):
        TARGET.emit(many, options(maxNames=1000))


def test_a_class_without_a_script_is_a_warning() -> None:
    of = fleet(group("ab", ["n1"], files=files_of(some_plan())[:1]))
    (one,) = TARGET.problems(of, options())
    assert one.severity is Severity.WARNING
    assert "no script that a pod could run" in one.message
    assert len(of_kind("DaemonSet", objects(of))) == 1  # it puts back what earlier plans did


def test_options_of_another_target_are_refused() -> None:
    with pytest.raises(TypeError, match="TasksetOptions"):
        TARGET.emit(fleet(), ClusterOptions(TasksetOptions(), Rollout()))


def test_a_policy_shows_problems_at_its_lines(tmp_path: Path) -> None:
    boxes = {f"nodes/n{i}.yaml": BOX.replace("name: box", f"name: n{i}") for i in range(3)}
    project = (
        f"{HEAD}kind: Project\nspec:\n  enforce: [{{mode: fallback}}]\n"
        "  targets:\n    taskset:\n    kubernetes:\n      maxNames: 2\n"
    )
    body = "workload: {match: [{comm: decode}]}\nprotect: all\nlane: {cores: {min: 1, max: 2}}"
    files = {"tierc.yaml": project, "intents/a.yaml": intent("a", body), **boxes}
    root = write(tmp_path, files)
    (root / "nodes/box.yaml").unlink()
    _, found = compiled(root)
    mine = [one for one in found if one.code in ("TRC510", "TRC511")]
    assert [(one.code, one.span.line) for one in mine] == [("TRC510", 8)]
    (root / "tierc.yaml").write_text(project.replace("    taskset:\n", "").replace(": 2", ": 3"))
    _, found = compiled(root)
    mine = [one for one in found if one.code in ("TRC510", "TRC511")]
    assert [(one.code, one.severity.label) for one in mine] == [("TRC511", "warning")]
    assert mine[0].span.path == "tierc.yaml"


def test_a_rollout_does_not_hold_in_tests_with_other_nodes(tmp_path: Path) -> None:
    """A PolicyTest has nodes of its own; that steps name others is no mistake."""
    project = (
        f"{HEAD}kind: Project\nspec:\n  enforce: [{{mode: fallback}}]\n"
        "  rollout: {steps: [{names: [box]}, all]}\n"
    )
    test = (
        f"{HEAD}kind: PolicyTest\nmetadata: {{name: t}}\nspec:\n  facts: [other.yaml]\n"
        "  threads:\n  - {given: {comm: decode}, expect: {tier: latency}}\n"
    )
    body = "workload: {match: [{comm: decode}]}\nprotect: all"
    root = write(
        tmp_path,
        {
            "tierc.yaml": project,
            "intents/a.yaml": intent("a", body),
            "tests/t.yaml": test,
            "tests/other.yaml": BOX.replace("name: box", "name: other"),
        },
    )
    done = subprocess.run(
        [sys.executable, "-m", "compiler", "test", str(root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TRC232" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr


# --- texts ----------------------------------------------------------------------------------------

TEXTS = st.text(max_size=60) | st.sampled_from(
    [
        "on",
        "1e3",
        "0o17",
        "12:30",
        "=",
        "~",
        "2026-11-30",
        "${HOME}",
        "a: b",
        "# c",
        "\t",
        "\x85",
        "\u2028",
        "---\n",
        "...",
        "%A",
        "off",
        "0x1f",
        "1_000",
        "190:20:30",
        "+.inf",
        "- a\n",
        "'",
        '"',
        "\\",
        "<<",
        "null\n",
        "\ufeff",
        "\r\n",
        " ",
    ]
)


@settings(max_examples=15)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_are_the_same_to_every_yaml_reader(texts: list[str]) -> None:
    """YAML 1.1 as PyYAML reads it, 1.2 as ruamel does, and what was meant."""
    try:
        old = import_module("yaml")
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("PyYAML is not installed, and CI must not skip", pytrace=False)
        pytest.skip("PyYAML is not installed")
    files = [text_artifact(f"f{i}", "x") for i in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        object.__setattr__(file, "data", text.encode("utf-8", "replace"))
    of = fleet(group("ab", ["n1"], files=files))
    stream = TARGET.stream(TARGET.emit(of, options()))
    new = list(YAML(typ="safe", pure=True).load_all(stream.decode()))
    assert list(old.safe_load_all(stream)) == new
    data = {k: v for one in of_kind("ConfigMap", new) for k, v in one["data"].items()}
    for i, text in enumerate(texts):
        assert data[f"node__f{i}"] == text


@pytest.mark.parametrize("node", ["on", "off", "yes", "1e3", "0x1f", "190.20", "1.5", "null", "12"])
@pytest.mark.parametrize("select", ["names", "labels"])
def test_names_of_nodes_stay_texts(node: str, select: str) -> None:
    try:
        old = import_module("yaml")
    except ImportError:
        if os.environ.get("CI"):
            pytest.fail("PyYAML is not installed, and CI must not skip", pytrace=False)
        pytest.skip("PyYAML is not installed")
    stream = TARGET.stream(
        TARGET.emit(fleet(group("ab", [node], files=[])), options(select=select))
    )
    found = list(old.safe_load_all(stream))
    assert found == read(stream)
    labels: dict[str, dict[str, str]] = {node: {}}
    for one in of_kind("NodeFeature", found):
        labels[one["metadata"]["labels"]["nfd.node.kubernetes.io/node-name"]] = one["spec"][
            "labels"
        ]
    (daemon,) = of_kind("DaemonSet", found)
    assert selected(daemon, labels) == {node}


PATH = st.from_regex(
    r"[A-Za-z0-9._@+][A-Za-z0-9._@+-]{0,8}(/[A-Za-z0-9._@+][A-Za-z0-9._@+-]{0,8})?", fullmatch=True
)


@settings(max_examples=50)
@given(st.lists(PATH, min_size=2, max_size=6, unique=True))
def test_no_two_paths_have_one_key(paths: list[str]) -> None:
    keys = [key_of(path) for path in paths]
    assert len(set(keys)) == len(keys)


@settings(max_examples=8)
@given(
    st.lists(
        st.sampled_from(["a" * 90_000, "&" * 40_000, "\u00e9" * 50_000, "b\n" * 60_000, "c"]),
        min_size=1,
        max_size=5,
    )
)
def test_nothing_is_lost_in_shards(texts: list[str]) -> None:
    files = [text_artifact(f"f{i}", text) for i, text in enumerate(texts)]
    content = content_of(files)
    for shard in content.shards:
        assert sum(entry.size for entry in shard.entries) <= MAX_DATA
    entries = {entry.path: entry.data for shard in content.shards for entry in shard.entries}
    whole = {path: data for path, data in entries.items() if path.startswith("node/")}
    for line in entries.get("PARTS", b"").decode().splitlines():
        number, count, _, path = line.split()
        pieces = [entries[f"parts/{number}.{i}"] for i in range(int(count))]
        whole[f"node/{path}"] = b"".join(pieces)
    assert whole == {f"node/{file.path}": file.data for file in files}


def test_a_cut_keeps_characters_whole() -> None:
    """A part of a text stays a text, which is what a reader of the object sees."""
    for text in ("\u00e9" * 60_000, "\u20ac" * 50_000, "\U0001f600" * 30_000):
        content = content_of([text_artifact("f", text)])
        assert len(content.shards) > 1
        for shard in content.shards:
            assert shard.binary_data == {}
    assert Entry("k", "p", 0o644, b"\xff").text is None


# --- determinism ----------------------------------------------------------------------------------

PROGRAM = """
import sys
from tests.kube_fleets import emitted, fleet, group, options
found = emitted(
    fleet(group("ab", [f"n{i}" for i in range(20)]), group("cd", ["m1", "m2"])),
    options([{"percent": 30}, "all"], select="labels", createNamespace=True),
)
for path, data in sorted(found.items()):
    sys.stdout.buffer.write(path.encode() + data)
"""


def test_the_bytes_are_the_same_everywhere(tmp_path: Path) -> None:
    outputs = []
    for seed, locale, where in (("0", "C", ROOT), ("1", "tr_TR.UTF-8", tmp_path)):
        env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
        outputs.append(
            subprocess.run(
                [sys.executable, "-c", PROGRAM], cwd=where, env=env, capture_output=True, check=True
            ).stdout
        )
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 10_000


def test_the_order_of_classes_and_files_does_not_matter() -> None:
    a, b = group("ab", ["n1"]), group("cd", ["n2"])
    assert emitted(fleet(a, b)) == emitted(fleet(b, a))


def test_defaults_of_the_model_are_those_of_the_documentation() -> None:
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    for name, field in KubernetesOptions.model_fields.items():
        assert f"`{field.alias or name}`" in page, name
