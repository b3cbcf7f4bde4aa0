"""Classes of nodes: who is in one, that each is compiled once, and which names last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import fleet
from compiler import classplan, emission, pipeline
from compiler import compiled as compiled_types
from compiler.classes import ClassKey, class_names
from compiler.diagnostics import Sink
from compiler.pipeline import Compilation, emit
from compiler.registry import load
from tests.policies import BOX, HEAD, intent, write
from tests.policies import compiled as compile_all

BATCH = intent("batch", 'workload: {match: [{comm: "stress-ng*"}]}\ndemote: background')
CHAT = intent(
    "chat",
    "nodes: {matchLabels: {pool: small}}\nworkload: {match: [{comm: server}]}\n"
    "protect: all\nlane: {cores: 2}",
)
SMALL = BOX.replace("0-15", "0-7").replace("[0-7, 8-15]", "[0-3, 4-7]")


def box(name: str, *, pool: str = "small", text: str = BOX) -> str:
    return text.replace("name: box", f"name: {name}").replace("pool: small", f"pool: {pool}")


def compiled(root: Path, files: Mapping[str, str]) -> Compilation:
    nodes = {"nodes/box.yaml": box("box"), "nodes/a.yaml": box("a"), "nodes/b.yaml": box("b")}
    compilation, findings = compile_all(
        write(root, {"intents/batch.yaml": BATCH, "intents/chat.yaml": CHAT, **nodes, **files})
    )
    assert [f.message for f in findings if f.severity.name == "ERROR"] == []
    return compilation


def names(compilation: Compilation) -> dict[str, str]:
    """Node -> name of its class."""
    return {node: group.name for group in compilation.classes for node in group.nodes}


# --- who is in one -----------------------------------------------------------------------------


def test_what_no_plan_reads_does_not_split_a_class(tmp_path: Path) -> None:
    # GPUs have UUIDs of their own, memory differs by a few MiB, kernels are updated by turns, a
    # loaded scheduler of ours shows in the facts, and sources tell who collected.
    other = (
        box("b")
        .replace("model: NVIDIA", "uuid: GPU-1234\n      model: NVIDIA")
        .replace("role: cpu", "role: cpu, memoryMiB: 515000")
        .replace("release: 6.17.0", "release: 6.17.1")
        .replace("state: disabled", "state: enabled, ops: tierc")
        + '  warnings: ["no cache sizes"]\n  virtualization: {vm: true}\n'
    )
    compilation = compiled(tmp_path, {"nodes/b.yaml": other})
    assert [group.nodes for group in compilation.classes] == [("a", "b", "box")]


def test_a_uuid_counts_where_an_intent_names_it(tmp_path: Path) -> None:
    engine = "workload: {engine: vllm, version: 0.24.0, gpus: [GPU-12aB]}\nprotect: [decode]"
    files = {
        "intents/chat.yaml": intent("chat", "nodes: {names: [a, b]}\n" + engine),
        "nodes/a.yaml": box("a").replace("model: N", "uuid: GPU-12ab\n      model: N"),
        "nodes/b.yaml": box("b").replace("model: N", "uuid: GPU-77\n      model: N"),
        "nodes/box.yaml": box("box").replace("model: N", "uuid: GPU-88\n      model: N"),
        "nodes/box2.yaml": box("box2").replace("model: N", "uuid: GPU-99\n      model: N"),
    }
    compilation, _ = compile_all(write(tmp_path, {"intents/batch.yaml": BATCH, **files}))
    assert [group.nodes for group in compilation.classes] == [("a",), ("b",), ("box", "box2")]


def test_a_uuid_counts_where_it_is_the_only_name_of_a_gpu(tmp_path: Path) -> None:
    bare = '      bdf: "0000:01:00.0"\n'
    files = {
        f"nodes/{name}.yaml": box(name).replace(bare, f"      uuid: GPU-{name}\n")
        for name in ("a", "b")
    }
    groups = compiled(tmp_path, files).classes
    assert [group.nodes for group in groups] == [("a",), ("b",), ("box",)]


def test_who_looked_for_devices_counts(tmp_path: Path) -> None:
    # Facts without network devices: sysfs says there are none, another source may not have looked.
    sysfs = box("b") + "  sources: [{reader: sysfs, facts: [cpus, devices]}]\n"
    compilation = compiled(tmp_path, {"nodes/b.yaml": sysfs})
    assert [group.nodes for group in compilation.classes] == [("a", "box"), ("b",)]
    assert [g.plan.machine.nics for g in compilation.classes if g.plan] == [None, ()]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('isolated: ""', 'isolated: "0,8"'),
        ("cgroup: v2", "cgroup: v1"),
        ("smt: [0-7, 8-15]", "smt: ['0-14:1/2', '1-15:1/2']"),
        ("scope: numa", "scope: machine"),
        ("model: NVIDIA RTX 6000 Ada", "model: NVIDIA L4"),
        ('bdf: "0000:01:00.0"', 'bdf: "0000:02:00.0"'),
    ],
)
def test_what_plans_read_splits_a_class(tmp_path: Path, old: str, new: str) -> None:
    assert old in BOX
    compilation = compiled(tmp_path, {"nodes/b.yaml": box("b").replace(old, new)})
    assert [group.nodes for group in compilation.classes] == [("a", "box"), ("b",)]


def test_members_of_a_class_have_the_plan_that_each_would_have_alone(tmp_path: Path) -> None:
    together = fleet.write_fleet(tmp_path / "all", 20)
    compilation, _ = compile_all(together)
    assert [len(group.nodes) for group in compilation.classes] == [2] * 10
    for group in compilation.classes:
        last = group.nodes[-1]
        alone = fleet.write_fleet(tmp_path / last, 0)
        (alone / "nodes").mkdir()
        text = (together / f"nodes/{last}.yaml").read_text()
        (alone / f"nodes/{last}.yaml").write_text(text)
        (one,) = compile_all(alone)[0].classes
        assert one.plan == group.plan
        assert one.name == group.name


def test_a_thousand_nodes_in_ten_classes_are_compiled_ten_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fleet.write_fleet(tmp_path, 10)
    base, _ = compile_all(root)
    loaded = {n.name: n for n in base.policy.nodes}
    many = tuple(
        sorted(
            (
                type(one)(
                    one.model.model_copy(
                        update={
                            "metadata": one.model.metadata.model_copy(
                                update={"name": f"{one.name}-{copy:02d}"}
                            )
                        }
                    ),
                    _Renamed(one.doc, f"{one.name}-{copy:02d}"),
                )
                for one in loaded.values()
                for copy in range(100)
            ),
            key=lambda n: n.name,
        )
    )
    counts = {"place": 0, "emit": 0}

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(classplan, "place", counting("place", classplan.place))
    targets = {n: load(n) for n in ("bpf", "taskset")}

    class Counted:
        def __init__(self, name: str) -> None:
            self.name = name
            self.emit = counting("emit", targets[name].emit)

        def __getattr__(self, name: str) -> Any:
            return getattr(targets[self.name], name)

    counted = {name: Counted(name) for name in targets}
    monkeypatch.setattr(classplan, "load", counted.get)
    monkeypatch.setattr(compiled_types, "load", counted.get)
    policy = replace(base.policy, nodes=many)
    compilation = pipeline.compile_policy(policy, Sink())
    first = emit(compilation)
    assert len({a.path.split("/")[1] for a in first}) == 1000
    assert counts["place"] == 10
    emitted = counts["emit"]
    assert emitted == sum(len(group.views) for group in compilation.classes) <= 20
    assert emit(compilation) == first
    assert emission.fleet_of(compilation).classes[0].files
    assert counts == {"place": 10, "emit": emitted}


class _Renamed:
    """A document under another name."""

    def __init__(self, doc: Any, name: str) -> None:
        self._doc = doc
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._doc, name)


# --- names -------------------------------------------------------------------------------------

EDITS_THAT_RENAME_NOTHING: dict[str, dict[str, str]] = {
    "an intent for all": {
        "intents/more.yaml": intent("more", "workload: {match: [{comm: x}]}\ndemote: idle")
    },
    "an intent renamed": {"intents/batch.yaml": BATCH.replace("name: batch", "name: bulk")},
    "an intent removed": {"intents/batch.yaml": "# gone\n"},
    "a comment": {"intents/chat.yaml": "# why\n" + CHAT},
    "a lane": {"intents/chat.yaml": CHAT.replace("cores: 2", "cores: 3")},
    "a match": {"intents/chat.yaml": CHAT.replace("comm: server", "comm: other")},
    "a tier": {"intents/batch.yaml": BATCH.replace("background", "idle")},
    "a node": {"nodes/c.yaml": box("c")},
    "a node of another kind": {"nodes/small.yaml": box("small", text=SMALL)},
    "a label that selects nothing": {
        "nodes/a.yaml": box("a").replace("{pool:", "{rack: r7, pool:")
    },
    "a newer kernel": {"nodes/a.yaml": box("a").replace("6.17.0", "6.18.3")},
    "a loaded scheduler": {"nodes/a.yaml": box("a").replace("disabled", "enabled, ops: tierc")},
}


@pytest.mark.parametrize("edit", EDITS_THAT_RENAME_NOTHING)
def test_edits_that_rename_nothing(tmp_path: Path, edit: str) -> None:
    before = names(compiled(tmp_path / "a", {}))
    after = names(compiled(tmp_path / "b", EDITS_THAT_RENAME_NOTHING[edit]))
    assert {node: after[node] for node in before} == before
    assert len(set(before.values())) == 1


def test_a_split_renames_those_that_got_something_more(tmp_path: Path) -> None:
    before = names(compiled(tmp_path / "a", {}))
    # `box` leaves the pool: it has less than the others, and they have a hash of what is more.
    split = names(compiled(tmp_path / "b", {"nodes/box.yaml": box("box", pool="other")}))
    assert split["box"] == before["box"]
    assert split["a"] == split["b"] != before["a"]
    assert split["a"].startswith(before["a"])
    # Later edits, also of intents for all and of a third class, rename none of the two again.
    third = box("c").replace("{pool:", "{rack: r7, pool:")
    rack = intent(
        "rack", "nodes: {matchLabels: {rack: r7}}\nworkload: {match: [{comm: r}]}\nkeep: normal"
    )
    more = {
        "nodes/box.yaml": box("box", pool="other"),
        "nodes/c.yaml": third,
        "intents/rack.yaml": rack,
        "intents/batch.yaml": BATCH.replace("background", "idle"),
        "intents/all.yaml": intent("all", "workload: {match: [{comm: y}]}\ndemote: idle"),
    }
    later = names(compiled(tmp_path / "c", more))
    assert {node: later[node] for node in split} == split
    assert later["c"] not in split.values()
    # The intent that splits is renamed: those that have it are.
    renamed = {**more, "intents/chat.yaml": CHAT.replace("name: chat", "name: talk")}
    last = names(compiled(tmp_path / "d", renamed))
    assert last["box"] == before["box"]
    assert last["a"] != split["a"]


def test_a_canary_gets_a_new_name_and_the_rest_keep_theirs(tmp_path: Path) -> None:
    def project(enforce: str) -> str:
        return f"{HEAD}kind: Project\nspec: {{enforce: [{enforce}]}}\n"

    before = names(compiled(tmp_path / "a", {"tierc.yaml": project("{mode: observe}")}))
    canary = "{nodes: {names: [a]}, mode: fallback}, {mode: observe}"
    during = names(compiled(tmp_path / "b", {"tierc.yaml": project(canary)}))
    after = names(compiled(tmp_path / "c", {"tierc.yaml": project("{mode: fallback}")}))
    assert during["box"] == during["b"] == before["box"]
    assert during["a"] not in before.values()
    assert after == before


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"a", b"b", b"c", b"d", b"e"]),
            st.frozensets(st.sampled_from([("intent", x) for x in "uvwxyz"]), max_size=4),
        ),
        unique=True,
        max_size=40,
    ),
    st.integers(1, 7),
)
def test_names_are_different_labels_whatever_the_order(
    rows: list[tuple[bytes, frozenset[tuple[str, str]]]], letters: int
) -> None:
    keys = [ClassKey(machine * 32, choices) for machine, choices in rows]
    named = class_names(keys, letters=letters, variant_letters=1)
    assert class_names(reversed(keys), letters=letters, variant_letters=1) == named
    assert len(set(named.values())) == len(keys)
    assert all(name.isalpha() and name.islower() and len(name) <= 63 for name in named.values())


def test_names_that_would_be_equal_get_more_letters() -> None:
    # 20 letters and 30 machines: at least ten need a second one.
    keys = [ClassKey(bytes([n]) * 32, frozenset()) for n in range(30)]
    named = class_names(keys, letters=1)
    assert len(set(named.values())) == 30
    assert {len(name) for name in named.values()} >= {2}
    usual = class_names(keys)
    assert {len(name) for name in usual.values()} == {7}
    for key in keys:
        assert usual[key].startswith(named[key]) or named[key].startswith(usual[key])


def test_a_name_is_no_number_word_or_null_to_any_yaml_reader(tmp_path: Path) -> None:
    (name,) = set(names(compiled(tmp_path, {})).values())
    assert set(name) <= set("bcdfghjklmnpqrstvwxz")
