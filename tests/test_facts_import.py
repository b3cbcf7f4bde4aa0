"""``tierc facts import`` and ``collect``: which file is of which node, and what is written."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.facts.importing import NodeError, Source, UnclearNodesError, by_node, merge_node
from compiler.facts.partial import Partial
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.policies import PROJECT
from tests.sysfs_builder import SysfsBuilder

Call = Callable[..., tuple[int, str, str]]

# `lscpu -p=cpu,core,socket,node,cache` of 4 cores with 2 threads in 2 sockets, retyped.
LSCPU = """\
# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,L1d:L1i:L2:L3
0,0,0,0,0:0:0:0
1,1,0,0,1:1:1:0
2,2,1,1,2:2:2:1
3,3,1,1,3:3:3:1
4,0,0,0,0:0:0:0
5,1,0,0,1:1:1:0
6,2,1,1,2:2:2:1
7,3,1,1,3:3:3:1
"""
TOPO = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\t0-1,4-5\t0\t\tN/A
GPU1\tSYS\t X \t2-3,6-7\t1\t\tN/A
"""


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lscpu.csv").write_text(LSCPU)
    (tmp_path / "topo.txt").write_text(TOPO)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["facts", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def documents(text: str) -> list[NodeFacts]:
    sink = Sink()
    found = [decode(d, sink) for d in parse_source("x.yaml", text.encode(), sink).documents]
    assert list(sink) == []
    return [one.model for one in found if one and isinstance(one.model, NodeFacts)]


def node(name: str, cpus: int, **labels: str) -> dict[str, object]:
    """A Kubernetes Node as kubectl prints it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": {"cpu": str(cpus)}, "allocatable": {"cpu": str(cpus)}},
    }


def machine(root: Path, host: str = "") -> SysfsBuilder:
    """The machine of LSCPU in sysfs."""
    b = SysfsBuilder(root)
    b.masks(online="0-7", possible="0-7", present="0-7")
    b.cores(["0,4", "1,5"], package=0)
    b.cores(["2,6", "3,7"], package=1)
    b.cache(3, "0-1,4-5", level=3, size="8192K", id=0)
    b.cache(3, "2-3,6-7", level=3, size="8192K", id=1)
    b.node(0, "0-1,4-5", mem_kib=1 << 20, distance="10 21")
    b.node(1, "2-3,6-7", mem_kib=1 << 20, distance="21 10")
    for number, bdf in enumerate(("0000:17:00.0", "0000:b5:00.0")):
        b.pci(bdf, code=0x030200, vendor=0x10DE, device=0x2330, numa=number)
    if host:
        b.file("proc/sys/kernel/hostname", f"{host}\n")
    return b


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


# --- what is wrong -----------------------------------------------------------------------------


def test_everything_unusable_is_named_and_nothing_is_written(call: Call) -> None:
    Path("notes.txt").write_text("remember the milk\n")
    Path("cut.csv").write_text(LSCPU.replace("3,3,1,1,3:3:3:1", "3,three,1,1,3:3:3:1"))
    code, out, err = call("import", "lscpu.csv", "notes.txt", "cut.csv", "gone.xml", "-o", "a.yaml")
    assert (code, out) == (1, "")
    assert "error[TRC621]: unknown format" in err
    assert "hwloc XML" in err  # what is understood
    assert "notes.txt:1:1" in err
    assert "cut.csv:8" in err
    assert "error[TRC620]" in err
    assert "gone.xml" in err
    assert err.endswith("3 errors\nnothing written\n")
    assert not Path("a.yaml").exists()


def test_without_cpus_the_command_that_gives_them_is_named(call: Call) -> None:
    code, out, err = call("import", "topo.txt", "--name", "a")
    assert (code, out) == (1, "")
    assert "error[TRC622]" in err
    assert "topo.txt (nvidia-smi topo)" in err
    assert "lscpu -p=cpu,online,core,socket,node,cache" in err


def test_a_disagreement_is_a_warning_with_both_sources(call: Call) -> None:
    b = machine(Path("snap"))
    b.node(0, "0-3", mem_kib=1 << 20, distance="10 21")
    b.node(1, "4-7", mem_kib=1 << 20, distance="21 10")
    code, out, err = call("import", "lscpu.csv", "snap", "--name", "a")
    assert code == 0
    assert "warning[TRC623]: numa: sysfs (snap) says node 0 has 0-3" in err
    assert "--> lscpu.csv:1:1" in err
    assert "::: snap:1:1: this source counts" in err
    (facts,) = documents(out)
    assert [str(n.cpus) for n in facts.spec.numa] == ["0-3", "4-7"]
    assert any("lscpu (lscpu.csv) says node 0 has 0-1,4-5" in w for w in facts.spec.warnings)


def test_a_shortened_list_is_a_warning_at_its_source(call: Call) -> None:
    Path("topo.txt").write_text(TOPO.replace("0-1,4-5", "0-1"))
    code, out, err = call("import", "lscpu.csv", "topo.txt", "--name", "a")
    assert code == 0
    assert "warning[TRC624]: gpu0: is on node 0 (CPUs 0-1,4-5)" in err
    assert "topo.txt:1" in err
    assert str(documents(out)[0].spec.devices[0].locality.cpus) == "0-1,4-5"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "Not A Name"], "not a node name"),
        (["--label", "novalue"], "is not KEY=VALUE"),
        (["--label", "a=b", "--label", "a=c"], "given twice"),
        (["--name", "a", "--label", "bad key=x"], "node a: "),
    ],
)
def test_wrong_usage(call: Call, arguments: list[str], message: str) -> None:
    code, out, err = call("import", "lscpu.csv", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_help_has_an_example(call: Call) -> None:
    code, out, _ = call("import", "--help")
    assert code == 0
    assert "Example: tierc facts import" in out
    assert "--bundle" in call("collect", "--help")[1]


# --- many nodes --------------------------------------------------------------------------------


def fleet(path: str = "fleet.yaml") -> None:
    """Facts of three nodes in one file."""
    texts = []
    for name in ("c", "a", "b"):
        assert main(["facts", "import", "lscpu.csv", "--name", name, "-o", f"{name}.one.yaml"]) == 0
        texts.append(Path(f"{name}.one.yaml").read_text())
    Path(path).write_text("---\n".join(texts))


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


# --- what is said to people --------------------------------------------------------------------


def test_all_files_without_a_name_are_listed(call: Call) -> None:
    fleet()
    Path("more.txt").write_text(TOPO)
    code, _, err = call("import", "fleet.yaml", "topo.txt", "more.txt", "-o", "nodes/")
    assert code == 1
    assert (
        "error[TRC625]: 2 sources name no node ('topo.txt', 'more.txt'), and others name a, b, c\n"
    ) in err
    assert "etc/hostname" in err
    assert not Path("nodes").exists()
    many = [Source(f"{number}.txt", (Partial("lscpu", f"{number}.txt"),)) for number in range(30)]
    named = [Source(name, (Partial("node", name, node=name),)) for name in ("a", "b")]
    with pytest.raises(UnclearNodesError, match=r"^30 sources .*'19.txt' and 10 more\), and") as e:
        by_node([*many, *named], name=None)
    assert "'20.txt'" not in e.value.message


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: tierc.dev/v1alpha1\nkind: Intent  # of vllm\nmetadata: {name: x}\n",
        '{"apiVersion": "tierc.dev/v1alpha1", "kind": "Intent"}',
    ],
)
def test_a_document_of_the_policy_is_called_what_it_is(call: Call, text: str) -> None:
    Path("vllm.yaml").write_text(text)
    code, _, err = call("import", "vllm.yaml")
    assert code == 1
    assert "error[TRC621]: this is kind Intent, not facts\n" in err
    assert "hwloc" not in err, "no list of formats"


def test_a_kind_of_somebody_else_is_an_unknown_format(call: Call) -> None:
    Path("x.yaml").write_text("apiVersion: example.com/v1\nkind: Intent\n")
    assert "error[TRC621]: unknown format" in call("import", "x.yaml")[2]


def test_binary_data_gets_help(call: Call) -> None:
    Path("x.bin").write_bytes(b"\x7fELF\0\0text")
    code, _, err = call("import", "x.bin")
    assert code == 1
    assert "error[TRC620]: is not text but binary data" in err
    assert "= help: give the text that a tool printed, or a tar archive" in err


def test_a_cell_that_is_no_number_says_what_to_do(call: Call) -> None:
    Path("bad.csv").write_text(LSCPU.replace("3,3,1,1,", "3,3,1,one,"))
    code, _, err = call("import", "bad.csv")
    assert code == 1
    assert "'one' in column NODE is no number\n --> bad.csv:8:1" in err
    assert "lscpu -p=cpu,online,core,socket,node,cache" in err


@pytest.mark.parametrize("name", ["me.tgz", "box.xml"])
def test_validate_names_the_command_for_other_formats(call: Call, name: str) -> None:
    Path(name).write_bytes(b"<topology/>" if name == "box.xml" else b"\x1f\x8b\x08")
    code, out, err = call("validate", name)
    assert code == 1
    assert err == (
        f"tierc: {name} cannot be used; tierc facts import reads formats other than NodeFacts\n"
    )
    assert out.splitlines()[-1] == "facts of 0 nodes checked: 1 error"


def test_validate_of_other_documents_names_the_command(
    call: Call,
) -> None:
    Path("tierc.yaml").write_text(PROJECT)
    assert call("validate", "tierc.yaml") == (
        2,
        "",
        "tierc: no NodeFacts document in the given files; tierc facts import reads other formats\n",
    )


def test_a_file_goes_only_into_a_directory_that_is_there(call: Call, tmp_path: Path) -> None:
    code, _, err = call("import", "lscpu.csv", "--name", "a", "-o", "no such/dir/x.yaml")
    assert code == 2
    assert err == (
        "tierc: cannot write no such/dir/x.yaml: there is no directory no such/dir; create it "
        "(mkdir -p 'no such/dir'), or correct the name\n"
    )
    assert not Path("no such").exists()
    machine(tmp_path / "root", "a")
    code, _, err = call("collect", "--sysroot", "root", "-o", "missing/x.yaml")
    assert code == 2
    assert "there is no directory missing; create it" in err
    assert not Path("missing").exists()
    # A directory is made: the slash says that it is meant to be one.
    assert call("import", "lscpu.csv", "--name", "a", "-o", "new/nodes/")[0] == 0
    assert Path("new/nodes/a.yaml").is_file()


def test_one_way_to_record_cpus_is_proposed_everywhere() -> None:
    root = Path(__file__).parent.parent
    found = {
        match
        for part in ("compiler", "docs", "README.md")
        for path in ([root / part] if (root / part).is_file() else (root / part).rglob("*"))
        if path.suffix in (".py", ".md", ".sh")
        for match in re.findall(r"lscpu -p=[a-z,]+", path.read_text())
    }
    assert found == {"lscpu -p=cpu,online,core,socket,node,cache"}


# --- files of two machines ---------------------------------------------------------------------


def first_warning(err: str) -> str:
    return next(line for line in err.splitlines() if line.startswith("warning"))


def test_files_of_two_machines_under_one_name_are_named_first(call: Call) -> None:
    few = "".join(
        line for line in LSCPU.splitlines(True) if line[:2] not in ("4,", "5,", "6,", "7,")
    )
    Path("a-small.csv").write_text(few)
    code, out, err = call("import", "a-small.csv", "lscpu.csv", "--name", "n")
    assert code == 0
    assert first_warning(err) == (
        "warning[TRC623]: these files look like two machines: 4 CPUs in the one, 8 in the other"
    )
    assert "--> lscpu.csv:1:1" in err
    assert "a-small.csv:1:1" in err
    assert "leave out the files of the other machine" in err
    (facts,) = documents(out)
    assert facts.spec.warnings[0] == (
        "a-small.csv and lscpu.csv: these files look like two machines: 4 CPUs in the one, 8 in "
        "the other"
    )


def test_devices_that_are_elsewhere_look_like_another_machine(call: Call) -> None:
    Path("far.txt").write_text(TOPO.replace("2-3,6-7", "64-67"))
    _, _, err = call("import", "lscpu.csv", "far.txt", "--name", "n")
    assert first_warning(err).endswith("CPUs 0-7 in the one, devices near CPUs 64-67 in the other")
    # Nodes that do not exist.
    Path("far.txt").write_text(TOPO.replace("2-3,6-7\t1", "2-3,6-7\t5"))
    _, _, err = call("import", "lscpu.csv", "far.txt", "--name", "n")
    assert first_warning(err).endswith("NUMA nodes 0, 1 in the one, devices on 5 in the other")


def test_a_cpu_that_went_offline_makes_no_other_machine(call: Call) -> None:
    Path("off.csv").write_text(LSCPU.replace("7,3,1,1,3:3:3:1\n", ""))
    for files in (["lscpu.csv", "off.csv"], ["lscpu.csv", "topo.txt"]):
        _, _, err = call("import", *files, "--name", "n")
        assert "two machines" not in err


# --- overrides of documents --------------------------------------------------------------------


def overridden(path: str, text: str) -> None:
    """Write facts of the machine with two GPUs at known addresses, and overrides."""
    machine(Path(f"{path}.snap"), "n")
    assert main(["facts", "import", f"{path}.snap", "-o", path]) == 0
    Path(path).write_text(Path(path).read_text() + f"  overrides: {text}\n")


def test_overrides_go_along_to_another_place(call: Call) -> None:
    overridden("n.yaml", '{isolated: "3", devices: [{id: gpu1, numa: 0}]}')
    code, out, err = call("import", "n.yaml", "lscpu.csv")
    assert code == 0
    assert "warning" not in err
    (facts,) = documents(out)
    kept = facts.spec.overrides
    assert str(kept.isolated) == "3"
    assert [(one.id, one.numa) for one in kept.devices] == [("gpu1", 0)]
    # Into a file that has none.
    assert call("import", "lscpu.csv", "--name", "n", "-o", "x.yaml")[0] == 0
    assert call("import", "n.yaml", "-o", "x.yaml", "--force")[0] == 0
    assert 'isolated: "3"' in Path("x.yaml").read_text().partition("overrides:")[2]


def test_overrides_of_two_documents_are_dropped_loudly(call: Call) -> None:
    overridden("a.yaml", '{isolated: "3"}')
    overridden("b.yaml", '{isolated: "2"}')
    code, out, err = call("import", "a.yaml", "b.yaml")
    assert code == 0
    assert "overrides: a.yaml, b.yaml have different ones; none is kept" in err
    (facts,) = documents(out)
    assert facts.spec.overrides.isolated is None


def test_overrides_of_the_file_that_is_replaced_count_more(call: Call) -> None:
    overridden("a.yaml", '{isolated: "3"}')
    overridden("b.yaml", '{isolated: "2"}')
    code, _, err = call("import", "a.yaml", "-o", "b.yaml", "--force")
    assert code == 0
    assert "those of this file are kept, and those of the sources are left out" in err
    (facts,) = documents(Path("b.yaml").read_text())
    assert str(facts.spec.overrides.isolated) == "2"


def test_an_override_whose_device_moved_is_said(call: Call) -> None:
    overridden("n.yaml", "{devices: [{id: gpu0, numa: 1}]}")
    b = machine(Path("more"), "n")
    b.pci("0000:03:00.0", code=0x030200, vendor=0x10DE, device=0x2330, numa=0)
    code, out, err = call("import", "n.yaml", "more")
    assert code == 0
    assert "overrides.devices: gpu0 was 0000:17:00.0 and is 0000:03:00.0 now" in err
    (facts,) = documents(out)
    assert [one.id for one in facts.spec.overrides.devices] == ["gpu0"]
