"""``tierc facts diff``: every difference in the words of the model, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.__main__ import main
from compiler.facts.diff import diff_facts
from compiler.facts.fingerprint import facts_fingerprint
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from tests.machine_samples import MACHINES, node, two_sockets, workstation
from tests.machines import facts, machines, plain
from tests.policies import BOX, PROJECT


def spec_of(sample: NodeFacts) -> dict[str, Any]:
    data: dict[str, Any] = sample.spec.model_dump(by_alias=True, exclude_none=True)
    return data


def changes(a: NodeFacts, b: NodeFacts) -> list[tuple[str, str, str, str]]:
    return [(c.section, c.what, c.a, c.b) for c in diff_facts(a, b).changes]


def changed(**parts: Any) -> NodeFacts:
    """The workstation with parts of its facts replaced."""
    return node({**spec_of(workstation()), **parts}, name="desk")


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_machine_does_not_differ_from_itself(name: str) -> None:
    diff = diff_facts(MACHINES[name](), MACHINES[name]())
    assert diff.changes == ()
    assert diff.remarks == ()
    assert diff.same_fingerprint
    assert diff.same_placement


def test_order_names_sources_and_warnings_are_no_differences() -> None:
    spec = spec_of(two_sockets())
    turned = {
        **spec,
        **{part: tuple(reversed(spec[part])) for part in ("devices", "cores", "llcs", "numa")},
        "sources": ({"reader": "sysfs", "facts": ("cpus",)},),
        "warnings": ("something",),
    }
    diff = diff_facts(two_sockets(), node(turned, name="other"))
    assert diff.changes == ()
    assert diff.same_fingerprint
    assert diff.same_placement
    assert [(c.what, c.a, c.b) for c in diff.remarks] == [
        ("sources", "none", "sysfs"),
        ("warning", "not given", "something"),
    ]


def test_numbers_of_caches_are_no_differences() -> None:
    a = facts(
        [{"cpus": "0-3", "llc": 0}, {"cpus": "4-7", "llc": 1}], online="0-7",
        llcs={0: "0-3", 1: "4-7"},
    )  # fmt: skip
    b = facts(
        [{"cpus": "0-3", "llc": 7}, {"cpus": "4-7", "llc": 3}], online="0-7",
        llcs={7: "0-3", 3: "4-7"},
    )  # fmt: skip
    assert changes(a, b) == []


SIMPLE: list[tuple[dict[str, Any], tuple[str, str, str, str]]] = [
    ({"arch": "aarch64"}, ("arch", "arch", "x86_64", "aarch64")),
    ({"kernel": {**spec_of(workstation())["kernel"], "release": "6.13"}},
     ("kernel", "release", "6.12.8", "6.13")),
    ({"kernel": {**spec_of(workstation())["kernel"], "schedExt": {"supported": True}}},
     ("kernel", "schedExt state", "enabled", "unknown")),
    ({"kubelet": {"present": True}}, ("kubelet", "present", "no", "yes")),
    ({"virtualization": {"vm": True}}, ("virtualization", "vm", "unknown", "yes")),
    ({"overrides": {"allowed": "0-27"}}, ("overrides", "allowed", "not given", "0-27")),
    ({"overrides": {"devices": ({"id": "gpu1", "numa": 0},)}},
     ("overrides", "gpu1", "not given", "numa 0")),
    ({"links": ({"a": "gpu0", "b": "nic0", "kind": "PHB"},)},
     ("links", "0000:01:00.0 and 0000:05:00.0", "unknown", "PHB")),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "change"), SIMPLE)
def test_one_thing_changed_is_named(
    parts: dict[str, Any], change: tuple[str, str, str, str]
) -> None:
    assert change in changes(workstation(), changed(**parts))
    back = (*change[:2], change[3], change[2])
    assert back in changes(changed(**parts), workstation())


def test_labels() -> None:
    a, b = node(spec_of(plain(2)), pool="x", zone="1"), node(spec_of(plain(2)), pool="y")
    assert changes(a, b) == [("labels", "pool", "x", "y"), ("labels", "zone", "1", "not given")]


def test_cpus_that_went_offline_are_named_and_their_cores_are_not() -> None:
    a = facts([{"cpus": "0-7", "smt": ["0-3", "4-7"]}], online="0-7")
    b = facts([{"cpus": "0-2,4-6", "smt": ["0-2", "4-6"]}, {"cpus": "3"}], online="0-6")
    assert changes(a, b) == [("cpus", "online", "0-7", "0-6")]
    diff = diff_facts(a, b)
    assert (str(diff.changes[0].only_a), str(diff.changes[0].only_b)) == ("7", "")
    assert diff.fingerprint_a == ("online 0-7", "core 3,7")
    assert diff.fingerprint_b == ("online 0-6", "core 3")


def test_other_siblings_are_a_difference_of_cores() -> None:
    a = facts([{"cpus": "0-3", "smt": ["0-1", "2-3"]}], online="0-3")
    b = facts([{"cpus": "0-3", "smt": ["0,2", "1,3"]}], online="0-3")
    assert changes(a, b) == [("cores", "threads of the cores of CPU 0-3", "0+2 1+3", "0+1 2+3")]
    assert not diff_facts(a, b).same_fingerprint


def test_cores_are_compared_cpu_by_cpu_whatever_their_groups() -> None:
    rows = [{"cpus": "0-1", "kind": "performance", "package": 0}, {"cpus": "2-3", "package": 0}]
    a = facts([{"cpus": "0-3", "package": 0}], online="0-3")
    assert changes(a, facts([{"cpus": str(i), "package": 0} for i in range(4)], online="0-3")) == []
    assert changes(a, facts(rows, online="0-3")) == [
        ("cores", "kind of CPU 0-1", "standard", "performance")
    ]


def test_caches_and_nodes() -> None:
    a = facts(
        [{"cpus": "0-3", "llc": 0, "numa": 0}], online="0-3", llcs={0: "0-3"}, numa={0: "0-3"}
    )
    b = facts([{"cpus": "0-3", "numa": 1}], online="0-3", numa={0: "", 1: "0-3"})
    assert changes(a, b) == [
        ("caches", "of CPU 0-3", "level 3", "not given"),
        ("caches", "CPUs whose cache is known", "0-3", "none"),
        ("numa", "node 0 cpus", "0-3", "none"),
        ("numa", "node 1", "not given", "cpus 0-3, role unknown"),
        ("numa", "node of CPU 0-3", "0", "1"),
    ]


def test_distances_are_compared_by_node() -> None:
    def two(row: tuple[int, int]) -> NodeFacts:
        spec = spec_of(plain(2))
        spec["numa"] = ({"id": 0, "cpus": "0-1", "distances": row}, {"id": 4, "cpus": ""})
        return node(spec)

    assert changes(two((10, 20)), two((10, 40))) == [
        ("numa", "node 0 distances", "0: 10, 4: 20", "0: 10, 4: 40")
    ]


# --- devices ---------------------------------------------------------------------------------


def machine_with(*devices: dict[str, Any]) -> NodeFacts:
    return plain(4, devices=devices)


def test_a_device_is_recognised_by_its_address_and_its_new_id_is_said() -> None:
    a = machine_with({"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0", "numa": 0})
    b = machine_with(
        {"id": "gpu0", "type": "gpu", "bdf": "0000:02:00.0"},
        {"id": "gpu1", "type": "gpu", "bdf": "0000:01:00.0"},
    )
    assert changes(a, b) == [
        ("devices", "0000:01:00.0 id", "gpu0", "gpu1"),
        ("devices", "0000:01:00.0 numa", "0", "unknown"),
        ("devices", "0000:02:00.0", "not given", "gpu gpu0, model unknown"),
    ]
    assert not diff_facts(a, b).same_placement


def test_without_an_address_uuid_then_names_then_id_tell() -> None:
    a = machine_with(
        {"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0", "uuid": "U1"},
        {"id": "nic0", "type": "nic", "bdf": "0000:03:00.0", "names": ("eth0", "mlx5_0")},
        {"id": "nic1", "type": "nic", "bdf": "0000:04:00.0", "names": ("eth1",)},
        {"id": "gpu9", "type": "gpu"},
    )
    b = machine_with(
        {"id": "gpu5", "type": "gpu", "uuid": "U1"},
        {"id": "nic0", "type": "nic", "names": ("eth1",)},
        {"id": "nic7", "type": "nic", "names": ("mlx5_0",)},
        {"id": "gpu9", "type": "gpu", "index": 3},
    )
    said = changes(a, b)
    assert ("devices", "0000:01:00.0 id", "gpu0", "gpu5") in said
    assert ("devices", "0000:03:00.0 id", "nic0", "nic7") in said
    assert ("devices", "0000:04:00.0 id", "nic1", "nic0") in said
    assert ("devices", "gpu9 index", "unknown", "3") in said


def test_two_addresses_are_two_devices_whatever_they_are_called() -> None:
    a = machine_with({"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0", "model": "X"})
    b = machine_with({"id": "gpu0", "type": "gpu", "bdf": "0000:02:00.0", "model": "X"})
    assert changes(a, b) == [
        ("devices", "0000:01:00.0", "gpu gpu0, model X", "not given"),
        ("devices", "0000:02:00.0", "not given", "gpu gpu0, model X"),
    ]
    assert diff_facts(a, b).same_fingerprint, "devices are no part of the CPU fingerprint"


def test_a_gpu_is_never_a_network_device() -> None:
    a = machine_with({"id": "dev0", "type": "gpu", "names": ("x",)})
    b = machine_with({"id": "dev0", "type": "nic", "names": ("x",)})
    assert changes(a, b) == [
        ("devices", "dev0", "gpu dev0, model unknown, PCI address unknown", "not given"),
        ("devices", "dev0", "not given", "nic dev0, model unknown, PCI address unknown"),
    ]


def test_where_a_device_is_near_and_how_that_is_known() -> None:
    def near(**locality: str) -> NodeFacts:
        return machine_with({"id": "gpu0", "type": "gpu", "locality": locality})

    assert changes(
        near(cpus="0-1", scope="llc", confidence="measured"),
        near(cpus="0-3", scope="llc", confidence="suspect"),
    ) == [
        ("devices", "gpu0 locality cpus", "0-1", "0-3"),
        ("devices", "gpu0 locality confidence", "measured", "suspect"),
    ]


def test_a_part_of_another_device() -> None:
    def split(parent: str) -> NodeFacts:
        return machine_with(
            {"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0"},
            {"id": "gpu1", "type": "gpu", "bdf": "0000:02:00.0"},
            {"id": "mig0", "type": "gpu", "uuid": "MIG-1", "parent": parent},
        )

    assert changes(split("gpu0"), split("gpu1")) == [
        ("devices", "mig0 parent", "0000:01:00.0", "0000:02:00.0")
    ]


def test_devices_are_in_order_of_their_numbers() -> None:
    nics = [{"id": f"nic{number}", "type": "nic"} for number in (10, 2, 1)]
    assert [what for _, what, _, _ in changes(machine_with(), machine_with(*nics))] == [
        "nic1",
        "nic2",
        "nic10",
    ]


# --- what one side does not know ---------------------------------------------------------------


@pytest.mark.parametrize("part", ["arch", "llcs", "numa"])
def test_what_one_does_not_know_makes_no_other_machine(part: str) -> None:
    words = {"arch": "arch is", "llcs": "caches are", "numa": "NUMA nodes are"}[part] + " not known"
    whole = spec_of(two_sockets())
    less = {key: value for key, value in whole.items() if key != part}
    key = {"llcs": "llc", "numa": "numa"}.get(part, "")
    less["cores"] = tuple({k: v for k, v in row.items() if k != key} for row in whole["cores"])
    a, b = two_sockets(), node(less)
    for one, other, first in ((a, b, False), (b, a, True)):
        diff = diff_facts(one, other)
        assert [(i.message, i.unknown_in_a) for i in diff.incomparable] == [(words, first)]
        assert diff.changes, "it is still said that one knows more"
        assert diff.same_fingerprint
        assert diff.same_placement
    # The rest still counts.
    fewer = {**less, "cpus": {**less["cpus"], "isolated": "0"}}
    assert not diff_facts(a, node(fewer)).same_placement
    assert not diff_facts(node(less), plain(4)).same_fingerprint


def test_a_source_that_names_no_devices_may_not_have_looked() -> None:
    looked = {"sources": ({"reader": "sysfs", "facts": ("cpus", "devices")},)}
    gpu = {"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0"}
    a = node({**spec_of(plain(4)), **looked, "devices": (gpu,)})
    diff = diff_facts(a, plain(4))
    assert [i.message for i in diff.incomparable] == [
        "GPUs are not known",
        "network devices are not known",
    ]
    assert diff.same_placement
    # One that looked and found none says that there is none.
    none = node({**spec_of(plain(4)), **looked})
    assert diff_facts(a, none).incomparable == ()
    assert not diff_facts(a, none).same_placement


def test_what_both_do_not_know_is_no_difference() -> None:
    less = {k: v for k, v in spec_of(plain(4)).items() if k != "arch"}
    diff = diff_facts(node(less), node(less))
    assert (diff.changes, diff.incomparable) == ((), ())


def test_a_label_that_says_none_is_not_a_label_that_is_missing() -> None:
    said, missing = node(spec_of(plain(2)), gpu="none"), node(spec_of(plain(2)))
    assert changes(said, said) == []
    assert changes(said, missing) == [("labels", "gpu", "none", "not given")]


# --- properties ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(machines(), machines())
def test_a_difference_is_there_both_ways(a: NodeFacts, b: NodeFacts) -> None:
    there, back = diff_facts(a, b), diff_facts(b, a)
    assert sorted((c.section, c.what, c.b, c.a) for c in there.changes) == sorted(
        (c.section, c.what, c.a, c.b) for c in back.changes
    )
    if not there.incomparable:
        assert there.same_fingerprint == (facts_fingerprint(a) == facts_fingerprint(b))
    assert there.same_placement == back.same_placement
    if not there.changes:
        assert there.same_fingerprint
        assert there.same_placement


@settings(max_examples=40)
@given(machines(), st.integers(0, 2**32))
def test_shuffled_lists_do_not_differ(sample: NodeFacts, seed: int) -> None:
    rng = Random(seed)
    spec = spec_of(sample)
    for part in ("cores", "llcs", "numa", "devices"):
        rows = list(spec[part])
        rng.shuffle(rows)
        spec[part] = tuple(rows)
    assert changes(sample, node(spec)) == []


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tierc.yaml").write_text(PROJECT)
    (tmp_path / "intents").mkdir()
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/box.yaml").write_text(BOX)
    twin = BOX.replace("name: box", "name: twin")
    (tmp_path / "nodes/twin.yaml").write_text(f"# the same\n\n{twin}")
    (tmp_path / "nodes/desk.yaml").write_text(facts_yaml(workstation()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def diff(*args: str) -> int:
    return main(["facts", "diff", *args])


def test_the_same_machine(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff("box", "nodes/twin.yaml") == 0
    assert capsys.readouterr() == (
        "box -> nodes/twin.yaml (twin)\n"
        "no difference\n"
        "fingerprint: the CPU parts are equal\n"
        "placement: sees the same machine\n",
        "",
    )


def test_another_machine(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (policy / "nodes/box.yaml").read_text()
    text = text.replace('isolated: ""', "isolated: 14-15").replace("x86_64", "aarch64")
    (policy / "new.yaml").write_text(text)
    assert diff("box", "new.yaml") == 1
    assert capsys.readouterr().out == (
        "box -> new.yaml (box)\n"
        "arch\n"
        "  arch: x86_64 -> aarch64\n"
        "cpus\n"
        "  isolated: none -> 14-15\n"
        "2 differences\n"
        "fingerprint: the CPU parts differ\n"
        "  - arch x86_64\n"
        "  + arch aarch64\n"
        "placement: sees different machines\n"
    )
    assert diff("box", "new.yaml", "--format", "json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "a": "box",
        "b": "new.yaml",
        "same": False,
        "samePlacement": False,
        "notComparable": [],
        "fingerprint": {"same": False, "onlyA": ["arch x86_64"], "onlyB": ["arch aarch64"]},
        "differences": [
            {"section": "arch", "what": "arch", "a": "x86_64", "b": "aarch64"},
            {"section": "cpus", "what": "isolated", "a": "none", "b": "14-15"},
        ],
    }


def test_arch_that_one_does_not_know_is_said_and_left_out(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (policy / "nodes/box.yaml").read_text()
    (policy / "less.yaml").write_text(text.replace("  arch: x86_64\n", ""))
    assert diff("box", "less.yaml") == 1
    assert capsys.readouterr().out == (
        "box -> less.yaml (box)\n"
        "arch\n"
        "  arch: x86_64 -> unknown\n"
        "1 difference\n"
        "not comparable: arch is not known in less.yaml (box)\n"
        "fingerprint: the CPU parts are equal in the rest\n"
        "placement: sees the same machine in the rest\n"
    )
    assert diff("less.yaml", "box", "--format", "json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["notComparable"] == [{"what": "arch", "unknownIn": "a"}]
    assert data["fingerprint"] == {"same": True, "onlyA": [], "onlyB": []}
    assert data["samePlacement"] is True


def test_only_the_cpus_that_differ_are_picked_out(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (policy / "nodes/box.yaml").read_text().replace('isolated: ""', 'allowed: "0-12,15"')
    (policy / "a.yaml").write_text(text)
    (policy / "b.yaml").write_text(text.replace("0-12,15", "0-11,14-15"))
    assert diff("a.yaml", "b.yaml") == 1
    assert "  allowed: 0-12,15 -> 0-11,14-15 (-12 +14)\n" in capsys.readouterr().out


def test_what_is_said_about_facts_is_shown_on_request_and_does_not_count(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (policy / "nodes/box.yaml").read_text()
    (policy / "odd.yaml").write_text(text + "  warnings: [odd]\n")
    assert diff("box", "odd.yaml") == 0
    assert "odd\n" not in capsys.readouterr().out
    assert diff("box", "odd.yaml", "--all") == 0
    out = capsys.readouterr().out
    assert "warnings\n  warning: not given -> odd\n" in out
    assert "no difference\n" in out
    assert diff("box", "odd.yaml", "--all", "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["same"] is True
    assert data["remarks"] == [
        {"section": "warnings", "what": "warning", "a": "not given", "b": "odd"}
    ]


def test_long_values_are_cut_in_text_and_whole_in_json(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (policy / "nodes/box.yaml").read_text()
    (policy / "long.yaml").write_text(text.replace("6.17.0", "v" + "7" * 300))
    assert diff("box", "long.yaml") == 1
    assert max(map(len, capsys.readouterr().out.splitlines())) < 120
    assert diff("box", "long.yaml", "--format", "json") == 1
    assert "7" * 300 in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["box", "nowhere"], "the policy has no node 'nowhere'"),
        (["box", "none.yaml"], "none.yaml does not exist"),
        (["-", "-"], "only one of the two can be the standard input"),
        (["box", "desk", "--format", "svg"], "unknown format 'svg'; formats are text, json"),
    ],
)
def test_what_cannot_be_compared_is_exit_2(
    args: list[str], message: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(*args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
