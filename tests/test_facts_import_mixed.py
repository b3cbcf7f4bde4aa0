"""``tierc facts import``: files of two machines, and documents with overrides."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.__main__ import main
from tests.import_command import LSCPU, TOPO, Call, caller, documents, machine


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Call:
    monkeypatch.chdir(tmp_path)
    return caller(capsys, tmp_path)


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
