"""The machine's own files, where there are many."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.source import EntryType
from compiler.facts.host import read_host
from compiler.facts.merge import merge
from compiler.facts.tree import Tree
from tests.host_reading import named, notes
from tests.sysfs_builder import MemoryBuilder, SysfsBuilder


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """An empty machine."""
    return SysfsBuilder(tmp_path / "root")


def test_more_than_1024_cpus() -> None:
    """2,048 CPUs: 1,024 cores, the second threads 1,024 later, sixteen L3 in two packages."""
    b = MemoryBuilder()
    b.masks(online="0-2047", possible="0-2047", present="0-2047")
    for cpu in range(1024):
        b.core(f"{cpu},{cpu + 1024}", package=cpu // 512)
    for first in range(0, 1024, 64):
        b.cache(0, f"{first}-{first + 63},{first + 1024}-{first + 1087}", level=3, size="32M")
    for node, first in ((0, 0), (1, 512)):
        cpus = f"{first}-{first + 511},{first + 1024}-{first + 1535}"
        b.node(node, cpus, mem_kib=1 << 20, distance="10 20" if node == 0 else "20 10")
    partial = read_host(Tree(b.files), live=False)
    assert len(partial.cores or ()) == 1024
    assert (partial.cores or ())[-1] == CpuSet((1023, 2047))
    assert named(partial.packages) == [(0, "0-511,1024-1535"), (1, "512-1023,1536-2047")]
    assert [str(llc.cpus) for llc in partial.llcs or ()][-1] == "960-1023,1984-2047"
    assert len(partial.llcs or ()) == 16
    assert notes(partial) == []
    groups = merge([partial], name="n").facts.spec.cores
    assert [str(group.cpus) for group in groups][1] == "64-127,1088-1151"
    assert len(groups) == 16


class Counting(DiskFiles):
    """Files that count what is read, by the name of the attribute."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: Counter[str] = Counter()
        self.looks = 0

    def read(self, path: str, limit: int) -> bytes:
        self.reads[path.rpartition("/")[2]] += 1
        return super().read(path, limit)

    def entry(self, path: str) -> tuple[EntryType, str | None]:
        self.looks += 1
        return super().entry(path)


def test_what_cpus_share_is_not_read_from_each_of_them(b: SysfsBuilder) -> None:
    """64 CPUs, 32 cores, four L3: an attribute of one CPU once, of a set about once a set."""
    b.masks(online="0-63")
    for core in range(32):
        b.core(f"{core},{core + 32}")
        b.level("cluster", core, f"{core},{core + 32}")
        for index, kind in ((0, "Data"), (1, "Instruction")):
            b.cache(index, f"{core},{core + 32}", level=1, size="32K", kind=kind)
        b.cache(2, f"{core},{core + 32}", level=2, size="1M")
    b.level("package", 0, "0-63")
    b.level("die", 0, "0-63")
    for first in range(0, 32, 8):
        b.cache(3, f"{first}-{first + 7},{first + 32}-{first + 39}", level=3, size="32M")
    b.attribute("0-63", "acpi_cppc/highest_perf", 200)
    files = Counting(b.root)
    partial = read_host(Tree(files), live=False)
    assert len(partial.llcs or ()) == 4
    assert files.reads["core_cpus_list"] == 64
    assert files.reads["shared_cpu_list"] <= 64 + 4
    assert files.reads["highest_perf"] == 32
    assert files.reads["level"] == 4 * 4
    assert files.reads["size"] == 4
    assert files.reads["physical_package_id"] <= 4
    assert files.reads["die_id"] <= 4
    assert files.reads["cpu_capacity"] <= 3  # it is not there
    assert files.looks < 64 * 8
