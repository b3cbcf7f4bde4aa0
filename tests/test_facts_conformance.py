"""Every file of the shared corpus through `tierc facts import`, against what it is known to say."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet, union
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.conftest import shared_dir
from tests.corpus import FOLDERS
from tests.corpus_eye import EYE, Eye, summary
from tests.corpus_manifest import (
    Differences,
    cores_of,
    manifest,
    of_kind,
    sysfs_differences,
    xml_differences,
)

FILES = 107
ALONE = 29 + 27 + 2 + 3 + 3
"""Files that make facts of a node by themselves: snapshots of sysfs, exports of hwloc that have
CPUs, cadvisor, lscpu with cores, sbc-bench."""

PROCESSOR_ONLY = "hwloc asked the processor only, and made up one NUMA node for the whole machine"
MANIFEST_WRONG: dict[tuple[str, str], str] = {
    ("hwloc-xml/fakecpukinds.xml", "numa"): PROCESSOR_ONLY,
    ("hwloc-x86-xml/AMD-19h-Zen4-2xEpyc-9654.xml", "numa"): PROCESSOR_ONLY,
    ("hwloc-x86-xml/Intel-IvyBridge-12xXeon-E5-4620v2.xml", "numa"): PROCESSOR_ONLY,
    ("hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml", "numa"): PROCESSOR_ONLY,
    ("hwloc-x86-xml/Intel-SapphireRapids-2xXeonMax9460.xml", "numa"): PROCESSOR_ONLY,
    (
        "hwloc-xml/16intel64-manyVFs.xml",
        "interfaces",
    ): "leaves out usnic_0 to usnic_2, the OpenFabrics names of eth4 to eth6",
}
"""(file, field) -> why the manifest, and not the reader, is wrong there."""

ONE_ROW = "one row was written for four files; this one has another address"
NOT_IN_FILE: dict[tuple[str, str], str] = {
    ("nvidia-smi-qx/a10g.xml", "00000000:01:00.0"): ONE_ROW,
    ("nvidia-smi-qx/rtx-3080-v13.xml", "00000000:01:00.0"): ONE_ROW,
    ("nvidia-smi-qx/rtx-4000-sff-ada-v13.xml", "00000000:01:00.0"): ONE_ROW,
    ("nvidia-smi-qx/tesla-t4.xml", "00000000:01:00.0"): ONE_ROW,
    ("smi-topo/gb10-dgx-spark.topo.txt", "000f:01:00.0"): "the table prints no addresses",
    ("smi-topo/epyc-4gpu-5nic-truncated-mixed.topo.txt", "CA,E1"): "the table prints no addresses",
}
"""(file, what its row claims) -> why the file does not say it."""

# No CPUs in these exports: they are imported together with a list of them.
NO_CPUS = {"pyhwloc-xml/sample_numa.xml": "0-79", "pyhwloc-xml/sample_osdev.xml": "0-79"}


@dataclass(frozen=True)
class Called:
    """One call of the command line."""

    code: int
    out: str
    err: str

    def facts(self) -> NodeFacts:
        sink = Sink()
        found = [decode(d, sink) for d in parse_source("-", self.out.encode(), sink).documents]
        assert list(sink) == []
        [one] = found
        assert one is not None
        assert isinstance(one.model, NodeFacts)
        return one.model


def call(*arguments: object) -> Called:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["facts", *map(str, arguments)])
    return Called(code, out.getvalue(), err.getvalue())


@functools.cache
def alone(file: str) -> Called:
    """Return what `facts import FILE --name n` does."""
    return call("import", shared_dir() / "corpus" / "topology" / file, "--name", "n")


def together(file: str, eye: Eye) -> Called:
    """Import a file with the list of CPUs that it lacks and the other files of its machine."""
    corpus = shared_dir() / "corpus" / "topology"
    paths = [corpus / one for one in (file, *eye.also)]
    with tempfile.TemporaryDirectory() as folder:
        if (text := eye.lscpu()) is not None:
            paths.append(Path(folder) / "lscpu.csv")
            paths[-1].write_text(text)
        return call("import", *paths, *(() if eye.named else ("--name", "n")))


def eye_differences(facts: NodeFacts, eye: Eye) -> Differences:
    """Compare facts with what was read by eye; of labels, those that are named."""
    found = summary(facts)
    labels = eye.facts.get("labels", {})
    found["labels"] = {key: value for key, value in found["labels"].items() if key in labels}
    return {k: (want, found[k]) for k, want in eye.facts.items() if want != found[k]}


def differences(file: str, row: str) -> Differences | str:
    """Return what the door says of a file and its row does not, or why it is refused."""
    if file in EYE:
        called = together(file, EYE[file])
    elif file in NO_CPUS:
        called = together(file, Eye({}, cpus=NO_CPUS[file]))
    else:
        called = alone(file)
    if re.search(r"^error\[TRC62[01]\]", called.err):  # no format of ours, or damaged
        return called.err
    if called.code != 0:
        return {"exit code": (0, called.err)}
    facts = called.facts()
    if file in EYE:
        return eye_differences(facts, EYE[file])
    if "xml=" in row:
        return xml_differences(facts.spec, row, alone=file not in NO_CPUS)
    return sysfs_differences(facts.spec, row)


def test_every_file_of_the_corpus_says_what_its_manifest_says(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = manifest(shared / "corpus" / "topology")
    right, refused, wrong, excused = [], {}, {}, set()
    for file, row in rows.items():
        found = differences(file, row)
        if isinstance(found, str):
            refused[file] = found
            continue
        excused |= {(file, field) for field in found} & MANIFEST_WRONG.keys()
        found = {k: v for k, v in found.items() if (file, k) not in MANIFEST_WRONG}
        if found:
            wrong[file] = found
        else:
            right.append(file)
    with capsys.disabled():
        print(
            f"\ncorpus: {len(right)} right, {len(refused)} refused with a reason, "
            f"{len(wrong)} wrong"
        )
    assert wrong == {}
    assert excused == MANIFEST_WRONG.keys()
    assert (len(right), len(refused), len(rows)) == (FILES, 0, FILES)


def test_every_row_is_compared_in_one_way(shared: Path) -> None:
    rows = manifest(shared / "corpus" / "topology")
    kinds = Counter(
        "eye" if file in EYE else ("xml" if row.startswith("xml=") else "sysfs")
        for file, row in rows.items()
    )
    assert kinds == {"sysfs": sum(FOLDERS.values()), "xml": 29, "eye": 49}
    assert EYE.keys() <= rows.keys()
    for (file, text), reason in NOT_IN_FILE.items():
        assert reason
        assert text in rows[file]
        assert text not in (shared / "corpus" / "topology" / file).read_text()


def test_alone_each_file_makes_a_node_or_is_refused_with_what_is_missing(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, short = [], []
    for number, file in enumerate(manifest(shared / "corpus" / "topology")):
        called = alone(file)
        assert "Traceback" not in called.err
        if called.code == 0:
            (tmp_path / f"{number}.yaml").write_text(
                called.out.replace('name: "n"', f"name: n{number}", 1)
            )
            made.append(file)
            continue
        assert called.code == 1
        assert called.out == ""
        assert re.search(
            r"error\[TRC622\]: node n: no (usable )?source says which CPUs (are online: \S|are "
            r"threads of one core)",
            called.err,
        ), called.err
        assert f"{file}:1:1" in called.err
        assert "= help: add what `lscpu -p=cpu,online,core,socket,node,cache` prints" in called.err
        assert called.err.endswith("nothing written\n")
        short.append(file)
    checked = call("validate", *sorted(tmp_path.glob("*.yaml")))
    assert checked.code == 0, checked.err
    with capsys.disabled():
        print(
            f"\ncorpus, each file alone: {len(made)} make a node that validates, {len(short)} are "
            "refused with what is missing, 0 fail"
        )
    assert (len(made), len(short)) == (ALONE, FILES - ALONE)


# --- the comparisons see what is wrong ---------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("online=12[0-1,3-4,6-12,15]", "online=12[0-11]", "online"),
        ("cores=7", "cores=8", "cores"),
        ("threads/core=[1, 2]", "threads/core=[2]", "threads"),
        ("sib0=0,8", "sib0=0-1", "sib0"),
        ("packages=4(0,1,3,2)", "packages=4(0,1,3,9)", "package ids"),
        ("numa=0;", "numa=0,1;", "numa"),
        ("cpuless=-", "cpuless=1", "cpuless"),
        ("L3 x4", "L2 x4", "llc level"),
        ("| 1,9 |", "| 1,10 |", "llc sets"),
        ("devs=-", "devs=nic@0000:01:00.0:vendor=0x8086,numa_node=0,local=0", "device addresses"),
    ],
)
def test_a_wrong_row_of_a_snapshot_is_seen(shared: Path, old: str, new: str, field: str) -> None:
    file = "hwloc-sysfs/16em64t-4s2c2t-offlines.tar.bz2"
    row = manifest(shared / "corpus" / "topology")[file]
    assert old in row
    assert field in sysfs_differences(alone(file).facts().spec, row.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("pus=160[8-87,96-175]", "pus=160[0-159]", "pus"),
        ("cores=40", "cores=44", "cores"),
        ("threads/core=[4]", "threads/core=[2, 4]", "threads"),
        ("packages=2", "packages=1", "packages"),
        ("numa=0,8", "numa=0,1", "numa"),
        ("cpuless=-", "cpuless=8", "cpuless"),
        ("20[8-15 |", "19[8-15 |", "llc count"),
        ("[8-15 |", "[8-14 |", "llc sets"),
        ("complete=0-175", "complete=0-159", "complete"),
        ("allowed=8-87,96-175", "allowed=8-175", "allowed"),
        ("hsi2@0033:01:00.0:96-175", "hsi2@0033:01:00.0:8-87", "hsi2 cpus"),
        ("hsi3@0033:01:00.1:96-175", "hsi9@0033:01:00.1:96-175", "interfaces"),
        ("cuda2@0035:03:00.0", "cuda2@0035:09:00.0", "cuda2"),
    ],
)
def test_a_wrong_row_of_an_export_is_seen(shared: Path, old: str, new: str, field: str) -> None:
    file = "mpibind-xml/coral-lassen.xml"
    row = manifest(shared / "corpus" / "topology")[file]
    assert old in row
    assert field in xml_differences(alone(file).facts().spec, row.replace(old, new), alone=True)


def test_a_wrong_word_of_the_eye_is_seen() -> None:
    file = "smi-topo/gb10-dgx-spark.topo.txt"
    facts = together(file, EYE[file]).facts()
    for key, value in EYE[file].facts.items():
        other = value + 1 if isinstance(value, int) else value[1:]
        assert eye_differences(facts, Eye({key: other})).keys() == {key}


# --- what the manifest says in words -----------------------------------------------------------


def test_kunpeng_clusters_of_the_corpus(shared: Path) -> None:
    """4 NUMA nodes of 32, clusters of 4, package ids 36 and 8442."""
    spec = alone("hwloc-sysfs/128arm-2pa2n8cluster4co.tar.bz2").facts().spec
    fours = [str(CpuSet(range(first, first + 4))) for first in range(0, 128, 4)]
    assert [str(group.cpus) for group in spec.cores] == fours
    assert len({group.cluster for group in spec.cores}) == 32
    assert {group.die for group in spec.cores} == {None}  # -1
    assert [group.package for group in spec.cores] == [36] * 16 + [8442] * 16


@pytest.mark.parametrize(
    ("file", "performance", "efficiency"),
    [
        ("hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2", "0-11", "12-19"),
        ("hwloc-sysfs/fakeheterocpunuma.tar.bz2", "12-23", "0-11"),
        # An i7-1270P too, but nothing in this snapshot tells one core from another.
        ("ghw-snapshots/linux-amd64-415ee03b8c4d1c4f07ae2e9d8b3d3d6d.tar.gz", "", ""),
        ("hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml", "0-11", "12-19"),
        # One Cortex-X4 at 3.4 GHz and three at 2.85 GHz are one kind; four Cortex-A720.
        ("hwloc-xml-parser/mediatek-dimensity-9300+.xml", "4-7", "0-3"),
    ],
)
def test_hybrid_machines_of_the_corpus(
    shared: Path, file: str, performance: str, efficiency: str
) -> None:
    spec = alone(file).facts().spec
    assert str(of_kind(spec, "performance")) == performance
    assert str(of_kind(spec, "efficiency")) == efficiency
    assert union(core for core in cores_of(spec)) == spec.cpus.online


@pytest.mark.parametrize(
    ("file", "gpus"),
    [
        # Three Tesla cards, and the ES1000 of the board's management controller.
        (
            "hwloc-xml/24em64t-2n6c2t-pci.xml",
            ["0000:06:00.0", "0000:11:00.0", "0000:14:00.0"],
        ),
        ("hwloc-xml/96em64t-4n4d3ca2co-pci.xml", []),
        ("hwloc-sysfs/32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2", []),  # ASPEED
        ("openshift-mustgather/bare-metal-master.internal-sysinfo.tgz", []),  # Matrox
    ],
)
def test_the_screen_of_a_management_controller_is_no_gpu(
    shared: Path, file: str, gpus: list[str]
) -> None:
    devices = alone(file).facts().spec.devices
    assert [one.bdf for one in devices if one.type == "gpu"] == gpus
