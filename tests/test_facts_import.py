"""``tierc facts import`` and ``collect``: which file is of which node, and what is written."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.importing import NodeError, Source, UnclearNodesError, by_node, merge_node
from compiler.facts.partial import Partial
from tests.import_command import Call, caller, documents, fleet, machine, node
from tests.sysfs_builder import SysfsBuilder


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    monkeypatch.chdir(tmp_path)
    return caller(capsys, tmp_path)


# --- one node ----------------------------------------------------------------------------------


def test_files_of_one_node_become_one_document(call: Call) -> None:
    code, out, err = call("import", "topo.txt", "lscpu.csv", "--name", "gpu-7", "--label", "a=b")
    assert (code, err) == (0, "")
    (facts,) = documents(out)
    spec = facts.spec
    assert (facts.metadata.name, dict(facts.metadata.labels)) == ("gpu-7", {"a": "b"})
    assert [str(core) for group in spec.cores for core in group.cores()] == [
        "0,4",
        "1,5",
        "2,6",
        "3,7",
    ]
    assert [str(llc.cpus) for llc in spec.llcs] == ["0-1,4-5", "2-3,6-7"]
    assert [(d.id, d.index, d.numa, str(d.locality.cpus)) for d in spec.devices] == [
        ("gpu0", 0, 0, "0-1,4-5"),
        ("gpu1", 1, 1, "2-3,6-7"),
    ]
    assert [s.reader for s in spec.sources] == ["lscpu", "nvidia-smi topo"]
    # The order of files changes nothing.
    again = call(
        "import", "lscpu.csv", "topo.txt", "lscpu.csv", "--name", "gpu-7", "--label", "a=b"
    )
    assert again == (0, out, "")


def test_the_name_comes_from_the_file_that_is_written(call: Call) -> None:
    Path("nodes").mkdir()
    code, out, err = call("import", "lscpu.csv", "-o", "nodes/gpu-7.yaml")
    assert (code, out) == (0, "")
    assert "nodes/gpu-7.yaml: facts of gpu-7" in err
    (facts,) = documents(Path("nodes/gpu-7.yaml").read_text())
    assert facts.metadata.name == "gpu-7"
    assert os.listdir("nodes") == ["gpu-7.yaml"]


def test_without_a_name_it_is_asked_for(call: Call) -> None:
    code, out, err = call("import", "lscpu.csv")
    assert (code, out) == (1, "")
    assert "TRC622" in err
    assert "--name NAME" in err


def test_a_directory_gets_a_file_by_the_name(call: Call) -> None:
    assert call("import", "lscpu.csv", "--name", "b", "-o", "new/")[0] == 0
    Path("there").mkdir()
    assert call("import", "lscpu.csv", "--name", "b", "-o", "there")[0] == 0
    assert os.listdir("new") == os.listdir("there") == ["b.yaml"]


def test_an_existing_file_needs_force_and_keeps_what_people_wrote(call: Call) -> None:
    assert call("import", "lscpu.csv", "-o", "a.yaml", "--label", "mine=1")[0] == 0
    text = Path("a.yaml").read_text()
    Path("a.yaml").write_text(text + "  overrides: {isolated: 3}\n")
    code, _, err = call("import", "lscpu.csv", "-o", "a.yaml")
    assert code == 2
    assert "--force" in err
    assert call("import", "lscpu.csv", "topo.txt", "-o", "a.yaml", "--force")[0] == 0
    (facts,) = documents(Path("a.yaml").read_text())
    assert dict(facts.metadata.labels) == {"mine": "1"}
    assert facts.spec.overrides.isolated == CpuSet((3,))
    assert len(facts.spec.devices) == 2


def test_facts_are_a_source_themselves(call: Call) -> None:
    assert call("import", "lscpu.csv", "-o", "a.yaml")[0] == 0
    assert call("import", "a.yaml", "topo.txt", "-o", "a.yaml", "--force")[0] == 0
    with_gpus = Path("a.yaml").read_text()
    assert call("import", "lscpu.csv", "topo.txt", "--name", "a")[1] == with_gpus
    # Again with nothing new: not a byte changes.
    assert call("import", "a.yaml", "-o", "a.yaml", "--force")[0] == 0
    assert Path("a.yaml").read_text() == with_gpus


def test_a_file_of_another_node_is_not_overwritten(call: Call) -> None:
    assert call("import", "lscpu.csv", "--name", "other", "-o", "a.yaml")[0] == 0
    Path("node.json").write_text(json.dumps(node("a", 8)))
    code, _, err = call("import", "lscpu.csv", "node.json", "-o", "a.yaml", "--force")
    assert code == 2
    assert "holds the facts of other, and the sources are of a; give --name other" in err


# --- many nodes --------------------------------------------------------------------------------


def test_many_nodes_become_a_file_each(call: Call) -> None:
    fleet()
    Path("nodes.json").write_text(
        json.dumps(
            {"apiVersion": "v1", "kind": "List", "items": [node("b", 8, zone="z"), node("a", 8)]}
        )
    )
    code, out, _ = call("import", "fleet.yaml", "nodes.json", "-o", "nodes", "--label", "f=1")
    assert (code, out) == (0, "")
    assert sorted(os.listdir("nodes")) == ["a.yaml", "b.yaml", "c.yaml"]
    (facts,) = documents(Path("nodes/b.yaml").read_text())
    assert dict(facts.metadata.labels) == {"f": "1", "zone": "z"}
    # Without a place to write they are one stream, by name.
    code, out, _ = call("import", "fleet.yaml", "nodes.json")
    assert [one.metadata.name for one in documents(out)] == ["a", "b", "c"]


def test_one_bad_node_stops_all_and_is_named(call: Call) -> None:
    fleet()
    Path("bare.xml").write_text(
        '<topology version="2.0"><object type="Machine" cpuset="0xf">'
        '<info name="HostName" value="without-cpus"/></object></topology>'
    )
    code, _, err = call("import", "fleet.yaml", "bare.xml", "-o", "nodes/")
    assert code == 1
    assert "node without-cpus: no source says which CPUs are online" in err
    assert not Path("nodes").exists()


def test_nodes_that_only_kubernetes_lists_are_left_out_and_named(call: Call) -> None:
    fleet()
    items = [node(name, 8) for name in ("a", "virtual-1", "virtual-2")]
    Path("nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    code, _, err = call("import", "fleet.yaml", "nodes.json", "-o", "nodes/")
    assert code == 0
    assert "warning[TRC624]: no facts of virtual-1, virtual-2: nothing but Kubernetes" in err
    assert sorted(os.listdir("nodes")) == ["a.yaml", "b.yaml", "c.yaml"]
    # Where nobody else has facts there is nothing to go on with.
    code, _, err = call("import", "nodes.json", "-o", "other/")
    assert code == 1
    assert err.count("error[TRC622]") == 1
    assert "nodes a, virtual-1, virtual-2: no source says which CPUs are online" in err


def test_one_file_that_may_not_be_replaced_stops_all(call: Call) -> None:
    fleet()
    assert call("import", "lscpu.csv", "--name", "b", "-o", "nodes/")[0] == 0
    code, _, err = call("import", "fleet.yaml", "-o", "nodes/")
    assert code == 2
    assert "nodes/b.yaml exists" in err
    assert os.listdir("nodes") == ["b.yaml"]
    assert call("import", "fleet.yaml", "-o", "nodes/", "--force")[0] == 0
    assert len(os.listdir("nodes")) == 3


def test_a_failed_write_leaves_all_as_it_was(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet()
    assert call("import", "lscpu.csv", "--name", "a", "-o", "nodes/")[0] == 0
    before = Path("nodes/a.yaml").read_text()
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == "c.yaml":
            raise OSError(28, "No space left on device", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    code, _, err = call("import", "fleet.yaml", "-o", "nodes/", "--force", "--label", "new=1")
    assert code == 2
    assert "nothing written: cannot write" in err
    assert os.listdir("nodes") == ["a.yaml"]
    assert Path("nodes/a.yaml").read_text() == before


def test_many_nodes_do_not_fit_into_one_file(call: Call) -> None:
    fleet()
    code, _, err = call("import", "fleet.yaml", "-o", "all.yaml")
    assert code == 2
    assert "all.yaml is one file, and the sources are of 3 nodes" in err


def test_a_file_without_a_name_among_many_nodes(call: Call) -> None:
    fleet()
    code, _, err = call("import", "fleet.yaml", "topo.txt", "-o", "nodes/")
    assert code == 1
    assert "error[TRC625]: names no node, and other sources name a, b, c" in err
    assert "topo.txt" in err
    code, out, _ = call("import", "fleet.yaml", "topo.txt", "--name", "b")
    assert code == 0
    (facts,) = documents(out)
    assert (facts.metadata.name, len(facts.spec.devices)) == ("b", 2)
    code, _, err = call("import", "fleet.yaml", "topo.txt", "--name", "d")
    assert code == 1
    assert "speaks of 3 nodes, and none of them is d" in err


def test_files_of_one_name_each_are_one_node_if_the_name_is_given() -> None:
    """The host name of a snapshot and the node name of Kubernetes often differ."""
    host = Source("snap", (Partial("sysfs", "snap", node="gpu-7"),))
    kube = Source("n.json", (Partial("node", "n.json", node="gpu-7.example"),))
    assert list(by_node([host, kube], name=None)) == ["gpu-7", "gpu-7.example"]
    assert by_node([host, kube], name="gpu-7.example") == {"gpu-7.example": (host, kube)}


def test_two_machines_in_one_archive_are_not_merged() -> None:
    parts = tuple(Partial("sysfs", f"a.tgz!{name}") for name in ("one", "two"))
    for name in (None, "n"):
        with pytest.raises(UnclearNodesError, match=r"2 machines, 'a\.tgz!one' and 'a"):
            by_node([Source("a.tgz", parts)], name=name)
    named = tuple(Partial("sysfs", f"a.tgz!{name}", node=name) for name in ("one", "two"))
    assert list(by_node([Source("a.tgz", named)], name=None)) == ["one", "two"]


def test_a_node_that_makes_no_facts_names_its_sources() -> None:
    source = Source("t.txt", (Partial("nvidia-smi topo", "t.txt"),))
    with pytest.raises(NodeError) as caught:
        merge_node("a", [source], fallback=None)
    assert caught.value.sources == ("t.txt",)
    assert caught.value.message.startswith("node a: ")


# --- archives and bundles ----------------------------------------------------------------------


def test_sysfs_and_lscpu_of_one_machine_say_the_same(call: Call) -> None:
    machine(Path("snap"))
    with tarfile.open("snap.tar.xz", "w:xz") as tar:
        tar.add("snap", arcname="var/tmp/snap")
    _, by_lscpu, _ = call("import", "lscpu.csv", "--name", "a")
    code, by_sysfs, err = call("import", "snap.tar.xz", "topo.txt", "--name", "a")
    assert (code, err) == (0, "")
    (one,), (two,) = documents(by_lscpu), documents(by_sysfs)
    sets = [
        [
            one_.spec.cpus.online,
            [core for group in one_.spec.cores for core in group.cores()],
            [llc.cpus for llc in one_.spec.llcs],
            [(n.id, n.cpus) for n in one_.spec.numa],
        ]
        for one_ in (one, two)
    ]
    assert sets[0] == sets[1]
    assert [(d.bdf, d.index, d.numa) for d in two.spec.devices] == [
        ("0000:17:00.0", 0, 0),
        ("0000:b5:00.0", 1, 1),
    ]


def test_a_bundle_gives_the_facts_of_the_collection(call: Call) -> None:
    b = machine(Path("snap"), "gpu-7")
    b.node(1, "2-3,6-7", mem_kib=1 << 20, distance="21 10 99")  # a warning to repeat
    code, collected, err = call("collect", "--sysroot", "snap", "--bundle", "out/b.tar.gz")
    assert code == 0
    assert "out/b.tar.gz: what was read" in err
    assert documents(collected)[0].spec.warnings
    code, out, _ = call("import", "out/b.tar.gz")
    assert (code, out) == (0, collected)
    first = Path("out/b.tar.gz").read_bytes()
    code, _, err = call("collect", "--sysroot", "snap", "--bundle", "out/b.tar.gz")
    assert code == 2
    assert "exists; give --force" in err
    assert call("collect", "--sysroot", "snap", "--bundle", "out/b.tar.gz", "--force")[0] == 0
    assert Path("out/b.tar.gz").read_bytes() == first


def test_the_bundle_of_this_machine(call: Call) -> None:
    code, collected, _ = call("collect", "--bundle", "b.tar.gz", "--name", "here", "--no-tools")
    assert code == 0
    assert call("import", "b.tar.gz")[:2] == (0, collected)


def test_a_bundle_is_kept_even_if_it_makes_no_facts(call: Call) -> None:
    b = SysfsBuilder(Path("bare"))
    b.masks(online="0-3")  # and nothing about cores
    code, _, err = call("collect", "--sysroot", "bare", "--name", "a", "--bundle", "b.tar.gz")
    assert code == 2
    assert "threads of one core" in err
    code, _, err = call("import", "b.tar.gz")
    assert code == 1
    assert "no CPU has topology/" in err  # what the source says of it
    # With what is missing the bundle is of use.
    rows = ("0,0,0,0,0:0", "1,1,0,0,1:0", "2,0,0,0,0:0", "3,1,0,0,1:0")
    Path("four.csv").write_text("\n".join(("# CPU,Core,Socket,Node,L1d:L3", *rows, "")))
    code, out, _ = call("import", "b.tar.gz", "four.csv")
    assert code == 0
    assert [str(c) for g in documents(out)[0].spec.cores for c in g.cores()] == ["0,2", "1,3"]


def test_tools_are_asked_on_the_running_machine_only(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask() -> tuple[object, ...]:
        asked.append(1)
        return ()

    monkeypatch.setattr("compiler.facts.collect._ask", ask)
    machine(Path("snap"), "a")
    assert call("collect", "--sysroot", "snap")[0] == 0
    assert call("collect", "--name", "a", "--no-tools")[0] == 0
    assert asked == []
    assert call("collect", "--name", "a")[0] == 0
    assert asked == [1]
