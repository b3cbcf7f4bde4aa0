"""``tierc facts import``: what is wrong, and what is said to people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.facts.importing import Source, UnclearNodesError, by_node
from compiler.facts.partial import Partial
from tests.import_command import LSCPU, TOPO, Call, caller, documents, fleet, machine
from tests.policies import PROJECT


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    monkeypatch.chdir(tmp_path)
    return caller(capsys, tmp_path)


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
