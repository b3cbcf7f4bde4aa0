"""``tierc facts import`` run on files of small machines, for tests of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.__main__ import main
from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
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


def caller(capsys: pytest.CaptureFixture[str], folder: Path) -> Call:
    """Write files of one machine to a folder; return what runs ``tierc facts`` on arguments."""
    (folder / "lscpu.csv").write_text(LSCPU)
    (folder / "topo.txt").write_text(TOPO)

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


def fleet(path: str = "fleet.yaml") -> None:
    """Facts of three nodes in one file."""
    texts = []
    for name in ("c", "a", "b"):
        assert main(["facts", "import", "lscpu.csv", "--name", name, "-o", f"{name}.one.yaml"]) == 0
        texts.append(Path(f"{name}.one.yaml").read_text())
    Path(path).write_text("---\n".join(texts))
