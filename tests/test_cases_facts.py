"""Situations that broke neighbouring tools, as the files that people have: import, then build.

The ids are those of the collection they were taken from; tests/test_cases.py has those whose
subject is a policy, here the same machine comes from a recorded file.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.__main__ import main
from compiler.cpuset import CpuSet, union
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.conftest import ROOT
from tests.policies import BOX, intent, write
from tests.sysfs_builder import SysfsBuilder

Import = Callable[..., tuple[int, str]]


def lane(require: str, name: str = "decode", cores: str = "2") -> str:
    return intent(
        name,
        f'workload: {{match: [{{comm: {name}, cgroup: "x/**"}}]}}\nprotect: all\n'
        f"{require}\nlane: {{cores: {cores}}}",
    )


@pytest.fixture
def imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Import:
    """`facts import FILE... --name box -o nodes/box.yaml`: its exit code and what it said."""

    def run(*files: Path, name: str = "box") -> tuple[int, str]:
        (tmp_path / "p/nodes").mkdir(parents=True, exist_ok=True)
        target = tmp_path / f"p/nodes/{name}.yaml"
        code = main(
            ["facts", "import", *map(str, files), "--name", name, "-o", str(target), "--force"]
        )
        return code, capsys.readouterr().err

    return run


def facts(tmp_path: Path, name: str = "box") -> NodeFacts:
    path = tmp_path / f"p/nodes/{name}.yaml"
    sink = Sink()
    found = [decode(d, sink) for d in parse_source(str(path), path.read_bytes(), sink).documents]
    assert list(sink) == []
    [one] = found
    assert one is not None
    assert isinstance(one.model, NodeFacts)
    return one.model


def policy(tmp_path: Path, files: Mapping[str, str]) -> Path:
    """Write intents around the facts that were imported."""
    nodes = {f"nodes/{p.name}": p.read_text() for p in (tmp_path / "p/nodes").iterdir()}
    return write(tmp_path / "p", {**nodes, **files})


def lint(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """Return the exit code, and the message of each code of finding."""
    capsys.readouterr()
    code = main(["lint", str(root), "--format", "json"])
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    return code, {one["code"]: one["message"] for one in found}


def build(root: Path, tmp_path: Path, name: str = "box") -> dict[str, Any]:
    assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
    plan = json.loads((tmp_path / f"out/nodes/{name}/plan.json").read_text())
    assert isinstance(plan, dict)
    return plan


def lscpu(
    path: Path, cores: list[str], nodes: Mapping[int, str], llc: Callable[[int], int] = lambda _: 0
) -> Path:
    """Write what `lscpu -p=cpu,core,socket,node,cache` prints of cores with an L2 each."""
    rows = ["# CPU,Core,Socket,Node,L1d:L1i:L2:L3"]
    sets = [CpuSet.parse(core) for core in cores]
    for cpu in union(sets):
        core = next(n for n, one in enumerate(sets) if cpu in one)
        node = next(n for n, cpus in nodes.items() if cpu in CpuSet.parse(cpus))
        rows.append(f"{cpu},{core},{node},{node},{core}:{core}:{core}:{llc(cpu)}")
    path.write_text("\n".join(rows) + "\n")
    return path


def each(cpus: str) -> list[str]:
    return [str(cpu) for cpu in CpuSet.parse(cpus)]


def topo(path: Path, gpus: list[tuple[str, str, str]]) -> Path:
    """Write `nvidia-smi topo -m` of GPUs by (CPU affinity, NUMA affinity, GPU NUMA id)."""
    names = [f"GPU{n}" for n in range(len(gpus))]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for number, (cpus, numa, memory) in enumerate(gpus):
        links = [" X " if n == number else "NV18" for n in range(len(gpus))]
        lines.append("\t".join([f"GPU{number}", *links, cpus, numa, "", memory]))
    path.write_text("\n".join(lines) + "\n")
    return path


# --- C01 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["prefer", "require"])
def test_c01_a_gpu_that_is_near_two_nodes(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    """`0-1` in the NUMA column is both nodes: said, and never taken for node 0."""
    nodes = {0: "0-93", 1: "94-187"}
    code, said = imported(
        lscpu(tmp_path / "lscpu.csv", each("0-187"), nodes, lambda cpu: cpu // 94),
        topo(tmp_path / "topo.txt", [("0-187", "0-1", "N/A")] * 2),
    )
    assert code == 0
    assert "gpu0, gpu1: near NUMA nodes 0, 1, which have all CPUs" in said
    assert "this gives no locality information" in said
    spec = facts(tmp_path).spec
    for gpu in spec.devices:
        assert gpu.numa is None
        assert (gpu.locality.cpus, gpu.locality.scope) == (CpuSet(range(188)), "machine")
    text = intent(
        "decode",
        'workload: {match: [{comm: vllm, cgroup: "x/**"}], gpus: all}\nprotect: all\n'
        f"{word}: [gpu-local]\nlane: {{cores: 120}}",
    )
    root = policy(tmp_path, {"intents/a.yaml": text})
    assert lint(root, capsys)[0] == 0
    [serving] = build(root, tmp_path)["lanes"]
    cpus = CpuSet.parse(serving["cpus"])
    assert len(cpus) == 120  # more than a node has, so it takes of both
    assert all(cpus & CpuSet.parse(node) for node in nodes.values())


# --- C04 ---------------------------------------------------------------------------------------


def grace(root: Path) -> None:
    """Two Grace CPUs and four GPUs, whose memory is nodes 2, 10, 18 and 26."""
    b = SysfsBuilder(root)
    b.masks(online="0-143", possible="0-143", present="0-143")
    for package, cpus in enumerate(("0-71", "72-143")):
        b.cores(each(cpus), package=package)
        b.level("package", package, cpus)
        b.cache(3, cpus, level=3, size="116736K", id=package)
    for node, cpus, distance in (
        (0, "0-71", "10 40 80 80 120 120"),
        (1, "72-143", "40 10 120 120 80 80"),
        (2, "", "80 120 10 11 160 160"),
        (10, "", "80 120 11 10 160 160"),
        (18, "", "120 80 160 160 10 11"),
        (26, "", "120 80 160 160 11 10"),
    ):
        b.node(node, cpus, mem_kib=97_000_000, distance=distance)
    b.file("sys/devices/system/node/online", "0-2,10,18,26\n")
    for bdf, node, cpus in (
        ("0008:01:00.0", 2, "0-71"),
        ("0009:01:00.0", 10, "0-71"),
        ("0018:01:00.0", 18, "72-143"),
        ("0019:01:00.0", 26, "72-143"),
    ):
        b.pci(bdf, code=0x030200, vendor=0x10DE, device=0x2941, numa=node, local=cpus)
    b.file("proc/sys/kernel/arch", "aarch64\n")


def test_c04_a_gpu_whose_node_has_memory_and_no_cpus(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grace(tmp_path / "root")
    assert imported(tmp_path / "root")[0] == 0
    spec = facts(tmp_path).spec
    assert [node.id for node in spec.numa] == [0, 1, 2, 10, 18, 26]
    assert [str(node.cpus) for node in spec.numa] == ["0-71", "72-143", "", "", "", ""]
    assert [str(gpu.locality.cpus) for gpu in spec.devices] == ["0-71"] * 2 + ["72-143"] * 2
    for bdf, cpus in (("0008:01:00.0", "0-71"), ("0018:01:00.0", "72-143")):
        text = intent(
            "decode",
            f'workload: {{match: [{{comm: vllm, cgroup: "x/**"}}], gpus: ["{bdf}"]}}\n'
            "protect: all\nrequire: [gpu-local]\nlane: {cores: {min: 1, max: 72}}",
        )
        root = policy(tmp_path, {"intents/a.yaml": text})
        assert lint(root, capsys)[0] == 0
        plan = build(root, tmp_path)
        [serving] = plan["lanes"]
        assert CpuSet.parse(serving["cpus"]) <= CpuSet.parse(cpus)
        assert plan["housekeeping"]
        assert all(band["cpus"] for band in plan["bands"] if "cpus" in band)


def test_c04_the_table_of_nvidia_smi_says_the_same(imported: Import, tmp_path: Path) -> None:
    """GB200's columns: the first node of NUMA Affinity has the CPUs, the last is the GPU's."""
    code, said = imported(
        lscpu(tmp_path / "lscpu.csv", each("0-143"), {0: "0-71", 1: "72-143"}),
        topo(
            tmp_path / "topo.txt",
            [
                ("0-71", "0,2-17", "2"),
                ("0-71", "0,2-17", "10"),
                ("72-143", "1,18-33", "18"),
                ("72-143", "1,18-33", "26"),
            ],
        ),
    )
    assert (code, "error" in said) == (0, False)
    found = [(g.numa, str(g.locality.cpus)) for g in facts(tmp_path).spec.devices]
    assert found == [(0, "0-71")] * 2 + [(1, "72-143")] * 2


# --- C05 ---------------------------------------------------------------------------------------


def test_c05_json_that_is_none_because_a_cpu_is_offline(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node1.lscpu.json"
    path.write_text(
        '{ "cpus": [\n   {"cpu": 0, "core": 0, "node": 0},\n'
        '   {"cpu": 1, "core": -, "node": -},\n   {"cpu": 2, "core": 1, "node": 0},\n'
        '   {"cpu": 3, "core": 2, "node": 0} ] }\n'
    )
    code, said = imported(path)
    assert code == 0
    assert "CPU 1 has no core, socket, node or cache; taken as offline" in said
    assert "node1.lscpu.json:3:1" in said
    spec = facts(tmp_path).spec
    assert (str(spec.cpus.online), str(spec.cpus.present)) == ("0,2-3", "0-3")
    assert [(node.id, str(node.cpus)) for node in spec.numa] == [(0, "0,2-3")]
    root = policy(tmp_path, {"intents/a.yaml": lane("", cores="rest")})
    assert lint(root, capsys)[0] == 0
    plan = build(root, tmp_path)
    lists = [plan["housekeeping"], plan["leftovers"], *(one["cpus"] for one in plan["lanes"])]
    assert union(map(CpuSet.parse, lists)) == CpuSet((0, 2, 3))


# --- C06 ---------------------------------------------------------------------------------------


def test_c06_one_intent_for_siblings_in_either_form(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = {
        "a": ["0-1", "2-3", "4-5", "6-7"],
        "b": ["0,4", "1,5", "2,6", "3,7"],
    }
    for name, cores in forms.items():
        path = lscpu(tmp_path / f"{name}.csv", cores, {0: "0-7"})
        assert imported(path, name=name) == (
            0,
            f"{tmp_path}/p/nodes/{name}.yaml: facts of {name}\n",
        )
    root = policy(tmp_path, {"intents/a.yaml": lane("require: [whole-cores]")})
    (root / "nodes/box.yaml").unlink()
    assert lint(root, capsys)[0] == 0
    for name, cores in forms.items():
        plan = build(root, tmp_path, name)
        whole = [CpuSet.parse(core) for core in cores]
        [serving] = plan["lanes"]
        taken = [core for core in whole if core <= CpuSet.parse(serving["cpus"])]
        assert len(taken) == 2
        assert union(taken) == CpuSet.parse(serving["cpus"])
        for other in (plan["housekeeping"], plan["leftovers"]):
            assert not CpuSet.parse(other) & union(taken)


# --- C08, C10 ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# CPU,Core\n0,0\n4294967294,1\n",
        "On-line CPU(s) list: 1-4294967294\nThread(s) per core: 1\n",
        "On-line CPU(s) list: 0-999999999999999999999\nThread(s) per core: 1\n",
        '{"policyName":"static","defaultCpuSet":"0-999999999999999999999","checksum":1}',
        "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-4294967294\t0\n",
    ],
)
def test_c08_a_range_that_would_eat_all_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recorded.txt"
    path.write_text(text)

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    done = subprocess.run(
        [sys.executable, "-m", "compiler", "facts", "import", str(path), "--name", "n"],
        cwd=ROOT,
        preexec_fn=bounded,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert re.search("above the highest CPU supported|4294967294' in column CPU", done.stderr)
    assert "recorded.txt:" in done.stderr


@pytest.mark.parametrize(
    ("value", "cpus"), [("8", "8"), ("0,1", "0-1"), ("[0, 1]", "0-1"), ("0-3,8-11", "0-3,8-11")]
)
def test_c10_a_list_in_facts_that_are_imported_again(
    imported: Import, tmp_path: Path, value: str, cpus: str
) -> None:
    path = tmp_path / "old.yaml"
    masks = '  cpus: {online: 0-15, isolated: ""}\n'
    assert masks in BOX
    path.write_text(BOX.replace(masks, f"  cpus:\n    online: 0-15\n    isolated: {value}\n"))
    assert imported(path)[0] == 0
    assert str(facts(tmp_path).spec.cpus.isolated) == cpus


@pytest.mark.parametrize(
    "value",
    ["010", "08", "1_0", "0_1", "1:30", "1.5", "1e1", "0x1F", "2001-01-01", "", "~", '"010"'],
)
def test_c10_a_list_that_yaml_would_turn_into_something_else(
    imported: Import, tmp_path: Path, value: str
) -> None:
    path = tmp_path / "old.yaml"
    text = BOX + f"  overrides:\n    allowed: {value}\n"
    path.write_text(text)
    code, said = imported(path)
    assert code == 1
    assert "Traceback" not in said
    assert f"old.yaml:{len(text.splitlines())}:" in said
    assert not (tmp_path / "p/nodes/box.yaml").exists()


# --- C21 ---------------------------------------------------------------------------------------


def test_c21_each_node_has_its_gpus(imported: Import, tmp_path: Path) -> None:
    """2 sockets with 4 GPUs each: what asks for 5 on one node has to see that it has 4."""
    nodes = {0: "0-31", 1: "32-63"}
    code, _ = imported(
        lscpu(tmp_path / "lscpu.csv", each("0-63"), nodes, lambda cpu: cpu // 32),
        topo(tmp_path / "topo.txt", [("0-31", "0", "N/A")] * 4 + [("32-63", "1", "N/A")] * 4),
    )
    assert code == 0
    near = [(gpu.index, gpu.numa, str(gpu.locality.cpus)) for gpu in facts(tmp_path).spec.devices]
    assert near == [(n, n // 4, nodes[n // 4]) for n in range(8)]


# --- X02, X04, X05 -----------------------------------------------------------------------------


def test_x02_possible_cpus_that_are_absent_are_in_no_list(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-255", possible="0-511", present="0-255")
    b.cores([f"{cpu},{cpu + 128}" for cpu in range(128)])
    b.node(0, "0-511", mem_kib=1 << 20, distance="10")  # as firmware has it
    b.cache(3, "0-255", level=3, size="32768K")
    assert imported(tmp_path / "root")[0] == 0
    spec = facts(tmp_path).spec
    assert (str(spec.cpus.online), str(spec.cpus.possible)) == ("0-255", "0-511")
    assert [str(node.cpus) for node in spec.numa] == ["0-255"]
    root = policy(tmp_path, {"intents/a.yaml": lane("", cores="rest")})
    assert lint(root, capsys)[0] == 0
    plan = build(root, tmp_path)
    lists = [plan["housekeeping"], plan["leftovers"], *(one["cpus"] for one in plan["lanes"])]
    assert union(map(CpuSet.parse, lists)) == CpuSet(range(256))


def test_x02_an_allowed_list_that_is_wider_than_the_machine(
    imported: Import, tmp_path: Path
) -> None:
    """hwloc where the cgroup allows CPUs 0-31 of 16."""
    pus = "".join(
        f'<object type="Core" cpuset="{1 << cpu:#x}"><object type="PU" os_index="{cpu}" '
        f'cpuset="{1 << cpu:#x}"/></object>'
        for cpu in range(16)
    )
    path = tmp_path / "topology.xml"
    path.write_text(
        '<?xml version="1.0"?><topology version="2.0"><object type="Machine" cpuset="0xffff" '
        'complete_cpuset="0xffff" allowed_cpuset="0xffffffff" nodeset="0x1">'
        f'<object type="NUMANode" os_index="0" cpuset="0xffff" nodeset="0x1"/>{pus}'
        "</object></topology>"
    )
    assert imported(path)[0] == 0
    cpus = facts(tmp_path).spec.cpus
    assert str(cpus.online) == "0-15"
    assert cpus.allowed is None or cpus.allowed == cpus.online


def test_x04_arm_without_cache_information(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = SysfsBuilder(tmp_path / "root")
    b.masks(online="0-7")
    b.cores(each("0-7"))
    b.node(0, "0-7", mem_kib=1 << 20, distance="10")
    b.file("proc/sys/kernel/arch", "aarch64\n")
    code, said = imported(tmp_path / "root")
    assert code == 0
    assert "no cache information; last-level caches are unknown" in said
    spec = facts(tmp_path).spec
    assert spec.llcs == ()
    assert {group.llc for group in spec.cores} == {None}
    root = policy(tmp_path, {"intents/a.yaml": lane("prefer: [same-llc]")})
    code, found = lint(root, capsys)
    assert code == 0
    assert "cache" in found["TRC402"]


FRENCH = """\
Architecture :                              x86_64
Processeur(s) :                             8
Liste de processeur(s) en ligne :           0-7
Thread(s) par cœur :                        2
Cœur(s) par socket :                        4
Nœud(s) NUMA :                              1
Nœud NUMA 0 de processeur(s) :              0-7
"""
CHINESE = """\
架构:                   x86_64
CPU:                     8
在线 CPU 列表:          0-7
每个核的线程数:         2
NUMA 节点:              1
NUMA 节点0 CPU:         0-7
""".replace(":", "\uff1a")  # the wide colon of that locale


@pytest.mark.parametrize("text", [FRENCH, CHINESE])
def test_x05_a_recording_in_another_language(imported: Import, tmp_path: Path, text: str) -> None:
    path = tmp_path / "lscpu.txt"
    path.write_text(text, encoding="utf-8")
    code, said = imported(path)
    assert code == 1
    assert "recorded in another language" in said
    assert "LC_ALL=C lscpu" in said
    assert not (tmp_path / "p/nodes/box.yaml").exists()


# --- large machines ----------------------------------------------------------------------------


def eight_sockets(root: Path) -> None:
    """8 sockets of 96 cores with 2 threads (1,536 CPUs), 8 cores an L3, a GPU a socket."""
    b = SysfsBuilder(root)
    b.masks(online="0-1535", possible="0-2047", present="0-1535", isolated="", nohz_full="")
    for socket in range(8):
        first, last = 96 * socket, 96 * socket + 95
        b.cores([f"{cpu},{cpu + 768}" for cpu in range(first, last + 1)], package=socket)
        for low in range(first, last, 8):
            cpus = f"{low}-{low + 7},{low + 768}-{low + 775}"
            b.cache(3, cpus, level=3, size="32768K")
        near = f"{first}-{last},{first + 768}-{last + 768}"
        distance = " ".join("10" if other == socket else "32" for other in range(8))
        b.node(socket, near, mem_kib=1 << 28, distance=distance)
        bdf = f"000{socket}:01:00.0"
        b.pci(bdf, code=0x030200, vendor=0x10DE, device=0x2330, numa=socket, local=near)


def test_a_machine_of_eight_sockets_and_1536_cpus(
    imported: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eight_sockets(tmp_path / "root")
    assert imported(tmp_path / "root") == (0, f"{tmp_path}/p/nodes/box.yaml: facts of box\n")
    spec = facts(tmp_path).spec
    assert str(spec.cpus.online) == "0-1535"
    assert sum(len(group.cores()) for group in spec.cores) == 768
    assert {len(core) for group in spec.cores for core in group.cores()} == {2}
    assert len(spec.llcs) == 96
    assert {len(llc.cpus) for llc in spec.llcs} == {16}
    assert sorted({group.package for group in spec.cores if group.package is not None}) == list(
        range(8)
    )
    assert [(gpu.numa, len(gpu.locality.cpus or ())) for gpu in spec.devices] == [
        (socket, 192) for socket in range(8)
    ]
    text = (tmp_path / "p/nodes/box.yaml").read_text()
    assert len(text) < 40_000  # written by ranges, not a row a CPU
    main(["facts", "collect", "--sysroot", str(tmp_path / "root"), "--name", "box"])
    assert capsys.readouterr().out == text
    decode_lane = intent(
        "decode",
        'workload: {match: [{comm: vllm, cgroup: "x/**"}], gpus: ["0007:01:00.0"]}\n'
        "protect: all\nrequire: [gpu-local]\nlane: {cores: 64}",
    )
    root = policy(tmp_path, {"intents/a.yaml": decode_lane})
    assert lint(root, capsys)[0] == 0
    [serving] = build(root, tmp_path)["lanes"]
    assert len(CpuSet.parse(serving["cpus"])) == 128
    assert CpuSet.parse(serving["cpus"]) <= CpuSet.parse("672-767,1440-1535")


def test_more_cpus_than_are_supported_are_an_error(imported: Import, tmp_path: Path) -> None:
    path = tmp_path / "lscpu.csv"
    path.write_text("# CPU,Core\n" + "".join(f"{cpu},{cpu}\n" for cpu in range(8193)))
    code, said = imported(path)
    assert code == 1
    assert "more than 8192 rows, the highest number of CPUs" in said
    path.write_text("# CPU,Core\n0,0\n8192,1\n")
    code, said = imported(path)
    assert code == 1
    assert "CPU 8192 is outside 0-8191" in said
