"""lscpu of any machine, of the corpus, and beside the program itself."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import NumaPart, Partial, ReadError
from tests.lscpu_texts import (
    C05,
    DEFAULT,
    E_TABLE,
    FORMATS,
    GB_LIKE,
    SUMMARY,
    TABLE,
    cpus,
    kinds,
    llc_sets,
    p,
    read,
    sets,
)

# --- properties ------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    shape=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8),
    order=st.randoms(use_true_random=False),
)
def test_p_e_and_json_of_one_machine_agree(shape: list[tuple[int, int]], order: object) -> None:
    """Any machine of cores with threads, in nodes, whatever the numbers of its CPUs."""
    threads = [(core, node) for core, (count, node) in enumerate(shape) for _ in range(count)]
    order.shuffle(threads)  # type: ignore[attr-defined]
    names = ("cpu", "online", "core", "socket", "node", "L1d:L1i:L2:L3")
    rows = [
        (str(cpu), "yes", str(core), str(node // 2), str(node), f"{core}:{core}:{core}:{node}")
        for cpu, (core, node) in enumerate(threads)
    ]
    as_e = "\n".join(
        " ".join(row) for row in ((*(n.upper() for n in names[:-1]), names[-1]), *rows)
    )
    as_p = p(
        "CPU,Online,Core,Socket,Node,L1d:L1i:L2:L3",
        *(",".join(row).replace("yes", "Y") for row in rows),
    )
    as_json = json.dumps({"cpus": [dict(zip(names, row, strict=True)) for row in rows]})
    cores = {
        core: CpuSet(cpu for cpu, (own, _) in enumerate(threads) if own == core)
        for core, _ in threads
    }
    nodes = {
        node: CpuSet(cpu for cpu, (_, own) in enumerate(threads) if own == node)
        for _, node in threads
    }
    for text in (as_p, as_e, as_json):
        partial = read(text)
        assert partial.online == CpuSet(range(len(threads)))
        assert set(partial.cores or ()) == set(cores.values())
        assert {node.id: node.cpus for node in partial.numa or ()} == nodes
        assert set(llc_sets(partial)) == set(nodes.values())
        assert partial.notes == ()


@settings(max_examples=150)
@given(
    seed=st.sampled_from([E_TABLE, C05, GB_LIKE, TABLE + SUMMARY, p(DEFAULT, "0,0,0,0,,0,0,0,0")]),
    at=st.integers(0, 400),
    cut=st.integers(0, 30),
    put=st.text(alphabet='0123456789,-:{}[]"\\ \n\tCPUxe\0\u00e9', max_size=6),
)
def test_damage_is_an_error_with_a_message_or_read(seed: str, at: int, cut: int, put: str) -> None:
    text = seed[:at] + put + seed[at + cut :]
    for one in FORMATS:
        if one.sniff(text):
            assert outcome(one, text)


def outcome(one: Format, text: str) -> str:
    try:
        one.read(Text("x", text))
    except ReadError as error:
        return error.message if "\n" not in error.message else ""
    return "read"


# --- the corpus ------------------------------------------------------------------------------


def test_the_recordings_of_one_alder_lake_agree(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "lscpu-derived"
    rows, table, summary = (
        read((folder / f"alderlake.lscpu-{name}").read_text())
        for name in ("p.csv", "J-e.json", "J.json")
    )
    # 6 cores with two threads, 8 with one, one L3 and one node, as its name in the corpus says.
    pairs = tuple(CpuSet((cpu, cpu + 1)) for cpu in range(0, 12, 2))
    for partial in (rows, table):
        assert partial.online == cpus("0-19")
        assert partial.cores == (*pairs, *(CpuSet((cpu,)) for cpu in range(12, 20)))
        assert partial.packages == ((0, cpus("0-19")),)
        assert partial.numa == (NumaPart(0, cpus("0-19")),)
        assert llc_sets(partial) == sets("0-19")
    assert summary.online == rows.online
    assert summary.numa == rows.numa
    assert (summary.cores, summary.packages, summary.llcs) == (None, None, None)


def test_pasted_summaries_of_the_corpus(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "smi-topo"
    gb10 = read((folder / "gb10-dgx-spark.lscpu.txt").read_text())
    assert gb10.online == cpus("0-19")
    assert gb10.cores is not None
    assert len(gb10.cores) == 20
    mi300a = read((folder / "mi300a-4apu.lscpu.txt").read_text())
    assert mi300a.online is None
    assert [node.cpus for node in mi300a.numa or ()] == [
        cpus(f"{24 * n}-{24 * n + 23},{96 + 24 * n}-{119 + 24 * n}") for n in range(4)
    ]
    power9 = read((folder / "power9-traverse-4v100.lscpu.txt").read_text())
    assert power9.cores is None
    assert {node.id: str(node.cpus) for node in power9.numa or ()} == {
        0: "0-63", 8: "64-127", 252: "", 253: "", 254: "", 255: "",
    }  # fmt: skip


def test_sbc_bench_reports_of_the_corpus(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "sbc-bench"
    gb10 = read((folder / "fcm1253.topology.txt").read_text())
    assert gb10.packages == ((36, cpus("0-19")),)
    assert kinds(gb10) == [
        ("performance", "5-9,15-19", "Cortex-X925", 4004),
        ("efficiency", "0-4,10-14", "Cortex-A725", 2860),
    ]
    altra = read((folder / "4kiu.topology.txt").read_text())
    assert altra.packages == ((56, cpus("0-127")), (76, cpus("128-255")))
    assert altra.kinds == ()
    ampere = read((folder / "XUpQ.topology.txt").read_text())
    assert ampere.online == cpus("0-191")
    assert ampere.kinds == ()


# --- real lscpu over snapshots ---------------------------------------------------------------

SNAPSHOTS = [
    "hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2",
    "hwloc-sysfs/16amd64-8n2c-cpusets.tar.bz2",
    "hwloc-sysfs/64amd64-4s2n4ca2co.tar.bz2",
    "hwloc-sysfs/memorysidecaches.tar.bz2",
    "lscpu-dumps/armv7.tar.gz",
    "lscpu-dumps/ppc64-POWER7-64cpu.tar.gz",
    "lscpu-dumps/s390-lpar-drawer.tar.gz",
    "lscpu-dumps/vbox-win.tar.gz",
    "lscpu-dumps/vmware_fpe.tar.gz",
    "lscpu-dumps/x86_64-64cpu-linux6.2.tar.gz",
]
BULLDOZERS = ("hwloc-sysfs/64amd64-4s2n4ca2co.tar.bz2", "lscpu-dumps/vmware_fpe.tar.gz")
WANTED = re.compile(
    r"/sys/devices/system/(cpu/(kernel_max|possible|present|online)"
    r"|cpu/cpu\d+/(topology|cache/index\d+)/\w+|cpu/cpu\d+/online"
    r"|node/(online|possible)|node/node\d+/(cpumap|cpulist))$"
    r"|/proc/(cpuinfo|sysinfo)$"
)


def unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isreg() and WANTED.search(member.name) and ".." not in member.name:
                data = tar.extractfile(member)
                assert data is not None
                target = into / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data.read())
    [system] = into.glob("**/sys/devices/system")
    return system.parents[2]


class Sysfs:
    """The files that lscpu reads, read again in the plainest way: the oracle."""

    def __init__(self, root: Path) -> None:
        self.cpu = root / "sys/devices/system/cpu"
        self.node = root / "sys/devices/system/node"
        self.online = CpuSet.parse((self.cpu / "online").read_text())

    def shared(self, name: str) -> set[CpuSet]:
        found = {
            CpuSet.parse_hex_mask((self.cpu / f"cpu{cpu}" / name).read_text()) & self.online
            for cpu in self.online
        }
        return found - {CpuSet()}

    def llcs(self) -> set[tuple[int, CpuSet]]:
        found = set()
        for cpu in self.online:
            levels = {}
            for index in (self.cpu / f"cpu{cpu}" / "cache").glob("index*"):
                if (index / "type").read_text().strip() != "Instruction":
                    levels[int((index / "level").read_text())] = index
            if levels:
                mask = (levels[max(levels)] / "shared_cpu_map").read_text()
                found.add((max(levels), CpuSet.parse_hex_mask(mask) & self.online))
        return found

    def nodes(self) -> dict[int, CpuSet]:
        return {
            int(path.parent.name[4:]): cpus
            for path in self.node.glob("node*/cpumap")
            if (cpus := CpuSet.parse_hex_mask(path.read_text()) & self.online)
        }


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_same_machine_through_lscpu_and_sysfs(
    name: str, shared: Path, tool: Callable[[str], str], tmp_path: Path
) -> None:
    lscpu = tool("lscpu")
    root = unpacked(shared / "corpus" / "topology" / name, tmp_path)
    expected = Sysfs(root)

    def run(*options: str) -> Partial:
        done = subprocess.run(
            [lscpu, "--sysroot", root, *options],
            env={"LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=True,
        )
        return read(done.stdout, " ".join(options))

    rows = [
        run("-p"),
        run("-p=cpu,online,core,socket,node,cache"),
        run("-e"),
        run("-J", "-e"),
        run("-J", "-e=cpu,cache,core,socket,node,online"),
        run("-y", "-e"),
    ]
    for partial in rows:
        assert partial.online == expected.online
        # -y prints core ids, which on AMD Bulldozer are not those of siblings: unknown there.
        assert partial.cores is not None or (partial is rows[-1] and name in BULLDOZERS)
        if partial.cores is not None:
            assert set(partial.cores) == expected.shared("topology/thread_siblings")
        assert {(llc.level, llc.cpus) for llc in partial.llcs or ()} == expected.llcs()
        assert {node.id: node.cpus for node in partial.numa or ()} == expected.nodes()
    for partial in rows[:-1]:
        packages = {cpus for _, cpus in partial.packages or ()}
        assert packages == expected.shared("topology/core_siblings")
    for partial in (run(), run("-J"), run("-x")):
        assert partial.online in (expected.online, None)
        assert partial.online or "armv7" in name
        assert partial.cores in (None, rows[0].cores)
        found = {node.id: node.cpus for node in partial.numa or () if node.cpus}
        assert found == expected.nodes() or partial.online is None
